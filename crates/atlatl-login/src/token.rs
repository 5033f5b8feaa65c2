//! Tokens: what an authority grants, checked before it is kept.

use serde::Deserialize;

use crate::metadata_rules::{Refusal, Rule};
use crate::secret::Secret;

/// Longer ones do not fit into a header.
const MAX_TOKEN_LEN: usize = 16 * 1024;

/// A token response (RFC 6749, 5.1).
#[derive(Debug, Deserialize)]
pub(crate) struct Granted {
    pub(crate) access_token: Secret,
    token_type: String,
    #[serde(default)]
    pub(crate) refresh_token: Option<Secret>,
    #[serde(default)]
    pub(crate) expires_in: Option<u64>,
    #[serde(default)]
    pub(crate) scope: Option<String>,
}

impl Granted {
    /// Reads one. What was read is never part of an error: it holds secrets.
    pub(crate) fn read(json: &[u8]) -> Result<Self, Refusal> {
        let granted: Self = serde_json::from_slice(json)
            .map_err(|_| Refusal::new(Rule::Token, "an answer that is no token response"))?;
        if !granted.token_type.eq_ignore_ascii_case("bearer") {
            return Err(Refusal::new(Rule::Token, &granted.token_type));
        }
        let secrets = [Some(&granted.access_token), granted.refresh_token.as_ref()];
        if secrets.into_iter().flatten().all(is_printable) {
            return Ok(granted);
        }
        Err(Refusal::new(Rule::Token, "a token with other characters"))
    }

    /// The scopes, where the authority says which.
    pub(crate) fn scopes(&self) -> Option<Vec<String>> {
        self.scope.as_deref().map(scopes_in)
    }
}

/// The well-formed scopes in a text (RFC 6749, 3.3); others are left out, and so is what is many.
pub(crate) fn scopes_in(text: &str) -> Vec<String> {
    let is_scope = |token: &&str| {
        token.len() <= 256 && token.bytes().all(|b| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
    };
    text.split_ascii_whitespace().filter(is_scope).take(64).map(str::to_owned).collect()
}

fn is_printable(token: &Secret) -> bool {
    let token = token.expose();
    !token.is_empty()
        && token.len() <= MAX_TOKEN_LEN
        && token.bytes().all(|b| (0x21..=0x7e).contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bearer_tokens_that_fit_a_header_are_taken() {
        let right = r#"{"access_token":"a","token_type":"bearer","expires_in":9,"scope":"x y"}"#;
        assert_eq!(Granted::read(right.as_bytes()).unwrap().scopes().unwrap(), ["x", "y"]);
        for wrong in [
            r#"{"access_token":"a","token_type":"DPoP"}"#,
            r#"{"access_token":"","token_type":"Bearer"}"#,
            r#"{"access_token":"a\r\nX: y","token_type":"Bearer"}"#,
            r#"{"access_token":"a b","token_type":"Bearer"}"#,
            r#"{"access_token":"a","token_type":"Bearer","refresh_token":"é"}"#,
            r#"{"token_type":"Bearer"}"#,
            "[]",
        ] {
            assert_eq!(Granted::read(wrong.as_bytes()).unwrap_err().rule(), Rule::Token, "{wrong}");
        }
    }

    #[test]
    fn scopes_that_are_none_are_left_out() {
        assert_eq!(scopes_in("read \"x\" w\\rite é files:*"), ["read", "files:*"]);
        assert_eq!(scopes_in(&"s ".repeat(1000)).len(), 64);
    }
}
