//! The header of a JWT (RFC 7515, 4).

use jsonwebtoken::Algorithm;
use serde_json::Value;

use crate::auth::public_key::algorithm;
use crate::auth::strict_json;
use crate::auth::token::TokenError;

/// Names that are refused whatever they hold: keys come from the authority and never with the
/// token, and what a token calls critical is not known here.
const REFUSED: [&str; 6] = ["crit", "b64", "jku", "jwk", "x5u", "x5c"];

/// What is needed of it.
pub(crate) struct TokenHeader {
    pub(crate) algorithm: Algorithm,
    pub(crate) kid: Option<String>,
}

impl TokenHeader {
    pub(crate) fn read(json: &[u8]) -> Result<Self, TokenError> {
        let mut header = strict_json::read(json).ok_or(TokenError::Malformed)?;
        let is_refused = REFUSED.iter().any(|name| header.contains_key(*name));
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
