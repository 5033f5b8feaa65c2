//! HMAC signatures for state that a client holds: cursors, tasks and sessions.
//!
//! A server that keeps nothing between requests gives its state to the client. The seal says that
//! it is ours: whoever shares the store shares the key, so any process may break it.

use std::sync::{Arc, OnceLock};

use atlatl_memory::{MemoryStore, StoreError};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Of the signature; as many as nobody guesses.
const SIGNATURE_BYTES: usize = 16;

/// Signs with the store's secret.
#[derive(Clone)]
pub(crate) struct Signer([u8; 32]);

/// The seal of a store that may not be there yet.
pub(crate) struct StoreSigner {
    store: Arc<dyn MemoryStore>,
    seal: OnceLock<Signer>,
}

impl StoreSigner {
    pub(crate) fn new(store: Arc<dyn MemoryStore>) -> Self {
        Self { store, seal: OnceLock::new() }
    }

    /// The seal, whose key is fetched once.
    pub(crate) fn get(&self) -> Result<&Signer, StoreError> {
        if let Some(seal) = self.seal.get() {
            return Ok(seal);
        }
        let seal = Signer::new(self.store.secret()?);
        Ok(self.seal.get_or_init(|| seal))
    }
}

impl Signer {
    /// Of a signature as text.
    pub(crate) const SIGNATURE_CHARS: usize = 22;

    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// `text` under a seal that is good for `purpose` alone; safe in a URL.
    pub(crate) fn seal(&self, purpose: &str, text: &str) -> String {
        let mut bytes = self.mac(purpose, text.as_bytes()).finalize().into_bytes().to_vec();
        bytes.truncate(SIGNATURE_BYTES);
        bytes.extend_from_slice(text.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// What was sealed for `purpose`.
    pub(crate) fn open(&self, purpose: &str, sealed: &str) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (signature, text) = bytes.split_at_checked(SIGNATURE_BYTES)?;
        // Compares in constant time.
        self.mac(purpose, text).verify_truncated_left(signature).ok()?;
        String::from_utf8(text.to_vec()).ok()
    }

    /// A signature of `text` for `purpose` alone, where the text travels apart; safe in a URL.
    pub(crate) fn sign(&self, purpose: &str, text: &str) -> String {
        let signature = self.mac(purpose, text.as_bytes()).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode(&signature[..SIGNATURE_BYTES])
    }

    /// Whether it is one.
    pub(crate) fn signed(&self, purpose: &str, text: &str, signature: &str) -> bool {
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
        signature.len() == SIGNATURE_BYTES
            && self.mac(purpose, text.as_bytes()).verify_truncated_left(&signature).is_ok()
    }

    /// A short text that differs where `text` does.
    pub(crate) fn digest(&self, text: &str) -> String {
        self.sign("digest", text)
    }

    fn mac(&self, purpose: &str, text: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length will do");
        mac.update(purpose.as_bytes());
        mac.update(&[0]);
        mac.update(text);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sealed_for_the_purpose_opens() {
        let seal = Signer::new([7; 32]);
        let sealed = seal.seal("cursor", "where I was ✓");
        assert_eq!(seal.open("cursor", &sealed).as_deref(), Some("where I was ✓"));
        assert!(sealed.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)));
        assert_eq!(seal.open("task", &sealed), None);
        assert_eq!(Signer::new([8; 32]).open("cursor", &sealed), None);
        for at in 0..sealed.len() {
            let mut other = sealed.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).expect("ASCII");
            assert_eq!(seal.open("cursor", &other), None, "{at}");
        }
        for odd in ["", "AA", "=", "\u{e9}", &sealed[..10], &format!("{sealed}A")] {
            assert_eq!(seal.open("cursor", odd), None, "{odd}");
        }
    }
}
