//! An authorization server whose public keys are fetched on demand.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use lro::Moment;
use serde::Deserialize;

use super::key_set::KeySet;
use super::{Principal, TokenError, TokenRules, verify};

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
    keys: JwksCache,
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
        let verify_cached = self.verify_cached(token, clock().now)?;
        if verify_cached == Err(TokenError::UnknownKey) && self.lock().keys.unknown_key(clock().now)
        {
            self.refresh(clock);
            return self.verify_cached(token, clock().now);
        }
        Some(verify_cached)
    }

    fn verify_cached(
        &self,
        token: &str,
        now: DateTime<Utc>,
    ) -> Option<Result<Principal, TokenError>> {
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
            let metadata = self.fetch.fetch(&document_url(issuer, path))?;
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
fn document_url(issuer: &str, document: &str) -> String {
    let origin = issuer.match_indices('/').nth(2).map_or(issuer.len(), |(at, _)| at);
    let (origin, path) = issuer.split_at(origin);
    if document.ends_with("openid-configuration") {
        format!("{issuer}{document}")
    } else {
        format!("{origin}{document}{path}")
    }
}

// --- When to refresh a JSON Web Key Set.
// ---
// --- Authorities change their keys. A fixed rhythm finds that out in time, and a token with an unknown
// --- key at once; but anybody can make up such tokens, so they lead to few fetches. While an authority
// --- cannot be reached its last keys go on, for a while.

/// After which a set is fetched again.
const REFRESH_INTERVAL: TimeDelta = TimeDelta::minutes(10);
/// For which a set counts that could not be fetched again.
const MAX_STALE_AGE: TimeDelta = TimeDelta::hours(1);
/// Between two fetches because of unknown keys.
const UNKNOWN_KEY_FETCH_INTERVAL: TimeDelta = TimeDelta::seconds(30);
/// Before a failed fetch is repeated.
const RETRY_DELAY: TimeDelta = TimeDelta::seconds(5);

/// The keys of an authority over time. It fetches nothing: its owner asks it whether to.
#[derive(Debug, Clone, Default)]
pub struct JwksCache {
    keys: KeySet,
    fetched: Option<DateTime<Utc>>,
    failed: Option<DateTime<Utc>>,
    unknown: Option<DateTime<Utc>>,
}

impl JwksCache {
    /// Without keys; a fetch is due.
    pub fn new() -> Self {
        Self::default()
    }

    /// The keys that count now; none where they were never fetched, or too long ago.
    pub fn keys(&self, now: DateTime<Utc>) -> Option<&KeySet> {
        // A clock that was set back makes a set no older: another one is due then.
        self.fetched.filter(|fetched| now - *fetched < MAX_STALE_AGE).map(|_| &self.keys)
    }

    /// Whether to fetch now.
    pub fn due(&self, now: DateTime<Utc>) -> bool {
        match (self.failed, self.fetched) {
            (Some(failed), _) => has_passed(RETRY_DELAY, failed, now),
            (None, Some(fetched)) => has_passed(REFRESH_INTERVAL, fetched, now),
            (None, None) => true,
        }
    }

    /// Whether to fetch now because a token names a key that is not there. Yes is said to one of
    /// those who ask within a time, and remembered.
    pub fn unknown_key(&mut self, now: DateTime<Utc>) -> bool {
        let fetch =
            self.unknown.is_none_or(|last| has_passed(UNKNOWN_KEY_FETCH_INTERVAL, last, now));
        if fetch {
            self.unknown = Some(now);
        }
        fetch
    }

    /// A fetch brought `keys`.
    pub fn fetched(&mut self, keys: KeySet, now: DateTime<Utc>) {
        self.keys = keys;
        self.fetched = Some(now);
        self.failed = None;
    }

    /// A fetch brought none.
    pub fn failed(&mut self, now: DateTime<Utc>) {
        self.failed = Some(now);
    }
}

/// Whether `span` has passed since `then`, or nobody knows since the clock was set back.
fn has_passed(span: TimeDelta, then: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    now < then || now - then >= span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_lie_where_their_standards_put_them() {
        let [oauth, openid] = METADATA;
        assert_eq!(document_url("https://id.example", oauth), format!("https://id.example{oauth}"));
        assert_eq!(
            document_url("https://id.example/a", oauth),
            format!("https://id.example{oauth}/a")
        );
        assert_eq!(
            document_url("https://id.example/a", openid),
            format!("https://id.example/a{openid}")
        );
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).expect("within range")
    }

    #[test]
    fn keys_are_fetched_at_once_and_then_every_ten_minutes() {
        let mut rotation = JwksCache::new();
        assert!(rotation.keys(at(0)).is_none());
        assert!(rotation.due(at(0)));
        rotation.fetched(KeySet::default(), at(0));
        assert!(!rotation.due(at(0)));
        assert!(!rotation.due(at(599)));
        assert!(rotation.due(at(600)));
        rotation.fetched(KeySet::default(), at(600));
        assert!(!rotation.due(at(1199)));
        assert!(rotation.keys(at(1199)).is_some());
    }

    #[test]
    fn old_keys_go_on_for_an_hour_while_fetches_fail() {
        let mut rotation = JwksCache::new();
        rotation.fetched(KeySet::default(), at(0));
        rotation.failed(at(600));
        assert!(!rotation.due(at(604)));
        assert!(rotation.due(at(605)));
        rotation.failed(at(3500));
        assert!(rotation.keys(at(3599)).is_some());
        assert!(rotation.keys(at(3600)).is_none());
        assert!(rotation.due(at(3600)));
        rotation.fetched(KeySet::default(), at(3600));
        assert!(rotation.keys(at(3600)).is_some());
        assert!(!rotation.due(at(3700)));
    }

    #[test]
    fn a_first_fetch_that_fails_is_repeated() {
        let mut rotation = JwksCache::new();
        rotation.failed(at(0));
        assert!(!rotation.due(at(4)));
        assert!(rotation.due(at(5)));
        assert!(rotation.keys(at(5)).is_none());
    }

    #[test]
    fn unknown_keys_lead_to_one_fetch_in_half_a_minute() {
        let mut rotation = JwksCache::new();
        rotation.fetched(KeySet::default(), at(0));
        let fetches = (1..=61).filter(|second| rotation.unknown_key(at(*second))).count();
        assert_eq!(fetches, 3);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_a_fetch_due_and_keeps_the_keys() {
        let mut rotation = JwksCache::new();
        rotation.fetched(KeySet::default(), at(0));
        assert!(rotation.unknown_key(at(0)));
        assert!(rotation.due(at(-7200)));
        assert!(rotation.keys(at(-7200)).is_some());
        assert!(rotation.unknown_key(at(-7200)));
        assert!(!rotation.unknown_key(at(-7199)));
    }
}
