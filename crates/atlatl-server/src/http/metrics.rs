//! Metrics: what is counted, as Prometheus reads it.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lro_http::Problem;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::App;
use crate::event::{Event, EventKind, EventSink};

/// Names and values that stand behind a metric: our own words, never a client's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Labels(Vec<(&'static str, String)>);

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.encode(encoder)
    }
}

/// Counts what happens.
pub struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
    events: Family<Labels, Counter>,
    memories: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("atlatl");
        let requests = Family::default();
        registry.register("http_requests", "Requests by path and status", requests.clone());
        let buckets: fn() -> Histogram =
            || Histogram::new([0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0]);
        let seconds = Family::new_with_constructor(buckets);
        let help = "Time from a request to its answer";
        registry.register_with_unit("http_request", help, Unit::Seconds, seconds.clone());
        let events = Family::default();
        registry.register("events", "What happened, by kind", events.clone());
        let memories = Counter::default();
        registry.register("memories_given", "Memories given out", memories.clone());
        Self { registry, requests, seconds, events, memories }
    }
}

impl EventSink for Metrics {
    fn publish(&self, event: &Event) {
        let kind = event.kind.name();
        self.events.get_or_create(&Labels(vec![("kind", kind.to_owned())])).inc();
        if let EventKind::MemoryRecalled { count, .. } = event.kind {
            self.memories.inc_by(count);
        }
    }
}

pub(super) async fn counted(
    State(metrics): State<Arc<Metrics>>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    // The path as we know it: what a client makes up is no label.
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

pub(super) async fn exposition(Extension(app): Extension<App>) -> Result<Response, Problem> {
    let mut text = String::new();
    encode(&mut text, &app.metrics.registry).map_err(|_| Problem::broken())?;
    let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, form)], text).into_response())
}
