//! Admission of HTTP requests: authentication, rate limits and concurrency limits.
//!
//! The tenant comes from the authenticated principal alone, never from the request. An admitted
//! request has access to one tenant's server only, so that no handler can choose another.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use atlatl_memory::{StoreError, with_author};
use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lro::Spools;
use lro_http::header::single;
use lro_http::{BearerTokens, Problem, user_id};
use tokio::sync::Semaphore;

use super::App;
use super::metrics::Metrics;
use super::problem::store_problem;
use super::readiness::Readiness;
use super::refusal_log::RefusalLog;
use super::request_log::known_method;
use crate::auth::{AuthError, AuthScope, Authenticator, Principal, TokenBucket, TokenRefusal};
use crate::event::{EventBus, ServerEventKind};
use crate::limits::{self, DatabaseTimeLimit};
use crate::server::MemoryServer;
use crate::signing::SignedLinks;
use crate::trace::{RequestFacts, SetParent};

/// The maximum number of concurrent requests. More would wait for the same few connections; rejected
/// clients retry.
const MAX_CONCURRENT_REQUESTS: usize = 256;
const RATE_EXCEEDED: &str = "rate limit exceeded for this tenant";
const DATABASE_TIME_EXCEEDED: &str = "database time limit exceeded for this tenant";

/// The resources of one tenant.
#[derive(Clone)]
#[non_exhaustive]
pub struct Tenant {
    /// The memory server.
    pub server: MemoryServer,
    /// The spools of its stored results, for `/v1/offloads`.
    pub spools: Option<Spools>,
    /// The verifier of signed links to them.
    pub links: Option<Arc<SignedLinks>>,
    /// The rate limiter.
    pub rate: Option<Arc<Mutex<TokenBucket>>>,
    /// The limit on database time.
    pub database_time: Option<Arc<DatabaseTimeLimit>>,
    /// The limit on concurrent requests.
    pub busy: Option<Arc<Semaphore>>,
}

impl Tenant {
    /// Creates a tenant with a memory server only.
    pub fn new(server: MemoryServer) -> Self {
        Self { server, spools: None, links: None, rate: None, database_time: None, busy: None }
    }
}

/// The registry of served tenants.
#[async_trait]
pub trait Tenants: Send + Sync {
    /// Returns the tenant with this name from the cache.
    fn cached(&self, name: &str) -> Option<Tenant>;

    /// Returns the tenant with this name, if it exists.
    async fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError>;

    /// Checks whether the tenants' store can be reached.
    async fn ready(&self) -> Result<(), StoreError>;
}

/// A registry with one tenant for all principals.
pub(super) struct SingleTenant(pub(super) Tenant);

#[async_trait]
impl Tenants for SingleTenant {
    fn cached(&self, _: &str) -> Option<Tenant> {
        Some(self.0.clone())
    }

    async fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        Ok(self.cached(name))
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.0.server.0.store.ready().await
    }
}

/// The state shared by all requests.
#[derive(Clone)]
pub(super) struct HttpState {
    pub(super) tenants: Arc<dyn Tenants>,
    pub(super) authentication: Authentication,
    pub(super) metrics: Arc<Metrics>,
    pub(super) set_parent: Option<SetParent>,
    /// Receives audit events: granted writes, and denied requests.
    pub(super) events: EventBus,
    /// Whether the server is stopping.
    pub(super) stopping: Arc<AtomicBool>,
    pub(super) permits: Arc<Semaphore>,
    pub(super) readiness: Arc<Readiness>,
    /// Writes refused tokens to the log.
    pub(super) refusals: Arc<RefusalLog>,
    /// Throttles the discarding of oversized bodies.
    pub(super) discard: Arc<Semaphore>,
    pub(super) started_at: Instant,
}

impl HttpState {
    pub(super) fn permits() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS))
    }

    /// Returns the tenant with this name.
    pub(super) async fn tenant(&self, name: &str) -> Result<Option<Tenant>, Problem> {
        if let Some(tenant) = self.tenants.cached(name) {
            return Ok(Some(tenant));
        }
        self.tenants.tenant(name).await.map_err(store_problem)
    }

    /// Authenticates and authorizes a request, and returns its context.
    async fn authorize(&self, request: &Parts) -> Result<App, Response> {
        let principal = match self.authentication.principal(request).await {
            Ok(principal) => principal,
            Err(denied) => {
                self.log_refusal(&denied, request);
                return Err(self.denied(&denied, None));
            }
        };
        if let Some(facts) = request.extensions.get::<Arc<RequestFacts>>() {
            let _ = facts.tenant.set(principal.tenant.clone());
        }
        let tenant = self.tenant(&principal.tenant).await.map_err(IntoResponse::into_response)?;
        // A token may name a tenant that does not exist here.
        let Some(tenant) = tenant else {
            return Err(self.denied(&AuthError::UnknownTenant, Some(&principal)));
        };
        if let Some(rate) = &tenant.rate {
            let since = self.started_at.elapsed();
            let taken = rate.lock().unwrap_or_else(PoisonError::into_inner).take(since);
            if let Err(wait) = taken {
                return Err(self.rate_limited(&principal, RATE_EXCEEDED, wait));
            }
        }
        if let Some(limit) = &tenant.database_time
            && let Err(wait) = limit.check()
        {
            return Err(self.rate_limited(&principal, DATABASE_TIME_EXCEEDED, wait));
        }
        match tenant.busy.map(Semaphore::try_acquire_owned) {
            Some(Err(_)) => {
                return Err(self.rate_limited(&principal, RATE_EXCEEDED, Duration::ZERO));
            }
            Some(Ok(permit)) => limits::add_tenant(permit),
            None => {}
        }
        if let Some(scope) = required_scope(request) {
            let path = request.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
            let action = || format!("{} {path}", known_method(&request.method));
            self.check(&principal, scope, action)?;
        }
        Ok(App { server: tenant.server, spools: tenant.spools, principal, state: self.clone() })
    }

    /// Checks that `principal` has `scope`, and publishes an audit event.
    #[expect(clippy::result_large_err, reason = "it is sent immediately")]
    pub(super) fn check(
        &self,
        principal: &Principal,
        scope: AuthScope,
        action: impl FnOnce() -> String,
    ) -> Result<(), Response> {
        if !principal.scopes.has(scope) {
            return Err(self.denied(&AuthError::InsufficientScope(scope), Some(principal)));
        }
        if scope != AuthScope::Read {
            let (tenant, subject) = (principal.tenant.clone(), principal.subject.clone());
            let kind = ServerEventKind::AccessUsed { tenant, subject, action: action() };
            self.events.publish(None, kind);
        }
        Ok(())
    }

    /// Writes the reason why a token is refused to the log.
    fn log_refusal(&self, denied: &AuthError, request: &Parts) {
        let Some(refusal) = denied.refusal() else { return };
        let facts = request.extensions.get::<Arc<RequestFacts>>();
        let id = facts.and_then(|facts| facts.id.get()).map(String::as_str);
        self.refusals.record(refusal, id, self.started_at.elapsed());
    }

    /// Publishes a denial, and returns the response for it.
    fn denied(&self, denied: &AuthError, principal: Option<&Principal>) -> Response {
        self.publish_denied(denied.word(), denied.refusal(), principal);
        let mut response = Problem::new(denied.status(), denied.to_string()).into_response();
        let challenge = self.authentication.challenge(denied);
        if let Some(value) = challenge.and_then(|text| HeaderValue::from_str(&text).ok()) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
        }
        response
    }

    fn publish_denied(
        &self,
        reason: &'static str,
        refusal: Option<&TokenRefusal>,
        principal: Option<&Principal>,
    ) {
        let issuer = refusal.and_then(|refusal| refusal.issuer.clone());
        let tenant = principal.map(|principal| principal.tenant.clone());
        let subject = match (principal, refusal) {
            (Some(principal), _) => Some(principal.subject.clone()),
            (None, Some(refusal)) => refusal.subject.clone(),
            (None, None) => None,
        };
        let kind = ServerEventKind::AccessDenied { reason, issuer, tenant, subject };
        self.events.publish(None, kind);
    }

    fn rate_limited(&self, principal: &Principal, why: &str, wait: Duration) -> Response {
        self.publish_denied("rate", None, Some(principal));
        let mut response = Problem::new(StatusCode::TOO_MANY_REQUESTS, why).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, whole_seconds(wait).into());
        response
    }
}

/// Middleware that adds the request context, or answers the request.
pub(super) async fn admit(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    match state.authorize(&parts).await {
        Ok(app) => {
            let author = app.principal.subject.clone();
            parts.extensions.insert(app);
            with_author(&author, next.run(Request::from_parts(parts, body))).await
        }
        Err(response) => response,
    }
}

/// Middleware that rejects requests at capacity. The permit belongs to the work of the request, and
/// is released when that ends.
pub(super) async fn limit_concurrency(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    let Ok(permit) = Arc::clone(&state.permits).try_acquire_owned() else {
        let said = "server is at capacity; retry later";
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, said).into_response();
    };
    limits::with_permit(permit, next.run(request)).await
}

/// Rounds up, so that the time has passed after that many seconds. It is at least 1.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + 1
}

/// Returns the scope that a request needs, by path and method. MCP messages are checked
/// individually.
fn required_scope(request: &Parts) -> Option<AuthScope> {
    match (request.uri.path(), &request.method) {
        ("/mcp" | "/openapi.json", _) => None,
        ("/metrics", _) => Some(AuthScope::Admin),
        ("/v1/search", _) | (_, &Method::GET | &Method::HEAD) => Some(AuthScope::Read),
        _ => Some(AuthScope::Write),
    }
}

/// The authentication method that `server.auth` selects.
#[derive(Clone)]
pub(super) enum Authentication {
    /// An API key or an access token, which names a tenant.
    Principals(Arc<Authenticator>),
    /// A token from a file. All tokens belong to the tenant with this name.
    Tokens(BearerTokens, String),
    /// The connection: the listener accepts one user only. The name is the tenant's.
    SameUser(String),
}

impl Authentication {
    /// Authenticates `request`.
    pub(super) async fn principal(&self, request: &Parts) -> Result<Principal, AuthError> {
        match self {
            Self::Principals(authenticator) => {
                authenticator.admit(&request.headers, request.uri.query()).await
            }
            Self::Tokens(tokens, tenant) => {
                let authorization = single(&request.headers, &header::AUTHORIZATION);
                let Some(line) = tokens.verify(authorization) else {
                    let sent = request.headers.contains_key(header::AUTHORIZATION);
                    return Err(if sent { AuthError::Invalid } else { AuthError::Missing });
                };
                full_access_principal(tenant, &format!("token:{line}"))
            }
            Self::SameUser(tenant) => full_access_principal(tenant, &format!("uid:{}", user_id())),
        }
    }

    /// Returns the `WWW-Authenticate` challenge for an error.
    pub(super) fn challenge(&self, denied: &AuthError) -> Option<String> {
        match self {
            Self::Principals(authenticator) => authenticator.challenge(denied),
            Self::Tokens(..) => matches!(denied, AuthError::Missing | AuthError::Invalid)
                .then(|| "Bearer".to_owned()),
            Self::SameUser(_) => None,
        }
    }

    /// Returns the protected resource metadata (RFC 9728).
    pub(super) fn metadata(&self) -> Option<String> {
        match self {
            Self::Principals(authenticator) => authenticator.metadata(),
            Self::Tokens(..) | Self::SameUser(_) => None,
        }
    }
}

/// Creates a principal with all scopes.
fn full_access_principal(tenant: &str, subject: &str) -> Result<Principal, AuthError> {
    Principal::new(tenant, subject, AuthScope::ALL.into_iter().collect())
        .map_err(|_| AuthError::UnknownTenant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_after_the_announced_delay_is_not_too_early() {
        let seconds = |millis| whole_seconds(Duration::from_millis(millis));
        assert_eq!([0, 1, 999, 1000, 29_500].map(seconds), [1, 1, 1, 2, 30]);
    }
}
