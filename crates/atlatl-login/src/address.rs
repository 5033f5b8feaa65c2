//! Addresses: which of them a stranger may send us to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Host;

/// Where an address or name leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The internet; a name may still resolve to something else.
    Public,
    /// This machine.
    Loopback,
    /// A private network, a cloud's metadata service, or no place at all.
    Private,
}

/// Names that never mean a public host. A name with no dot is looked up in the local domain.
const PRIVATE_SUFFIXES: &[&str] = &["internal", "local", "localdomain", "home.arpa", "lan"];

impl Class {
    /// Of a URL's host.
    pub(crate) fn of_host(host: &Host<&str>) -> Self {
        match host {
            Host::Ipv4(address) => Self::classify((*address).into()),
            Host::Ipv6(address) => Self::classify((*address).into()),
            Host::Domain(name) => Self::of_name(name),
        }
    }

    fn of_name(name: &str) -> Self {
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

    /// Of an address.
    pub(crate) fn classify(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
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

    fn of_v6(address: Ipv6Addr) -> Self {
        if address.is_loopback() {
            return Self::Loopback;
        }
        let segments = address.segments();
        let v4 =
            |at: usize| Ipv4Addr::from(u32::from(segments[at]) << 16 | u32::from(segments[at + 1]));
        // An IPv4 address within: whoever routes it routes it there.
        match segments {
            [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
                return Self::of_v4(v4(6));
            }
            [0x2002, ..] => return Self::of_v4(v4(1)),
            _ => {}
        }
        // Only global unicast is public; in it, Teredo and documentation are not.
        let global = segments[0] & 0xe000 == 0x2000;
        let special = segments[0] == 0x2001 && (segments[1] < 0x200 || segments[1] == 0xdb8);
        if global && !special { Self::Public } else { Self::Private }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(address: &str) -> Class {
        Class::classify(address.parse().unwrap())
    }

    #[test]
    fn only_public_addresses_are_public() {
        for public in ["1.1.1.1", "172.15.0.1", "172.32.0.1", "100.63.1.1", "2606:4700::1111"] {
            assert_eq!(class(public), Class::Public, "{public}");
        }
        for here in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(class(here), Class::Loopback, "{here}");
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
            assert_eq!(class(private), Class::Private, "{private}");
        }
    }

    #[test]
    fn names_that_mean_this_machine_or_network_are_known() {
        let class = |name| Class::of_host(&Host::Domain(name));
        for here in ["localhost", "LOCALHOST.", "a.localhost", "localhost."] {
            assert_eq!(class(here), Class::Loopback, "{here}");
        }
        for private in
            ["metadata", "metadata.google.internal", "printer.local", "intranet", "a.lan."]
        {
            assert_eq!(class(private), Class::Private, "{private}");
        }
        for public in ["mcp.example.com", "notlocalhost.com", "xlocal.org", "internal.example.com"]
        {
            assert_eq!(class(public), Class::Public, "{public}");
        }
    }
}
