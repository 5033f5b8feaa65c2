//! The address of a server: a URL or a Unix socket.

use std::fmt;
use std::path::{Path, PathBuf};

use lro_http::UNIX_PREFIX;
use reqwest::Url;
use url::Host;

/// The URL of requests on a Unix socket.
const SOCKET_URL: &str = "http://localhost/mcp";

/// The address of a server.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamEndpoint {
    url: Url,
    /// The Unix socket that replaces the URL's host.
    socket: Option<PathBuf>,
}

/// Errors of parsing the address of a server.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointError {
    /// The text is not a URL.
    #[error("expected a URL such as https://example.com/mcp, or unix:PATH")]
    InvalidUrl,
    /// The scheme is neither HTTP nor HTTPS.
    #[error("unsupported scheme: expected https:// or http://")]
    UnsupportedScheme,
    /// The connection to another machine would not be encrypted.
    #[error("http:// is allowed only for this machine; use https://")]
    Unencrypted,
    /// The URL contains a user or a password. A URL is displayed and stored, so it must not be secret.
    #[error("it contains a user name or password; send credentials in a header")]
    ContainsSecret,
}

impl UpstreamEndpoint {
    /// Parses a URL, or `unix:PATH` for `/mcp` on a Unix socket.
    pub fn parse(url: &str) -> Result<Self, EndpointError> {
        if let Some(path) = url.strip_prefix(UNIX_PREFIX) {
            // An absolute path, so that a socket has only one name.
            let socket = std::path::absolute(path).map_err(|_| EndpointError::InvalidUrl)?;
            let url = Url::parse(SOCKET_URL).map_err(|_| EndpointError::InvalidUrl)?;
            return Ok(Self { url, socket: Some(socket) });
        }
        let mut url = Url::parse(url).map_err(|_| EndpointError::InvalidUrl)?;
        let local = url.host().is_some_and(|host| is_local(&host));
        match url.scheme() {
            "https" => {}
            "http" if local => {}
            "http" => return Err(EndpointError::Unencrypted),
            _ => return Err(EndpointError::UnsupportedScheme),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EndpointError::ContainsSecret);
        }
        url.set_fragment(None);
        Ok(Self { url, socket: None })
    }

    /// The URL of requests.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The Unix socket, if the address is one.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// Scheme, host and port, or the socket. Headers are sent to no other origin.
    pub fn origin(&self) -> String {
        match &self.socket {
            Some(socket) => format!("{UNIX_PREFIX}{}", socket.display()),
            None => self.url.origin().ascii_serialization(),
        }
    }

    /// Whether the server is on this machine.
    pub fn is_local(&self) -> bool {
        self.url.host().is_some_and(|host| is_local(&host))
    }
}

fn is_local(host: &Host<&str>) -> bool {
    match host {
        // A subdomain of localhost may be resolved to another machine.
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.to_canonical().is_loopback(),
    }
}

/// Omits the query, which may contain a secret.
impl fmt::Display for UpstreamEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(_) => f.write_str(&self.origin()),
            None => write!(f, "{}{}", self.origin(), self.url.path()),
        }
    }
}

impl fmt::Debug for UpstreamEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpstreamEndpoint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_safely() {
        for url in [
            "https://example.com/mcp",
            "http://127.0.0.1:80/mcp",
            "http://localhost/x#y",
            "http://[::1]:9/",
            "https://10.0.0.1/mcp",
            "http://127.9.9.9/",
        ] {
            assert!(UpstreamEndpoint::parse(url).is_ok(), "{url}");
        }
        for (url, error) in [
            ("http://example.com/mcp", EndpointError::Unencrypted),
            ("http://10.0.0.1/mcp", EndpointError::Unencrypted),
            ("http://localhost.evil.example/", EndpointError::Unencrypted),
            ("http://a.localhost/", EndpointError::Unencrypted),
            ("http://2130706434.example/", EndpointError::Unencrypted),
            ("ftp://example.com", EndpointError::UnsupportedScheme),
            ("file:///etc/passwd", EndpointError::UnsupportedScheme),
            ("example.com", EndpointError::InvalidUrl),
            ("https://user@example.com/", EndpointError::ContainsSecret),
            ("https://:pass@example.com/", EndpointError::ContainsSecret),
        ] {
            assert_eq!(UpstreamEndpoint::parse(url), Err(error), "{url}");
        }
    }

    #[test]
    fn a_socket_is_named_by_its_path() {
        let endpoint = UpstreamEndpoint::parse("unix:/run/user/1000/a.sock").unwrap();
        assert_eq!(endpoint.socket(), Some(Path::new("/run/user/1000/a.sock")));
        assert_eq!(endpoint.origin(), "unix:/run/user/1000/a.sock");
        assert_eq!(endpoint.url().as_str(), SOCKET_URL);
        assert_ne!(endpoint.origin(), UpstreamEndpoint::parse(SOCKET_URL).unwrap().origin());
        assert!(UpstreamEndpoint::parse("unix:a").unwrap().socket().unwrap().is_absolute());
        assert_eq!(UpstreamEndpoint::parse("unix:"), Err(EndpointError::InvalidUrl));
    }

    #[test]
    fn a_query_does_not_show() {
        let endpoint = UpstreamEndpoint::parse("https://example.com/mcp?key=SECRET").unwrap();
        assert_eq!(endpoint.to_string(), "https://example.com/mcp");
        assert!(!format!("{endpoint:?}").contains("SECRET"));
    }
}
