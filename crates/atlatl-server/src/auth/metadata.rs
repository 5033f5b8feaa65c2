//! Protected resource metadata (RFC 9728).

use serde::Serialize;

use crate::auth::scope::{Scope, Scopes};

/// What stands between host and path in the URL of the document.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The document. It is written as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// The URL of the resource; what tokens have as their audience.
    pub resource: String,
    /// The issuers of tokens for it.
    pub authorization_servers: Vec<String>,
    /// What a client should ask for.
    pub scopes_supported: Vec<&'static str>,
    /// How a token is brought: never in a URL, which would be written to logs.
    pub bearer_methods_supported: [&'static str; 1],
    /// What people are shown.
    pub resource_name: &'static str,
}

impl ResourceMetadata {
    /// The memory server at `resource`, which takes tokens of `authorization_servers`.
    pub fn new(
        resource: impl Into<String>,
        authorization_servers: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            resource: resource.into(),
            authorization_servers: authorization_servers.into_iter().map(Into::into).collect(),
            // A client that is not told what it needs asks for all of these, so `memory:admin`
            // is not among them.
            scopes_supported: Scopes::MEMORY.iter().map(Scope::word).collect(),
            bearer_methods_supported: ["header"],
            resource_name: "Atlatl memory server",
        }
    }
}

/// The URL of the document for `resource`; none where that is no URL of a resource.
pub fn metadata_url(resource: &str) -> Option<String> {
    let (scheme, rest) = resource.split_once("://")?;
    let host = rest.split(['/', '?']).next()?;
    if !matches!(scheme, "http" | "https") || host.is_empty() || rest.contains('#') {
        return None;
    }
    let path = &rest[host.len()..];
    // A slash alone is no path, nor is one before a query (RFC 9728, 3.1).
    let path = if path == "/" || path.starts_with("/?") { &path[1..] } else { path };
    Some(format!("{scheme}://{host}{WELL_KNOWN}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_lies_between_host_and_path() {
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
