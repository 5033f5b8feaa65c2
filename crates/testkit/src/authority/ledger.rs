//! The ledger: what an authority knows and was asked.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Fault, Signer};

/// How often something was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Registrations of clients.
    pub registrations: usize,
    /// Visits to the authorization endpoint that ended in a code.
    pub codes: usize,
    /// All requests to the token endpoint.
    pub token_requests: usize,
    /// Refreshes that were asked for.
    pub refreshes: usize,
    /// Refresh tokens that came a second time: a theft, as far as an authority can tell.
    pub reuses: usize,
    /// Revocations that were asked for.
    pub revocations: usize,
    /// Requests that broke a rule.
    pub violations: usize,
}

/// A client that registered.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) redirect_uri: String,
    pub(super) secret: Option<String>,
}

/// A code that was given out.
#[derive(Debug, Clone)]
pub(super) struct Code {
    pub(super) client: String,
    pub(super) redirect_uri: String,
    pub(super) challenge: String,
    pub(super) resource: String,
    pub(super) scope: String,
}

/// A token of either kind.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) client: String,
    pub(super) audience: String,
    pub(super) scope: String,
    /// What goes when a refresh token comes twice.
    pub(super) family: usize,
    pub(super) ends: Instant,
    pub(super) used: bool,
}

/// What an authority knows.
#[derive(Debug)]
pub struct Ledger {
    /// How often it was asked for what.
    pub counts: Counts,
    /// How long access tokens live.
    pub lifetime: Duration,
    /// What tokens say of their lifetime, if not the truth.
    pub claimed_lifetime: Option<u64>,
    /// What is wrong with it.
    pub faults: Vec<Fault>,
    /// Every `Authorization` that the protected endpoint saw; empty where there was none.
    pub seen: Vec<String>,
    /// Why requests were refused.
    pub refusals: Vec<String>,
    /// The scope that the protected endpoint wants.
    pub wanted_scope: Option<String>,
    /// The path of the protected resource, which may be above the endpoint's.
    pub resource_path: &'static str,
    /// What signs tokens for a resource that is elsewhere.
    pub signer: Option<Signer>,
    pub(super) base: String,
    pub(super) clients: BTreeMap<String, Client>,
    pub(super) codes: BTreeMap<String, Code>,
    pub(super) access: BTreeMap<String, Token>,
    pub(super) refresh: BTreeMap<String, Token>,
    serial: usize,
}

impl Ledger {
    pub(super) fn new(faults: &[Fault]) -> Self {
        Self {
            counts: Counts::default(),
            lifetime: Duration::from_hours(1),
            claimed_lifetime: None,
            faults: faults.to_vec(),
            seen: Vec::new(),
            refusals: Vec::new(),
            wanted_scope: None,
            resource_path: "/mcp",
            signer: None,
            base: String::new(),
            clients: BTreeMap::new(),
            codes: BTreeMap::new(),
            access: BTreeMap::new(),
            refresh: BTreeMap::new(),
            serial: 0,
        }
    }

    /// Ends all access tokens, as an administrator would.
    pub fn revoke_access(&mut self) {
        self.access.clear();
    }

    /// Ends all logins.
    pub fn revoke_all(&mut self) {
        self.access.clear();
        self.refresh.clear();
    }

    /// Every secret that was given out so far, for looking whether one is shown.
    pub fn secrets(&self) -> Vec<String> {
        let secrets = self.clients.values().filter_map(|client| client.secret.clone());
        self.access.keys().chain(self.refresh.keys()).cloned().chain(secrets).collect()
    }

    pub(super) fn fault<T>(&self, find: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        self.faults.iter().find_map(find)
    }

    pub(super) fn has(&self, fault: &Fault) -> bool {
        self.faults.contains(fault)
    }

    pub(super) fn redirect_metadata_to(&self) -> Option<String> {
        self.fault(|fault| match fault {
            Fault::RedirectMetadata(place) => Some(place.clone()),
            _ => None,
        })
    }

    pub(super) fn resource(&self) -> String {
        if let Some(signer) = &self.signer {
            return signer.resource.clone();
        }
        format!("{}{}", self.base, self.resource_path)
    }

    /// The next name of its kind. Not guessable is what a real one has to be; here it has to be
    /// found again in outputs.
    pub(super) fn next(&mut self, kind: &str) -> String {
        self.serial += 1;
        format!("{kind}-{:04}-s3cr3t", self.serial)
    }

    pub(super) fn next_family(&mut self) -> usize {
        self.serial += 1;
        self.serial
    }
}
