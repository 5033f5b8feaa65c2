//! Authority: an authorization server with its keys, and tokens that it signed.

use std::sync::LazyLock;

use atlatl_server::auth::{KeySet, Scopes, TokenRules, verify};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use jsonwebtoken::EncodingKey;
use serde_json::Value;

/// Who issues tokens.
pub const ISSUER: &str = "https://login.example";
/// Whom they are for.
pub const AUDIENCE: &str = "https://memory.example/mcp";
/// What time it is, in seconds since 1970.
pub const NOW: i64 = 1_800_000_000;

/// What the authority publishes. It was written by another implementation, as the tokens were.
pub const JWKS: &str = include_str!("../../crates/atlatl-access/tests/it/keys/jwks.json");
const TOKENS: &str = include_str!("../../crates/atlatl-access/tests/it/keys/tokens.txt");

/// What was made once.
pub struct Authority {
    rules: TokenRules,
    /// Its keys as they are read.
    pub keys: KeySet,
    published: Value,
    /// One of its keys.
    pub ed25519: EncodingKey,
    /// Another of them.
    pub p256: EncodingKey,
    /// Another one's, on the same curve.
    pub stranger: EncodingKey,
}

/// The authority.
pub static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| Authority {
    rules: TokenRules::new(ISSUER, ["https://other.example", AUDIENCE], "tenant"),
    keys: KeySet::read(JWKS).expect("a key set"),
    published: serde_json::from_str(JWKS).expect("JSON"),
    ed25519: EncodingKey::from_ed_der(&der(include_str!(
        "../../crates/atlatl-access/tests/it/keys/ed25519.pem"
    ))),
    p256: EncodingKey::from_ec_der(&der(include_str!(
        "../../crates/atlatl-access/tests/it/keys/p256.pem"
    ))),
    stranger: EncodingKey::from_ec_der(include_bytes!(
        "../../crates/testkit/src/authority/keys/one.pk8"
    )),
});

impl Authority {
    /// The published key of that name.
    pub fn jwk(&self, kid: &str) -> Value {
        let keys = self.published["keys"].as_array().expect("a list");
        keys.iter().find(|key| key["kid"] == kid).expect("a key of that name").clone()
    }
}

fn der(pem: &str) -> Vec<u8> {
    let lines = pem.lines().skip_while(|line| !line.starts_with("-----")).skip(1);
    let text: String = lines.take_while(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(text).expect("base64")
}

/// A time.
pub fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).expect("within range")
}

/// Whom a token lets in: tenant, subject, scopes.
pub type Named = (String, String, Scopes);

/// Whom `token` lets in, if `keys` are those of the authority.
pub fn read(token: &str, keys: &KeySet) -> Option<Named> {
    let principal = verify(token, &AUTHORITY.rules, keys, at(NOW)).ok()?;
    Some((principal.tenant, principal.subject, principal.scopes))
}

/// Whom the tokens of the other implementation name.
pub fn ann() -> Named {
    ("acme".to_owned(), "ann".to_owned(), Scopes::MEMORY)
}

/// The algorithms and tokens of the other implementation, one of each.
pub fn tokens() -> impl Iterator<Item = (&'static str, &'static str)> {
    TOKENS.lines().filter_map(|line| line.split_once(' '))
}

/// The one by that algorithm.
pub fn token_by(algorithm: &str) -> &'static str {
    tokens().find(|(name, _)| *name == algorithm).expect("a token of each algorithm").1
}
