//! An authorization server whose public keys are fetched on demand and cached.
//!
//! Authorization servers rotate their keys. A fixed interval detects a rotation in time, and a
//! token with an unknown key at once; but anyone can make up such tokens, so they cause few
//! fetches. While an authorization server cannot be reached, its last keys stay valid for some
//! time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use lro::IdSeed;
use serde::Deserialize;

use super::key_set::KeySet;
use super::refusal::TokenError;
use super::token::{LoginHint, SignatureCheck, TokenReport, TokenRules};

/// The interval between fetches.
const REFRESH_INTERVAL: TimeDelta = TimeDelta::minutes(10);
/// How long keys stay valid while fetches fail.
const MAX_STALE_AGE: TimeDelta = TimeDelta::hours(1);
/// The minimum time between two fetches because of unknown keys.
const UNKNOWN_KEY_FETCH_INTERVAL: TimeDelta = TimeDelta::seconds(30);
/// The delay before a failed fetch is repeated.
const RETRY_DELAY: TimeDelta = TimeDelta::seconds(5);

/// The well-known paths of the metadata: OAuth and `OpenID` Connect.
const METADATA: [&str; 2] =
    ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];

/// Fetches a document over the network. Blocking.
pub trait Fetch: Send + Sync {
    /// Returns the short text at `url`.
    fn fetch(&self, url: &str) -> Result<String, FetchError>;
}

/// Why a document was not fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The server answered that it does not have it.
    #[error("there is no such document")]
    NotFound,
    /// There was no answer, or none that can be used.
    #[error("cannot fetch the document")]
    Failed,
}

/// Verifies the tokens of one authorization server.
pub struct Issuer {
    rules: TokenRules,
    fetch: Arc<dyn Fetch>,
    keys: Mutex<IssuerState>,
}

#[derive(Default)]
struct IssuerState {
    keys: JwksCache,
    /// Whether a fetch is running.
    fetching: bool,
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

impl Issuer {
    /// Creates a verifier for the server that `rules` name. Nothing is fetched yet.
    pub fn new(rules: TokenRules, fetch: Arc<dyn Fetch>) -> Self {
        Self { rules, fetch, keys: Mutex::default() }
    }

    /// Returns the issuer identifier.
    pub fn url(&self) -> &str {
        &self.rules.issuer
    }

    /// Returns whether the metadata for clients names this issuer.
    pub(super) fn login(&self) -> LoginHint {
        self.rules.login
    }

    /// Examines a token, and fetches keys if that is necessary. Blocking.
    pub(super) fn examine(
        &self,
        token: &str,
        check: SignatureCheck,
        clock: fn() -> IdSeed,
    ) -> TokenReport {
        if check == SignatureCheck::Skip {
            return TokenReport::examine(token, &self.rules, None, clock().now);
        }
        let due = self.lock().keys.due(clock().now);
        if due {
            self.refresh(clock);
        }
        let report = self.examine_cached(token, clock().now);
        let is_unknown = report.outcome == Err(TokenError::UnknownKey);
        if is_unknown && self.lock().keys.unknown_key(clock().now) {
            self.refresh(clock);
            return self.examine_cached(token, clock().now);
        }
        report
    }

    fn examine_cached(&self, token: &str, now: DateTime<Utc>) -> TokenReport {
        let keys = self.lock().keys.keys(now).cloned();
        match keys {
            Some(keys) => TokenReport::examine(token, &self.rules, Some(&keys), now),
            None => TokenReport::refused(&self.rules, TokenError::IssuerUnavailable),
        }
    }

    /// Refreshes the keys. One caller fetches, and no caller that has keys waits for it, so that a
    /// slow authorization server does not slow down requests.
    fn refresh(&self, clock: fn() -> IdSeed) {
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
            let metadata = self.fetch.fetch(&document_url(issuer, path)).ok()?;
            let metadata: Metadata = serde_json::from_str(&metadata).ok()?;
            // The document must name this issuer.
            if metadata.issuer != self.rules.issuer {
                return None;
            }
            KeySet::read(&self.fetch.fetch(&metadata.jwks_uri).ok()?).ok()
        })
    }
}

/// Returns the URL of an issuer's metadata. RFC 8414 appends the path of the issuer, `OpenID`
/// Connect prepends it.
fn document_url(issuer: &str, document: &str) -> String {
    let origin = issuer.match_indices('/').nth(2).map_or(issuer.len(), |(at, _)| at);
    let (origin, path) = issuer.split_at(origin);
    if document.ends_with("openid-configuration") {
        format!("{issuer}{document}")
    } else {
        format!("{origin}{document}{path}")
    }
}

/// The cached JSON Web Key Set of an issuer, and the schedule of its refreshes. It fetches nothing
/// itself: its owner asks it whether to.
#[derive(Debug, Clone, Default)]
pub struct JwksCache {
    keys: KeySet,
    fetched: Option<DateTime<Utc>>,
    failed: Option<DateTime<Utc>>,
    unknown: Option<DateTime<Utc>>,
}

impl JwksCache {
    /// Creates an empty cache, for which a fetch is due.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the keys that are valid now, or `None` if they were never fetched or are too old.
    pub fn keys(&self, now: DateTime<Utc>) -> Option<&KeySet> {
        // A clock that was set back makes keys no older, but makes a fetch due.
        self.fetched.filter(|fetched| now - *fetched < MAX_STALE_AGE).map(|_| &self.keys)
    }

    /// Returns whether to fetch now.
    pub fn due(&self, now: DateTime<Utc>) -> bool {
        match (self.failed, self.fetched) {
            (Some(failed), _) => has_passed(RETRY_DELAY, failed, now),
            (None, Some(fetched)) => has_passed(REFRESH_INTERVAL, fetched, now),
            (None, None) => true,
        }
    }

    /// Returns whether to fetch now because a token names an unknown key. It returns `true` once
    /// per interval.
    pub fn unknown_key(&mut self, now: DateTime<Utc>) -> bool {
        let fetch =
            self.unknown.is_none_or(|last| has_passed(UNKNOWN_KEY_FETCH_INTERVAL, last, now));
        if fetch {
            self.unknown = Some(now);
        }
        fetch
    }

    /// Records a successful fetch.
    pub fn fetched(&mut self, keys: KeySet, now: DateTime<Utc>) {
        self.keys = keys;
        self.fetched = Some(now);
        self.failed = None;
    }

    /// Records a failed fetch.
    pub fn failed(&mut self, now: DateTime<Utc>) {
        self.failed = Some(now);
    }
}

/// Returns whether `span` has passed since `then`. If the clock was set back, that is unknown, and
/// it returns `true`.
fn has_passed(span: TimeDelta, then: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    now < then || now - then >= span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_the_urls_of_their_standards() {
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
