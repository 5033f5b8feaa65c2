//! HTTP: MCP for many clients at `/mcp`, beside an API for programs under `/v1`.
//!
//! Nothing is kept between requests: what a client must bring back is sealed and given to it.

mod api;
mod given;
mod mcp;
mod metrics;
mod offload;
mod problem;
mod traced;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get, post};
use lro::Spools;
pub use lro_http::{AuthError, BearerTokens, ListenError, Stop, Stopped, listen, stop};
use lro_http::{Guard, Problem, no_such_method, no_such_path};

pub use self::metrics::Metrics;
use crate::link::SignedLinks;
use crate::server::MemoryServer;
use crate::trace::Tracer;

/// No request is longer: the largest memory is 1 MiB, escaped at worst six times as long.
const LONGEST_BODY: usize = 8 << 20;
/// How long an answer that is under way may take when the server ends.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// How a server is reached.
#[derive(Default)]
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
}

/// What every handler has.
#[derive(Clone)]
struct App {
    server: MemoryServer,
    spools: Option<Spools>,
    links: Option<Arc<SignedLinks>>,
    metrics: Arc<Metrics>,
    tracer: Option<Arc<dyn Tracer>>,
    /// Whether it is being stopped.
    ending: Arc<AtomicBool>,
}

/// Answers on `listener` until it is stopped. Blocking: it has threads of its own.
pub fn run(
    server: MemoryServer,
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
    lro_http::serve(move || router(server, options, ending), listener, stop, LAST_WORDS)
}

fn router(server: MemoryServer, options: HttpOptions, ending: Arc<AtomicBool>) -> Router {
    let guard = Arc::new(Guard {
        hosts: options.allowed_hosts,
        origins: options.allowed_origins,
        tokens: options.tokens,
    });
    let HttpOptions { spools, links, metrics, tracer, .. } = options;
    let app = App { server, spools, links, metrics, tracer, ending };
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
        // A link is proof enough of itself.
        .route("/v1/offloads/{id}/{link}", get(offload::linked))
        .route("/healthz", get(api::alive))
        .route("/readyz", get(api::ready))
        .fallback(any(no_such_path))
        .method_not_allowed_fallback(no_such_method);
    guard
        .around(asked.layer(DefaultBodyLimit::max(LONGEST_BODY)))
        .layer(from_fn_with_state(Arc::clone(&app.metrics), metrics::counted))
        .with_state(app)
}

/// Runs `work`, which may wait for a disk, where nobody else waits with it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::broken())
}
