//! Policy: which URLs may be fetched, or shown in a browser, for one server.
//!
//! The person named the server; everything else came from strangers. rmcp looks at the hosts of
//! discovered metadata, but neither at `http` nor at the endpoints within; hence this.

use url::Url;

use crate::address::Class;
use crate::http_transport::Reach;
use crate::metadata_rules::{Refusal, Rule};

const MAX_URL_LEN: usize = 4096;

/// What URLs are measured by: the server that the person named.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    server: Url,
}

impl Policy {
    /// For `server`, which has to be one that secrets may be sent to.
    pub(crate) fn for_server(server: &Url) -> Result<Self, Refusal> {
        let policy = Self { server: server.clone() };
        policy.check(server)?;
        Ok(policy)
    }

    /// Checks a URL, and says which addresses its name may resolve to.
    pub(crate) fn check(&self, url: &Url) -> Result<Reach, Refusal> {
        let broken = |rule| Err(Refusal::new(rule, url.as_str()));
        let Some(host) = url.host() else { return broken(Rule::Transport) };
        if !url.username().is_empty() || url.password().is_some() {
            // Not the URL: it may hold a person's password.
            return Err(Refusal::new(Rule::Form, "a URL with a user name"));
        }
        if url.as_str().len() > MAX_URL_LEN {
            return broken(Rule::Form);
        }
        let class = Class::of_host(&host);
        let ours = self.server.host().map(|host| Class::of_host(&host));
        let beside = class == Class::Loopback && ours == Some(Class::Loopback);
        if url.scheme() != "https" && !(url.scheme() == "http" && beside) {
            return broken(Rule::Transport);
        }
        if url.origin() == self.server.origin() {
            return Ok(Reach::Anywhere);
        }
        match class {
            Class::Public => Ok(Reach::Public),
            Class::Loopback if beside => Ok(Reach::Loopback),
            Class::Loopback | Class::Private => broken(Rule::Address),
        }
    }

    /// Parses and checks a URL that a stranger wrote.
    pub(crate) fn parse(&self, text: &str) -> Result<Url, Refusal> {
        // `Url` drops or replaces them, other parsers do not: two would see two hosts.
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(Refusal::new(Rule::Form, text));
        }
        let url = Url::parse(text).map_err(|_| Refusal::new(Rule::Form, text))?;
        self.check(&url)?;
        Ok(url)
    }

    /// Whether `resource` is the server, or a part of its path from the root.
    pub(crate) fn is_resource(&self, resource: &str) -> bool {
        let Ok(url) = Url::parse(resource) else { return false };
        let path = url.path().trim_end_matches('/');
        url.origin() == self.server.origin()
            && self
                .server
                .path()
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(server: &str) -> Policy {
        Policy::for_server(&server.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_server_is_reached_by_https_or_on_loopback() {
        for server in ["https://mcp.example.com", "http://127.0.0.1:1", "http://localhost:2/mcp"] {
            assert!(Policy::for_server(&server.parse().unwrap()).is_ok(), "{server}");
        }
        for server in
            ["http://mcp.example.com", "http://10.0.0.1", "ftp://a.example", "https://u@a.example"]
        {
            assert!(Policy::for_server(&server.parse().unwrap()).is_err(), "{server}");
        }
    }

    #[test]
    fn a_private_server_that_a_person_named_is_reached_and_its_neighbours_are_not() {
        let policy = policy("https://10.0.0.5/mcp");
        assert_eq!(policy.parse("https://10.0.0.5/token").unwrap().port(), None);
        for other in ["https://10.0.0.6/token", "https://10.0.0.5:8443/token", "https://[::1]/"] {
            assert_eq!(policy.parse(other).unwrap_err().rule(), Rule::Address, "{other}");
        }
    }

    #[test]
    fn a_resource_is_the_server_or_above_it() {
        let policy = policy("https://mcp.example.com/a/mcp");
        for right in [
            "https://mcp.example.com",
            "https://mcp.example.com/a/",
            "https://mcp.example.com/a/mcp",
        ] {
            assert!(policy.is_resource(right), "{right}");
        }
        for wrong in [
            "https://example.com/a/mcp",
            "https://mcp.example.com/a/m",
            "http://mcp.example.com/a/mcp",
            "x",
        ] {
            assert!(!policy.is_resource(wrong), "{wrong}");
        }
    }
}
