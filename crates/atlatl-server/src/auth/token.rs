//! Verification of JWT access tokens (RFC 7519, RFC 9068, RFC 8725).
//!
//! A library verifies signatures. Header and claims are parsed once, by one strict parser, so that
//! nothing is checked in one form and used in another; and the time is an argument.
//!
//! The parser rejects duplicate member names: of two equal names one parser uses the first and
//! another the last, so the signer and the reader could disagree.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use jsonwebtoken::Algorithm;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::api_key::SUBJECT_PREFIX;
use super::key_set::{KeySet, algorithm};
use super::principal::{Principal, PrincipalError, Scopes};

const MAX_TOKEN_LEN: usize = 8 * 1024;
/// The maximum difference between the clocks of issuer and server.
const CLOCK_LEEWAY_SECONDS: i64 = 30;

/// The requirements on a token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenRules {
    /// The issuer, exactly.
    pub issuer: String,
    /// The audiences, one of which the token must name exactly.
    pub audiences: Vec<String>,
    /// The claim with the tenant's name.
    pub tenant_claim: String,
}

impl TokenRules {
    /// Creates rules for tokens of `issuer` for any of `audiences`, with the tenant in
    /// `tenant_claim`.
    pub fn new(
        issuer: impl Into<String>,
        audiences: impl IntoIterator<Item = impl Into<String>>,
        tenant_claim: impl Into<String>,
    ) -> Self {
        Self {
            issuer: issuer.into(),
            audiences: audiences.into_iter().map(Into::into).collect(),
            tenant_claim: tenant_claim.into(),
        }
    }
}

/// Why a token is not valid. The error contains nothing of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is not a JWT, or too long.
    #[error("not a signed token")]
    Malformed,
    /// It has another type, contains a key, or requires an unsupported extension.
    #[error("unsupported token header")]
    Header,
    /// The signature algorithm is not supported, or does not match the key.
    #[error("unsupported signature algorithm")]
    Algorithm,
    /// No key has its id. The authorization server may have rotated its keys: fetch them and verify
    /// again.
    #[error("the token is signed with an unknown key")]
    UnknownKey,
    /// The signature is not valid.
    #[error("invalid token signature")]
    Signature,
    /// It has another issuer.
    #[error("the token is from another issuer")]
    Issuer,
    /// It has another audience.
    #[error("the token is for another audience")]
    Audience,
    /// The expiry is missing, or a time is not a whole number of seconds.
    #[error("missing or invalid time claims in the token")]
    Times,
    /// It has expired.
    #[error("the token has expired")]
    Expired,
    /// It is not valid yet, or the issuer's clock is ahead.
    #[error("the token is not valid yet")]
    NotYet,
    /// It has no subject.
    #[error("missing or invalid subject in the token")]
    Subject,
    /// It has no tenant.
    #[error("missing or invalid tenant in the token")]
    Tenant,
}

/// Verifies `token` with one of `keys` and by `rules`, and returns its principal.
pub fn verify(
    token: &str,
    rules: &TokenRules,
    keys: &KeySet,
    now: DateTime<Utc>,
) -> Result<Principal, TokenError> {
    if token.len() > MAX_TOKEN_LEN {
        return Err(TokenError::Malformed);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, payload) = message.split_once('.').ok_or(TokenError::Malformed)?;
    // A further dot would be in the payload, and is not in the base64 alphabet.
    let [header, payload, signature] = [header, payload, signature].map(decode);
    let (header, payload, signature) = (header?, payload?, signature?);
    let header = TokenHeader::read(&header)?;
    let key = keys.find(header.kid.as_deref()).ok_or(TokenError::UnknownKey)?;
    if !key.accepts(header.algorithm) {
        return Err(TokenError::Algorithm);
    }
    if !key.verify_signature(header.algorithm, message, &signature) {
        return Err(TokenError::Signature);
    }
    principal(&payload, rules, now)
}

/// Accepts the canonical form only: no padding, no other alphabet, no trailing bits.
fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)
}

/// Returns the principal of verified claims, if they meet `rules`.
pub(crate) fn principal(
    json: &[u8],
    rules: &TokenRules,
    now: DateTime<Utc>,
) -> Result<Principal, TokenError> {
    let claims = read(json).ok_or(TokenError::Malformed)?;
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(rules.issuer.as_str()) {
        return Err(TokenError::Issuer);
    }
    if !claims.get("aud").is_some_and(|named| matches_audience(named, &rules.audiences)) {
        return Err(TokenError::Audience);
    }
    check_times(&claims, now.timestamp())?;
    // Otherwise an issuer could impersonate an API key.
    let subject = text("sub").filter(|subject| !subject.starts_with(SUBJECT_PREFIX));
    let subject = subject.ok_or(TokenError::Subject)?;
    let tenant = text(&rules.tenant_claim).ok_or(TokenError::Tenant)?;
    Principal::new(tenant, subject, scopes(&claims)).map_err(|error| match error {
        PrincipalError::Tenant => TokenError::Tenant,
        PrincipalError::Subject => TokenError::Subject,
    })
}

/// Returns whether `named`, a string or a list, contains one of `audiences`.
fn matches_audience(named: &Value, audiences: &[String]) -> bool {
    let is_ours =
        |named: &Value| audiences.iter().any(|audience| named.as_str() == Some(audience.as_str()));
    match named {
        Value::Array(list) => list.iter().any(is_ours),
        one => is_ours(one),
    }
}

fn check_times(claims: &Map<String, Value>, now: i64) -> Result<(), TokenError> {
    let seconds = |name: &str| {
        claims.get(name).map(|time| time.as_i64().ok_or(TokenError::Times)).transpose()
    };
    let expires = seconds("exp")?.ok_or(TokenError::Times)?;
    if now >= expires.saturating_add(CLOCK_LEEWAY_SECONDS) {
        return Err(TokenError::Expired);
    }
    for begins in [seconds("nbf")?, seconds("iat")?].into_iter().flatten() {
        if begins > now.saturating_add(CLOCK_LEEWAY_SECONDS) {
            return Err(TokenError::NotYet);
        }
    }
    Ok(())
}

/// Returns the granted scopes. Issuers that do not follow RFC 9068 put them into `scp`. Any other
/// form grants nothing.
fn scopes(claims: &Map<String, Value>) -> Scopes {
    match (claims.get("scope"), claims.get("scp")) {
        (Some(Value::String(text)), _) | (None, Some(Value::String(text))) => Scopes::parse(text),
        (None, Some(Value::Array(words))) => {
            Scopes::from_words(words.iter().filter_map(Value::as_str))
        }
        _ => Scopes::default(),
    }
}

/// Header parameters that are always rejected: keys come from the issuer and never with the token,
/// and no critical extension is supported.
const FORBIDDEN_HEADERS: [&str; 6] = ["crit", "b64", "jku", "jwk", "x5u", "x5c"];

/// The parameters used from the header.
pub(crate) struct TokenHeader {
    pub(crate) algorithm: Algorithm,
    pub(crate) kid: Option<String>,
}

impl TokenHeader {
    pub(crate) fn read(json: &[u8]) -> Result<Self, TokenError> {
        let mut header = read(json).ok_or(TokenError::Malformed)?;
        let is_refused = FORBIDDEN_HEADERS.iter().any(|name| header.contains_key(*name));
        if is_refused || !header.get("typ").is_none_or(is_access_token) {
            return Err(TokenError::Header);
        }
        let name = header.get("alg").and_then(Value::as_str);
        let algorithm = name.and_then(algorithm).ok_or(TokenError::Algorithm)?;
        let kid = match header.remove("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid),
            Some(_) => return Err(TokenError::Header),
        };
        Ok(Self { algorithm, kid })
    }
}

/// Returns whether a type is an access token (RFC 9068, 2.1) or a plain JWT, so that nothing else
/// that the issuer signs, such as a logout token, is accepted.
fn is_access_token(typ: &Value) -> bool {
    let typ = typ.as_str().unwrap_or_default().to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "jwt" | "at+jwt")
}

/// Parses a JSON object without duplicate member names.
pub(crate) fn read(json: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice::<Object>(json).ok().map(|object| object.0)
}

struct Object(Map<String, Value>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Names)
    }
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Object, A::Error> {
        let mut object = Map::new();
        while let Some((name, value)) = entries.next_entry::<String, Value>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("duplicate member name"));
            }
        }
        Ok(Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_access_tokens_are_taken() {
        for good in ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", "Application/JWT"] {
            assert!(is_access_token(&good.into()), "{good}");
        }
        for bad in ["", "JWE", "logout+jwt", "dpop+jwt", "application/", "at+jwt ", "text/jwt"] {
            assert!(!is_access_token(&bad.into()), "{bad}");
        }
        assert!(!is_access_token(&Value::Null));
    }

    #[test]
    fn a_member_name_occurs_once() {
        assert_eq!(read(br#"{"a":1,"b":{"a":2}}"#).map(|object| object.len()), Some(2));
        let twice = [&br#"{"a":1,"a":1}"#[..], br#"{"a":1,"b":2,"\u0061":3}"#];
        let none = [&b"[]"[..], b"1", b"", b"{}{}", b"{\"a\":1,}", b"\xff", b"{\"a\":\"\xff\"}"];
        for refused in twice.into_iter().chain(none) {
            assert_eq!(read(refused), None, "{}", String::from_utf8_lossy(refused));
        }
    }
}
