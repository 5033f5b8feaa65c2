//! Short-lived signed URLs of stored results.
//!
//! It opens one object of one tenant, to be read, until a time; a change of any of them breaks it. Any
//! process on the same store can tell. Behind a link nobody is asked for a token: so it is short-lived,
//! and never written to a log.

use std::sync::Arc;

use crate::auth::is_tenant;
use atlatl_memory::{MemoryStore, StoreError};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use lro::Links;
use lro_core::ResultId;

use crate::signing::{Signer, StoreSigner};

const PURPOSE: &str = "link";
/// How long a link is good.
const GOOD_FOR: TimeDelta = TimeDelta::minutes(5);

/// Makes links, and tells whether one is ours.
pub struct SignedLinks {
    tenant: String,
    /// Where the server is reached, without a path.
    base: String,
    seal: StoreSigner,
}

/// What became of a link that somebody brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedUrl {
    /// It opens the result.
    Good,
    /// It did once.
    Over,
    /// It is none, or another result's.
    None,
}

impl SignedLinks {
    /// Links to results of `tenant` on the server that clients reach at `base`.
    pub fn new(store: Arc<dyn MemoryStore>, tenant: &str, base: &str) -> Self {
        let base = base.trim_end_matches('/').to_owned();
        Self { tenant: tenant.to_owned(), base, seal: StoreSigner::new(store) }
    }

    /// Whose result a link says that it opens, by its last part.
    pub fn tenant_of(part: &str) -> Option<String> {
        let mut parts = part.split('.');
        let (encoded, until) = (parts.next()?, parts.next()?);
        let signature = parts.next().filter(|_| parts.next().is_none())?;
        // What cannot be one of ours is not worth looking for whose it would be.
        until.parse::<i64>().ok().filter(|_| signature.len() == Signer::SIGNATURE_CHARS)?;
        let name = String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()?;
        Some(name).filter(|name| is_tenant(name))
    }

    /// Whether the last part of a link opens the result `id` now.
    pub fn brought(
        &self,
        id: ResultId,
        part: &str,
        now: DateTime<Utc>,
    ) -> Result<SignedUrl, StoreError> {
        let mut parts = part.split('.');
        let (Some(tenant), Some(until), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Ok(SignedUrl::None);
        };
        let ours = tenant == self.encoded();
        let Some(end) = until.parse::<i64>().ok().filter(|_| ours) else {
            return Ok(SignedUrl::None);
        };
        // As it is spelled: a time with a plus or a zero before it was never signed.
        if !self.seal.get()?.signed(PURPOSE, &self.said(id, until), signature) {
            return Ok(SignedUrl::None);
        }
        Ok(if now.timestamp() < end { SignedUrl::Good } else { SignedUrl::Over })
    }

    /// What a signature is for.
    fn said(&self, id: ResultId, until: &str) -> String {
        format!("GET\n{}\n{id}\n{until}", self.tenant)
    }

    fn encoded(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.tenant)
    }
}

impl Links for SignedLinks {
    fn link(&self, id: ResultId, now: DateTime<Utc>) -> Option<String> {
        let until = (now + GOOD_FOR).timestamp().to_string();
        let signature = self.seal.get().ok()?.sign(PURPOSE, &self.said(id, &until));
        let (base, tenant) = (&self.base, self.encoded());
        Some(format!("{base}/v1/offloads/{id}/{tenant}.{until}.{signature}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atlatl_memory::SqliteStore;

    fn links(tenant: &str, home: &std::path::Path) -> SignedLinks {
        let store = SqliteStore::open(&home.join("memory.db")).expect("a store");
        SignedLinks::new(Arc::new(store), tenant, "https://memory.example/")
    }

    #[test]
    fn a_link_opens_one_result_of_one_tenant_for_a_while_on_any_process() {
        let home = tempfile::tempdir().expect("a directory");
        let ours = links("ann", home.path());
        let now = DateTime::from_timestamp(1_800_000_000, 0).expect("within range");
        let id = ResultId::new(1_800_000_000_000, 42);
        let link = ours.link(id, now).expect("a link");
        let rest = link.strip_prefix("https://memory.example/v1/offloads/").expect("its base");
        let (named, part) = rest.split_once('/').expect("two parts");
        assert_eq!(named, id.to_string());
        let brought = |links: &SignedLinks, id, part: &str, after| {
            links.brought(id, part, now + TimeDelta::seconds(after)).expect("a store")
        };
        // Another process has the same store.
        let other = links("ann", home.path());
        for links in [&ours, &other] {
            assert_eq!(brought(links, id, part, 0), SignedUrl::Good);
            assert_eq!(brought(links, id, part, 299), SignedUrl::Good);
            assert_eq!(brought(links, id, part, 300), SignedUrl::Over);
        }
        assert_eq!(brought(&links("bea", home.path()), id, part, 0), SignedUrl::None);
        assert_eq!(brought(&ours, ResultId::new(1_800_000_000_000, 43), part, 0), SignedUrl::None);
        // A change of any sign breaks it.
        for at in 0..part.len() {
            let mut changed = part.to_owned().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert_eq!(brought(&ours, id, &changed, 0), SignedUrl::None, "{changed}");
        }
        let later = part.replacen(".1800000300.", ".1800009300.", 1);
        assert_ne!(later, part);
        // Found by the fuzz target `link`: the same time in another spelling.
        let [plus, zero] = [".+", ".0"].map(|sign| part.replacen('.', sign, 1));
        for odd in ["", ".", "..", "a.b.c", &part[1..], &format!("{part}."), &later, &plus, &zero] {
            assert_eq!(brought(&ours, id, odd, 0), SignedUrl::None, "{odd}");
        }
    }
}
