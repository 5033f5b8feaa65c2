//! JSON Web Key Sets and their public keys (RFC 7517).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::crypto::JwtVerifier;
use jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

const MAX_DOCUMENT_LEN: usize = 64 * 1024;
const MAX_KEYS: usize = 64;
/// The minimum size of an RSA modulus. Smaller ones can be factored.
const MIN_RSA_BITS: usize = 2048;
/// The maximum size of an RSA modulus. Larger ones cost more than they gain, and the library
/// rejects them.
const MAX_RSA_BITS: usize = 4096;

/// The supported verification keys of an authorization server.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    keys: Vec<PublicKey>,
}

/// Why a document is not a key set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeySetError {
    /// It is too long.
    #[error("the JWK set is larger than {MAX_DOCUMENT_LEN} bytes")]
    TooLong,
    /// It has too many keys.
    #[error("the JWK set has more than {MAX_KEYS} keys")]
    TooMany,
    /// It is another kind of document.
    #[error("not a JWK set: expected an object with an array of keys")]
    Malformed,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

impl KeySet {
    /// Parses a document. Keys for other uses, unsupported, weak and malformed keys are skipped, so
    /// that a new kind of key at the authorization server breaks nothing. Of several keys with the
    /// same id none is used, since the intended one is unknown.
    pub fn read(json: &str) -> Result<Self, KeySetError> {
        if json.len() > MAX_DOCUMENT_LEN {
            return Err(KeySetError::TooLong);
        }
        // An array would be parsed as the members in their order.
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

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there are no keys, so that no token is valid.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the key with this id. Without an id, returns the only key there is.
    pub(crate) fn find(&self, kid: Option<&str>) -> Option<&PublicKey> {
        match (kid, self.keys.as_slice()) {
            (Some(_), keys) => keys.iter().find(|key| key.kid.as_deref() == kid),
            (None, [key]) => Some(key),
            (None, _) => None,
        }
    }
}

/// The type of a key, which determines its algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyType {
    Rsa,
    P256,
    P384,
    Ed25519,
}

/// A verification key.
#[derive(Debug, Clone)]
pub(crate) struct PublicKey {
    pub(crate) kid: Option<String>,
    kind: KeyType,
    /// The only algorithm that the key allows, if it names one.
    only: Option<Algorithm>,
    key: DecodingKey,
}

/// A published key. Other members are ignored.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    d: Option<IgnoredAny>,
}

impl PublicKey {
    /// Parses a key. Returns `None` if it cannot verify signatures.
    pub(crate) fn read(json: &str) -> Option<Self> {
        // An array would be parsed as the members in their order.
        let object = Some(json).filter(|json| json.starts_with('{'))?;
        let jwk: Jwk = serde_json::from_str(object).ok()?;
        // A key whose private part was published is compromised.
        if !jwk.is_for_signatures() || jwk.d.is_some() {
            return None;
        }
        let (kind, key) = jwk.key()?;
        let only = match jwk.alg {
            Some(name) => Some(algorithm(&name).filter(|only| key_type(*only) == Some(kind))?),
            None => None,
        };
        let key = Self { kid: jwk.kid, kind, only, key };
        // A point that is not on its curve is rejected here, not at every token.
        key.verifier(only.unwrap_or(kind.default_algorithm())).map(|_| key)
    }

    /// Returns whether this key may verify a signature of `algorithm`. Without this check the
    /// author of a token would choose how its signature is verified.
    pub(crate) fn accepts(&self, algorithm: Algorithm) -> bool {
        key_type(algorithm) == Some(self.kind) && self.only.is_none_or(|only| only == algorithm)
    }

    /// Verifies a signature of this key over `message`.
    pub(crate) fn verify_signature(
        &self,
        algorithm: Algorithm,
        message: &str,
        signature: &[u8],
    ) -> bool {
        let verifier = self.verifier(algorithm).filter(|_| self.accepts(algorithm));
        verifier.is_some_and(|verifier| {
            verifier.verify(message.as_bytes(), &signature.to_vec()).is_ok()
        })
    }

    /// The cryptography provider is named explicitly: the library would use the default of the
    /// process, and panics if there are two candidates.
    fn verifier(&self, algorithm: Algorithm) -> Option<Box<dyn JwtVerifier>> {
        (DEFAULT_PROVIDER.verifier_factory)(&algorithm, &self.key).ok()
    }
}

impl KeyType {
    fn default_algorithm(self) -> Algorithm {
        match self {
            Self::Rsa => Algorithm::RS256,
            Self::P256 => Algorithm::ES256,
            Self::P384 => Algorithm::ES384,
            Self::Ed25519 => Algorithm::EdDSA,
        }
    }
}

impl Jwk {
    fn is_for_signatures(&self) -> bool {
        self.usage.as_ref().is_none_or(|usage| usage == "sig")
            && self.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"))
    }

    fn key(&self) -> Option<(KeyType, DecodingKey)> {
        let (kind, key) = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => (KeyType::Rsa, rsa(self.n.as_ref()?, self.e.as_ref()?)?),
            ("EC", Some("P-256")) => (KeyType::P256, self.point(32)?),
            ("EC", Some("P-384")) => (KeyType::P384, self.point(48)?),
            ("OKP", Some("Ed25519")) => {
                let x = self.x.as_deref().filter(|x| has_decoded_len(x, 32))?;
                (KeyType::Ed25519, DecodingKey::from_ed_components(x).ok()?)
            }
            _ => return None,
        };
        Some((kind, key))
    }

    /// Decodes a point whose coordinates have `bytes` bytes each, including leading zeros (RFC
    /// 7518, 6.2).
    fn point(&self, bytes: usize) -> Option<DecodingKey> {
        let x = self.x.as_deref().filter(|x| has_decoded_len(x, bytes))?;
        let y = self.y.as_deref().filter(|y| has_decoded_len(y, bytes))?;
        DecodingKey::from_ec_components(x, y).ok()
    }
}

/// Returns the algorithm with this name, if it is asymmetric.
pub(crate) fn algorithm(name: &str) -> Option<Algorithm> {
    name.parse().ok().filter(|algorithm| key_type(*algorithm).is_some())
}

/// Returns the key type of `algorithm`. There is none for shared secrets: a server that can verify
/// such a token can also forge one.
fn key_type(algorithm: Algorithm) -> Option<KeyType> {
    match algorithm {
        Algorithm::RS256
        | Algorithm::RS384
        | Algorithm::RS512
        | Algorithm::PS256
        | Algorithm::PS384
        | Algorithm::PS512 => Some(KeyType::Rsa),
        Algorithm::ES256 => Some(KeyType::P256),
        Algorithm::ES384 => Some(KeyType::P384),
        Algorithm::EdDSA => Some(KeyType::Ed25519),
        _ => None,
    }
}

fn rsa(modulus: &str, exponent: &str) -> Option<DecodingKey> {
    let (n, e) = (decode_integer(modulus)?, decode_integer(exponent)?);
    let bits = n.len() * 8 - n.first()?.leading_zeros() as usize;
    let is_long = (MIN_RSA_BITS..=MAX_RSA_BITS).contains(&bits);
    // With an exponent of 1 every message would be its own signature.
    let is_odd = n.last()? % 2 == 1 && e.last()? % 2 == 1;
    let is_exponent = e.len() <= 4 && e != [1];
    (is_long && is_odd && is_exponent).then(|| DecodingKey::from_rsa_raw_components(&n, &e))
}

/// Decodes an integer without leading zeros.
fn decode_integer(text: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    Some(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
}

fn has_decoded_len(text: &str, bytes: usize) -> bool {
    URL_SAFE_NO_PAD.decode(text).is_ok_and(|decoded| decoded.len() == bytes)
}
