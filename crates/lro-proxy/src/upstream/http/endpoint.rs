//! Endpoint: the URL of a server, as a person named it.

use std::fmt;

use reqwest::Url;
use url::Host;

/// Where a server is.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(Url);

/// Why a text names no server.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointError {
    /// It is no URL.
    #[error("it is no URL such as https://example.com/mcp")]
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
    /// The server at `url`.
    pub fn named(url: &str) -> Result<Self, EndpointError> {
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
        Ok(Self(url))
    }

    /// As it is asked.
    pub fn url(&self) -> &Url {
        &self.0
    }

    /// Scheme, host and port: headers go nowhere else.
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    /// Whether it is on this machine.
    pub fn is_local(&self) -> bool {
        self.0.host().is_some_and(|host| is_local(&host))
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
        write!(f, "{}{}", self.origin(), self.0.path())
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
    fn a_query_does_not_show() {
        let endpoint = Endpoint::named("https://example.com/mcp?key=SECRET").unwrap();
        assert_eq!(endpoint.to_string(), "https://example.com/mcp");
        assert!(!format!("{endpoint:?}").contains("SECRET"));
    }
}
