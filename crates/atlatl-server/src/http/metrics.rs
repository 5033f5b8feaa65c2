//! Prometheus metrics, and the trace span of a request.
//!
//! The span is a child of the client's span. The client names it in `_meta` (2026-07-28) or in the
//! headers, which intermediaries may have changed. Baggage is not read, since its contents are
//! private to the programs that agreed on them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use axum::Extension;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lro_http::Problem;
use lro_http::header::text;
use lro_wire::{Message, meta};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::App;
use crate::event::{ServerEvent, ServerEventKind, ServerEventSink};
use crate::trace::{RequestSpan, TraceParent, Tracer};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The labels of a metric, which come from the server and never from a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Labels(Vec<(&'static str, String)>);

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.encode(encoder)
    }
}

/// The metrics of the server.
pub struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
    events: Family<Labels, Counter>,
    memories: Counter,
    embedding_backlog: Gauge<f64, AtomicU64>,
    embedding_backlog_age: Gauge<f64, AtomicU64>,
}

impl Metrics {
    /// Sets how many memories wait for a vector, and for how many seconds the oldest of them does.
    pub fn set_embedding_backlog(&self, memories: u64, age_seconds: f64) {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52 memories")]
        self.embedding_backlog.set(memories as f64);
        self.embedding_backlog_age.set(age_seconds);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("atlatl");
        let requests = Family::default();
        registry.register("http_requests", "Requests by path and status", requests.clone());
        let buckets: fn() -> Histogram =
            || Histogram::new([0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0]);
        let seconds = Family::new_with_constructor(buckets);
        let help = "Request duration";
        registry.register_with_unit("http_request", help, Unit::Seconds, seconds.clone());
        let events = Family::default();
        registry.register("events", "Events by kind", events.clone());
        let memories = Counter::default();
        registry.register("memories_given", "Memories returned", memories.clone());
        let embedding_backlog = Gauge::default();
        let help = "Memories that wait for a vector";
        registry.register("embedding_backlog_memories", help, embedding_backlog.clone());
        let embedding_backlog_age = Gauge::default();
        registry.register_with_unit(
            "embedding_backlog_age",
            "Time since the oldest memory without a vector was written",
            Unit::Seconds,
            embedding_backlog_age.clone(),
        );
        Self {
            registry,
            requests,
            seconds,
            events,
            memories,
            embedding_backlog,
            embedding_backlog_age,
        }
    }
}

impl ServerEventSink for Metrics {
    fn publish(&self, event: &ServerEvent) {
        let kind = event.kind.name();
        self.events.get_or_create(&Labels(vec![("kind", kind.to_owned())])).inc();
        if let ServerEventKind::MemoryRecalled { count, .. } = event.kind {
            self.memories.inc_by(count);
        }
    }
}

pub(super) async fn record_request(
    State(metrics): State<Arc<Metrics>>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    // The matched route: a path of the client is never a label.
    let path = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str);
    let path = path.to_owned();
    let response = next.run(request).await;
    let status = response.status().as_u16().to_string();
    let labels = Labels(vec![("path", path.clone()), ("status", status)]);
    metrics.requests.get_or_create(&labels).inc();
    let seconds = metrics.seconds.get_or_create(&Labels(vec![("path", path)]));
    seconds.observe(began.elapsed().as_secs_f64());
    response
}

pub(super) async fn export(Extension(app): Extension<App>) -> Result<Response, Problem> {
    let mut text = String::new();
    encode(&mut text, &app.metrics.registry).map_err(|_| Problem::broken())?;
    let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, form)], text).into_response())
}

/// Starts the span of `message`.
pub(super) fn start_span(
    tracer: Option<&Arc<dyn Tracer>>,
    message: &Message<'_>,
    headers: &HeaderMap,
) -> RequestSpan {
    RequestSpan::request(tracer, message, || {
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
