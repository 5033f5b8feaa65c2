//! SSRF protection: which URLs may be fetched or opened, and which addresses may be connected to.
//!
//! The person named the server; every other URL is untrusted. rmcp checks the hosts of discovered
//! metadata, but neither the `http` scheme nor the endpoints inside. Addresses are filtered in the DNS
//! resolver, because a name may resolve to a different address each time: what passes the filter is
//! what is connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::error::{Rule, RuleViolation};

const MAX_URL_LEN: usize = 4096;
/// Names that are never public. A name without a dot is resolved in the local domain.
const PRIVATE_SUFFIXES: &[&str] = &["internal", "local", "localdomain", "home.arpa", "lan"];

/// Which addresses a name may resolve to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Any: the person named this host.
    Anywhere,
    /// Public addresses only: the URL is untrusted.
    Public,
    /// Loopback addresses only.
    Loopback,
}

/// The URL policy for one server.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    server: Url,
}

impl Policy {
    /// Creates the policy for `server`, which must be safe to send secrets to.
    pub(crate) fn for_server(server: &Url) -> Result<Self, RuleViolation> {
        let policy = Self { server: server.clone() };
        policy.check(server)?;
        Ok(policy)
    }

    /// Checks a URL, and returns which addresses its name may resolve to.
    pub(crate) fn check(&self, url: &Url) -> Result<Reach, RuleViolation> {
        let broken = |rule| Err(RuleViolation::new(rule, url.as_str()));
        let Some(host) = url.host() else { return broken(Rule::Transport) };
        if !url.username().is_empty() || url.password().is_some() {
            // Without the URL, which may contain a password.
            return Err(RuleViolation::new(Rule::Form, "a URL with a user name"));
        }
        if url.as_str().len() > MAX_URL_LEN {
            return broken(Rule::Form);
        }
        let class = HostClass::from_host(&host);
        let ours = self.server.host().map(|host| HostClass::from_host(&host));
        let beside = class == HostClass::Loopback && ours == Some(HostClass::Loopback);
        if url.scheme() != "https" && !(url.scheme() == "http" && beside) {
            return broken(Rule::Transport);
        }
        if url.origin() == self.server.origin() {
            return Ok(Reach::Anywhere);
        }
        match class {
            HostClass::Public => Ok(Reach::Public),
            HostClass::Loopback if beside => Ok(Reach::Loopback),
            HostClass::Loopback | HostClass::Private => broken(Rule::Address),
        }
    }

    /// Parses and checks an untrusted URL.
    pub(crate) fn parse(&self, text: &str) -> Result<Url, RuleViolation> {
        // `Url` drops or replaces these characters and other parsers do not: they would see
        // different hosts.
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(RuleViolation::new(Rule::Form, text));
        }
        let url = Url::parse(text).map_err(|_| RuleViolation::new(Rule::Form, text))?;
        self.check(&url)?;
        Ok(url)
    }

    /// Whether `resource` is the server, or a parent of its path.
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

/// The class of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostClass {
    /// The internet; a name may still resolve to another address.
    Public,
    /// This machine.
    Loopback,
    /// A private network, a cloud metadata service, or an unroutable address.
    Private,
}

impl HostClass {
    /// Classifies the host of a URL.
    fn from_host(host: &Host<&str>) -> Self {
        match host {
            Host::Ipv4(address) => Self::from_ip((*address).into()),
            Host::Ipv6(address) => Self::from_ip((*address).into()),
            Host::Domain(name) => Self::from_name(name),
        }
    }

    fn from_name(name: &str) -> Self {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let within = |suffix: &str| {
            name == suffix || name.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'))
        };
        if within("localhost") {
            Self::Loopback
        } else if !name.contains('.') || PRIVATE_SUFFIXES.iter().any(|suffix| within(suffix)) {
            Self::Private
        } else {
            Self::Public
        }
    }

    /// Classifies an address.
    fn from_ip(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::from_v4(address),
            IpAddr::V6(address) => Self::from_v6(address),
        }
    }

    fn from_v4(address: Ipv4Addr) -> Self {
        let [a, b, c, _] = address.octets();
        if address.is_loopback() {
            return Self::Loopback;
        }
        let special = matches!(
            (a, b, c),
            (0 | 10 | 224..=255, ..)
                | (100, 64..=127, _)      // carriers' networks
                | (169, 254, _)           // link-local, a cloud's metadata
                | (172, 16..=31, _)
                | (192, 0, 0 | 2)         // protocol assignments, documentation
                | (192, 168, _)
                | (198, 18 | 19, _)       // benchmarks
                | (198, 51, 100)
                | (203, 0, 113)
        );
        if special { Self::Private } else { Self::Public }
    }

    fn from_v6(address: Ipv6Addr) -> Self {
        if address.is_loopback() {
            return Self::Loopback;
        }
        let segments = address.segments();
        let v4 =
            |at: usize| Ipv4Addr::from(u32::from(segments[at]) << 16 | u32::from(segments[at + 1]));
        // An embedded IPv4 address is routed as such.
        match segments {
            [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
                return Self::from_v4(v4(6));
            }
            [0x2002, ..] => return Self::from_v4(v4(1)),
            _ => {}
        }
        // Only global unicast is public, except Teredo and documentation addresses.
        let global = segments[0] & 0xe000 == 0x2000;
        let special = segments[0] == 0x2001 && (segments[1] < 0x200 || segments[1] == 0xdb8);
        if global && !special { Self::Public } else { Self::Private }
    }
}

/// The resolver of the system, filtered by address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilteredResolver(pub(crate) Reach);

impl Resolve for FilteredResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        let host = name.as_str().to_owned();
        Box::pin(async move {
            let asked = host.clone();
            let found =
                tokio::task::spawn_blocking(move || (&*asked, 0).to_socket_addrs()).await??;
            let addresses: Vec<SocketAddr> = found.filter(|at| allows(reach, *at)).collect();
            if addresses.is_empty() {
                return Err(RuleViolation::new(Rule::Address, &host).into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

fn allows(reach: Reach, address: SocketAddr) -> bool {
    match reach {
        Reach::Anywhere => true,
        Reach::Public => HostClass::from_ip(address.ip()) == HostClass::Public,
        Reach::Loopback => HostClass::from_ip(address.ip()) == HostClass::Loopback,
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

    fn class(address: &str) -> HostClass {
        HostClass::from_ip(address.parse().unwrap())
    }

    #[test]
    fn only_public_addresses_are_public() {
        for public in ["1.1.1.1", "172.15.0.1", "172.32.0.1", "100.63.1.1", "2606:4700::1111"] {
            assert_eq!(class(public), HostClass::Public, "{public}");
        }
        for here in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(class(here), HostClass::Loopback, "{here}");
        }
        for private in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "::10.0.0.1",
            "64:ff9b:1::1",
        ] {
            assert_eq!(class(private), HostClass::Private, "{private}");
        }
    }

    #[test]
    fn names_that_mean_this_machine_or_network_are_known() {
        let class = |name| HostClass::from_host(&Host::Domain(name));
        for here in ["localhost", "LOCALHOST.", "a.localhost", "localhost."] {
            assert_eq!(class(here), HostClass::Loopback, "{here}");
        }
        for private in
            ["metadata", "metadata.google.internal", "printer.local", "intranet", "a.lan."]
        {
            assert_eq!(class(private), HostClass::Private, "{private}");
        }
        for public in ["mcp.example.com", "notlocalhost.com", "xlocal.org", "internal.example.com"]
        {
            assert_eq!(class(public), HostClass::Public, "{public}");
        }
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_this_machine_is_not_reached_from_outside() {
        let resolve = |reach| FilteredResolver(reach).resolve("localhost".parse().unwrap());
        assert!(resolve(Reach::Public).await.is_err());
        for reach in [Reach::Loopback, Reach::Anywhere] {
            assert!(resolve(reach).await.unwrap().all(|at| at.ip().is_loopback()));
        }
    }

    #[test]
    fn addresses_are_filtered_one_by_one() {
        let at = |text: &str| SocketAddr::new(text.parse().unwrap(), 443);
        assert!(allows(Reach::Public, at("1.1.1.1")));
        assert!(!allows(Reach::Public, at("10.0.0.1")) && !allows(Reach::Public, at("::1")));
        assert!(
            !allows(Reach::Loopback, at("1.1.1.1")) && !allows(Reach::Loopback, at("10.0.0.1"))
        );
    }
}
