//! The authenticator: verifies API keys and access tokens, and caches principals.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use atlatl_memory::{StoreError, with_work_guard};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use chrono::{DateTime, Utc};
use lro::IdSeed;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::issuer::Issuer;
use super::refusal::{RefusalKind, TokenError, TokenRefusal};
use super::token::{LoginHint, SignatureCheck, TokenReport, unverified_issuer};
use super::{
    ApiKey, AuthScope, AuthorizationError, Challenge, KeyRecord, Principal, ResourceMetadata,
    bearer, metadata_url,
};
use crate::limits;

/// How long an authenticated principal is cached.
const CACHE_TTL: Duration = Duration::from_secs(10);
/// The maximum number of cached principals.
const MAX_CACHED_PRINCIPALS: usize = 10_000;

/// The maximum number of concurrent lookups of keys and tokens.
const MAX_CONCURRENT_LOOKUPS: usize = 32;
/// How long a request waits for a lookup.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(2);

/// Looks up API keys.
#[async_trait]
pub trait ApiKeyLookup: Send + Sync {
    /// Returns the key with this id.
    async fn key(&self, id: &str) -> Result<Option<KeyRecord>, StoreError>;
}

/// Authenticates requests.
pub struct Authenticator {
    keys: Option<Arc<dyn ApiKeyLookup>>,
    issuers: Vec<Issuer>,
    /// The identifier of the server that a token must have as its audience.
    resource: String,
    clock: fn() -> IdSeed,
    cache: Mutex<PrincipalCache>,
    lookup_permits: Arc<Semaphore>,
}

/// Why a request is not authenticated or not authorized.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The request has no credentials.
    #[error("bearer token required (Authorization: Bearer …)")]
    Missing,
    /// The credentials cannot be parsed, or were sent in the wrong place.
    #[error("malformed credentials: send one token, in the Authorization header")]
    Malformed,
    /// The credentials are not valid.
    #[error("invalid or expired token")]
    Invalid,
    /// The access token is refused. The client is not told the reason.
    #[error("{0}")]
    Refused(TokenRefusal),
    /// The credentials lack a scope.
    #[error("insufficient scope: the token lacks {0}")]
    InsufficientScope(AuthScope),
    /// The tenant is not served here.
    #[error("the token gives access to no tenant of this server")]
    UnknownTenant,
    /// The credentials cannot be verified at the moment.
    #[error("authentication is temporarily unavailable")]
    Unavailable,
}

impl AuthError {
    /// Returns the reason for the audit log.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Missing => "nobody",
            Self::Malformed => "request",
            Self::Invalid => "token",
            Self::Refused(refusal) => refusal.reason.name(),
            Self::InsufficientScope(_) => "scope",
            Self::UnknownTenant => "tenant",
            Self::Unavailable => "unavailable",
        }
    }

    /// Returns the refusal of an access token.
    pub(crate) fn refusal(&self) -> Option<&TokenRefusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Missing | Self::Invalid => StatusCode::UNAUTHORIZED,
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::InsufficientScope(_) | Self::UnknownTenant => StatusCode::FORBIDDEN,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Refused(refusal) => match refusal.reason.kind() {
                RefusalKind::Invalid => StatusCode::UNAUTHORIZED,
                RefusalKind::NoAccess => StatusCode::FORBIDDEN,
                RefusalKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            },
        }
    }
}

impl Authenticator {
    /// Creates an authenticator for the server with the identifier `resource`. It accepts no
    /// credentials yet.
    pub fn new(resource: String, clock: fn() -> IdSeed) -> Self {
        let lookup_permits = Arc::new(Semaphore::new(MAX_CONCURRENT_LOOKUPS));
        Self {
            keys: None,
            issuers: Vec::new(),
            resource,
            clock,
            cache: Mutex::new(PrincipalCache::new(MAX_CACHED_PRINCIPALS)),
            lookup_permits,
        }
    }

    /// Accepts these API keys.
    pub fn with_keys(mut self, keys: Arc<dyn ApiKeyLookup>) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Accepts the tokens of this authorization server, in addition to those of others.
    pub fn with_issuer(mut self, issuer: Issuer) -> Self {
        self.issuers.push(issuer);
        self
    }

    /// Examines an access token as a request with it would be, and explains the outcome. Keys may have
    /// to be fetched. Blocking.
    pub fn examine(&self, token: &str, check: SignatureCheck) -> TokenReport {
        let issuer = unverified_issuer(token).and_then(|named| {
            let issuer = self.issuers.iter().find(|issuer| issuer.url() == named);
            issuer.ok_or(TokenError::Issuer)
        });
        match issuer {
            Ok(issuer) => issuer.examine(token, check, self.clock),
            Err(error) => TokenReport::without_issuer(error),
        }
    }

    /// Forgets all cached principals, so that keys and tokens are verified again.
    pub fn forget(&self) {
        self.cache().entries.clear();
    }

    /// Returns the principal of a request.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Result<Principal, AuthError> {
        // Query strings end up in logs, so a token in one is rejected.
        let in_query = |query: &str| {
            form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token")
        };
        if query.is_some_and(in_query) {
            return Err(AuthError::Malformed);
        }
        let values = headers.get_all(header::AUTHORIZATION).iter().map(HeaderValue::as_bytes);
        let token = match bearer(values) {
            Ok(token) => token.to_owned(),
            Err(AuthorizationError::Missing) => return Err(AuthError::Missing),
            Err(_) => return Err(AuthError::Malformed),
        };
        let cache_key: CacheKey = Sha256::digest(token.as_bytes()).into();
        if let Some(principal) = self.cache().get(&cache_key, Instant::now()) {
            return Ok(principal);
        }
        // Unauthenticated requests have their own short queue.
        let acquired =
            timeout(QUEUE_TIMEOUT, Arc::clone(&self.lookup_permits).acquire_owned()).await;
        let Ok(Ok(permit)) = acquired else { return Err(AuthError::Unavailable) };
        let (principal, ttl) = self.authenticate(token, permit).await?;
        self.cache().insert(cache_key, &principal, Instant::now(), ttl);
        Ok(principal)
    }

    /// Verifies `token`, and returns the principal with the time it may be cached. The permit
    /// belongs to the lookup: an abandoned request does not release it early.
    async fn authenticate(
        self: &Arc<Self>,
        token: String,
        permit: OwnedSemaphorePermit,
    ) -> Result<(Principal, Duration), AuthError> {
        let now = (self.clock)().now;
        if let (Some(keys), Some(key)) = (&self.keys, ApiKey::parse(&token)) {
            let lookup = with_work_guard(Arc::new(permit), keys.key(key.id()));
            let record = lookup.await.map_err(|_| AuthError::Unavailable)?;
            let record = record.unwrap_or_else(KeyRecord::none);
            let principal = record.admits(&key, now).ok_or(AuthError::Invalid)?;
            return Ok((principal, cache_ttl(record.expires, now)));
        }
        if self.issuers.is_empty() {
            return Err(AuthError::Invalid);
        }
        let authenticator = Arc::clone(self);
        // The keys of the issuer may have to be fetched.
        let examined = limits::blocking(move || {
            let report = authenticator.examine(&token, SignatureCheck::Verify);
            drop(permit);
            report
        });
        let report = examined.await.map_err(|_| AuthError::Unavailable)?;
        let expires = report.expires;
        let principal = report.into_principal().map_err(AuthError::Refused)?;
        Ok((principal, cache_ttl(expires, now)))
    }

    fn cache(&self) -> MutexGuard<'_, PrincipalCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the `WWW-Authenticate` challenge for an error.
    pub(crate) fn challenge(&self, error: &AuthError) -> Option<String> {
        let kind = match error {
            AuthError::Missing => Challenge::Missing,
            AuthError::Malformed => Challenge::InvalidRequest,
            AuthError::Invalid => Challenge::InvalidToken,
            AuthError::InsufficientScope(scope) => Challenge::Insufficient(*scope),
            AuthError::Refused(refusal) if refusal.reason.kind() == RefusalKind::Invalid => {
                Challenge::InvalidToken
            }
            AuthError::UnknownTenant | AuthError::Unavailable | AuthError::Refused(_) => {
                return None;
            }
        };
        let metadata = self.login_urls().next().and_then(|_| metadata_url(&self.resource));
        Some(kind.header(metadata.as_deref()))
    }

    /// Returns the protected resource metadata (RFC 9728), if there is an issuer to log in at.
    pub(crate) fn metadata(&self) -> Option<String> {
        self.login_urls().next()?;
        serde_json::to_string(&ResourceMetadata::new(&*self.resource, self.login_urls())).ok()
    }

    /// Returns the URLs of the issuers at which clients can log in.
    fn login_urls(&self) -> impl Iterator<Item = &str> {
        let is_listed = |issuer: &&Issuer| issuer.login() == LoginHint::Listed;
        self.issuers.iter().filter(is_listed).map(Issuer::url)
    }
}

/// Returns the time until expiry, limited to the lifetime of a cache entry.
fn cache_ttl(expires: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Duration {
    let cache_ttl = expires.map(|expires| (expires - now).to_std().unwrap_or_default());
    cache_ttl.map_or(CACHE_TTL, |cache_ttl| cache_ttl.min(CACHE_TTL))
}

/// A digest of the credentials.
pub(super) type CacheKey = [u8; 32];

/// Principals by the digest of their credentials, each with an expiry time.
#[derive(Debug)]
pub(super) struct PrincipalCache {
    entries: HashMap<CacheKey, (Instant, Principal)>,
    capacity: usize,
}

impl PrincipalCache {
    /// Creates an empty cache for at most `capacity` principals.
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), capacity }
    }

    /// Returns the principal of these credentials, if it is cached.
    pub(super) fn get(&self, cache_key: &CacheKey, now: Instant) -> Option<Principal> {
        let (until, principal) = self.entries.get(cache_key)?;
        (now < *until).then(|| principal.clone())
    }

    /// Caches a principal until a time. A cache full of unexpired entries takes no new ones:
    /// existing principals stay cached.
    pub(super) fn insert(
        &mut self,
        cache_key: CacheKey,
        principal: &Principal,
        now: Instant,
        ttl: Duration,
    ) {
        if self.entries.len() >= self.capacity {
            self.entries.retain(|_, (until, _)| now < *until);
        }
        if self.entries.len() < self.capacity {
            self.entries.insert(cache_key, (now + ttl, principal.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scopes;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn principal(name: &str) -> Principal {
        Principal::new(name, name, Scopes::MEMORY).expect("a name")
    }

    #[test]
    fn a_principal_is_cached_until_it_expires() {
        let (mut cache, now) = (PrincipalCache::new(2), Instant::now());
        cache.insert([1; 32], &principal("ann"), now, 2 * SECOND);
        assert_eq!(cache.get(&[1; 32], now), Some(principal("ann")));
        assert_eq!(cache.get(&[1; 32], now + SECOND), Some(principal("ann")));
        assert_eq!(cache.get(&[1; 32], now + 2 * SECOND), None);
        assert_eq!(cache.get(&[2; 32], now), None);
    }

    #[test]
    fn no_more_are_known_than_may_be_and_those_whose_time_is_over_make_room() {
        let (mut cache, now) = (PrincipalCache::new(2), Instant::now());
        let names = |cache: &PrincipalCache, at| -> Vec<bool> {
            (1..=4).map(|n| cache.get(&[n; 32], at).is_some()).collect()
        };
        cache.insert([1; 32], &principal("ann"), now, SECOND);
        // Expired entries stay while there is space.
        cache.insert([2; 32], &principal("bob"), now + 2 * SECOND, SECOND);
        assert_eq!(cache.entries.len(), 2);
        assert_eq!(names(&cache, now), [true, true, false, false]);
        cache.insert([3; 32], &principal("cyd"), now + 2 * SECOND, 9 * SECOND);
        assert_eq!(names(&cache, now), [false, true, true, false]);
        cache.insert([4; 32], &principal("dan"), now + 2 * SECOND, SECOND);
        assert_eq!(names(&cache, now), [false, true, true, false]);
        // An entry expires exactly at its time.
        cache.insert([4; 32], &principal("dan"), now + 3 * SECOND, SECOND);
        assert_eq!(names(&cache, now), [false, false, true, true]);
    }
}
