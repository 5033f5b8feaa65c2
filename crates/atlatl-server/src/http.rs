//! The HTTP server: MCP at `/mcp`, and an API for programs under `/v1`.
//!
//! The server keeps no state between requests: state that a client must return is signed and sent
//! to it.

mod admin;
mod admission;
mod api;
mod extract;
mod health;
mod mcp;
mod metrics;
mod offload;
mod problem;
mod readiness;
mod refusal_log;
mod request_log;

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
    BearerError, BearerTokens, Exposure, ListenError, Listener, StopHandle, StopSignal, listen,
    stop_channel,
};
use lro_http::{Guard, Problem, Route, ServeLimits, method_not_allowed, path_not_found};
use tokio::sync::Semaphore;

use self::admin::{AdminServer, AdminState};
use self::admission::{Authentication, HttpState, SingleTenant};
pub use self::admission::{Tenant, Tenants};
use self::health::Health;
pub use self::metrics::{Metrics, PoolUse};
use super::limits;
use super::signing::SignedLinks;
use crate::auth::{Authenticator, Principal};
use crate::dependency::Dependency;
use crate::event::EventBus;
use crate::maintenance::MaintenanceTasks;
use crate::server::MemoryServer;
use crate::trace::SetParent;

/// The maximum length of a request body: a memory has at most 1 MiB, and escaping makes it six
/// times longer at worst.
const MAX_BODY_LEN: usize = 8 << 20;
/// How long running responses may take when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The default number of connections, which leaves some of the usual limit of 1024 open files.
const MAX_CONNECTIONS: usize = 768;

/// The options of the HTTP server.
#[non_exhaustive]
pub struct HttpOptions {
    /// Allowed `Host` headers, besides the names of this machine.
    pub allowed_hosts: Vec<String>,
    /// Allowed `Origin` headers, besides the listener's own.
    pub allowed_origins: Vec<String>,
    /// The bearer tokens, one of which a request needs. `None` is allowed for a Unix socket only.
    pub tokens: Option<BearerTokens>,
    /// The name of the single tenant in the audit log.
    pub tenant: String,
    /// The spools of stored results, for `/v1/offloads`.
    pub spools: Option<Spools>,
    /// The verifier of signed links to stored results.
    pub links: Option<Arc<SignedLinks>>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The database of the store, to report that it hangs.
    pub database: Option<Arc<Dependency>>,
    /// Makes the span of a request the child of the client's span, if spans are exported.
    pub set_parent: Option<SetParent>,
    /// The listener for probes and Prometheus, which needs no authentication.
    pub admin: Option<Listener>,
    /// The version that the admin listener reports.
    pub version: &'static str,
    /// How long the server keeps answering after it was stopped while it reports that it is not
    /// ready, so that load balancers stop sending requests.
    pub drain: Duration,
    /// The maximum number of connections. Further ones wait.
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
            database: None,
            set_parent: None,
            admin: None,
            version: env!("CARGO_PKG_VERSION"),
            drain: Duration::ZERO,
            connections: MAX_CONNECTIONS,
        }
    }
}

/// The request context of a handler: everything that belongs to its tenant.
#[derive(Clone)]
struct App {
    server: MemoryServer,
    spools: Option<Spools>,
    /// The authenticated principal.
    principal: Principal,
    state: HttpState,
}

/// Serves `listener` until it is stopped, with one tenant for all clients. Fails if a TCP listener
/// has no tokens.
pub async fn run(
    server: MemoryServer,
    listener: Listener,
    mut options: HttpOptions,
    stopped: StopSignal,
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
    serve(Arc::new(SingleTenant(tenant)), authentication, events, listener, options, stopped).await
}

/// Like [`run`], for many tenants: `authenticator` determines the tenant of a request. The tokens,
/// spools and links of the options are ignored.
pub async fn run_multi_tenant(
    tenants: Arc<dyn Tenants>,
    authenticator: Arc<Authenticator>,
    events: EventBus,
    listener: Listener,
    options: HttpOptions,
    stopped: StopSignal,
) -> std::io::Result<()> {
    let authentication = Authentication::Principals(authenticator);
    serve(tenants, authentication, events, listener, options, stopped).await
}

async fn serve(
    tenants: Arc<dyn Tenants>,
    authentication: Authentication,
    events: EventBus,
    listener: Listener,
    options: HttpOptions,
    stopped: StopSignal,
) -> std::io::Result<()> {
    let stopping = Arc::new(AtomicBool::new(false));
    let (drain, told) = (options.drain, Arc::clone(&stopping));
    let stop = async move {
        stopped.wait().await;
        told.store(true, Ordering::Relaxed);
        tracing::info!(drain_seconds = drain.as_secs(), "stopping: draining requests");
        tokio::time::sleep(drain).await;
    };
    let health = Arc::new(Health::new(Arc::clone(&stopping)));
    let mut background = MaintenanceTasks::default();
    let admin = match options.admin {
        Some(admin) => {
            let watch = Arc::clone(&health).watch(Arc::clone(&tenants), options.database);
            background.spawn(watch);
            let metrics = Arc::clone(&options.metrics);
            Some(AdminServer::start(
                admin,
                AdminState { health, metrics, version: options.version },
            )?)
        }
        None => None,
    };
    let state = HttpState {
        tenants,
        authentication,
        metrics: options.metrics,
        set_parent: options.set_parent,
        events,
        stopping,
        permits: HttpState::permits(),
        readiness: Arc::default(),
        refusals: Arc::default(),
        discard: Arc::new(Semaphore::new(1)),
        started_at: Instant::now(),
    };
    let mut origins = options.allowed_origins;
    origins.extend(listener.origin());
    let guard = Guard { hosts: options.allowed_hosts, origins, tokens: None };
    let bounds = ServeLimits::new(options.connections, DRAIN_TIMEOUT);
    let served =
        lro_http::serve_async(router(state, &Arc::new(guard)), listener, bounds, stop).await;
    // Until here it reported that the server shuts down.
    drop((admin, background));
    served
}

/// Every path with its exposure. The router is built from this list.
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
        Route::new("/readyz", Public, get(readiness::ready)),
    ]
}

/// Returns the paths of the server with their exposure, for tests that try all of them.
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
        .layer_auth(of(Exposure::Authenticated))
        .layer(from_fn_with_state(state.clone(), admission::admit))
        // The signature of a link is its authentication.
        .merge(of(Exposure::SignedLink))
        .layer(from_fn_with_state(state.clone(), admission::limit_concurrency))
        .merge(of(Exposure::Public))
        .fallback(any(path_not_found))
        .method_not_allowed_fallback(method_not_allowed);
    guard
        .layer_origin(asked)
        .layer(from_fn(catch_panic))
        .layer(from_fn_with_state(state.clone(), request_log::record))
        .with_state(state)
}

/// Runs blocking `work` with the permits of the request.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    limits::blocking(work).await.map_err(|_| Problem::broken())
}

/// Answers 500 if a handler panics, so that the connection and the server continue.
async fn catch_panic(request: Request, next: Next) -> Response {
    let caught = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    caught.unwrap_or_else(|_| {
        tracing::error!("a request failed with an internal error");
        Problem::broken().into_response()
    })
}
