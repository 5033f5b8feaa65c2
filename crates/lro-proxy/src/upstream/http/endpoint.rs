//! Endpoint: the URL of a server, as a person named it.

use std::fmt;
use std::path::{Path, PathBuf};

use lro_http::UNIX;
use reqwest::Url;
use url::Host;

/// What is asked for on a Unix socket.
const ON_SOCKET: &str = "http://localhost/mcp";

/// Where a server is.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
    /// The Unix socket that takes the place of the URL's host.
    socket: Option<PathBuf>,
}

/// Why a text names no server.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointError {
    /// It is no URL.
    #[error("it is no URL such as https://example.com/mcp, nor unix:PATH")]
    NoUrl,
    /// It is not one of HTTP.
    #[error("it begins with neither https:// nor http://")]
    Scheme,
    /// What is sent there could be read on the way.
    #[error("http:// is for this machine alone; elsewhere it must be https://")]
    Open,
    /// A URL is shown and stored; what is secret in it would be too.
    #[error("it has a user or a password in it; send what is secret in a header")]
    Secret,
}

impl Endpoint {
    /// The server at `url`, or at `/mcp` behind `unix:PATH`.
    pub fn named(url: &str) -> Result<Self, EndpointError> {
        if let Some(path) = url.strip_prefix(UNIX) {
            // Absolute, so that one socket has one name.
            let socket = std::path::absolute(path).map_err(|_| EndpointError::NoUrl)?;
            let url = Url::parse(ON_SOCKET).map_err(|_| EndpointError::NoUrl)?;
            return Ok(Self { url, socket: Some(socket) });
        }
        let mut url = Url::parse(url).map_err(|_| EndpointError::NoUrl)?;
        let local = url.host().is_some_and(|host| is_local(&host));
        match url.scheme() {
            "https" => {}
            "http" if local => {}
            "http" => return Err(EndpointError::Open),
            _ => return Err(EndpointError::Scheme),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EndpointError::Secret);
        }
        url.set_fragment(None);
        Ok(Self { url, socket: None })
    }

    /// As it is asked.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The Unix socket that it is asked on.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// Scheme, host and port, or the socket: headers go nowhere else.
    pub fn origin(&self) -> String {
        match &self.socket {
            Some(socket) => format!("{UNIX}{}", socket.display()),
            None => self.url.origin().ascii_serialization(),
        }
    }

    /// Whether it is on this machine.
    pub fn is_local(&self) -> bool {
        self.url.host().is_some_and(|host| is_local(&host))
    }
}

fn is_local(host: &Host<&str>) -> bool {
    match host {
        // A name below it may be resolved by others.
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.to_canonical().is_loopback(),
    }
}

/// Without the query, where people put what is secret.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(_) => f.write_str(&self.origin()),
            None => write!(f, "{}{}", self.origin(), self.url.path()),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
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
            assert!(Endpoint::named(url).is_ok(), "{url}");
        }
        for (url, error) in [
            ("http://example.com/mcp", EndpointError::Open),
            ("http://10.0.0.1/mcp", EndpointError::Open),
            ("http://localhost.evil.example/", EndpointError::Open),
            ("http://a.localhost/", EndpointError::Open),
            ("http://2130706434.example/", EndpointError::Open),
            ("ftp://example.com", EndpointError::Scheme),
            ("file:///etc/passwd", EndpointError::Scheme),
            ("example.com", EndpointError::NoUrl),
            ("https://user@example.com/", EndpointError::Secret),
            ("https://:pass@example.com/", EndpointError::Secret),
        ] {
            assert_eq!(Endpoint::named(url), Err(error), "{url}");
        }
    }

    #[test]
    fn a_socket_is_named_by_its_path() {
        let endpoint = Endpoint::named("unix:/run/user/1000/a.sock").unwrap();
        assert_eq!(endpoint.socket(), Some(Path::new("/run/user/1000/a.sock")));
        assert_eq!(endpoint.origin(), "unix:/run/user/1000/a.sock");
        assert_eq!(endpoint.url().as_str(), ON_SOCKET);
        assert_ne!(endpoint.origin(), Endpoint::named(ON_SOCKET).unwrap().origin());
        assert!(Endpoint::named("unix:a").unwrap().socket().unwrap().is_absolute());
        assert_eq!(Endpoint::named("unix:"), Err(EndpointError::NoUrl));
    }

    #[test]
    fn a_query_does_not_show() {
        let endpoint = Endpoint::named("https://example.com/mcp?key=SECRET").unwrap();
        assert_eq!(endpoint.to_string(), "https://example.com/mcp");
        assert!(!format!("{endpoint:?}").contains("SECRET"));
    }
}
