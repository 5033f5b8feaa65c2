//! API keys of the form `atl_<id>_<secret>`, and their stored records.
//!
//! The id finds the record of a key, and the secret is compared with it. Both consist of digits and
//! letters only, so that the text splits in one way and a double click selects all of it. The
//! secret has 256 bits of entropy: its digest needs neither a salt nor a slow hash function.

use std::fmt;

use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::principal::{Principal, Scopes};

const PREFIX: &str = "atl_";
const ID_CHARACTERS: usize = 16;
/// The minimum number of characters for 256 bits.
const SECRET_CHARACTERS: usize = 43;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Domain separation of the digest.
const PURPOSE: &str = "atlatl api key 1";
/// The prefix of the subjects of keys, which subjects of tokens must not have.
pub(crate) const SUBJECT_PREFIX: &str = "key:";

/// An API key with its secret. Only [`ApiKey::expose`] prints it.
#[derive(Clone)]
pub struct ApiKey {
    id: String,
    /// `atl_<id>_<secret>`.
    text: String,
}

impl ApiKey {
    /// Creates a key from random bytes: 16 for the id, 32 for the secret.
    pub fn new(random: [u8; 48]) -> Self {
        let (id, secret) = random.split_at(16);
        let id = base62(id, ID_CHARACTERS);
        let text = format!("{PREFIX}{id}_{}", base62(secret, SECRET_CHARACTERS));
        Self { id, text }
    }

    /// Parses a key. Only the exact form is accepted.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let are_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_key = id.len() == ID_CHARACTERS
            && secret.len() == SECRET_CHARACTERS
            && are_digits(id)
            && are_digits(secret);
        is_key.then(|| Self { id: id.to_owned(), text: text.to_owned() })
    }

    /// Returns the id, which is not secret and finds the record.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the whole key. Show it once to its owner, and store it nowhere.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Returns the digest that is stored. It reveals nothing about the secret.
    pub fn digest(&self) -> [u8; 32] {
        // Purpose and id have a fixed length each, so no two keys hash the same bytes.
        let digest = Sha256::new().chain_update(PURPOSE).chain_update(self.text.as_bytes());
        digest.finalize().into()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({})", self.id)
    }
}

/// Returns the last `count` base-62 digits, least significant first, of the number in `bytes`.
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

/// A stored key, without its secret.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyRecord {
    /// The id of the key.
    pub id: String,
    /// The tenant whose memories it gives access to.
    pub tenant: String,
    /// The digest of the key: [`ApiKey::digest`].
    pub digest: [u8; 32],
    /// The scopes it grants.
    pub scopes: Scopes,
    /// The expiry time, if it has one.
    pub expires: Option<DateTime<Utc>>,
    /// Whether it was revoked.
    pub revoked: bool,
}

impl KeyRecord {
    /// Creates the record of a key that does not expire and is not revoked.
    pub fn new(id: &str, tenant: &str, digest: [u8; 32], scopes: Scopes) -> Self {
        let (id, tenant) = (id.to_owned(), tenant.to_owned());
        Self { id, tenant, digest, scopes, expires: None, revoked: false }
    }

    /// Returns a record that rejects every key, since no key has its id. It is checked when there
    /// is no record, so that the response time does not distinguish an unknown key from a wrong
    /// one.
    pub fn none() -> Self {
        Self::new("", "", [0; 32], Scopes::default())
    }

    /// Returns the principal that `key` authenticates now.
    pub fn admits(&self, key: &ApiKey, now: DateTime<Utc>) -> Option<Principal> {
        // Every check runs before the result is returned.
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

/// Compares in constant time, like a signature.
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
