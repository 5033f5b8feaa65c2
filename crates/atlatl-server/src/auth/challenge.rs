//! `WWW-Authenticate` challenges (RFC 6750, 3; RFC 9728, 5.1).

use std::fmt::Write as _;

use crate::auth::authorization::AuthorizationError;
use crate::auth::scope::{Scope, Scopes};

/// Why somebody is not let in, as far as it is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Challenge {
    /// There was no token.
    NoneGiven,
    /// There was no telling what the token is.
    InvalidRequest,
    /// The token is not good; why is not said, since whoever made it up would learn from that.
    InvalidToken,
    /// The token is good, but not for this.
    Insufficient(Scope),
}

impl Challenge {
    /// The status of the answer.
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::NoneGiven | Self::InvalidToken => 401,
            Self::Insufficient(_) => 403,
        }
    }

    /// The value of the header `WWW-Authenticate`. `resource_metadata` is the URL of a document that
    /// says where tokens are to be had, if there is one.
    pub fn header(self, resource_metadata: Option<&str>) -> String {
        let (error, scopes) = match self {
            Self::NoneGiven => (None, Scopes::MEMORY),
            Self::InvalidRequest => (Some("invalid_request"), Scopes::default()),
            Self::InvalidToken => (Some("invalid_token"), Scopes::MEMORY),
            Self::Insufficient(scope) => (Some("insufficient_scope"), scope.into()),
        };
        let mut parameters = Vec::new();
        if let Some(error) = error {
            parameters.push(format!("error=\"{error}\""));
        }
        if !scopes.is_empty() {
            parameters.push(format!("scope=\"{scopes}\""));
        }
        if let Some(url) = resource_metadata {
            parameters.push(format!("resource_metadata=\"{}\"", quotable(url)));
        }
        format!("Bearer {}", parameters.join(", "))
    }
}

impl From<AuthorizationError> for Challenge {
    fn from(error: AuthorizationError) -> Self {
        match error {
            AuthorizationError::NoneGiven => Self::NoneGiven,
            AuthorizationError::Invalid => Self::InvalidRequest,
        }
    }
}

/// A URL between quotation marks: what would end them, or the line, is written as URLs have it.
fn quotable(url: &str) -> String {
    let mut quotable = String::with_capacity(url.len());
    for byte in url.bytes() {
        if byte.is_ascii_graphic() && byte != b'"' && byte != b'\\' {
            quotable.push(char::from(byte));
        } else {
            let _ = write!(quotable, "%{byte:02X}");
        }
    }
    quotable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_says_what_is_missing_and_where_to_get_it() {
        let url = "https://memory.example/.well-known/oauth-protected-resource/mcp";
        let all = [
            (Challenge::NoneGiven, 401, r#"Bearer scope="memory:read memory:write""#),
            (Challenge::InvalidRequest, 400, r#"Bearer error="invalid_request""#),
            (
                Challenge::InvalidToken,
                401,
                r#"Bearer error="invalid_token", scope="memory:read memory:write""#,
            ),
            (
                Challenge::Insufficient(Scope::Admin),
                403,
                r#"Bearer error="insufficient_scope", scope="memory:admin""#,
            ),
        ];
        for (challenge, status, header) in all {
            assert_eq!(challenge.status(), status);
            assert_eq!(challenge.header(None), header);
            let with_url = format!(r#"{header}, resource_metadata="{url}""#);
            assert_eq!(challenge.header(Some(url)), with_url);
        }
    }

    #[test]
    fn a_url_cannot_end_its_quotation_marks_or_the_line() {
        let header = Challenge::InvalidRequest.header(Some("https://a/\"\\\r\nX: é \u{7f}%22"));
        let url = "https://a/%22%5C%0D%0AX:%20%C3%A9%20%7F%22";
        let wanted = format!(r#"Bearer error="invalid_request", resource_metadata="{url}""#);
        assert_eq!(header, wanted);
    }
}
