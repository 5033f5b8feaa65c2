//! The stored record of an API key.

use std::fmt;

use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::auth::api_key::ApiKey;
use crate::auth::principal::Principal;
use crate::auth::scope::Scopes;

/// What the subjects of keys begin with, and those of tokens may not.
pub(crate) const SUBJECT_PREFIX: &str = "key:";

/// A key without its secret.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyRecord {
    /// Of the key.
    pub id: String,
    /// Whose memories it opens.
    pub tenant: String,
    /// Of the key: [`ApiKey::digest`].
    pub digest: [u8; 32],
    /// What may be done with it.
    pub scopes: Scopes,
    /// From when on it is good no more, if ever.
    pub expires: Option<DateTime<Utc>>,
    /// Whether it was taken back.
    pub revoked: bool,
}

impl KeyRecord {
    /// The record of a key that does not expire and was not revoked.
    pub fn new(id: &str, tenant: &str, digest: [u8; 32], scopes: Scopes) -> Self {
        let (id, tenant) = (id.to_owned(), tenant.to_owned());
        Self { id, tenant, digest, scopes, expires: None, revoked: false }
    }

    /// A record that lets nobody in, since no key has its id. Whoever finds no record asks this one, so
    /// that the time does not tell an unknown key from a wrong one.
    pub fn none() -> Self {
        Self::new("", "", [0; 32], Scopes::default())
    }

    /// Whom `key` lets in now.
    pub fn admits(&self, key: &ApiKey, now: DateTime<Utc>) -> Option<Principal> {
        // All is looked at before anything is said.
        let proved = are_same(&self.digest, &key.digest());
        let named = self.id == key.id();
        let good = !self.revoked && self.expires.is_none_or(|expires| now < expires);
        if !(proved & named & good) {
            return None;
        }
        let subject = format!("{SUBJECT_PREFIX}{}", self.id);
        Principal::new(&self.tenant, &subject, self.scopes).ok()
    }
}

impl fmt::Debug for KeyRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRecord")
            .field("id", &self.id)
            .field("tenant", &self.tenant)
            .field("scopes", &self.scopes)
            .field("expires", &self.expires)
            .field("revoked", &self.revoked)
            .finish_non_exhaustive()
    }
}

/// Compares in constant time, as a signature is.
fn are_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let signature = mac(one).finalize().into_bytes();
    mac(other).verify_slice(&signature).is_ok()
}

fn mac(digest: &[u8; 32]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(b"compare").expect("a key of any length will do");
    mac.update(digest);
    mac
}
