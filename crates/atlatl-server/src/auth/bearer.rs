//! HTTP bearer authentication: the `Authorization` header (RFC 6750, 2.1), `WWW-Authenticate`
//! challenges (RFC 6750, 3; RFC 9728, 5.1) and protected resource metadata (RFC 9728).

use std::fmt::Write as _;

use serde::Serialize;

use super::principal::{AuthScope, Scopes};

/// The path segment between host and path in the URL of the metadata.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Why a request has no bearer token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorizationError {
    /// There is no header, or it has another scheme, which is ignored.
    #[error("missing bearer token")]
    Missing,
    /// There are two headers, or the header is malformed.
    #[error("malformed Authorization header: expected `Bearer TOKEN`")]
    Invalid,
}

/// Returns the token in `values`, the values of all `Authorization` headers of a request, trimmed.
pub fn bearer<'a>(
    values: impl IntoIterator<Item = &'a [u8]>,
) -> Result<&'a str, AuthorizationError> {
    let mut values = values.into_iter();
    let value = values.next().ok_or(AuthorizationError::Missing)?;
    if values.next().is_some() {
        return Err(AuthorizationError::Invalid);
    }
    let end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    let (scheme, rest) = value.split_at(end);
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Err(AuthorizationError::Missing);
    }
    let token = str::from_utf8(rest).map_err(|_| AuthorizationError::Invalid)?;
    let token = token.trim_start_matches(' ');
    if is_token(token) { Ok(token) } else { Err(AuthorizationError::Invalid) }
}

/// The syntax `b64token` of RFC 6750.
fn is_token(text: &str) -> bool {
    let unpadded = text.trim_end_matches('=');
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    !unpadded.is_empty() && unpadded.bytes().all(is_sign)
}

/// An authentication challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Challenge {
    /// The request has no token.
    Missing,
    /// The request is malformed.
    InvalidRequest,
    /// The token is not valid. The reason is not disclosed, since it would help an attacker.
    InvalidToken,
    /// The token is valid, but lacks a scope.
    Insufficient(AuthScope),
}

impl Challenge {
    /// Returns the HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Missing | Self::InvalidToken => 401,
            Self::Insufficient(_) => 403,
        }
    }

    /// Returns the value of the `WWW-Authenticate` header. `resource_metadata` is the URL of the
    /// protected resource metadata, if there is any.
    pub fn header(self, resource_metadata: Option<&str>) -> String {
        let (error, scopes) = match self {
            Self::Missing => (None, Scopes::MEMORY),
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
            parameters.push(format!("resource_metadata=\"{}\"", escape_url(url)));
        }
        format!("Bearer {}", parameters.join(", "))
    }
}

impl From<AuthorizationError> for Challenge {
    fn from(error: AuthorizationError) -> Self {
        match error {
            AuthorizationError::Missing => Self::Missing,
            AuthorizationError::Invalid => Self::InvalidRequest,
        }
    }
}

/// Percent-encodes characters of a URL that would end the quoted string or the line.
fn escape_url(url: &str) -> String {
    let mut escaped = String::with_capacity(url.len());
    for byte in url.bytes() {
        if byte.is_ascii_graphic() && byte != b'"' && byte != b'\\' {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// The protected resource metadata. It is serialized as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// The URL of the resource, which is the audience of its tokens.
    pub resource: String,
    /// The issuers of tokens for it.
    pub authorization_servers: Vec<String>,
    /// The scopes that a client should request.
    pub scopes_supported: Vec<&'static str>,
    /// How a token is sent: never in a URL, which would appear in logs.
    pub bearer_methods_supported: [&'static str; 1],
    /// The display name.
    pub resource_name: &'static str,
}

impl ResourceMetadata {
    /// Creates the metadata of the memory server at `resource`, which accepts tokens of
    /// `authorization_servers`.
    pub fn new(
        resource: impl Into<String>,
        authorization_servers: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            resource: resource.into(),
            authorization_servers: authorization_servers.into_iter().map(Into::into).collect(),
            // A client without other information requests all of these, so `memory:admin` is not
            // included.
            scopes_supported: Scopes::MEMORY.iter().map(AuthScope::word).collect(),
            bearer_methods_supported: ["header"],
            resource_name: "Atlatl memory server",
        }
    }
}

/// Returns the URL of the metadata for `resource`, or `None` if that is not a resource URL.
pub fn metadata_url(resource: &str) -> Option<String> {
    let (scheme, rest) = resource.split_once("://")?;
    let host = rest.split(['/', '?']).next()?;
    if !matches!(scheme, "http" | "https") || host.is_empty() || rest.contains('#') {
        return None;
    }
    let path = &rest[host.len()..];
    // A single slash is not a path, nor is one before a query (RFC 9728, 3.1).
    let path = if path == "/" || path.starts_with("/?") { &path[1..] } else { path };
    Some(format!("{scheme}://{host}{WELL_KNOWN}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_bearer(values: &[&str]) -> Result<String, AuthorizationError> {
        bearer(values.iter().map(|value| value.as_bytes())).map(str::to_owned)
    }

    #[test]
    fn one_header_with_one_token_is_read() {
        for good in ["Bearer a.b-c_d~e+f/g==", "bearer a", "BEARER    a", "bEaReR 0="] {
            let token = good.rsplit(' ').next().expect("a token");
            assert_eq!(parse_bearer(&[good]).as_deref(), Ok(token), "{good}");
        }
    }

    #[test]
    fn other_schemes_say_nothing() {
        for other in ["", "Basic YTpi", "Digest a=\"b\"", "Bearer\ta", "Bearera", " Bearer a", "é"]
        {
            assert_eq!(parse_bearer(&[other]), Err(AuthorizationError::Missing), "{other}");
        }
        assert_eq!(parse_bearer(&[]), Err(AuthorizationError::Missing));
    }

    #[test]
    fn what_is_not_exactly_one_token_is_refused() {
        let bad = [
            "Bearer",
            "Bearer ",
            "Bearer a b",
            "Bearer a ",
            "Bearer \ta",
            "Bearer =",
            "Bearer a=b",
            "Bearer a,b",
            "Bearer \"a\"",
            "Bearer é",
            "Bearer a\n",
            "Bearer a\0",
        ];
        for bad in bad {
            assert_eq!(parse_bearer(&[bad]), Err(AuthorizationError::Invalid), "{bad:?}");
        }
        assert_eq!(parse_bearer(&["Bearer a", "Bearer a"]), Err(AuthorizationError::Invalid));
        assert_eq!(parse_bearer(&["Bearer a", "Basic a"]), Err(AuthorizationError::Invalid));
        assert_eq!(bearer([&b"Bearer \xff"[..]]), Err(AuthorizationError::Invalid));
    }

    #[test]
    fn a_challenge_says_what_is_missing_and_where_to_get_it() {
        let url = "https://memory.example/.well-known/oauth-protected-resource/mcp";
        let all = [
            (Challenge::Missing, 401, r#"Bearer scope="memory:read memory:write""#),
            (Challenge::InvalidRequest, 400, r#"Bearer error="invalid_request""#),
            (
                Challenge::InvalidToken,
                401,
                r#"Bearer error="invalid_token", scope="memory:read memory:write""#,
            ),
            (
                Challenge::Insufficient(AuthScope::Admin),
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

    #[test]
    fn the_metadata_path_is_between_host_and_path() {
        let well_known = |rest: &str| format!("https://a.example{WELL_KNOWN}{rest}");
        for (rest, wanted) in [
            ("", ""),
            ("/", ""),
            ("/mcp", "/mcp"),
            ("/a/mcp/", "/a/mcp/"),
            ("?a=/b", "?a=/b"),
            ("/?a", "?a"),
            ("/mcp?a", "/mcp?a"),
        ] {
            let found = metadata_url(&format!("https://a.example{rest}"));
            assert_eq!(found, Some(well_known(wanted)), "{rest}");
        }
        let local = metadata_url("http://127.0.0.1:8080/mcp");
        assert_eq!(local, Some(format!("http://127.0.0.1:8080{WELL_KNOWN}/mcp")));
        for none in ["", "a.example/mcp", "https:///mcp", "file:///mcp", "https://a/mcp#b"] {
            assert_eq!(metadata_url(none), None, "{none}");
        }
    }

    #[test]
    fn the_document_names_the_authority_and_what_to_ask_for() {
        let metadata = ResourceMetadata::new("https://a.example/mcp", ["https://login.example"]);
        let wanted = serde_json::json!({
            "resource": "https://a.example/mcp",
            "authorization_servers": ["https://login.example"],
            "scopes_supported": ["memory:read", "memory:write"],
            "bearer_methods_supported": ["header"],
            "resource_name": "Atlatl memory server",
        });
        assert_eq!(serde_json::to_value(metadata).expect("JSON"), wanted);
    }
}
