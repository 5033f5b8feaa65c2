//! A JSON Web Key Set (RFC 7517, 5).

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::auth::public_key::PublicKey;

const MAX_DOCUMENT_LEN: usize = 64 * 1024;
const MAX_KEYS: usize = 64;

/// The keys of an authorization server that signatures can be checked with here.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    keys: Vec<PublicKey>,
}

/// Why a document is no key set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeySetError {
    /// It is too long to be read.
    #[error("a key set has at most {MAX_DOCUMENT_LEN} bytes")]
    TooLong,
    /// It names too many keys.
    #[error("a key set has at most {MAX_KEYS} keys")]
    TooMany,
    /// It is another document.
    #[error("this is no key set: an object with a list of keys is wanted")]
    Malformed,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

impl KeySet {
    /// Reads a document. Keys for something else, of a kind that is not known here, too weak, or
    /// broken are left out, so that a new kind of key at the authority does not lock anybody out.
    /// Of keys with the same name none is taken: which one was meant is not ours to guess.
    pub fn read(json: &str) -> Result<Self, KeySetError> {
        if json.len() > MAX_DOCUMENT_LEN {
            return Err(KeySetError::TooLong);
        }
        // An array would be read as the members in their order.
        if !json.trim_start().starts_with('{') {
            return Err(KeySetError::Malformed);
        }
        let document: Document<'_> =
            serde_json::from_str(json).map_err(|_| KeySetError::Malformed)?;
        if document.keys.len() > MAX_KEYS {
            return Err(KeySetError::TooMany);
        }
        let read = document.keys.iter().filter_map(|key| PublicKey::read(key.get()));
        let read: Vec<PublicKey> = read.collect();
        let is_named_once = |key: &&PublicKey| {
            key.kid.is_none() || read.iter().filter(|other| other.kid == key.kid).count() == 1
        };
        Ok(Self { keys: read.iter().filter(is_named_once).cloned().collect() })
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none, and so no token good.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key of that name. Without a name it is the only one there is.
    pub(crate) fn find(&self, kid: Option<&str>) -> Option<&PublicKey> {
        match (kid, self.keys.as_slice()) {
            (Some(_), keys) => keys.iter().find(|key| key.kid.as_deref() == kid),
            (None, [key]) => Some(key),
            (None, _) => None,
        }
    }
}
