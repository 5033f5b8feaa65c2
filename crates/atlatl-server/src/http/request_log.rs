//! The outermost middleware: the id of a request, its line in the log, its metrics, and its span.
//!
//! The span is a child of the client's span. The client names it in `_meta` (2026-07-28) or in the
//! headers, which intermediaries may have changed. Baggage is not read, since its contents are private to
//! the programs that agreed on them.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use lro_http::header::text;
use lro_wire::{Message, meta};

use super::admission::HttpState;
use super::metrics::Metrics;
use crate::trace::{RequestFacts, RequestSpan, SetParent, TARGET, TraceParent};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The maximum length of a request id of a client.
const MAX_REQUEST_ID_LEN: usize = 128;

/// A running request. Dropping it before its end means that the client is gone.
struct RunningRequest {
    metrics: Arc<Metrics>,
    facts: Arc<RequestFacts>,
    began: Instant,
    id: String,
    method: String,
    path: String,
    is_ended: bool,
}

impl RunningRequest {
    fn end(&mut self, status: &str) {
        self.is_ended = true;
        let took = self.began.elapsed();
        self.metrics.request_ended(&self.path, status, took);
        let tool = self.facts.tool.get().copied();
        let outcome = match (self.facts.outcome.get().copied(), status) {
            (Some(outcome), _) => outcome,
            (None, "cancelled") => "cancelled",
            (None, _) => "ok",
        };
        if let Some(tool) = tool {
            self.metrics.call_ended(tool, outcome, took);
        }
        tracing::debug!(
            target: TARGET,
            request_id = self.id,
            method = self.method,
            path = self.path,
            status,
            tenant = self.facts.tenant.get(),
            tool,
            outcome = tool.map(|_| outcome),
            duration_ms = took.as_secs_f64() * 1000.0,
            "request"
        );
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        if !self.is_ended {
            self.end("cancelled");
        }
    }
}

/// Records a request, and returns its id to the client.
pub(super) async fn record(
    State(state): State<HttpState>,
    mut request: Request,
    next: Next,
) -> Response {
    // The matched route: a path of the client is never a label.
    let path = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str);
    let facts = Arc::<RequestFacts>::default();
    let id = request_id(request.headers()).unwrap_or_else(|| state.events.new_id());
    let _ = facts.id.set(id.clone());
    let mut running = RunningRequest {
        metrics: Arc::clone(&state.metrics),
        facts: Arc::clone(&facts),
        began: Instant::now(),
        id,
        method: known_method(request.method()).to_owned(),
        path: path.to_owned(),
        is_ended: false,
    };
    state.metrics.request_began();
    request.extensions_mut().insert(facts);
    let mut response = next.run(request).await;
    if let Ok(id) = HeaderValue::from_str(&running.id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    running.end(response.status().as_str());
    response
}

/// The id that the client, or a load balancer before this server, gave the request.
fn request_id(headers: &HeaderMap) -> Option<String> {
    let is_id = |id: &&str| {
        (1..=MAX_REQUEST_ID_LEN).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte))
    };
    text(headers, &REQUEST_ID).filter(is_id).map(str::to_owned)
}

/// The name of a method for a log: methods are tokens of the client's choice.
pub(super) fn known_method(method: &axum::http::Method) -> &str {
    match method.as_str() {
        known @ ("GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "OPTIONS" | "PATCH") => known,
        _ => "other",
    }
}

/// Starts the span of `message`.
pub(super) fn start_span(
    set_parent: Option<SetParent>,
    facts: &Arc<RequestFacts>,
    message: &Message<'_>,
    headers: &HeaderMap,
) -> RequestSpan {
    RequestSpan::request(set_parent, facts, message, || {
        parent_from_meta(message).or_else(|| parent_from_headers(headers))
    })
}

fn parent_from_meta(message: &Message<'_>) -> Option<TraceParent> {
    let meta = meta::meta(message)?;
    let state = meta.text(TRACESTATE);
    TraceParent::read(&meta.text(TRACEPARENT)?, state.as_deref())
}

fn parent_from_headers(headers: &HeaderMap) -> Option<TraceParent> {
    let parent = text(headers, &HeaderName::from_static(TRACEPARENT))?;
    // Unlike `traceparent`, `tracestate` may occur several times.
    let lines = headers.get_all(TRACESTATE).iter().filter_map(|line| line.to_str().ok());
    let state = lines.collect::<Vec<_>>().join(",");
    TraceParent::read(parent, Some(&state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g43_only_an_id_that_is_safe_in_a_log_is_accepted() {
        let accepted = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            request_id(&headers)
        };
        for id in ["7f3a", "01J-abc_d.e:f/g+h=", &"x".repeat(128)] {
            assert_eq!(accepted(id).as_deref(), Some(id));
        }
        for id in ["", "a b", "a\"b", "é", &"x".repeat(129)] {
            assert_eq!(accepted(id), None, "{id}");
        }
    }
}
