//! Tokens: the checked token response, the stored login, and secrets that are never printed.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::{Rule, RuleViolation};

/// The longest token that fits into a header.
const MAX_TOKEN_LEN: usize = 16 * 1024;
/// A token that expires sooner is refreshed before use.
const REFRESH_MARGIN_SECONDS: u64 = 60;

/// A token response (RFC 6749, 5.1).
#[derive(Debug, Deserialize)]
pub(crate) struct TokenResponse {
    pub(crate) access_token: Secret,
    token_type: String,
    #[serde(default)]
    pub(crate) refresh_token: Option<Secret>,
    #[serde(default)]
    pub(crate) expires_in: Option<u64>,
    #[serde(default)]
    pub(crate) scope: Option<String>,
}

impl TokenResponse {
    /// Parses a token response. Errors never quote it, because it contains secrets.
    pub(crate) fn read(json: &[u8]) -> Result<Self, RuleViolation> {
        let response: Self = serde_json::from_slice(json)
            .map_err(|_| RuleViolation::new(Rule::Token, "an invalid token response"))?;
        if !response.token_type.eq_ignore_ascii_case("bearer") {
            return Err(RuleViolation::new(Rule::Token, &response.token_type));
        }
        let secrets = [Some(&response.access_token), response.refresh_token.as_ref()];
        if secrets.into_iter().flatten().all(is_printable) {
            return Ok(response);
        }
        Err(RuleViolation::new(Rule::Token, "a token with invalid characters"))
    }

    /// The granted scopes, if present.
    pub(crate) fn scopes(&self) -> Option<Vec<String>> {
        self.scope.as_deref().map(scopes_in)
    }
}

/// The well-formed scopes in a text (RFC 6749, 3.3), at most 64; others are omitted.
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

/// Where the client secret is sent at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SecretIn {
    Header,
    Body,
}

/// A stored login at one server, with the endpoints that were checked when it was created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredLogin {
    pub(crate) server: Url,
    pub(crate) issuer: String,
    pub(crate) resource: String,
    pub(crate) token_endpoint: Url,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revocation_endpoint: Option<Url>,
    pub(crate) client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_secret: Option<Secret>,
    pub(crate) secret_in: SecretIn,
    pub(crate) scopes: Vec<String>,
    pub(crate) access_token: Secret,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_in: Option<u64>,
    /// Seconds since 1970.
    pub(crate) received_at: u64,
}

impl StoredLogin {
    pub(crate) fn bearer(&self) -> Bearer {
        Bearer::new(self.access_token.clone())
    }

    pub(crate) fn expires_at(&self) -> Option<u64> {
        self.expires_in.map(|seconds| self.received_at.saturating_add(seconds))
    }

    /// Whether the token is valid for a while. A short-lived token counts as fresh for half of its
    /// life, otherwise it would be refreshed at every use.
    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        let margin = self.expires_in.map_or(0, |life| REFRESH_MARGIN_SECONDS.min(life / 2));
        self.lives_beyond(now.saturating_add(margin))
    }

    /// Whether the token has not expired.
    pub(crate) fn is_valid(&self, now: u64) -> bool {
        self.lives_beyond(now)
    }

    fn lives_beyond(&self, moment: u64) -> bool {
        self.expires_at().is_none_or(|end| end > moment)
    }

    /// Returns the login with new tokens. Omitted fields keep their value (RFC 6749, 6).
    pub(crate) fn with_tokens(&self, response: TokenResponse, now: u64) -> Self {
        let scopes = response.scopes().unwrap_or_else(|| self.scopes.clone());
        Self {
            scopes,
            access_token: response.access_token,
            refresh_token: response.refresh_token.or_else(|| self.refresh_token.clone()),
            expires_in: response.expires_in,
            received_at: now,
            ..self.clone()
        }
    }
}

/// The current time in seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A secret text that is never printed. [`Secret::expose`] is the only access.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, for a request or a file of mode 0600 only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}

/// An access token for its server.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer(Secret);

impl Bearer {
    pub(crate) fn new(token: Secret) -> Self {
        Self(token)
    }

    pub(crate) fn token(&self) -> &Secret {
        &self.0
    }

    /// Parses the value of an `Authorization` header.
    pub fn from_header(value: &str) -> Option<Self> {
        value.strip_prefix("Bearer ").map(|token| Self(Secret::new(token)))
    }

    /// The value of the `Authorization` header: `Bearer …`, in printable ASCII.
    pub fn header(&self) -> String {
        format!("Bearer {}", self.0.expose())
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Bearer(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bearer_tokens_that_fit_a_header_are_taken() {
        let right = r#"{"access_token":"a","token_type":"bearer","expires_in":9,"scope":"x y"}"#;
        assert_eq!(TokenResponse::read(right.as_bytes()).unwrap().scopes().unwrap(), ["x", "y"]);
        for wrong in [
            r#"{"access_token":"a","token_type":"DPoP"}"#,
            r#"{"access_token":"","token_type":"Bearer"}"#,
            r#"{"access_token":"a\r\nX: y","token_type":"Bearer"}"#,
            r#"{"access_token":"a b","token_type":"Bearer"}"#,
            r#"{"access_token":"a","token_type":"Bearer","refresh_token":"é"}"#,
            r#"{"token_type":"Bearer"}"#,
            "[]",
        ] {
            assert_eq!(
                TokenResponse::read(wrong.as_bytes()).unwrap_err().rule(),
                Rule::Token,
                "{wrong}"
            );
        }
    }

    #[test]
    fn scopes_that_are_none_are_left_out() {
        assert_eq!(scopes_in("read \"x\" w\\rite é files:*"), ["read", "files:*"]);
        assert_eq!(scopes_in(&"s ".repeat(1000)).len(), 64);
    }

    #[test]
    fn secrets_are_not_shown() {
        let bearer = Bearer::new(Secret::new("s3cret"));
        assert!(
            !format!("{bearer:?} {:?} {:#?}", bearer.token(), Some(&bearer)).contains("s3cret")
        );
        assert_eq!(bearer.header(), "Bearer s3cret");
    }
}
