//! An authorization server whose public keys are fetched on demand.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::auth::{JwksRefresh, KeySet, Principal, TokenError, TokenRules, verify};
use chrono::{DateTime, Utc};
use lro::Moment;
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
    keys: Mutex<IssuerState>,
}

#[derive(Default)]
struct IssuerState {
    keys: JwksRefresh,
    /// Whether someone fetches.
    fetching: bool,
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
        clock: fn() -> Moment,
    ) -> Option<Result<Principal, TokenError>> {
        let due = self.lock().keys.due(clock().now);
        if due {
            self.refresh(clock);
        }
        let verified = self.verified(token, clock().now)?;
        if verified == Err(TokenError::UnknownKey) && self.lock().keys.unknown_key(clock().now) {
            self.refresh(clock);
            return self.verified(token, clock().now);
        }
        Some(verified)
    }

    fn verified(&self, token: &str, now: DateTime<Utc>) -> Option<Result<Principal, TokenError>> {
        let keys = self.lock().keys.keys(now)?.clone();
        Some(verify(token, &self.rules, &keys, now))
    }

    /// One fetches, and nobody waits for it who has keys: an issuer that is slow makes nothing slow.
    fn refresh(&self, clock: fn() -> Moment) {
        {
            let mut known = self.lock();
            if known.fetching {
                return;
            }
            known.fetching = true;
        }
        let fetched = self.fetched();
        let (mut known, now) = (self.lock(), clock().now);
        known.fetching = false;
        match fetched {
            Some(keys) => known.keys.fetched(keys, now),
            None => known.keys.failed(now),
        }
    }

    fn lock(&self) -> MutexGuard<'_, IssuerState> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
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
