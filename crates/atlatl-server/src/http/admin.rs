//! The admin listener: health, readiness, metrics and version.
//!
//! It has an address of its own and checks neither `Host` nor a key, since probes come by the address of a
//! pod and metrics matter most while keys cannot be looked up. No response has user data. Its one thread
//! answers from memory, so that it answers while the server is overloaded or waits for its store.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use lro_http::{
    Listener, Problem, ServeLimits, StopHandle, method_not_allowed, path_not_found, serve_async,
    stop_channel,
};
use serde_json::json;

use super::health::{Health, Readiness};
use super::metrics::Metrics;

/// The number of connections: a few probes and Prometheus servers.
const MAX_CONNECTIONS: usize = 64;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// What the admin listener shows.
#[derive(Clone)]
pub(super) struct AdminState {
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) version: &'static str,
}

/// The running admin listener. It stops when this is dropped.
pub(super) struct AdminServer {
    stop: Option<StopHandle>,
    thread: Option<JoinHandle<()>>,
}

impl AdminServer {
    /// Serves `listener` in a thread.
    pub(super) fn start(listener: Listener, state: AdminState) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = stop_channel();
        let limits = ServeLimits::new(MAX_CONNECTIONS, DRAIN_TIMEOUT);
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || {
            let served =
                runtime.block_on(serve_async(router(state), listener, limits, stopped.wait()));
            if let Err(error) = served {
                tracing::error!(error = %error, "the admin listener failed");
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.now();
        }
        if let Some(thread) = self.thread.take() {
            // A panic was reported by its hook.
            let _ = thread.join();
        }
    }
}

fn router(state: AdminState) -> Router {
    Router::new()
        .route("/healthz", get(live))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/version", get(version))
        .fallback(path_not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(state)
}

async fn live(State(state): State<AdminState>) -> Result<&'static str, Problem> {
    if state.health.is_live() {
        Ok("ok\n")
    } else {
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "server does not respond"))
    }
}

async fn ready(State(state): State<AdminState>) -> Result<&'static str, Problem> {
    match state.health.readiness() {
        Readiness::Ready => Ok("ok\n"),
        other => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, other.message())),
    }
}

async fn metrics(State(state): State<AdminState>) -> Result<Response, Problem> {
    state.metrics.response()
}

async fn version(State(state): State<AdminState>) -> Response {
    let body = json!({"name": "atlatl", "version": state.version}).to_string();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
