//! HTTP: MCP at `/mcp`, in front of a server that is reached by URL or runs as processes of ours.

mod body_writer;
mod gateway;
mod id_map;
mod local;
mod process_host;
mod route;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get};
use http::{Method, StatusCode, header};
use lro_http::{
    Bounds, Exposure, Guard, Listener, Problem, Route, Stopped, no_such_method, no_such_path,
};
use lro_wire::{JsonRpcError, MAX_IN_MEMORY_LINE_LEN, Message, PARSE_ERROR, INVALID_REQUEST};

use self::gateway::Gateway;
use self::process_host::Host;
pub use self::process_host::Start;
use crate::relay::Relay;
use crate::upstream::http::Remote;

/// How often a stream that is silent says that it is there.
const STILL_THERE: Duration = Duration::from_secs(15);

/// How long an answer may go on when the proxy ends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// What stands behind.
pub enum Behind {
    /// A server at a URL.
    Remote(Remote),
    /// A server that is started: once for each session of the older era, once for all of the newer.
    Process(Start),
}

/// Answers on `listener` until it is stopped, so many connections at a time. Fails where a TCP listener
/// has no tokens. Blocking: it has threads of its own.
pub fn run(
    relay: Relay,
    behind: Behind,
    listener: Listener,
    mut guard: Guard,
    connections: usize,
    stopped: Stopped,
) -> std::io::Result<()> {
    listener.require_identity(guard.tokens.is_some())?;
    guard.origins.extend(listener.origin());
    let front: Arc<dyn Front> = match behind {
        Behind::Remote(remote) => Arc::new(Gateway::new(relay, remote)),
        Behind::Process(start) => Host::new(relay, start),
    };
    let ending = Arc::clone(&front);
    let stop = async move {
        stopped.wait().await;
        // First of all: every stream that is open ends with it.
        let _ = tokio::task::spawn_blocking(move || ending.end()).await;
    };
    let bounds = Bounds::new(connections, DRAIN_TIMEOUT);
    lro_http::serve(|| router(Arc::clone(&front), guard), listener, bounds, stop)
}

/// What answers.
trait Front: Send + Sync {
    /// Answers one request.
    fn answer(self: Arc<Self>, asked: Asked) -> Answering;

    /// Ends what is still under way.
    fn end(&self);
}

type Answering = std::pin::Pin<Box<dyn Future<Output = Response> + Send>>;

/// A request whose body was read.
struct Asked {
    method: Method,
    headers: http::HeaderMap,
    body: String,
}

/// Every path with what it needs: the one list that the router is made of.
fn routes(mcp: MethodRouter) -> Vec<Route> {
    vec![
        Route::new("/mcp", Exposure::Authenticated, mcp),
        Route::new("/healthz", Exposure::Public, get(async || "ok\n")),
    ]
}

/// The paths of a proxy and what they need, for those who try all of them.
pub fn paths() -> Vec<(&'static str, Exposure)> {
    routes(MethodRouter::new()).into_iter().map(|route| (route.path, route.exposure)).collect()
}

fn router(front: Arc<dyn Front>, guard: Guard) -> Router {
    let guard = Arc::new(guard);
    let answer = move |request: Request| {
        let front = Arc::clone(&front);
        async move {
            match asked(request).await {
                Ok(asked) => front.answer(asked).await,
                Err(response) => response,
            }
        }
    };
    let mut routers = [Router::new(), Router::new()];
    for Route { path, exposure, methods } in routes(any(answer)) {
        let router = &mut routers[usize::from(exposure == Exposure::Public)];
        *router = std::mem::take(router).route(path, methods);
    }
    let [authenticated, public] = routers;
    let routes = guard
        .before(authenticated)
        .merge(public)
        .fallback(any(no_such_path))
        .method_not_allowed_fallback(no_such_method);
    guard.around(routes.layer(DefaultBodyLimit::max(MAX_IN_MEMORY_LINE_LEN)))
}

async fn asked(request: Request) -> Result<Asked, Response> {
    let (parts, body) = request.into_parts();
    if !matches!(parts.method, Method::GET | Method::POST | Method::DELETE) {
        return Err(not_allowed());
    }
    let bytes = axum::body::to_bytes(body, MAX_IN_MEMORY_LINE_LEN).await.map_err(|_| {
        let said = format!("a body has at most {LINE_IN_MEMORY} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, said).into_response()
    })?;
    let no_text = |_| {
        json(
            StatusCode::BAD_REQUEST,
            JsonRpcError::new(PARSE_ERROR, "the body is no UTF-8").without_id(),
        )
    };
    let body = String::from_utf8(bytes.into()).map_err(no_text)?;
    Ok(Asked { method: parts.method, headers: parts.headers, body })
}

fn not_allowed() -> Response {
    let said = "MCP is spoken with POST, GET and DELETE";
    let mut response = Problem::new(StatusCode::METHOD_NOT_ALLOWED, said).into_response();
    let allowed = http::HeaderValue::from_static("POST, GET, DELETE");
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

fn no_request() -> Response {
    let failure = JsonRpcError::new(INVALID_REQUEST, "the body is no JSON-RPC message");
    json(StatusCode::BAD_REQUEST, failure.without_id())
}

fn json(status: StatusCode, body: impl Into<Bytes>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], Body::from(body.into())).into_response()
}

/// `failure` as the answer to what `text` asks.
fn failed(status: StatusCode, failure: &JsonRpcError, text: &str) -> Response {
    let id = Message::read(text).filter(Message::is_request).and_then(|message| message.id());
    json(status, id.map_or_else(|| failure.without_id(), |id| failure.response(&id)))
}
