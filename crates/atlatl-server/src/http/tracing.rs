//! The span of a request, as a child of the client's span.
//!
//! A client names it in `_meta` (2026-07-28), or in the headers, where those between may have put
//! theirs. Of baggage nothing is read: it is text for programs that agreed on it.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use lro_http::header::text;
use lro_wire::{Message, meta};

use crate::trace::{Parent, Traced, Tracer};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// Begins the span of `message`.
pub(super) fn request(
    tracer: Option<&Arc<dyn Tracer>>,
    message: &Message<'_>,
    headers: &HeaderMap,
) -> Traced {
    Traced::request(tracer, message, || in_meta(message).or_else(|| in_headers(headers)))
}

fn in_meta(message: &Message<'_>) -> Option<Parent> {
    let meta = meta::meta(message)?;
    let state = meta.text(TRACESTATE);
    Parent::read(&meta.text(TRACEPARENT)?, state.as_deref())
}

fn in_headers(headers: &HeaderMap) -> Option<Parent> {
    let parent = text(headers, &HeaderName::from_static(TRACEPARENT))?;
    // Unlike its parent, a state may come in several lines.
    let lines = headers.get_all(TRACESTATE).iter().filter_map(|line| line.to_str().ok());
    let state = lines.collect::<Vec<_>>().join(",");
    Parent::read(parent, Some(&state))
}
