//! Fetched: short documents that an authorization server publishes.

use std::{sync::Arc, time::Duration};

use atlatl_server::auth::Fetch;
use rustls::crypto::ring;
use ureq::{
    Agent,
    tls::{RootCerts, TlsConfig},
};
use url::{Host, Url};

/// A set of keys is shorter.
const MAX_KEY_SET_LEN: u64 = 64 << 10;
/// Someone waits for it.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Fetches over HTTPS, and from this machine over HTTP.
pub(crate) struct Fetched(Agent);

impl Fetched {
    pub(crate) fn new() -> Self {
        Self(agent(FETCH_TIMEOUT))
    }
}

/// Sends requests, with the certificates of this machine, and to nobody but whom they are for: a
/// redirect is an answer like any other. The provider is named since nobody else in the process has to
/// set one, and the default of the proxy reads the environment.
pub(crate) fn agent(patience: Duration) -> Agent {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(patience))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(concat!("atlatl/", env!("CARGO_PKG_VERSION")))
        .build()
        .new_agent()
}

impl Fetch for Fetched {
    fn fetch(&self, url: &str) -> Option<String> {
        if !is_fit(url) {
            return None;
        }
        let mut answer = self.0.get(url).header("Accept", "application/json").call().ok()?;
        if !answer.status().is_success() {
            return None;
        }
        answer.body_mut().with_config().limit(MAX_KEY_SET_LEN).read_to_string().ok()
    }
}

/// Whether what is fetched there can be believed: nobody between may have changed it.
pub(crate) fn is_fit(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    url.scheme() == "https" || (url.scheme() == "http" && is_this_machine(&url))
}

/// Whether nothing that is sent there leaves this machine.
pub(crate) fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_over_a_line_that_nobody_listens_on() {
        for (url, fit) in [
            ("https://id.example/keys", true),
            ("http://127.0.0.1:9/keys", true),
            ("http://localhost/keys", true),
            ("http://[::1]/keys", true),
            ("http://id.example/keys", false),
            ("http://localhost.id.example/keys", false),
            ("file:///etc/passwd", false),
            ("ftp://localhost/", false),
            ("keys", false),
        ] {
            assert_eq!(is_fit(url), fit, "{url}");
        }
    }
}
