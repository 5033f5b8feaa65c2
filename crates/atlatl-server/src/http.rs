//! HTTP: MCP for many clients at `/mcp`, beside an API for programs under `/v1`.
//!
//! Nothing is kept between requests: what a client must bring back is sealed and given to it.

mod api;
mod auth;
mod given;
mod guard;
mod listen;
mod mcp;
mod metrics;
mod offload;
mod problem;

use std::future::Future;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{any, get, post};
use lro::Spools;
use tokio::sync::oneshot;

pub use self::auth::{AuthError, BearerTokens};
use self::guard::Guard;
pub use self::listen::{ListenError, listen};
pub use self::metrics::Metrics;
use crate::server::MemoryServer;

/// No request is longer: the largest memory is 1 MiB, escaped at worst six times as long.
const LONGEST_BODY: usize = 8 << 20;

/// How long work on a disk may go on after the last answer.
const LAST_WORDS: Duration = Duration::from_secs(2);

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
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// What every handler has.
#[derive(Clone)]
struct App {
    server: MemoryServer,
    spools: Option<Spools>,
    metrics: Arc<Metrics>,
}

/// Ends a server.
pub struct Stop(oneshot::Sender<()>);

/// Waits for a server's end.
pub struct Stopped(oneshot::Receiver<()>);

/// A way to end a server.
pub fn stop() -> (Stop, Stopped) {
    let (send, receive) = oneshot::channel();
    (Stop(send), Stopped(receive))
}

impl Stop {
    /// Ends it, when what is under way is answered.
    pub fn now(self) {
        // It may have ended by itself.
        let _ = self.0.send(());
    }
}

/// Answers on `listener` until it is stopped. Blocking: it has threads of its own.
pub fn run(
    server: MemoryServer,
    listener: TcpListener,
    options: HttpOptions,
    stopped: Stopped,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(serve(server, listener, options, async move {
        // Who drops the other end has forgotten us, not stopped us.
        if stopped.0.await.is_err() {
            std::future::pending::<()>().await;
        }
    }));
    runtime.shutdown_timeout(LAST_WORDS);
    served
}

/// Answers on `listener` until `stop` is done, and then what is under way.
async fn serve(
    server: MemoryServer,
    listener: TcpListener,
    options: HttpOptions,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let router = router(server, options);
    // A client that keeps its connection open must not keep us from ending.
    let (ending, ended) = oneshot::channel();
    let serving = axum::serve(listener, router).with_graceful_shutdown(async move {
        stop.await;
        let _ = ending.send(());
    });
    tokio::select! {
        served = serving.into_future() => served,
        () = async { let _ = ended.await; tokio::time::sleep(LAST_WORDS).await } => Ok(()),
    }
}

fn router(server: MemoryServer, options: HttpOptions) -> Router {
    let guard = Arc::new(Guard {
        hosts: options.allowed_hosts,
        origins: options.allowed_origins,
        tokens: options.tokens,
    });
    let app = App { server, spools: options.spools, metrics: options.metrics };
    let asked = Router::new()
        .route("/mcp", post(mcp::message).fallback(mcp::other_method))
        .route("/v1/memories", get(api::list).post(api::create))
        .route("/v1/memories/{id}", get(api::read).put(api::replace).delete(api::delete))
        .route("/v1/search", post(api::search))
        .route("/v1/offloads/{id}", get(offload::read))
        .route("/metrics", get(metrics::exposition))
        .route("/openapi.json", get(api::description))
        .layer(from_fn(guard::media_type))
        .layer(from_fn_with_state(Arc::clone(&guard), guard::identity))
        .route("/healthz", get(api::alive))
        .route("/readyz", get(api::ready))
        .fallback(any(problem::no_such_path))
        .method_not_allowed_fallback(problem::no_such_method);
    asked
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(from_fn_with_state(guard, guard::origin))
        .layer(from_fn_with_state(Arc::clone(&app.metrics), metrics::counted))
        .with_state(app)
}

/// Runs `work`, which may wait for a disk, where nobody else waits with it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, problem::Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|_| problem::Problem::broken())
}
