//! An authorization server's keys, and tokens signed with them.
//!
//! The keys were made with `openssl` for these tests and open nothing. `keys/jwks.json` and
//! `keys/tokens.txt` were written from them by another implementation (OpenSSL, through Python), so
//! that a mistake in ours cannot cancel itself out.

use atlatl_server::auth::{KeySet, Principal, TokenError, TokenRules, verify};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use serde_json::{Value, json};

pub(crate) const JWKS: &str = include_str!("keys/jwks.json");
pub(crate) const RSA_PUBLIC: &str = include_str!("keys/rsa-public.pem");
/// An algorithm and a token of each.
pub(crate) const TOKENS: &str = include_str!("keys/tokens.txt");

pub(crate) const ISSUER: &str = "https://login.example";
pub(crate) const AUDIENCE: &str = "https://memory.example/mcp";
pub(crate) const NOW: i64 = 1_800_000_000;

pub(crate) fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap()
}

pub(crate) fn rules() -> TokenRules {
    TokenRules::new(ISSUER, [AUDIENCE], "tenant")
}

pub(crate) fn keys() -> KeySet {
    KeySet::read(JWKS).unwrap()
}

/// Returns the published key with this id.
pub(crate) fn jwk(kid: &str) -> Value {
    let jwks: Value = serde_json::from_str(JWKS).unwrap();
    let keys = jwks["keys"].as_array().unwrap();
    keys.iter().find(|key| key["kid"] == kid).unwrap().clone()
}

/// A set of `keys` only.
pub(crate) fn key_set(keys: &[Value]) -> KeySet {
    KeySet::read(&json!({ "keys": keys }).to_string()).unwrap()
}

/// Verifies a token now.
pub(crate) fn read(token: &str) -> Result<Principal, TokenError> {
    verify(token, &rules(), &keys(), at(NOW))
}

fn der(pem: &str) -> Vec<u8> {
    let lines = pem.lines().skip_while(|line| !line.starts_with("-----")).skip(1);
    let text: String = lines.take_while(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(text).unwrap()
}

pub(crate) fn rsa() -> EncodingKey {
    EncodingKey::from_rsa_der(&der(include_str!("keys/rsa.pem")))
}

/// Another server's.
pub(crate) fn other_rsa() -> EncodingKey {
    EncodingKey::from_rsa_der(&der(include_str!("keys/rsa-other.pem")))
}

pub(crate) fn p256() -> EncodingKey {
    EncodingKey::from_ec_der(&der(include_str!("keys/p256.pem")))
}

pub(crate) fn p384() -> EncodingKey {
    EncodingKey::from_ec_der(&der(include_str!("keys/p384.pem")))
}

pub(crate) fn ed25519() -> EncodingKey {
    EncodingKey::from_ed_der(&der(include_str!("keys/ed25519.pem")))
}

/// The header of a valid token.
pub(crate) fn header() -> Value {
    json!({ "alg": "RS256", "typ": "JWT", "kid": "rsa" })
}

/// The payload of a valid token.
pub(crate) fn claims() -> Value {
    json!({
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ann",
        "tenant": "acme",
        "scope": "openid memory:read memory:write",
        "iat": NOW,
        "nbf": NOW,
        "exp": NOW + 300,
    })
}

/// `object` with another value of `name`.
pub(crate) fn with(mut object: Value, name: &str, value: impl Into<Value>) -> Value {
    object[name] = value.into();
    object
}

/// `object` without `name`.
pub(crate) fn without(mut object: Value, name: &str) -> Value {
    object.as_object_mut().unwrap().remove(name).unwrap();
    object
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token of any two texts, signed with this key.
pub(crate) fn sign(header: &str, payload: &str, key: &EncodingKey, algorithm: Algorithm) -> String {
    let message = format!("{}.{}", encode(header), encode(payload));
    let signature = crypto::sign(message.as_bytes(), key, algorithm).unwrap();
    format!("{message}.{signature}")
}

/// A token with these claims, otherwise valid.
pub(crate) fn of_claims(claims: &Value) -> String {
    of_payload(&claims.to_string())
}

/// A token with this payload, otherwise valid.
pub(crate) fn of_payload(payload: &str) -> String {
    sign(&header().to_string(), payload, &rsa(), Algorithm::RS256)
}

/// A token with this header, otherwise valid.
pub(crate) fn of_header(header: &Value) -> String {
    sign(&header.to_string(), &claims().to_string(), &rsa(), Algorithm::RS256)
}

/// A token that names `algorithm` and `kid`, signed with this key.
pub(crate) fn of_key(name: &str, kid: &str, key: &EncodingKey, algorithm: Algorithm) -> String {
    let header = json!({ "alg": name, "typ": "at+jwt", "kid": kid });
    sign(&header.to_string(), &claims().to_string(), key, algorithm)
}
