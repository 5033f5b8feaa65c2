//! Servers by name: one key for all ways to write a URL.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use url::Url;

/// A server: scheme, host, port and path, without what does not tell servers apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerKey(Url);

impl ServerKey {
    pub(crate) fn from_url(server: &Url) -> Self {
        // The parser has made scheme and host lower case and dropped the scheme's own port.
        let mut url = server.clone();
        url.set_query(None);
        url.set_fragment(None);
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Self(url)
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }

    /// What its files begin with. Never the text itself: a server chooses that.
    pub(crate) fn stem(&self) -> String {
        digest(self.0.as_str())
    }

    /// The name of the file of its login at `issuer`.
    pub(crate) fn file(&self, issuer: &str) -> String {
        format!("{}-{}.json", self.stem(), digest(issuer))
    }
}

fn digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let mut hex = String::new();
    for byte in digest.iter().take(16) {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_has_one_key() {
        let key = |text: &str| ServerKey::from_url(&text.parse().unwrap());
        let one = key("https://mcp.example.com/a");
        for same in [
            "HTTPS://MCP.example.COM:443/a/",
            "https://mcp.example.com/a?x=1#y",
            "https://mcp.example.com/b/../a",
        ] {
            assert_eq!(key(same), one, "{same}");
            assert_eq!(key(same).stem(), one.stem());
        }
        for other in [
            "http://mcp.example.com/a",
            "https://mcp.example.com:8443/a",
            "https://mcp.example.com/A",
        ] {
            assert_ne!(key(other).stem(), one.stem(), "{other}");
        }
    }

    #[test]
    fn file_names_hold_nothing_of_what_a_server_says() {
        let name = ServerKey::from_url(&"https://x.example/..%2f".parse().unwrap())
            .file("../../etc/passwd\0");
        assert!(
            name.strip_suffix(".json").unwrap().chars().all(|c| c.is_ascii_hexdigit() || c == '-')
        );
        assert_eq!(name.len(), 32 + 1 + 32 + 5);
    }
}
