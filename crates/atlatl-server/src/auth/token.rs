//! Verification of JWT access tokens (RFC 7519, RFC 9068, RFC 8725).
//!
//! A library verifies signatures. Header and claims are parsed once, by one strict parser
//! ([`claims`]), so that nothing is checked in one form and used in another; and the time is an
//! argument. What explains a token examines it by the code that authenticates its holder.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use jsonwebtoken::Algorithm;
use lro_core::config::{AudienceClaim, IssuerConfig};
use serde_json::{Map, Value};

use super::claims;
use super::key_set::{KeySet, algorithm};
use super::mapping::ClaimMapping;
use super::principal::{Principal, PrincipalError, Scopes, is_subject};
use super::refusal::{TokenError, TokenRefusal};

const MAX_TOKEN_LEN: usize = 8 * 1024;
/// The maximum difference between the clocks of issuer and server.
const CLOCK_LEEWAY_SECONDS: i64 = 30;

/// The requirements on a token of an issuer, and what it gives access to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenRules {
    /// The issuer, exactly.
    pub issuer: String,
    /// The name of the issuer in the configuration, the log and metrics, if it has one.
    pub name: Option<String>,
    /// The audiences, one of which the token must name exactly.
    pub audiences: Vec<String>,
    /// The claim that names them.
    pub audience_claim: AudienceClaim,
    /// Whether the metadata for clients names this issuer.
    pub login: LoginHint,
    mapping: ClaimMapping,
}

/// Whether the metadata for clients names an issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginHint {
    /// The metadata of the server names it.
    Listed,
    /// It issues tokens to workloads, which know where to get them.
    Unlisted,
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
            name: None,
            audiences: audiences.into_iter().map(Into::into).collect(),
            audience_claim: AudienceClaim::Aud,
            login: LoginHint::Listed,
            mapping: ClaimMapping::with_tenant_claim(tenant_claim.into()),
        }
    }

    /// Creates the rules of the issuer that is called `name` in the configuration. `resource` is the
    /// audience of issuers without a configured one.
    pub fn from_config(name: &str, config: &IssuerConfig, resource: &str) -> Self {
        let audiences = match config.audiences.as_slice() {
            [] => vec![resource.to_owned()],
            audiences => audiences.to_vec(),
        };
        let is_listed = config.login.unwrap_or(true);
        Self {
            issuer: config.url.clone(),
            name: Some(name.to_owned()),
            audiences,
            audience_claim: config.audience_claim.unwrap_or_default(),
            login: if is_listed { LoginHint::Listed } else { LoginHint::Unlisted },
            mapping: ClaimMapping::from_config(name, config),
        }
    }
}

/// What became of a token: what was found in it as far as it was examined, and the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenReport {
    /// The URL of its issuer, if that is a configured one.
    pub issuer: Option<String>,
    /// The name of the issuer in the configuration.
    pub issuer_name: Option<String>,
    /// What is known of its signature.
    pub signature: SignatureState,
    /// The accepted audience that it names.
    pub audience: Option<String>,
    /// The subject, with the name of the issuer.
    pub subject: Option<String>,
    /// The indexes of the rules that match.
    pub rules: Vec<usize>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The scopes.
    pub scopes: Scopes,
    /// The time at which it expires, without the leeway.
    pub expires: Option<DateTime<Utc>>,
    /// The principal, or why there is none.
    pub outcome: Result<Principal, TokenError>,
}

/// What is known of the signature of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignatureState {
    /// It was not verified. Anyone can have written the token.
    Unverified,
    /// It is valid.
    Valid,
}

/// Whether the signature of a token is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureCheck {
    /// With the keys of its issuer.
    Verify,
    /// Not at all, to explain what a token would give access to. Never authenticate a caller with
    /// this.
    Skip,
}

/// Verifies `token` with one of `keys` and by `rules`, and returns its principal.
pub fn verify(
    token: &str,
    rules: &TokenRules,
    keys: &KeySet,
    now: DateTime<Utc>,
) -> Result<Principal, TokenError> {
    TokenReport::examine(token, rules, Some(keys), now).outcome
}

/// Returns the issuer that a token names, to choose its keys. Nothing is verified.
pub(super) fn unverified_issuer(token: &str) -> Result<String, TokenError> {
    let parts = TokenParts::parse(token)?;
    let claims = claims::read(&parts.payload).ok_or(TokenError::Malformed)?;
    let issuer = claims.get("iss").and_then(Value::as_str).ok_or(TokenError::Issuer)?;
    Ok(issuer.to_owned())
}

/// The decoded parts of a token.
struct TokenParts<'a> {
    /// What is signed.
    message: &'a str,
    header: Vec<u8>,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

impl<'a> TokenParts<'a> {
    fn parse(token: &'a str) -> Result<Self, TokenError> {
        if token.len() > MAX_TOKEN_LEN {
            return Err(TokenError::Malformed);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, payload) = message.split_once('.').ok_or(TokenError::Malformed)?;
        // A further dot would be in the payload, and is not in the base64 alphabet.
        let [header, payload, signature] = [header, payload, signature].map(decode);
        Ok(Self { message, header: header?, payload: payload?, signature: signature? })
    }
}

impl TokenReport {
    /// The report on a token of no configured issuer.
    pub(super) fn without_issuer(error: TokenError) -> Self {
        Self {
            issuer: None,
            issuer_name: None,
            signature: SignatureState::Unverified,
            audience: None,
            subject: None,
            rules: Vec::new(),
            tenant: None,
            scopes: Scopes::default(),
            expires: None,
            outcome: Err(error),
        }
    }

    /// The report on a token that cannot be examined.
    pub(super) fn refused(rules: &TokenRules, error: TokenError) -> Self {
        let mut report = Self::without_issuer(error);
        report.issuer = Some(rules.issuer.clone());
        report.issuer_name.clone_from(&rules.name);
        report
    }

    /// Examines a token by `rules`. Without keys the signature is not verified.
    pub(super) fn examine(
        token: &str,
        rules: &TokenRules,
        keys: Option<&KeySet>,
        now: DateTime<Utc>,
    ) -> Self {
        let mut report = Self::refused(rules, TokenError::Malformed);
        report.outcome = report.principal(token, rules, keys, now);
        report
    }

    fn principal(
        &mut self,
        token: &str,
        rules: &TokenRules,
        keys: Option<&KeySet>,
        now: DateTime<Utc>,
    ) -> Result<Principal, TokenError> {
        let parts = TokenParts::parse(token)?;
        let header = TokenHeader::read(&parts.header)?;
        if let Some(keys) = keys {
            let key = keys.find(header.kid.as_deref()).ok_or(TokenError::UnknownKey)?;
            if !key.accepts(header.algorithm) {
                return Err(TokenError::Algorithm);
            }
            if !key.verify_signature(header.algorithm, parts.message, &parts.signature) {
                return Err(TokenError::Signature);
            }
            self.signature = SignatureState::Valid;
        }
        self.map_claims(&parts.payload, rules, now)
    }

    /// Returns the principal of claims, if they meet `rules`.
    fn map_claims(
        &mut self,
        json: &[u8],
        rules: &TokenRules,
        now: DateTime<Utc>,
    ) -> Result<Principal, TokenError> {
        let claims = claims::read(json).ok_or(TokenError::Malformed)?;
        if claims.get("iss").and_then(Value::as_str) != Some(rules.issuer.as_str()) {
            return Err(TokenError::Issuer);
        }
        if !is_bearer_access_token(&claims) {
            return Err(TokenError::Header);
        }
        let named = claims.get(rules.audience_claim.name());
        let audience = named.and_then(|named| accepted_audience(named, &rules.audiences));
        self.audience = Some(audience.ok_or(TokenError::Audience)?.clone());
        let expires = check_times(&claims, now.timestamp())?;
        self.expires = DateTime::from_timestamp(expires, 0);
        let mapping = &rules.mapping;
        let subject = mapping.subject(&claims)?;
        if !is_subject(&subject) {
            return Err(TokenError::Subject);
        }
        self.subject = Some(subject.clone());
        self.rules = mapping.matching_rules(&claims)?;
        let tenant = mapping.tenant(&claims, &self.rules)?;
        self.tenant = Some(tenant.clone());
        self.scopes = mapping.scopes(&claims, &self.rules);
        Principal::new(&tenant, &subject, self.scopes).map_err(|error| match error {
            PrincipalError::Tenant => TokenError::Tenant,
            PrincipalError::Subject => TokenError::Subject,
        })
    }

    /// Returns the principal, or the refusal.
    pub(super) fn into_principal(self) -> Result<Principal, TokenRefusal> {
        let (issuer, is_verified) = (self.issuer_name, self.signature == SignatureState::Valid);
        let subject = self.subject.filter(|_| is_verified);
        let outcome = match self.outcome {
            Ok(_) if !is_verified => Err(TokenError::Signature),
            outcome => outcome,
        };
        outcome.map_err(|reason| TokenRefusal { reason, issuer, subject })
    }
}

/// Accepts the canonical form only: no padding, no other alphabet, no trailing bits.
fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)
}

/// Returns the first of `audiences` that `named`, a string or a list, contains.
fn accepted_audience<'a>(named: &Value, audiences: &'a [String]) -> Option<&'a String> {
    let is_named = |audience: &&String| match named {
        Value::Array(list) => list.iter().any(|one| one.as_str() == Some(audience.as_str())),
        one => one.as_str() == Some(audience.as_str()),
    };
    audiences.iter().find(is_named)
}

/// Returns the time of expiry, if the token is valid now.
fn check_times(claims: &Map<String, Value>, now: i64) -> Result<i64, TokenError> {
    let seconds = |name: &str| {
        claims.get(name).map(|time| time.as_i64().ok_or(TokenError::Times)).transpose()
    };
    let expires = seconds("exp")?.ok_or(TokenError::MissingClaim)?;
    if now >= expires.saturating_add(CLOCK_LEEWAY_SECONDS) {
        return Err(TokenError::Expired);
    }
    for begins in [seconds("nbf")?, seconds("iat")?].into_iter().flatten() {
        if begins > now.saturating_add(CLOCK_LEEWAY_SECONDS) {
            return Err(TokenError::NotYet);
        }
    }
    Ok(expires)
}

/// Kinds of tokens that Keycloak names in the claims instead of the header.
const OTHER_KINDS: [&str; 4] = ["ID", "Logout", "Offline", "Refresh"];

/// Returns whether the claims can be those of an access token that anyone may use who has it. A token
/// with `cnf` (RFC 7800) is bound to a key, whose possession is not checked here; `events` is in logout
/// and security event tokens.
fn is_bearer_access_token(claims: &Map<String, Value>) -> bool {
    let kind = claims.get("typ").and_then(Value::as_str);
    !claims.contains_key("cnf")
        && !claims.contains_key("events")
        && kind.is_none_or(|kind| !OTHER_KINDS.contains(&kind))
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
        let mut header = claims::read(json).ok_or(TokenError::Malformed)?;
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
}
