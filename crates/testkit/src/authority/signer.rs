//! Signer: access tokens that say themselves what they allow, and the keys that prove it.
//!
//! The private keys beside this file are for tests, and known to everyone.

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

const KEYS: [&[u8]; 2] = [include_bytes!("keys/one.pk8"), include_bytes!("keys/two.pk8")];

/// Whom tokens are about, and with what they are signed.
#[derive(Debug, Clone)]
pub struct Signer {
    /// The tenant that tokens name.
    pub tenant: String,
    /// What tokens are for.
    pub resource: String,
    /// With which key the next is signed; the other one is forgotten.
    pub key: usize,
    /// What tokens allow, if not what was asked for.
    pub scope: Option<String>,
}

impl Signer {
    /// Tokens for `resource` that open the memories of `tenant`.
    pub fn new(tenant: &str, resource: &str) -> Self {
        Self { tenant: tenant.to_owned(), resource: resource.to_owned(), key: 0, scope: None }
    }

    /// The claims of a token that is good now.
    pub fn claims(&self, issuer: &str, scope: &str, lifetime: u64) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        json!({
            "iss": issuer,
            "aud": self.resource,
            "sub": "person@example",
            "exp": now + lifetime,
            "iat": now,
            "scope": self.scope.as_deref().unwrap_or(scope),
            "tenant": self.tenant,
        })
    }

    /// A token that makes these claims.
    ///
    /// # Panics
    ///
    /// Panics where the key cannot sign.
    pub fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::ES256);
        header.typ = Some("at+jwt".to_owned());
        header.kid = Some(self.name());
        encode(&header, claims, &self.key()).expect("a signature")
    }

    /// What the authority publishes: the key of today.
    ///
    /// # Panics
    ///
    /// Panics where the key has no public half.
    pub fn key_set(&self) -> Value {
        let mut key = Jwk::from_encoding_key(&self.key(), Algorithm::ES256).expect("a public key");
        key.common.key_id = Some(self.name());
        json!({"keys": [key]})
    }

    fn name(&self) -> String {
        format!("key-{}", self.key)
    }

    fn key(&self) -> EncodingKey {
        EncodingKey::from_ec_der(KEYS[self.key % KEYS.len()])
    }
}
