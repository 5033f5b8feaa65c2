//! Token: who asks, by the word of an authorization server (RFC 7519, RFC 9068, RFC 8725).
//!
//! Signatures are checked by a library, and everything else here: a header or payload is read once,
//! by one reader, so that nothing is checked in one form and used in another; and the time comes in.

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

/// What a token must say.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenRules {
    /// Who issued it, to the letter.
    pub issuer: String,
    /// For whom: it must name one of these, to the letter.
    pub audiences: Vec<String>,
    /// The claim that names the tenant.
    pub tenant_claim: String,
}

impl TokenRules {
    /// Tokens of `issuer` for any of `audiences`, whose tenant stands in `tenant_claim`.
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

/// Why a token lets nobody in. Nothing of the token is part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is no token, or too long.
    #[error("this is no signed token")]
    Malformed,
    /// It is of another type, brings its own key, or wants something that is not done here.
    #[error("the header of the token asks for something that is not done here")]
    Header,
    /// Its signature is of a kind that is not taken, or not of the kind of its key.
    #[error("the token is signed with an algorithm that is not taken")]
    Algorithm,
    /// No key has its name. The authority may have a new one: fetch the keys, and ask again.
    #[error("the token is signed with an unknown key")]
    UnknownKey,
    /// The signature is wrong.
    #[error("the signature of the token is wrong")]
    Signature,
    /// Somebody else issued it.
    #[error("the token is of another issuer")]
    Issuer,
    /// It is for somebody else.
    #[error("the token is for another audience")]
    Audience,
    /// It does not say when it expires, or a time in it is no whole number of seconds.
    #[error("the token has no proper times")]
    Times,
    /// It was good once.
    #[error("the token has expired")]
    Expired,
    /// It will be good, or its issuer's clock is ahead of ours.
    #[error("the token is not good yet")]
    NotYet,
    /// It names nobody.
    #[error("the token has no proper subject")]
    Subject,
    /// It names no tenant.
    #[error("the token has no proper tenant")]
    Tenant,
}

/// Whom `token` lets in now, by `rules`, if one of `keys` signed it.
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
    // A further full stop is in the payload then, and no sign of this alphabet.
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

/// One form only: no padding, no other alphabet, no bits left over.
fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)
}

// --- The claims of a JWT (RFC 7519, 4).

/// By which the clocks of authority and server may differ.
const CLOCK_LEEWAY_SECONDS: i64 = 30;

/// Whom the claims are of, if they keep to `rules`. Their signature was checked before.
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
    // An authority could otherwise name somebody as we name an API key.
    let subject = text("sub").filter(|subject| !subject.starts_with(SUBJECT_PREFIX));
    let subject = subject.ok_or(TokenError::Subject)?;
    let tenant = text(&rules.tenant_claim).ok_or(TokenError::Tenant)?;
    Principal::new(tenant, subject, scopes(&claims)).map_err(|error| match error {
        PrincipalError::Tenant => TokenError::Tenant,
        PrincipalError::Subject => TokenError::Subject,
    })
}

/// Whether `named`, a text or a list of them, has one of `audiences`.
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

/// The scopes that were granted. Authorities that do not follow RFC 9068 have them in `scp`. What has
/// another form grants nothing.
fn scopes(claims: &Map<String, Value>) -> Scopes {
    match (claims.get("scope"), claims.get("scp")) {
        (Some(Value::String(text)), _) | (None, Some(Value::String(text))) => Scopes::parse(text),
        (None, Some(Value::Array(words))) => {
            Scopes::of_words(words.iter().filter_map(Value::as_str))
        }
        _ => Scopes::default(),
    }
}

// --- The header of a JWT (RFC 7515, 4).

/// Names that are refused whatever they hold: keys come from the authority and never with the
/// token, and what a token calls critical is not known here.
const FORBIDDEN_HEADERS: [&str; 6] = ["crit", "b64", "jku", "jwk", "x5u", "x5c"];

/// What is needed of it.
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

/// Whether a type is that of an access token (RFC 9068, 2.1), or says nothing but that it is a token.
/// So nothing else that the authority signs, such as a logout, can be passed off as one.
fn is_access_token(typ: &Value) -> bool {
    let typ = typ.as_str().unwrap_or_default().to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "jwt" | "at+jwt")
}

// --- A JSON reader that refuses duplicate member names.
// ---
// --- Of two equal names one reader takes the first and another the last. Whoever signed such a text
// --- and whoever reads it may mean different things, so it is refused.

/// The object that `json` is, if it is one whose own names differ.
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
    fn a_name_stands_once() {
        assert_eq!(read(br#"{"a":1,"b":{"a":2}}"#).map(|object| object.len()), Some(2));
        let twice = [&br#"{"a":1,"a":1}"#[..], br#"{"a":1,"b":2,"\u0061":3}"#];
        let none = [&b"[]"[..], b"1", b"", b"{}{}", b"{\"a\":1,}", b"\xff", b"{\"a\":\"\xff\"}"];
        for refused in twice.into_iter().chain(none) {
            assert_eq!(read(refused), None, "{}", String::from_utf8_lossy(refused));
        }
    }
}
