//! Issuer: an authorization server, whose public keys are fetched when they are needed.

use std::sync::{Arc, Mutex, PoisonError};

use atlatl_access::{KeySet, Principal, Rotation, TokenError, TokenRules, verify};
use chrono::{DateTime, Utc};
use serde::Deserialize;

/// Where an issuer says what it has: as OAuth and as `OpenID` Connect would have it.
const METADATA: [&str; 2] =
    ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];

/// Gets a document from the network. Blocking.
pub trait Fetch: Send + Sync {
    /// The text at `url`, which is short; `None` where there is none.
    fn fetch(&self, url: &str) -> Option<String>;
}

/// Checks the tokens of one authorization server.
pub struct Issuer {
    rules: TokenRules,
    fetch: Arc<dyn Fetch>,
    keys: Mutex<Rotation>,
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

impl Issuer {
    /// The server that `rules` name. Nothing is fetched yet.
    pub fn new(rules: TokenRules, fetch: Arc<dyn Fetch>) -> Self {
        Self { rules, fetch, keys: Mutex::default() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.rules.issuer
    }

    /// Who brings this token. `None` where nobody can tell, since the keys are not to be had. Blocking.
    pub fn principal(
        &self,
        token: &str,
        now: DateTime<Utc>,
    ) -> Option<Result<Principal, TokenError>> {
        // One fetches; whoever comes meanwhile waits, and need not.
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.due(now) {
            self.refresh(&mut keys, now);
        }
        let verified = verify(token, &self.rules, keys.keys(now)?, now);
        if verified == Err(TokenError::UnknownKey) && keys.unknown_key(now) {
            self.refresh(&mut keys, now);
            return Some(verify(token, &self.rules, keys.keys(now)?, now));
        }
        Some(verified)
    }

    fn refresh(&self, keys: &mut Rotation, now: DateTime<Utc>) {
        match self.fetched() {
            Some(fetched) => keys.fetched(fetched, now),
            None => keys.failed(now),
        }
    }

    fn fetched(&self) -> Option<KeySet> {
        let issuer = self.rules.issuer.trim_end_matches('/');
        METADATA.iter().find_map(|path| {
            let metadata = self.fetch.fetch(&at(issuer, path))?;
            let metadata: Metadata = serde_json::from_str(&metadata).ok()?;
            // Whoever answers for another is not believed.
            if metadata.issuer != self.rules.issuer {
                return None;
            }
            KeySet::read(&self.fetch.fetch(&metadata.jwks_uri)?).ok()
        })
    }
}

/// Where an issuer's document lies. RFC 8414 puts the path of an issuer behind it, `OpenID` Connect
/// before.
fn at(issuer: &str, document: &str) -> String {
    let origin = issuer.match_indices('/').nth(2).map_or(issuer.len(), |(at, _)| at);
    let (origin, path) = issuer.split_at(origin);
    if document.ends_with("openid-configuration") {
        format!("{issuer}{document}")
    } else {
        format!("{origin}{document}{path}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_lie_where_their_standards_put_them() {
        let [oauth, openid] = METADATA;
        assert_eq!(at("https://id.example", oauth), format!("https://id.example{oauth}"));
        assert_eq!(at("https://id.example/a", oauth), format!("https://id.example{oauth}/a"));
        assert_eq!(at("https://id.example/a", openid), format!("https://id.example/a{openid}"));
    }
}
