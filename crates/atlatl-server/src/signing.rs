//! HMAC signatures for client-held state (cursors, tasks and sessions), and signed URLs of stored
//! results.
//!
//! A stateless server sends its state to the client. The signature proves that the server wrote it.
//! All processes that share the store share the key, so any of them can verify it.
//!
//! A signed URL gives read access to one object of one tenant until a time; changing any of them
//! invalidates it. No other authentication is required, so the URL is short-lived and never logged.

use std::sync::{Arc, OnceLock};

use atlatl_memory::{MemoryStore, StoreError};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use hmac::{Hmac, KeyInit, Mac};
use lro::LinkProvider;
use lro_core::ResultId;
use sha2::Sha256;

use super::auth::is_tenant;

/// The length of a truncated signature.
const SIGNATURE_BYTES: usize = 16;
const LINK_PURPOSE: &str = "link";
/// How long a signed URL is valid.
const LINK_TTL: TimeDelta = TimeDelta::minutes(5);

/// Signs with the store's secret.
#[derive(Clone)]
pub(crate) struct Signer([u8; 32]);

/// The signer of a store that may not be reachable yet.
pub(crate) struct StoreSigner {
    store: Arc<dyn MemoryStore>,
    signer: OnceLock<Signer>,
}

impl StoreSigner {
    pub(crate) fn new(store: Arc<dyn MemoryStore>) -> Self {
        Self { store, signer: OnceLock::new() }
    }

    /// Returns the signer. The key is read from the store once.
    pub(crate) async fn get(&self) -> Result<&Signer, StoreError> {
        if let Some(signer) = self.signer.get() {
            return Ok(signer);
        }
        let signer = Signer::new(self.store.secret().await?);
        Ok(self.signer.get_or_init(|| signer))
    }

    /// Returns the signer, if its key was read.
    fn loaded(&self) -> Option<&Signer> {
        self.signer.get()
    }
}

impl Signer {
    /// The length of a signature as text.
    pub(crate) const SIGNATURE_CHARS: usize = 22;

    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// Signs `text` for one `purpose`, and returns both in one URL-safe token.
    pub(crate) fn sign_token(&self, purpose: &str, text: &str) -> String {
        let mut bytes = self.mac(purpose, text.as_bytes()).finalize().into_bytes().to_vec();
        bytes.truncate(SIGNATURE_BYTES);
        bytes.extend_from_slice(text.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Verifies a token for `purpose`, and returns its text.
    pub(crate) fn verify_token(&self, purpose: &str, sealed: &str) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (signature, text) = bytes.split_at_checked(SIGNATURE_BYTES)?;
        // Compares in constant time.
        self.mac(purpose, text).verify_truncated_left(signature).ok()?;
        String::from_utf8(text.to_vec()).ok()
    }

    /// Returns a detached, URL-safe signature of `text` for one `purpose`.
    pub(crate) fn signature(&self, purpose: &str, text: &str) -> String {
        let signature = self.mac(purpose, text.as_bytes()).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode(&signature[..SIGNATURE_BYTES])
    }

    /// Verifies a detached signature.
    pub(crate) fn is_valid_signature(&self, purpose: &str, text: &str, signature: &str) -> bool {
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
        signature.len() == SIGNATURE_BYTES
            && self.mac(purpose, text.as_bytes()).verify_truncated_left(&signature).is_ok()
    }

    /// Returns a short digest of `text`.
    pub(crate) fn digest(&self, text: &str) -> String {
        self.signature("digest", text)
    }

    fn mac(&self, purpose: &str, text: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length will do");
        mac.update(purpose.as_bytes());
        mac.update(&[0]);
        mac.update(text);
        mac
    }
}

/// Creates and verifies signed URLs.
pub struct SignedLinks {
    tenant: String,
    /// The base URL of the server, without a path.
    base: String,
    signer: StoreSigner,
}

/// The result of verifying a signed URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedUrl {
    /// It gives access to the result.
    Valid,
    /// It has expired.
    Expired,
    /// It is not valid, or belongs to another result.
    Invalid,
}

impl SignedLinks {
    /// Creates signed URLs for results of `tenant` on the server at `base`.
    pub fn new(store: Arc<dyn MemoryStore>, tenant: &str, base: &str) -> Self {
        let base = base.trim_end_matches('/').to_owned();
        Self { tenant: tenant.to_owned(), base, signer: StoreSigner::new(store) }
    }

    /// Reads the key from the store, unless it was read before. Links can be created from then on.
    pub async fn load_key(&self) -> Result<(), StoreError> {
        self.signer.get().await.map(drop)
    }

    /// Returns the tenant that the last path segment claims.
    pub fn claimed_tenant(part: &str) -> Option<String> {
        let mut parts = part.split('.');
        let (encoded, until) = (parts.next()?, parts.next()?);
        let signature = parts.next().filter(|_| parts.next().is_none())?;
        // A malformed link is rejected before the tenant is looked up.
        until.parse::<i64>().ok().filter(|_| signature.len() == Signer::SIGNATURE_CHARS)?;
        let name = String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()?;
        Some(name).filter(|name| is_tenant(name))
    }

    /// Verifies the last path segment of a link to the result `id`.
    pub async fn verify(
        &self,
        id: ResultId,
        part: &str,
        now: DateTime<Utc>,
    ) -> Result<SignedUrl, StoreError> {
        let mut parts = part.split('.');
        let (Some(tenant), Some(until), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Ok(SignedUrl::Invalid);
        };
        let ours = tenant == self.encoded();
        let Some(end) = until.parse::<i64>().ok().filter(|_| ours) else {
            return Ok(SignedUrl::Invalid);
        };
        // The text is verified as written: a time with a plus or a leading zero was never signed.
        if !self.signer.get().await?.is_valid_signature(
            LINK_PURPOSE,
            &self.signed_text(id, until),
            signature,
        ) {
            return Ok(SignedUrl::Invalid);
        }
        Ok(if now.timestamp() < end { SignedUrl::Valid } else { SignedUrl::Expired })
    }

    /// Returns the text that is signed.
    fn signed_text(&self, id: ResultId, until: &str) -> String {
        format!("GET\n{}\n{id}\n{until}", self.tenant)
    }

    fn encoded(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.tenant)
    }
}

impl LinkProvider for SignedLinks {
    fn link(&self, id: ResultId, now: DateTime<Utc>) -> Option<String> {
        let until = (now + LINK_TTL).timestamp().to_string();
        let signature =
            self.signer.loaded()?.signature(LINK_PURPOSE, &self.signed_text(id, &until));
        let (base, tenant) = (&self.base, self.encoded());
        Some(format!("{base}/v1/offloads/{id}/{tenant}.{until}.{signature}"))
    }
}

#[cfg(test)]
mod tests {
    use atlatl_memory::SqliteStore;
    use atlatl_memory::contract::BlockOn;

    use super::*;

    #[test]
    fn only_what_was_sealed_for_the_purpose_opens() {
        let signer = Signer::new([7; 32]);
        let sealed = signer.sign_token("cursor", "where I was ✓");
        assert_eq!(signer.verify_token("cursor", &sealed).as_deref(), Some("where I was ✓"));
        assert!(sealed.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)));
        assert_eq!(signer.verify_token("task", &sealed), None);
        assert_eq!(Signer::new([8; 32]).verify_token("cursor", &sealed), None);
        for at in 0..sealed.len() {
            let mut other = sealed.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).expect("ASCII");
            assert_eq!(signer.verify_token("cursor", &other), None, "{at}");
        }
        for odd in ["", "AA", "=", "\u{e9}", &sealed[..10], &format!("{sealed}A")] {
            assert_eq!(signer.verify_token("cursor", odd), None, "{odd}");
        }
    }

    fn links(tenant: &str, home: &std::path::Path) -> SignedLinks {
        let store = SqliteStore::open(&home.join("memory.db")).expect("a store");
        let links = SignedLinks::new(Arc::new(store), tenant, "https://memory.example/");
        links.load_key().wait().expect("a store");
        links
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
        let verify = |links: &SignedLinks, id, part: &str, after| {
            links.verify(id, part, now + TimeDelta::seconds(after)).wait().expect("a store")
        };
        // Another process has the same store.
        let other = links("ann", home.path());
        for links in [&ours, &other] {
            assert_eq!(verify(links, id, part, 0), SignedUrl::Valid);
            assert_eq!(verify(links, id, part, 299), SignedUrl::Valid);
            assert_eq!(verify(links, id, part, 300), SignedUrl::Expired);
        }
        assert_eq!(verify(&links("bea", home.path()), id, part, 0), SignedUrl::Invalid);
        assert_eq!(
            verify(&ours, ResultId::new(1_800_000_000_000, 43), part, 0),
            SignedUrl::Invalid
        );
        // Changing any character invalidates it.
        for at in 0..part.len() {
            let mut changed = part.to_owned().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert_eq!(verify(&ours, id, &changed, 0), SignedUrl::Invalid, "{changed}");
        }
        let later = part.replacen(".1800000300.", ".1800009300.", 1);
        assert_ne!(later, part);
        // Found by the fuzz target `link`: the same time in another spelling.
        let [plus, zero] = [".+", ".0"].map(|sign| part.replacen('.', sign, 1));
        for odd in ["", ".", "..", "a.b.c", &part[1..], &format!("{part}."), &later, &plus, &zero] {
            assert_eq!(verify(&ours, id, odd, 0), SignedUrl::Invalid, "{odd}");
        }
    }
}
