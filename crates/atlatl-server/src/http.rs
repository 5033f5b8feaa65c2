//! HTTP: MCP for many clients at `/mcp`, beside an API for programs under `/v1`.
//!
//! Nothing is kept between requests: what a client must bring back is sealed and given to it.

mod api;
mod given;
mod hall;
mod mcp;
mod metrics;
mod offload;
mod problem;
mod traced;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use atlatl_access::Principal;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get, post};
use lro::Spools;
pub use lro_http::{AuthError, BearerTokens, ListenError, Stop, Stopped, listen, stop};
use lro_http::{Bounds, Guard, Problem, no_such_method, no_such_path};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::hall::{Hall, Only};
pub use self::hall::{Tenant, Tenants};
pub use self::metrics::Metrics;
use crate::access::Doorman;
use crate::event::EventBus;
use crate::link::SignedLinks;
use crate::server::MemoryServer;
use crate::trace::Tracer;

/// No request is longer: the largest memory is 1 MiB, escaped at worst six times as long.
const LONGEST_BODY: usize = 8 << 20;
/// How long an answer that is under way may take when the server ends.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// As many connections as leave some of the 1024 files that a process may usually have open.
const CONNECTIONS: usize = 768;

/// How a server is reached.
#[non_exhaustive]
pub struct HttpOptions {
    /// `Host` headers that are answered, besides those of this machine.
    pub allowed_hosts: Vec<String>,
    /// `Origin` headers that are answered, besides those of this machine.
    pub allowed_origins: Vec<String>,
    /// Who may ask; `None` for anyone who reaches us.
    pub tokens: Option<BearerTokens>,
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
            spools: None,
            links: None,
            metrics: Arc::default(),
            tracer: None,
            drain: Duration::ZERO,
            connections: CONNECTIONS,
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
    /// Who asks; `None` where all are the same one.
    principal: Option<Principal>,
    hall: Hall,
    /// Its place among what its tenant asks at a time.
    _busy: Option<Arc<OwnedSemaphorePermit>>,
}

/// Answers on `listener` until it is stopped: one tenant, whoever asks. Blocking: it has threads of
/// its own.
pub fn run(
    server: MemoryServer,
    listener: TcpListener,
    options: HttpOptions,
    stopped: Stopped,
) -> std::io::Result<()> {
    let tenant = Tenant {
        spools: options.spools.clone(),
        links: options.links.clone(),
        ..Tenant::new(server)
    };
    let events = tenant.server.0.events.clone();
    serve(Arc::new(Only(tenant)), None, events, listener, options, stopped)
}

/// The same for many tenants: whose memories are asked for, `doorman` says. The options' tokens, places
/// and links are not looked at.
pub fn run_for_many(
    tenants: Arc<dyn Tenants>,
    doorman: Arc<Doorman>,
    events: EventBus,
    listener: TcpListener,
    mut options: HttpOptions,
    stopped: Stopped,
) -> std::io::Result<()> {
    options.tokens = None;
    serve(tenants, Some(doorman), events, listener, options, stopped)
}

fn serve(
    tenants: Arc<dyn Tenants>,
    doorman: Option<Arc<Doorman>>,
    events: EventBus,
    listener: TcpListener,
    options: HttpOptions,
    stopped: Stopped,
) -> std::io::Result<()> {
    let ending = Arc::new(AtomicBool::new(false));
    let (drain, told) = (options.drain, Arc::clone(&ending));
    let stop = async move {
        stopped.wait().await;
        told.store(true, Ordering::Relaxed);
        tokio::time::sleep(drain).await;
    };
    let hall = Hall {
        tenants,
        doorman,
        metrics: options.metrics,
        tracer: options.tracer,
        events,
        ending,
        room: Hall::room(),
        discard: Arc::new(Semaphore::new(1)),
        began: Instant::now(),
    };
    let guard = Guard {
        hosts: options.allowed_hosts,
        origins: options.allowed_origins,
        tokens: options.tokens,
    };
    let bounds = Bounds::new(options.connections, LAST_WORDS);
    lro_http::serve(move || router(hall, &Arc::new(guard)), listener, bounds, stop)
}

fn router(hall: Hall, guard: &Arc<Guard>) -> Router {
    let asked = Router::new()
        .route("/mcp", post(mcp::message).fallback(mcp::other_method))
        .route("/v1/memories", get(api::list).post(api::create))
        .route("/v1/memories/{id}", get(api::read).put(api::replace).delete(api::delete))
        .route("/v1/search", post(api::search))
        .route("/v1/offloads/{id}", get(offload::read))
        .route("/metrics", get(metrics::exposition))
        .route("/openapi.json", get(api::description));
    let asked = guard
        .before(asked)
        .layer(from_fn_with_state(hall.clone(), hall::admit))
        // A link is proof enough of itself.
        .route("/v1/offloads/{id}/{link}", get(offload::linked))
        .layer(from_fn_with_state(hall.clone(), hall::make_room))
        .route("/.well-known/oauth-protected-resource", get(api::metadata))
        .route("/.well-known/oauth-protected-resource/mcp", get(api::metadata))
        .route("/healthz", get(api::alive))
        .route("/readyz", get(api::ready))
        .fallback(any(no_such_path))
        .method_not_allowed_fallback(no_such_method);
    guard
        .around(asked)
        .layer(from_fn_with_state(Arc::clone(&hall.metrics), metrics::counted))
        .with_state(hall)
}

/// Runs `work`, which may wait for a disk, where nobody else waits with it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::broken())
}
