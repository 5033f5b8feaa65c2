//! Span: what the server says of its requests, in OpenTelemetry's terms.

use std::{
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use atlatl_server::trace::{AttrValue, Parent, RequestName, Span, Tracer};
use chrono::{DateTime, Utc};
use opentelemetry::{
    Context, KeyValue,
    trace::{
        SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags,
        TraceId, TraceState, Tracer as _,
    },
};
use opentelemetry_sdk::trace::SdkTracer;

/// The spans that a server begins.
pub(super) struct Spans(pub(super) SdkTracer);

impl Tracer for Spans {
    fn request(&self, name: RequestName, parent: Option<&Parent>) -> Arc<dyn Span> {
        let called = match name.tool {
            Some(tool) => format!("{} {tool}", name.method).into(),
            None => name.method.into(),
        };
        let above = parent.map_or_else(Context::new, |parent| {
            Context::new().with_remote_span_context(remote(parent))
        });
        let span = SpanBuilder { name: called, ..SpanBuilder::default() };
        Begun::begin(self.0.clone(), span.with_kind(SpanKind::Server), &above)
    }
}

fn remote(parent: &Parent) -> SpanContext {
    // A state that is none is dropped; the parent is one without it.
    let state = parent.state.as_deref().and_then(|state| TraceState::from_str(state).ok());
    SpanContext::new(
        TraceId::from(parent.trace_id),
        SpanId::from(parent.span_id),
        TraceFlags::default().with_sampled(parent.sampled),
        true,
        state.unwrap_or_default(),
    )
}

/// A span that has begun; the context ends it when it goes.
struct Begun {
    tracer: SdkTracer,
    context: Context,
    /// What has been said: the collector's library would keep both.
    said: Mutex<Vec<&'static str>>,
}

impl Begun {
    fn begin(tracer: SdkTracer, span: SpanBuilder, above: &Context) -> Arc<dyn Span> {
        let context = above.with_span(tracer.build_with_context(span, above));
        Arc::new(Self { tracer, context, said: Mutex::default() })
    }
}

impl Span for Begun {
    fn part(&self, name: &'static str, began: Option<DateTime<Utc>>) -> Arc<dyn Span> {
        let mut span = SpanBuilder::from_name(name);
        span.start_time = began.map(SystemTime::from);
        Self::begin(self.tracer.clone(), span, &self.context)
    }

    fn say(&self, key: &'static str, value: AttrValue) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.contains(&key) {
            return;
        }
        said.push(key);
        drop(said);
        let attribute = match value {
            AttrValue::Word(word) => KeyValue::new(key, word),
            AttrValue::Count(count) => KeyValue::new(key, i64::try_from(count).unwrap_or(i64::MAX)),
            _ => return,
        };
        self.context.span().set_attribute(attribute);
    }

    fn fail(&self, class: &'static str) {
        self.say("error.type", AttrValue::Word(class));
        self.context.span().set_status(Status::error(""));
    }

    fn end(&self) {
        self.context.span().end();
    }
}
