//! The index entry that publishes a result, and the one that deletes it.
//!
//! Both are JSON with its own digest on a second line: half of one, or one that was changed, is
//! known as such.

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::block_digests::{fit, sha256};
use super::key::Nonce;
use crate::error::{Damage, SpoolError};
use crate::name::FileName;
use crate::sidecar::Sidecar;
use crate::spool::Listed;

/// More than this is not read as an entry.
pub(super) const ENTRY_CAP: u64 = 64 << 20;
/// The form this version writes.
const VERSION: u32 = 1;

/// What stands at the one key by which a result is visible.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// A result.
    Stored(Box<Stored>),
    /// Nothing, and nobody shall commit a result here: a sweep found the bytes of one that was
    /// never committed, or a commit was given up.
    Void(Nonce),
}

/// A result that is whole.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    version: u32,
    name: String,
    pub(super) nonce: Nonce,
    pub(super) sidecar: Sidecar,
    /// The digests of the blocks of the data, then of each part.
    pub(super) digests: Vec<String>,
}

/// Says that a result is gone, and for whom it is to tell of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Claim {
    version: u32,
    name: String,
    sidecar: Sidecar,
    pub(super) why: Why,
    by: Nonce,
}

/// Why a result is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Why {
    Expired,
    Removed,
}

impl Stored {
    pub(super) fn new(listed: &Listed, nonce: Nonce, digests: Vec<String>) -> Self {
        let (name, sidecar) = (listed.name.to_string(), listed.sidecar.clone());
        Self { version: VERSION, name, nonce, sidecar, digests }
    }

    pub(super) fn listed(&self) -> Result<Listed, SpoolError> {
        listed(&self.name, &self.sidecar)
    }

    /// The sizes of the data and of each part.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        [self.sidecar.bytes].into_iter().chain(self.sidecar.parts.iter().map(|part| part.bytes))
    }

    fn is_sound(&self) -> bool {
        let fits =
            self.digests.iter().zip(self.sizes()).all(|(digests, bytes)| fit(digests, bytes));
        self.version == VERSION
            && self.nonce.is_ours()
            && self.sidecar.header.is_ours()
            && self.digests.len() == self.sidecar.parts.len() + 1
            && fits
    }
}

impl Entry {
    pub(super) fn seal(&self) -> Bytes {
        seal(self)
    }

    pub(super) fn read(name: &str, bytes: &[u8]) -> Result<Self, SpoolError> {
        let entry: Self = read(name, bytes)?;
        match &entry {
            Self::Stored(stored) if !stored.is_sound() => Err(changed(name)),
            _ => Ok(entry),
        }
    }
}

impl Claim {
    pub(super) fn new(listed: &Listed, why: Why) -> Self {
        let mut sidecar = listed.sidecar.clone();
        sidecar.envelope = None;
        Self { version: VERSION, name: listed.name.to_string(), sidecar, why, by: Nonce::new() }
    }

    pub(super) fn seal(&self) -> Bytes {
        seal(self)
    }

    pub(super) fn read(name: &str, bytes: &[u8]) -> Result<Self, SpoolError> {
        read(name, bytes)
    }

    pub(super) fn listed(&self) -> Result<Listed, SpoolError> {
        listed(&self.name, &self.sidecar)
    }
}

fn listed(name: &str, sidecar: &Sidecar) -> Result<Listed, SpoolError> {
    let name: FileName = name.parse().map_err(|_| changed(name))?;
    Ok(Listed::new(name, None, sidecar.clone()))
}

fn seal(value: &impl Serialize) -> Bytes {
    let mut bytes = serde_json::to_vec(value).expect("text, numbers and times have a JSON form");
    let digest = sha256(&bytes);
    bytes.push(b'\n');
    bytes.extend_from_slice(digest.as_bytes());
    bytes.into()
}

fn read<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, SpoolError> {
    let cut = bytes.iter().rposition(|b| *b == b'\n').ok_or_else(|| changed(name))?;
    let (json, digest) = (&bytes[..cut], &bytes[cut + 1..]);
    if sha256(json).as_bytes() != digest {
        return Err(changed(name));
    }
    serde_json::from_slice(json).map_err(|_| changed(name))
}

fn changed(name: &str) -> SpoolError {
    SpoolError::Damaged { name: name.to_owned(), why: Damage::Changed }
}
