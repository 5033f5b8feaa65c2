//! An HTTP frontend: MCP at `/mcp`, in front of a server at a URL or of server processes.

mod gateway;
mod process;
mod process_host;
mod request_id;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get};
use http::{Method, StatusCode, header};
use lro_http::{
    Exposure, Guard, Listener, Problem, Route, ServeLimits, StopSignal, method_not_allowed,
    path_not_found,
};
use lro_query::Cancel;
use lro_wire::sse::SseEvent;
use lro_wire::{INVALID_REQUEST, JsonRpcError, MAX_IN_MEMORY_LINE_LEN, Message, PARSE_ERROR};

use self::gateway::Gateway;
use self::process_host::ProcessHost;
pub use self::process_host::StartProcess;
use self::request_id::{ClientRequestId, restore_id};
use self::streams::{BodyWriter, Outbound, event_stream};
use crate::relay::Relay;
use crate::relay::local_tools::LocalToolCall;
use crate::upstream::http::Remote;

/// The interval of keep-alive comments on an idle event stream.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// How long responses in flight may take when the proxy stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The server upstream the proxy.
pub enum Upstream {
    /// A server at a URL.
    Remote(Remote),
    /// A command that starts the server: once per session, and once for all stateless requests.
    Process(StartProcess),
}

/// Serves clients on `listener` until it is stopped, with at most `connections` at a time. Fails if a TCP
/// listener has no tokens. Blocks: it starts its own threads.
pub fn run(
    relay: Relay,
    upstream: Upstream,
    listener: Listener,
    mut guard: Guard,
    connections: usize,
    stopped: StopSignal,
) -> std::io::Result<()> {
    listener.require_identity(guard.tokens.is_some())?;
    guard.origins.extend(listener.origin());
    let frontend: Arc<dyn Frontend> = match upstream {
        Upstream::Remote(remote) => Arc::new(Gateway::new(relay, remote)),
        Upstream::Process(start) => ProcessHost::new(relay, start),
    };
    let stopping = Arc::clone(&frontend);
    let stop = async move {
        stopped.wait().await;
        // Ends all open streams before the listener waits for them.
        let _ = tokio::task::spawn_blocking(move || stopping.shutdown()).await;
    };
    let limits = ServeLimits::new(connections, DRAIN_TIMEOUT);
    lro_http::serve(|| router(Arc::clone(&frontend), guard), listener, limits, stop)
}

/// Handles requests at `/mcp`.
trait Frontend: Send + Sync {
    /// Handles one request.
    fn handle(self: Arc<Self>, request: ClientRequest) -> ResponseFuture;

    /// Ends all requests in flight.
    fn shutdown(&self);
}

type ResponseFuture = std::pin::Pin<Box<dyn Future<Output = Response> + Send>>;

/// A request with its whole body.
struct ClientRequest {
    method: Method,
    headers: http::HeaderMap,
    body: String,
}

/// All routes: the router is built from this list.
fn routes(mcp: MethodRouter) -> Vec<Route> {
    vec![
        Route::new("/mcp", Exposure::Authenticated, mcp),
        Route::new("/healthz", Exposure::Public, get(async || "ok\n")),
    ]
}

/// The paths of the proxy and their required authentication, for tests that try all of them.
pub fn paths() -> Vec<(&'static str, Exposure)> {
    routes(MethodRouter::new()).into_iter().map(|route| (route.path, route.exposure)).collect()
}

fn router(frontend: Arc<dyn Frontend>, guard: Guard) -> Router {
    let guard = Arc::new(guard);
    let handler = move |request: Request| {
        let frontend = Arc::clone(&frontend);
        async move {
            match read_request(request).await {
                Ok(request) => frontend.handle(request).await,
                Err(response) => response,
            }
        }
    };
    let mut routers = [Router::new(), Router::new()];
    for Route { path, exposure, methods } in routes(any(handler)) {
        let router = &mut routers[usize::from(exposure == Exposure::Public)];
        *router = std::mem::take(router).route(path, methods);
    }
    let [authenticated, public] = routers;
    let routes = guard
        .layer_auth(authenticated)
        .merge(public)
        .fallback(any(path_not_found))
        .method_not_allowed_fallback(method_not_allowed);
    guard.layer_origin(routes.layer(DefaultBodyLimit::max(MAX_IN_MEMORY_LINE_LEN)))
}

async fn read_request(request: Request) -> Result<ClientRequest, Response> {
    let (parts, body) = request.into_parts();
    if !matches!(parts.method, Method::GET | Method::POST | Method::DELETE) {
        return Err(not_allowed());
    }
    let bytes = axum::body::to_bytes(body, MAX_IN_MEMORY_LINE_LEN).await.map_err(|_| {
        let detail = format!("the request body is larger than {MAX_IN_MEMORY_LINE_LEN} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail).into_response()
    })?;
    let not_text = |_| {
        json(
            StatusCode::BAD_REQUEST,
            JsonRpcError::new(PARSE_ERROR, "the body is not valid UTF-8").without_id(),
        )
    };
    let body = String::from_utf8(bytes.into()).map_err(not_text)?;
    Ok(ClientRequest { method: parts.method, headers: parts.headers, body })
}

fn not_allowed() -> Response {
    let detail = "method not allowed: use POST, GET or DELETE";
    let mut response = Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).into_response();
    let allowed = http::HeaderValue::from_static("POST, GET, DELETE");
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

fn invalid_request() -> Response {
    let error = JsonRpcError::new(INVALID_REQUEST, "the body is not a JSON-RPC message");
    json(StatusCode::BAD_REQUEST, error.without_id())
}

fn json(status: StatusCode, body: impl Into<Bytes>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], Body::from(body.into())).into_response()
}

/// A response with `error` for the request in `text`.
fn error_response(status: StatusCode, error: &JsonRpcError, text: &str) -> Response {
    let id = Message::read(text).filter(Message::is_request).and_then(|message| message.id());
    json(status, id.map_or_else(|| error.without_id(), |id| error.response(&id)))
}

/// Cancels calls when it is dropped. Over HTTP a client cancels a request by closing the connection.
struct CancelOnDrop(Vec<Cancel>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(Cancel::cancel);
    }
}

/// Answers calls of extraction tools and sends immediate replies, with the client's own request id if it
/// was replaced. A client that asked for progress gets an event stream.
async fn answer_locally(
    relay: Arc<Relay>,
    calls: Vec<LocalToolCall>,
    replies: Vec<String>,
    request_id: Option<ClientRequestId>,
) -> Response {
    let cancel = CancelOnDrop(calls.iter().map(|call| call.cancel.clone()).collect());
    let wants_stream = calls.iter().any(LocalToolCall::wants_progress);
    let restore = move |message: &str| {
        let restored = request_id.as_ref().and_then(|id| restore_id(message, id));
        restored.unwrap_or_else(|| message.to_owned())
    };
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel::<String>();
    tokio::task::spawn_blocking(move || {
        for reply in replies {
            let _ = sender.send(restore(&reply));
        }
        for call in calls {
            relay.answer(&call, &|message| drop(sender.send(restore(message))));
        }
    });
    if !wants_stream {
        // A cancelled call has no response.
        let Some(message) = receiver.recv().await else {
            return StatusCode::ACCEPTED.into_response();
        };
        return json(StatusCode::OK, message);
    }
    let (body_writer, body) = BodyWriter::new();
    tokio::spawn(async move {
        let _cancel = cancel;
        let mut event = SseEvent::default();
        event.has_data = true;
        loop {
            let message = tokio::select! {
                message = receiver.recv() => message,
                () = body_writer.closed() => return,
            };
            let Some(message) = message else { return };
            if body_writer.event(&event, Some(Outbound::Text(message.into()))).await.is_err() {
                return;
            }
        }
    });
    event_stream(body)
}
