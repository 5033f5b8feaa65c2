//! The resolver: names to addresses, without those that may not be reached.
//!
//! The check stands here because a name may resolve to anything, and differently each time it is
//! asked: what is filtered is what is connected to.

use std::net::{SocketAddr, ToSocketAddrs as _};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::address::Class;
use crate::http_transport::Reach;
use crate::metadata_rules::{Refusal, Rule};

/// The machine's resolver, filtered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filtered(pub(crate) Reach);

impl Resolve for Filtered {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        let host = name.as_str().to_owned();
        Box::pin(async move {
            let asked = host.clone();
            let found =
                tokio::task::spawn_blocking(move || (&*asked, 0).to_socket_addrs()).await??;
            let addresses: Vec<SocketAddr> = found.filter(|at| allows(reach, *at)).collect();
            if addresses.is_empty() {
                return Err(Refusal::new(Rule::Address, &host).into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

fn allows(reach: Reach, address: SocketAddr) -> bool {
    match reach {
        Reach::Anywhere => true,
        Reach::Public => Class::classify(address.ip()) == Class::Public,
        Reach::Loopback => Class::classify(address.ip()) == Class::Loopback,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_that_resolves_to_this_machine_is_not_reached_from_outside() {
        let resolve = |reach| Filtered(reach).resolve("localhost".parse().unwrap());
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
