//! The claims of a JWT (RFC 7519, 4).

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use crate::auth::key_record::SUBJECT_PREFIX;
use crate::auth::principal::{Principal, PrincipalError};
use crate::auth::scope::Scopes;
use crate::auth::strict_json;
use crate::auth::token::{TokenError, TokenRules};

/// By which the clocks of authority and server may differ.
const LEEWAY_SECONDS: i64 = 30;

/// Whom the claims are of, if they keep to `rules`. Their signature was checked before.
pub(crate) fn principal(
    json: &[u8],
    rules: &TokenRules,
    now: DateTime<Utc>,
) -> Result<Principal, TokenError> {
    let claims = strict_json::read(json).ok_or(TokenError::Malformed)?;
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(rules.issuer.as_str()) {
        return Err(TokenError::Issuer);
    }
    if !claims.get("aud").is_some_and(|named| names_one(named, &rules.audiences)) {
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
fn names_one(named: &Value, audiences: &[String]) -> bool {
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
    if now >= expires.saturating_add(LEEWAY_SECONDS) {
        return Err(TokenError::Expired);
    }
    for begins in [seconds("nbf")?, seconds("iat")?].into_iter().flatten() {
        if begins > now.saturating_add(LEEWAY_SECONDS) {
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
