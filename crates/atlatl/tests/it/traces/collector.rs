//! A collector: takes spans by OTLP over HTTP, and decodes them.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message as _;
use testkit::http::{HttpServer, reply};

use crate::canaries;
use crate::program::Program;

/// A collector that takes everything, and is searched for canaries at its end.
pub(crate) struct Collector(HttpServer);

impl Collector {
    pub(crate) fn start() -> Self {
        Self(HttpServer::start(|_, stream| {
            reply(stream, "200 OK", &[("Content-Type", "application/x-protobuf")], b"")
        }))
    }

    pub(super) fn url(&self) -> String {
        self.0.url("")
    }

    /// The same program, whose spans come here.
    pub(crate) fn of(&self, program: Program) -> Program {
        program.variable("OTEL_EXPORTER_OTLP_ENDPOINT", &self.url())
    }

    /// How often something came.
    pub(crate) fn posts(&self) -> usize {
        self.0.asked().len()
    }

    /// Path, kind of body, and the header called `name` of all that came.
    pub(super) fn heads(&self, name: &str) -> Vec<(String, String, Option<String>)> {
        let asked = self.0.asked();
        let head = |asked: &testkit::http::ReceivedRequest| {
            let kind = asked.header("content-type").unwrap_or_default().to_owned();
            (asked.path().to_owned(), kind, asked.header(name).map(str::to_owned))
        };
        asked.iter().map(head).collect()
    }

    /// All bytes that came.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.asked().iter().flat_map(|asked| asked.body.clone()).collect()
    }

    pub(super) fn resources(&self) -> Vec<ResourceSpans> {
        let asked = self.0.asked();
        let decoded = |body: &[u8]| ExportTraceServiceRequest::decode(body).unwrap().resource_spans;
        asked.iter().flat_map(|asked| decoded(&asked.body)).collect()
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        let scopes = self.resources().into_iter().flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        canaries::check("the spans", &String::from_utf8_lossy(&self.bytes()));
    }
}

/// What is said under `key`, as text.
pub(super) fn said(attributes: &[KeyValue], key: &str) -> Option<String> {
    let mut all = attributes.iter().filter(|attribute| attribute.key == key);
    let value = all.next()?.value.clone()?.value?;
    assert!(all.next().is_none(), "{key} is said twice: {attributes:?}");
    Some(match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => panic!("{key}: {other:?}"),
    })
}
