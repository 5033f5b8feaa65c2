//! HTTP: MCP for many clients at `/mcp`, beside an API for programs under `/v1`.
//!
//! Nothing is kept between requests: what a client must bring back is sealed and given to it.

mod admission;
mod api;
mod extract;
mod mcp;
mod metrics;
mod offload;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use futures_util::FutureExt;
use lro::Spools;
pub use lro_http::{
    AuthError, BearerTokens, Exposure, ListenError, Listener, Stop, Stopped, listen, stop,
};
use lro_http::{Bounds, Guard, Problem, Route, no_such_method, no_such_path};
use tokio::sync::Semaphore;

use self::admission::{Authentication, HttpState, SingleTenant};
pub use self::admission::{Tenant, Tenants};
pub use self::metrics::Metrics;
// The former name, until every crate of the workspace uses the new one.
#[doc(hidden)]
pub use self::run_multi_tenant as run_for_many;
use super::limits;
use super::signing::SignedLinks;
use crate::auth::{Authenticator, Principal};
use crate::event::EventBus;
use crate::server::MemoryServer;
use crate::trace::Tracer;

/// No request is longer: the largest memory is 1 MiB, escaped at worst six times as long.
const MAX_BODY_LEN: usize = 8 << 20;
/// How long an answer that is under way may take when the server ends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// As many connections as leave some of the 1024 files that a process may usually have open.
const MAX_CONNECTIONS: usize = 768;

/// How a server is reached.
#[non_exhaustive]
pub struct HttpOptions {
    /// `Host` headers that are answered, besides those of this machine.
    pub allowed_hosts: Vec<String>,
    /// `Origin` headers that are answered, besides the listener's own.
    pub allowed_origins: Vec<String>,
    /// Tokens one of which a request needs; `None` for a Unix socket alone.
    pub tokens: Option<BearerTokens>,
    /// What the one tenant is called in the audit.
    pub tenant: String,
    /// Where stored results lie, for `/v1/offloads`.
    pub spools: Option<Spools>,
    /// Who tells whether a link to a stored result is ours.
    pub links: Option<Arc<SignedLinks>>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Who collects what requests do, if anyone.
    pub tracer: Option<Arc<dyn Tracer>>,
    /// How long it goes on answering when it is stopped, and says that it is not ready, so that
    /// nobody is sent here any more.
    pub drain: Duration,
    /// Connections at a time; further ones wait.
    pub connections: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            tokens: None,
            tenant: "default".to_owned(),
            spools: None,
            links: None,
            metrics: Arc::default(),
            tracer: None,
            drain: Duration::ZERO,
            connections: MAX_CONNECTIONS,
        }
    }
}

/// What the handler of a request has: what its tenant has.
#[derive(Clone)]
struct App {
    server: MemoryServer,
    spools: Option<Spools>,
    metrics: Arc<Metrics>,
    tracer: Option<Arc<dyn Tracer>>,
    /// Who asks.
    principal: Principal,
    state: HttpState,
}

/// Serves `listener` until it is stopped: one tenant for all clients. Fails where a TCP listener has no
/// tokens. Blocking: it has threads of its own.
pub fn run(
    server: MemoryServer,
    listener: Listener,
    mut options: HttpOptions,
    stopped: Stopped,
) -> std::io::Result<()> {
    listener.require_identity(options.tokens.is_some())?;
    let name = std::mem::take(&mut options.tenant);
    let authentication = match options.tokens.take() {
        Some(tokens) => Authentication::Tokens(tokens, name),
        None => Authentication::SameUser(name),
    };
    let tenant = Tenant {
        spools: options.spools.clone(),
        links: options.links.clone(),
        ..Tenant::new(server)
    };
    let events = tenant.server.0.events.clone();
    serve(Arc::new(SingleTenant(tenant)), authentication, events, listener, options, stopped)
}

/// The same for many tenants: whose memories are asked for, `authenticator` says. The options' tokens, places
/// and links are not looked at.
pub fn run_multi_tenant(
    tenants: Arc<dyn Tenants>,
    authenticator: Arc<Authenticator>,
    events: EventBus,
    listener: Listener,
    options: HttpOptions,
    stopped: Stopped,
) -> std::io::Result<()> {
    let authentication = Authentication::Principals(authenticator);
    serve(tenants, authentication, events, listener, options, stopped)
}

fn serve(
    tenants: Arc<dyn Tenants>,
    authentication: Authentication,
    events: EventBus,
    listener: Listener,
    options: HttpOptions,
    stopped: Stopped,
) -> std::io::Result<()> {
    let stopping = Arc::new(AtomicBool::new(false));
    let (drain, told) = (options.drain, Arc::clone(&stopping));
    let stop = async move {
        stopped.wait().await;
        told.store(true, Ordering::Relaxed);
        tokio::time::sleep(drain).await;
    };
    let state = HttpState {
        tenants,
        authentication,
        metrics: options.metrics,
        tracer: options.tracer,
        events,
        stopping,
        permits: HttpState::permits(),
        readiness: Arc::new(Semaphore::new(1)),
        discard: Arc::new(Semaphore::new(1)),
        started_at: Instant::now(),
    };
    let mut origins = options.allowed_origins;
    origins.extend(listener.origin());
    let guard = Guard { hosts: options.allowed_hosts, origins, tokens: None };
    let bounds = Bounds::new(options.connections, DRAIN_TIMEOUT);
    lro_http::serve(move || router(state, &Arc::new(guard)), listener, bounds, stop)
}

/// Every path with what it needs: the one list that the router is made of.
fn routes() -> Vec<Route<HttpState>> {
    use Exposure::{Authenticated, Public, SignedLink};
    let memory = get(api::read).put(api::replace).delete(api::delete);
    vec![
        Route::new("/mcp", Authenticated, post(mcp::message).fallback(mcp::other_method)),
        Route::new("/v1/memories", Authenticated, get(api::list).post(api::create)),
        Route::new("/v1/memories/{id}", Authenticated, memory),
        Route::new("/v1/search", Authenticated, post(api::search)),
        Route::new("/v1/offloads/{id}", Authenticated, get(offload::read)),
        Route::new("/metrics", Authenticated, get(metrics::export)),
        Route::new("/openapi.json", Authenticated, get(api::description)),
        Route::new("/v1/offloads/{id}/{link}", SignedLink, get(offload::read_by_link)),
        Route::new("/.well-known/oauth-protected-resource", Public, get(api::metadata)),
        Route::new("/.well-known/oauth-protected-resource/mcp", Public, get(api::metadata)),
        Route::new("/healthz", Public, get(api::alive)),
        Route::new("/readyz", Public, get(api::ready)),
    ]
}

/// The paths of a server and what they need, for those who try all of them.
pub fn paths() -> Vec<(&'static str, Exposure)> {
    routes().into_iter().map(|route| (route.path, route.exposure)).collect()
}

fn router(state: HttpState, guard: &Arc<Guard>) -> Router {
    let of = |exposure: Exposure| {
        let routes = routes().into_iter().filter(move |route| route.exposure == exposure);
        routes
            .fold(Router::new(), |router, Route { path, methods, .. }| router.route(path, methods))
    };
    let asked = guard
        .before(of(Exposure::Authenticated))
        .layer(from_fn_with_state(state.clone(), admission::admit))
        // A link is proof enough of itself.
        .merge(of(Exposure::SignedLink))
        .layer(from_fn_with_state(state.clone(), admission::limit_concurrency))
        .merge(of(Exposure::Public))
        .fallback(any(no_such_path))
        .method_not_allowed_fallback(no_such_method);
    guard
        .around(asked)
        .layer(from_fn(catch_panic))
        .layer(from_fn_with_state(Arc::clone(&state.metrics), metrics::record_request))
        .with_state(state)
}

/// Runs `work`, which may wait for a disk, with the permits of the request.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    limits::blocking(work).await.map_err(|_| Problem::broken())
}

/// Answers 500 where a handler panics, so that neither the connection nor the server ends with it.
async fn catch_panic(request: Request, next: Next) -> Response {
    let caught = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    caught.unwrap_or_else(|_| Problem::broken().into_response())
}
