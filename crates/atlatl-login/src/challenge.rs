//! Challenges: what a server says when it refuses (`WWW-Authenticate`).
//!
//! Its words are hostile until shown otherwise. All that is taken from them is whether further
//! rights would help, and names of rights that can be typed safely. URLs in it are not followed:
//! only `login`, which a person starts, looks for an authority.

use rmcp::transport::auth::WWWAuthenticateParams;
use url::Url;

use crate::token::scopes_in;

/// The rights that a challenge asks for, where it says that they are missing.
pub(crate) fn missing_scopes(challenge: &str, server: &Url) -> Option<Vec<String>> {
    let challenge: String = challenge.chars().take(8192).collect();
    let params = WWWAuthenticateParams::parse(&challenge, server);
    params.is_insufficient_scope().then(|| typed(params.scope.as_deref().unwrap_or_default()))
}

/// Scopes for a command line: all of them or none, since half of them would not help.
fn typed(text: &str) -> Vec<String> {
    let scopes = scopes_in(text);
    let is_plain = |scope: &String| {
        scope.starts_with(|c: char| c.is_ascii_alphanumeric())
            && scope.chars().all(|c| c.is_ascii_alphanumeric() || "._:/*+-".contains(c))
    };
    let whole = scopes.len() == text.split_ascii_whitespace().count();
    if whole && scopes.len() <= 16 && scopes.iter().all(is_plain) { scopes } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(challenge: &str) -> Option<Vec<String>> {
        missing_scopes(challenge, &"https://mcp.example.com/mcp".parse().unwrap())
    }

    #[test]
    fn missing_rights_are_named_where_they_can_be_typed() {
        let challenge = r#"Bearer error="insufficient_scope", scope="files:read files:write""#;
        assert_eq!(missing(challenge).unwrap(), ["files:read", "files:write"]);
        for hostile in
            ["a $(touch x)", "a `id`", "-flag", "a;b", "a\\\"b", "a\u{202e}b", "a!b", "a 'b"]
        {
            let challenge = format!(r#"Bearer error="insufficient_scope", scope="{hostile}""#);
            assert_eq!(missing(&challenge).unwrap(), Vec::<String>::new(), "{hostile}");
        }
    }

    #[test]
    fn other_challenges_ask_for_nothing() {
        for other in
            ["Bearer", "", r#"Bearer error="invalid_token", scope="a""#, "Bearer error=\"", "é=\"é"]
        {
            assert_eq!(missing(other), None, "{other}");
        }
    }
}
