//! Admission of HTTP requests: authentication, rate limits and concurrency limits.
//!
//! The tenant comes from the authenticated principal alone, never from the request. An admitted request has access to
//! one tenant's server and nothing else, so that no handler can choose.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use atlatl_memory::StoreError;
use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lro::Spools;
use lro_http::header::one;
use lro_http::{BearerTokens, Problem, user_id};
use tokio::sync::Semaphore;

use super::extract::store_problem;
use super::metrics::Metrics;
use super::{App, blocking};
use crate::auth::{AuthError, AuthScope, Authenticator, Principal, TokenBucket};
use crate::event::{EventBus, ServerEventKind};
use crate::limits;
use crate::server::MemoryServer;
use crate::signing::SignedLinks;
use crate::trace::Tracer;

/// Requests that are worked on at a time. More would only wait for the same few connections, each
/// with a thread; whoever is sent away comes back when there is room.
const MAX_CONCURRENT_REQUESTS: usize = 256;

/// What one tenant has.
#[derive(Clone)]
#[non_exhaustive]
pub struct Tenant {
    /// Its memories.
    pub server: MemoryServer,
    /// Where its stored results lie, for `/v1/offloads`.
    pub spools: Option<Spools>,
    /// Who tells whether a link to one of them is ours.
    pub links: Option<Arc<SignedLinks>>,
    /// How often it may ask.
    pub rate: Option<Arc<Mutex<TokenBucket>>>,
    /// How much it may ask at a time.
    pub busy: Option<Arc<Semaphore>>,
}

impl Tenant {
    /// A tenant with memories alone.
    pub fn new(server: MemoryServer) -> Self {
        Self { server, spools: None, links: None, rate: None, busy: None }
    }
}

/// The tenants that are served.
pub trait Tenants: Send + Sync {
    /// The tenant called `name`, if it need not be fetched.
    fn known(&self, name: &str) -> Option<Tenant>;

    /// The tenant called `name`, if there is one. Blocking.
    fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError>;

    /// Whether there is anything to ask. Blocking.
    fn ready(&self) -> Result<(), StoreError>;
}

/// One tenant, whoever asks.
pub(super) struct SingleTenant(pub(super) Tenant);

impl Tenants for SingleTenant {
    fn known(&self, _: &str) -> Option<Tenant> {
        Some(self.0.clone())
    }

    fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        Ok(self.known(name))
    }

    fn ready(&self) -> Result<(), StoreError> {
        self.0.server.0.store.secret().map(drop)
    }
}

/// What all requests share.
#[derive(Clone)]
pub(super) struct HttpState {
    pub(super) tenants: Arc<dyn Tenants>,
    pub(super) authentication: Authentication,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tracer: Option<Arc<dyn Tracer>>,
    /// Who is told who was let in to change something, and who was not.
    pub(super) events: EventBus,
    /// Whether it is being stopped.
    pub(super) stopping: Arc<AtomicBool>,
    pub(super) permits: Arc<Semaphore>,
    /// Held by the one check of readiness that runs at a time.
    pub(super) readiness: Arc<Semaphore>,
    /// Whose turn it is to send more of what is thrown away.
    pub(super) discard: Arc<Semaphore>,
    pub(super) started_at: Instant,
}

impl HttpState {
    pub(super) fn permits() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS))
    }

    /// The tenant called `name`.
    pub(super) async fn tenant(&self, name: &str) -> Result<Option<Tenant>, Problem> {
        if let Some(tenant) = self.tenants.known(name) {
            return Ok(Some(tenant));
        }
        let (tenants, name) = (Arc::clone(&self.tenants), name.to_owned());
        blocking(move || tenants.tenant(&name)).await?.map_err(store_problem)
    }

    /// Whoever asks, and what they have.
    async fn authorize(&self, request: &Parts) -> Result<App, Response> {
        let principal = match self.authentication.principal(request).await {
            Ok(principal) => principal,
            Err(denied) => return Err(self.denied(&denied, None)),
        };
        let tenant = self.tenant(&principal.tenant).await.map_err(IntoResponse::into_response)?;
        // Who issues tokens may know tenants that nobody made here.
        let Some(tenant) = tenant else {
            return Err(self.denied(&AuthError::UnknownTenant, Some(&principal)));
        };
        if let Some(rate) = &tenant.rate {
            let since = self.started_at.elapsed();
            let taken = rate.lock().unwrap_or_else(PoisonError::into_inner).take(since);
            if let Err(wait) = taken {
                return Err(self.rate_limited(&principal, wait));
            }
        }
        match tenant.busy.map(Semaphore::try_acquire_owned) {
            Some(Err(_)) => return Err(self.rate_limited(&principal, Duration::ZERO)),
            Some(Ok(permit)) => limits::add_tenant(permit),
            None => {}
        }
        if let Some(scope) = required_scope(request) {
            let path = request.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
            let action = || format!("{} {path}", request.method);
            self.check(&principal, scope, action)?;
        }
        Ok(App {
            server: tenant.server,
            spools: tenant.spools,
            metrics: Arc::clone(&self.metrics),
            tracer: self.tracer.clone(),
            principal,
            state: self.clone(),
        })
    }

    /// Whether `principal` may do something that needs `scope`, which is told to whoever watches.
    #[expect(clippy::result_large_err, reason = "whoever gets it sends it at once")]
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

    /// What whoever is not let in is told, and whoever watches.
    fn denied(&self, denied: &AuthError, principal: Option<&Principal>) -> Response {
        self.publish_denied(denied.word(), principal);
        let mut response = Problem::new(denied.status(), denied.to_string()).into_response();
        let challenge = self.authentication.challenge(denied);
        if let Some(value) = challenge.and_then(|text| HeaderValue::from_str(&text).ok()) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
        }
        response
    }

    fn publish_denied(&self, reason: &'static str, principal: Option<&Principal>) {
        let tenant = principal.map(|principal| principal.tenant.clone());
        let subject = principal.map(|principal| principal.subject.clone());
        self.events.publish(None, ServerEventKind::AccessDenied { reason, tenant, subject });
    }

    fn rate_limited(&self, principal: &Principal, wait: Duration) -> Response {
        self.publish_denied("rate", Some(principal));
        let said = "rate limit exceeded for this tenant";
        let mut response = Problem::new(StatusCode::TOO_MANY_REQUESTS, said).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, whole_seconds(wait).into());
        response
    }
}

/// Lets a request through with what its principal has, or answers it.
pub(super) async fn admit(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    match state.authorize(&parts).await {
        Ok(app) => {
            parts.extensions.insert(app);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(response) => response,
    }
}

/// Refuses a request where the server is at capacity. The permit belongs to the work of the request,
/// and is released when that ends.
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

/// So many that the time is over after them: none are too few even where it is over already.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + 1
}

/// What a request needs, by its path and method. What a message needs is in it.
fn required_scope(request: &Parts) -> Option<AuthScope> {
    match (request.uri.path(), &request.method) {
        ("/mcp" | "/openapi.json", _) => None,
        ("/metrics", _) => Some(AuthScope::Admin),
        ("/v1/search", _) | (_, &Method::GET | &Method::HEAD) => Some(AuthScope::Read),
        _ => Some(AuthScope::Write),
    }
}

// --- Authentication: who sends a request, by what `server.auth` names.

/// How requests prove who sends them.
#[derive(Clone)]
pub(super) enum Authentication {
    /// By a key or a token that names a tenant.
    Principals(Arc<Authenticator>),
    /// By a token of a file. All of them are one tenant, whose name this is.
    Tokens(BearerTokens, String),
    /// By their connection: the listener accepts those of one user alone. The name is the tenant's.
    SameUser(String),
}

impl Authentication {
    /// Who sends `request`.
    pub(super) async fn principal(&self, request: &Parts) -> Result<Principal, AuthError> {
        match self {
            Self::Principals(authenticator) => {
                authenticator.admit(&request.headers, request.uri.query()).await
            }
            Self::Tokens(tokens, tenant) => {
                let authorization = one(&request.headers, &header::AUTHORIZATION);
                let Some(line) = tokens.verify(authorization) else {
                    let sent = request.headers.contains_key(header::AUTHORIZATION);
                    return Err(if sent { AuthError::Invalid } else { AuthError::Missing });
                };
                full_access_principal(tenant, &format!("token:{line}"))
            }
            Self::SameUser(tenant) => full_access_principal(tenant, &format!("uid:{}", user_id())),
        }
    }

    /// What tells a client how to authenticate.
    pub(super) fn challenge(&self, denied: &AuthError) -> Option<String> {
        match self {
            Self::Principals(authenticator) => authenticator.challenge(denied),
            Self::Tokens(..) => matches!(denied, AuthError::Missing | AuthError::Invalid)
                .then(|| "Bearer".to_owned()),
            Self::SameUser(_) => None,
        }
    }

    /// Who issues tokens for this server (RFC 9728).
    pub(super) fn metadata(&self) -> Option<String> {
        match self {
            Self::Principals(authenticator) => authenticator.metadata(),
            Self::Tokens(..) | Self::SameUser(_) => None,
        }
    }
}

/// Someone who may do everything.
fn full_access_principal(tenant: &str, subject: &str) -> Result<Principal, AuthError> {
    Principal::new(tenant, subject, AuthScope::ALL.into_iter().collect())
        .map_err(|_| AuthError::UnknownTenant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_back_as_told_does_not_come_too_soon() {
        let seconds = |millis| whole_seconds(Duration::from_millis(millis));
        assert_eq!([0, 1, 999, 1000, 29_500].map(seconds), [1, 1, 1, 2, 30]);
    }
}
