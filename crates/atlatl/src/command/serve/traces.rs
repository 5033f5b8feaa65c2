//! Exports request traces by OTLP over HTTP if the standard OpenTelemetry variables name a
//! collector.
//!
//! Without a collector there is no thread, no connection and no span. A slow or unavailable
//! collector loses spans but never delays a request.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, fmt};

use async_trait::async_trait;
use atlatl_server::trace::TraceParent;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider,
};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use ureq::Agent;

use crate::access::agent;
use crate::error::Error;
use crate::output::Output;
use crate::settings::secrets::{self, Secret};

/// The time limit for sending a batch.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit for sending the last spans at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum number of queued spans; further spans are dropped.
const MAX_QUEUED_SPANS: usize = 2048;

/// The exporter to a collector.
pub(super) struct Traces(SdkTracerProvider);

/// The variables with headers for the collector, each with the one that names a file with them. The second pair is
/// above the first.
const HEADERS: [[&str; 2]; 2] = [
    ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS_FILE"],
    ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS_FILE"],
];

/// The headers that are in files. The library reads the variables themselves.
fn headers_from_files(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<HashMap<String, String>, Error> {
    let mut headers = HashMap::new();
    for names in HEADERS {
        if let Some(Secret::File(path)) = secrets::find(names, &variable)? {
            let [_, file_name] = names;
            let text = secrets::read_file(file_name, &path)?;
            let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
            headers.extend(
                pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())),
            );
        }
    }
    Ok(headers)
}

/// Why a collector at `address` is not used: headers and credentials would be sent in clear text.
fn clear_text_reason(address: &str, is_set: impl Fn(&str) -> bool) -> Option<String> {
    let url = url::Url::parse(address).ok()?;
    if url.scheme() != "http" || crate::access::is_this_machine(&url) {
        return None;
    }
    if let Some(name) = HEADERS.into_iter().flatten().find(|name| is_set(name)) {
        return Some(format!("{name} is not sent to http://, use https://"));
    }
    let credentials = !url.username().is_empty() || url.password().is_some();
    credentials.then(|| "credentials are not sent to http://, use https://".to_owned())
}

impl Traces {
    /// The exporter that the environment configures. Unsupported values are reported and disable
    /// traces: they may be set for every program of the machine.
    pub(super) fn from_env() -> Option<Self> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let endpoint = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]
            .into_iter()
            .find(|name| variable(name).is_some())?;
        let off = variable("OTEL_SDK_DISABLED")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value != "otlp");
        if off {
            return None;
        }
        let protocol = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]
            .into_iter()
            .find_map(|name| Some((name, variable(name)?)));
        if let Some((name, _)) = protocol.filter(|(_, value)| value != "http/protobuf") {
            Output::remark(format_args!("{name} is not http/protobuf: no traces are sent"));
            return None;
        }
        let address = variable(endpoint).unwrap_or_default();
        if let Some(why) = clear_text_reason(&address, |name| variable(name).is_some()) {
            Output::remark(format_args!("{why}: no traces are sent"));
            return None;
        }
        let headers = match headers_from_files(variable) {
            Ok(headers) => headers,
            Err(error) => {
                let why = error.message();
                Output::remark(format_args!("{why}: no traces are sent"));
                return None;
            }
        };
        let has_service_name = variable("OTEL_SERVICE_NAME").is_some()
            || variable("OTEL_RESOURCE_ATTRIBUTES")
                .is_some_and(|all| all.contains("service.name="));
        let traces = Self::to_collector(has_service_name, headers).ok();
        if traces.is_none() {
            // The error is not shown: it may contain a URL with a password.
            Output::remark(format_args!("{endpoint} is not a URL: no traces are sent"));
        }
        traces
    }

    /// Builds the exporter with further `headers`. The library reads address, headers, sampler and resource
    /// from the environment.
    fn to_collector(
        has_service_name: bool,
        headers: HashMap<String, String>,
    ) -> Result<Self, ExporterBuildError> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(CollectorClient::new(EXPORT_TIMEOUT))
            .with_headers(headers)
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(EXPORT_TIMEOUT)
            .build()?;
        let batches = BatchConfigBuilder::default().with_max_queue_size(MAX_QUEUED_SPANS).build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource(has_service_name))
            .build();
        Ok(Self(provider))
    }

    pub(super) fn tracer(&self) -> SdkTracer {
        self.0.tracer("atlatl-server")
    }

    /// Sends the queued spans, within [`SHUTDOWN_TIMEOUT`].
    pub(super) fn finish(&self) {
        // Spans that cannot be sent now are lost.
        let _ = self.0.shutdown_with_timeout(SHUTDOWN_TIMEOUT);
    }
}

/// The maximum size of a response of the collector.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;

/// The HTTP client for batches, which reports a failing collector once. It blocks the exporter
/// thread.
struct CollectorClient {
    agent: Agent,
    failing: AtomicBool,
}

impl CollectorClient {
    fn new(timeout: Duration) -> Self {
        Self { agent: agent(timeout), failing: AtomicBool::new(false) }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (head, body) = request.into_parts();
        let request = Request::from_parts(head, &body[..]);
        let (head, mut body) = self.agent.run(request)?.into_parts();
        let body = body.with_config().limit(MAX_RESPONSE_BYTES).read_to_vec()?;
        Ok(Response::from_parts(head, body.into()))
    }

    /// Reports the first failure after a success.
    fn report(&self, sent: &Result<Response<Bytes>, ureq::Error>) {
        let why = match sent {
            Ok(response) if response.status().is_success() => {
                self.failing.store(false, Ordering::Relaxed);
                return;
            }
            Ok(response) => format!("it returned status {}", response.status().as_u16()),
            Err(ureq::Error::Timeout(_)) => "it did not respond in time".to_owned(),
            Err(ureq::Error::Io(_) | ureq::Error::ConnectionFailed) => {
                "it cannot be reached".to_owned()
            }
            Err(ureq::Error::HostNotFound) => "host not found".to_owned(),
            Err(_) => "the request failed".to_owned(),
        };
        if !self.failing.swap(true, Ordering::Relaxed) {
            Output::remark(format_args!("cannot send traces to the collector: {why}"));
        }
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.send(request);
        self.report(&sent);
        Ok(sent?)
    }
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CollectorClient").finish_non_exhaustive()
    }
}

/// Makes `span` the child of the span of a client.
pub(super) fn set_parent(span: &tracing::Span, parent: &TraceParent) {
    // A span that is not exported has no parent.
    let _ = span.set_parent(Context::new().with_remote_span_context(remote(parent)));
}

fn remote(parent: &TraceParent) -> SpanContext {
    // An invalid trace state is dropped; the parent is valid without it.
    let state = parent.state.as_deref().and_then(|state| TraceState::from_str(state).ok());
    SpanContext::new(
        TraceId::from(parent.trace_id),
        SpanId::from(parent.span_id),
        TraceFlags::default().with_sampled(parent.sampled),
        true,
        state.unwrap_or_default(),
    )
}

/// The resource attributes: the version, the attributes of the environment and, if they have no
/// service name, a default one.
fn resource(has_service_name: bool) -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    if has_service_name { resource.build() } else { resource.with_service_name("atlatl").build() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g03_headers_for_a_collector_are_not_sent_in_clear_text() {
        let with = |address: &str, set: &str| clear_text_reason(address, |name| name == set);
        for name in HEADERS.into_iter().flatten() {
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

    #[test]
    fn g51_headers_for_a_collector_come_from_a_file() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().unwrap();
        let [all, own] = ["all", "own"].map(|name| dir.path().join(name));
        std::fs::write(&all, "api-key=s3cret,team=a\n").unwrap();
        std::fs::write(&own, "team=b").unwrap();
        for path in [&all, &own] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let variable = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_HEADERS_FILE" => Some(all.to_str().unwrap().to_owned()),
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS_FILE" => Some(own.to_str().unwrap().to_owned()),
            _ => None,
        };
        let headers = headers_from_files(variable).unwrap();
        assert_eq!((headers["api-key"].as_str(), headers["team"].as_str()), ("s3cret", "b"));
        assert_eq!(headers.len(), 2);
    }
}
