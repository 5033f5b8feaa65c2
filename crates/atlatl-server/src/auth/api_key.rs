//! API keys: a text that names itself and proves itself, `atl_<id>_<secret>`.
//!
//! The id finds the record of a key, the secret is compared with it. Both are digits and letters
//! only, so that the text splits in one way, and a double click takes all of it. The secret has all
//! 256 bits it was made from: a digest of it needs no salt, and no slow function.

use std::fmt;

use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::principal::{Principal, Scopes};

const PREFIX: &str = "atl_";
const ID_CHARACTERS: usize = 16;
/// The fewest that 256 bits fit into.
const SECRET_CHARACTERS: usize = 43;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What a digest is for, so that it is good for nothing else.
const PURPOSE: &str = "atlatl api key 1";

/// A key as its holder has it. It is never printed but by [`ApiKey::shown`].
#[derive(Clone)]
pub struct ApiKey {
    id: String,
    /// `atl_<id>_<secret>`.
    text: String,
}

impl ApiKey {
    /// A key from random bytes: 16 for the id, 32 for the secret.
    pub fn new(random: [u8; 48]) -> Self {
        let (id, secret) = random.split_at(16);
        let id = base62(id, ID_CHARACTERS);
        let text = format!("{PREFIX}{id}_{}", base62(secret, SECRET_CHARACTERS));
        Self { id, text }
    }

    /// The key that `text` is, if it is one to the letter.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let are_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_key = id.len() == ID_CHARACTERS
            && secret.len() == SECRET_CHARACTERS
            && are_digits(id)
            && are_digits(secret);
        is_key.then(|| Self { id: id.to_owned(), text: text.to_owned() })
    }

    /// What its record is found by. No secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The whole key: to be shown once, to whoever asked for it, and kept nowhere.
    pub fn shown(&self) -> &str {
        &self.text
    }

    /// What is kept of it. It tells nothing about the secret.
    pub fn digest(&self) -> [u8; 32] {
        // Purpose and id are of a fixed length each, so no two keys hash the same bytes.
        let digest = Sha256::new().chain_update(PURPOSE).chain_update(self.text.as_bytes());
        digest.finalize().into()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({})", self.id)
    }
}

/// The last `count` digits, least significant first, of the number that `bytes` are.
fn base62(bytes: &[u8], count: usize) -> String {
    let mut number: Vec<u16> = bytes.iter().copied().map(u16::from).collect();
    let mut digits = String::with_capacity(count);
    for _ in 0..count {
        let mut rest = 0;
        for place in &mut number {
            let value = rest * 256 + *place;
            *place = value / 62;
            rest = value % 62;
        }
        digits.push(char::from(DIGITS[usize::from(rest)]));
    }
    digits
}

// --- The stored record of an API key.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_number() {
        assert_eq!(base62(&[61], 2), "z0");
        assert_eq!(base62(&[62], 3), "010");
        // 258 = 4 * 62 + 10
        assert_eq!(base62(&[1, 2], 3), "A40");
        // No bit of the secret is lost: the largest number just fits.
        assert!(!base62(&[255; 32], SECRET_CHARACTERS).ends_with('0'));
        assert!(base62(&[255; 32], SECRET_CHARACTERS + 1).ends_with('0'));
    }
}
