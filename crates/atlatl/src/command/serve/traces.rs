//! Traces: what requests do, told to a collector by OTLP where the standard variables name one.
//!
//! Where they name none there is no thread, no connection and no span. A collector that is slow or
//! away costs spans, never a request.

mod post;
mod resource;
mod span;

use std::{env, sync::Arc, time::Duration};

use atlatl_server::trace::Tracer;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};

use self::{post::Post, resource::resource, span::Spans};
use crate::output::Output;

/// How long the collector may take for a batch.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last spans may take when the server ends.
const LAST_SPANS: Duration = Duration::from_secs(1);
/// Spans that wait for the collector; what comes on top is dropped.
const MOST_WAITING: usize = 2048;

/// The way to a collector.
pub(super) struct Traces(SdkTracerProvider);

/// The variables whose headers go out with every batch.
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];

/// Why a collector at `address` is not used: headers usually hold a key, which would go out in clear text.
fn in_clear(address: &str, is_set: impl Fn(&str) -> bool) -> Option<String> {
    let url = url::Url::parse(address).ok()?;
    if url.scheme() != "http" || crate::access::is_this_machine(&url) {
        return None;
    }
    if let Some(name) = HEADERS.into_iter().find(|name| is_set(name)) {
        return Some(format!("{name} is not sent to http://, use https://"));
    }
    let credentials = !url.username().is_empty() || url.password().is_some();
    credentials.then(|| "credentials are not sent to http://, use https://".to_owned())
}

impl Traces {
    /// The collector that the environment names, if it names one that we can speak to. It may be set
    /// for every program of the machine: what does not fit us is said, and is no reason to end.
    pub(super) fn of_environment() -> Option<Self> {
        let said = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let endpoint = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]
            .into_iter()
            .find(|name| said(name).is_some())?;
        let off = said("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || said("OTEL_TRACES_EXPORTER").is_some_and(|value| value != "otlp");
        if off {
            return None;
        }
        let protocol = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]
            .into_iter()
            .find_map(|name| Some((name, said(name)?)));
        if let Some((name, _)) = protocol.filter(|(_, value)| value != "http/protobuf") {
            Output::remark(format_args!("{name} is not http/protobuf: no traces are sent"));
            return None;
        }
        let address = said(endpoint).unwrap_or_default();
        if let Some(why) = in_clear(&address, |name| said(name).is_some()) {
            Output::remark(format_args!("{why}: no traces are sent"));
            return None;
        }
        let named = said("OTEL_SERVICE_NAME").is_some()
            || said("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|all| all.contains("service.name="));
        let traces = Self::to_collector(named).ok();
        if traces.is_none() {
            // What the error says may hold the whole address, and that a password.
            Output::remark(format_args!("{endpoint} is no URL: no traces are sent"));
        }
        traces
    }

    /// The address, headers, sampler and resource are read from the environment below.
    fn to_collector(named: bool) -> Result<Self, ExporterBuildError> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Post::new(EXPORT_TIMEOUT))
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(EXPORT_TIMEOUT)
            .build()?;
        let batches = BatchConfigBuilder::default().with_max_queue_size(MOST_WAITING).build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource(named))
            .build();
        Ok(Self(provider))
    }

    pub(super) fn tracer(&self) -> Arc<dyn Tracer> {
        Arc::new(Spans(self.0.tracer("atlatl-server")))
    }

    /// Sends what waits, as far as that goes in a second.
    pub(super) fn finish(&self) {
        // A collector that does not answer now does not get them.
        let _ = self.0.shutdown_with_timeout(LAST_SPANS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g03_headers_for_a_collector_are_not_sent_in_clear_text() {
        let with = |address: &str, set: &str| in_clear(address, |name| name == set);
        for name in HEADERS {
            for address in ["http://192.0.2.1:4318", "HTTP://otel.example/", "http://[2001:db8::1]"]
            {
                let why = with(address, name).unwrap_or_else(|| panic!("{address}"));
                assert!(why.contains(name) && why.contains("https://"), "{why}");
            }
            for address in [
                "https://otel.example",
                "http://127.0.0.1:4318",
                "http://localhost",
                "http://[::1]",
            ] {
                assert_eq!(with(address, name), None, "{address}");
            }
        }
        assert_eq!(with("http://192.0.2.1:4318", ""), None, "nothing secret");
        let secret = with("http://me:s3cret@192.0.2.1", "").unwrap();
        assert!(!secret.contains("s3cret"), "{secret}");
    }
}
