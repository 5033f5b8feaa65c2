//! Prometheus metrics.
//!
//! Labels come from the server and never from a client, so that their number is bounded.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Extension;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use lro::EventKind;
use lro_http::Problem;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::App;
use crate::event::{ServerEvent, ServerEventKind, ServerEventSink};

/// The upper ends of the buckets of durations, in seconds: calls of tools may take long.
const SECONDS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0];

/// The labels of a metric.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Labels(Vec<(&'static str, String)>);

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.encode(encoder)
    }
}

fn labels<const N: usize>(all: [(&'static str, &str); N]) -> Labels {
    Labels(all.into_iter().map(|(name, value)| (name, value.to_owned())).collect())
}

type Seconds = Family<Labels, Histogram, fn() -> Histogram>;

fn seconds() -> Seconds {
    Family::new_with_constructor(|| Histogram::new(SECONDS))
}

/// The connections of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolUse {
    /// The maximum number of connections.
    pub max: u64,
    /// Open connections.
    pub open: u64,
    /// Connections that run a transaction.
    pub in_use: u64,
    /// Transactions that wait for a connection.
    pub waiting: u64,
}

impl PoolUse {
    /// The use of a pool.
    pub fn new(max: u64, open: u64, in_use: u64, waiting: u64) -> Self {
        Self { max, open, in_use, waiting }
    }
}

/// Measures something when metrics are read.
type Sampler = Box<dyn Fn(&Metrics) + Send + Sync>;

/// The metrics of the server.
pub struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    request_seconds: Seconds,
    in_flight: Gauge,
    calls: Family<Labels, Counter>,
    call_seconds: Seconds,
    events: Family<Labels, Counter>,
    denials: Family<Labels, Counter>,
    memories: Counter,
    stored_results: Counter,
    stored_bytes: Counter,
    dependency_calls: Family<Labels, Counter>,
    dependency_seconds: Seconds,
    dependency_up: Family<Labels, Gauge>,
    pool: Family<Labels, Gauge>,
    embedding_backlog: Gauge<f64, AtomicU64>,
    embedding_backlog_age: Gauge<f64, AtomicU64>,
    resident_bytes: Gauge,
    open_files: Gauge,
    cpu_seconds: Gauge<f64, AtomicU64>,
    samplers: Mutex<Vec<Sampler>>,
}

impl Metrics {
    /// Calls `sampler` whenever the metrics are read. It must not wait.
    pub fn add_sampler(&self, sampler: impl Fn(&Self) + Send + Sync + 'static) {
        self.samplers.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(sampler));
    }

    /// Sets how many memories wait for a vector, and for how many seconds the oldest of them does.
    pub fn set_embedding_backlog(&self, memories: u64, age_seconds: f64) {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52 memories")]
        self.embedding_backlog.set(memories as f64);
        self.embedding_backlog_age.set(age_seconds);
    }

    /// Sets the use of the connections to the database.
    pub fn set_pool(&self, pool: PoolUse) {
        let states = [
            ("max", pool.max),
            ("open", pool.open),
            ("in_use", pool.in_use),
            ("waiting", pool.waiting),
        ];
        for (state, number) in states {
            let gauge = self.pool.get_or_create(&labels([("state", state)]));
            gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn set_dependency(&self, name: &str, is_up: bool) {
        self.dependency_up.get_or_create(&labels([("dependency", name)])).set(is_up.into());
    }

    pub(crate) fn dependency_call(&self, name: &str, is_answered: bool, took: Duration) {
        let outcome = if is_answered { "ok" } else { "failed" };
        let outcome = labels([("dependency", name), ("outcome", outcome)]);
        self.dependency_calls.get_or_create(&outcome).inc();
        let seconds = self.dependency_seconds.get_or_create(&labels([("dependency", name)]));
        seconds.observe(took.as_secs_f64());
    }

    pub(super) fn request_began(&self) {
        self.in_flight.inc();
    }

    /// Records a request that ended, by its route.
    pub(super) fn request_ended(&self, path: &str, status: &str, took: Duration) {
        self.in_flight.dec();
        self.requests.get_or_create(&labels([("path", path), ("status", status)])).inc();
        let seconds = self.request_seconds.get_or_create(&labels([("path", path)]));
        seconds.observe(took.as_secs_f64());
    }

    /// Records a call of a tool, or of another method.
    pub(super) fn call_ended(&self, tool: &str, outcome: &str, took: Duration) {
        self.calls.get_or_create(&labels([("tool", tool), ("outcome", outcome)])).inc();
        let seconds = self.call_seconds.get_or_create(&labels([("tool", tool)]));
        seconds.observe(took.as_secs_f64());
    }

    /// The response to a request for the metrics.
    pub(super) fn response(&self) -> Result<Response, Problem> {
        for sample in &*self.samplers.lock().unwrap_or_else(PoisonError::into_inner) {
            sample(self);
        }
        self.sample_process();
        let mut text = String::new();
        encode(&mut text, &self.registry).map_err(|_| Problem::broken())?;
        let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        Ok(([(header::CONTENT_TYPE, form)], text).into_response())
    }

    /// Measures the process, where the system has `/proc`.
    fn sample_process(&self) {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).ok();
        if let Some(bytes) = read("status").as_deref().and_then(resident_bytes) {
            self.resident_bytes.set(bytes);
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            self.open_files.set(i64::try_from(files.count()).unwrap_or(i64::MAX));
        }
        if let Some(seconds) = read("stat").as_deref().and_then(cpu_seconds) {
            self.cpu_seconds.set(seconds);
        }
    }
}

/// The resident memory in `/proc/self/status`.
fn resident_bytes(status: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: i64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// The processor time of all threads in `/proc/self/stat`, which has hundredths of seconds.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The name of the program may contain spaces and brackets.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 10).as_secs_f64())
}

impl Default for Metrics {
    #[expect(clippy::too_many_lines, reason = "a list")]
    fn default() -> Self {
        let mut registry = Registry::with_prefix("atlatl");
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The program", build);
        let started = Gauge::<f64, AtomicU64>::default();
        started
            .set(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |at| at.as_secs_f64()));
        registry.register_with_unit(
            "start_time",
            "When the server started",
            Unit::Seconds,
            started,
        );
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            request_seconds: seconds(),
            in_flight: Gauge::default(),
            calls: Family::default(),
            call_seconds: seconds(),
            events: Family::default(),
            denials: Family::default(),
            memories: Counter::default(),
            stored_results: Counter::default(),
            stored_bytes: Counter::default(),
            dependency_calls: Family::default(),
            dependency_seconds: seconds(),
            dependency_up: Family::default(),
            pool: Family::default(),
            embedding_backlog: Gauge::default(),
            embedding_backlog_age: Gauge::default(),
            resident_bytes: Gauge::default(),
            open_files: Gauge::default(),
            cpu_seconds: Gauge::default(),
            samplers: Mutex::default(),
        };
        let all = &metrics;
        registry.register("http_requests", "Requests by path and status", all.requests.clone());
        registry.register_with_unit(
            "http_request",
            "Request duration",
            Unit::Seconds,
            all.request_seconds.clone(),
        );
        registry.register("http_requests_in_flight", "Running requests", all.in_flight.clone());
        registry.register("calls", "MCP calls by tool or method, and outcome", all.calls.clone());
        registry.register_with_unit(
            "call",
            "Duration of MCP calls",
            Unit::Seconds,
            all.call_seconds.clone(),
        );
        registry.register("events", "Events by kind", all.events.clone());
        registry.register(
            "access_denied",
            "Denied requests by reason and issuer of the token",
            all.denials.clone(),
        );
        registry.register("memories_given", "Memories returned", all.memories.clone());
        registry.register("results_stored", "Results stored", all.stored_results.clone());
        registry.register_with_unit(
            "results_stored",
            "Size of stored results",
            Unit::Bytes,
            all.stored_bytes.clone(),
        );
        registry.register(
            "dependency_calls",
            "Calls of services by outcome",
            all.dependency_calls.clone(),
        );
        registry.register_with_unit(
            "dependency_call",
            "Duration of calls of services",
            Unit::Seconds,
            all.dependency_seconds.clone(),
        );
        registry.register(
            "dependency_up",
            "Whether the last calls of a service succeeded",
            all.dependency_up.clone(),
        );
        registry.register(
            "database_connections",
            "Connections to the database by state",
            all.pool.clone(),
        );
        registry.register(
            "embedding_backlog_memories",
            "Memories that wait for a vector",
            all.embedding_backlog.clone(),
        );
        registry.register_with_unit(
            "embedding_backlog_age",
            "Time since the oldest memory without a vector was written",
            Unit::Seconds,
            all.embedding_backlog_age.clone(),
        );
        registry.register_with_unit(
            "process_resident_memory",
            "Resident memory",
            Unit::Bytes,
            all.resident_bytes.clone(),
        );
        registry.register("process_open_fds", "Open files", all.open_files.clone());
        registry.register_with_unit(
            "process_cpu",
            "Processor time",
            Unit::Seconds,
            all.cpu_seconds.clone(),
        );
        metrics.registry = registry;
        metrics
    }
}

impl ServerEventSink for Metrics {
    fn publish(&self, event: &ServerEvent) {
        self.events.get_or_create(&labels([("kind", event.kind.name())])).inc();
        match &event.kind {
            ServerEventKind::MemoryRecalled { count, .. } => {
                self.memories.inc_by(*count);
            }
            ServerEventKind::Offload(offload) => {
                if let EventKind::ResultOffloaded { bytes, reused: false, .. } = &offload.kind {
                    self.stored_results.inc();
                    self.stored_bytes.inc_by(*bytes);
                }
            }
            ServerEventKind::AccessDenied { reason, issuer, .. } => {
                // Both come from closed lists: the reasons, and the issuers in the configuration.
                let issuer = issuer.as_deref().unwrap_or_default();
                let denial = labels([("reason", *reason), ("issuer", issuer)]);
                self.denials.get_or_create(&denial).inc();
            }
            _ => {}
        }
    }
}

pub(super) async fn export(Extension(app): Extension<App>) -> Result<Response, Problem> {
    app.state.metrics.response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_read_from_proc() {
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 9 0 0 0 120 30 0 0 20 0\n";
        assert_eq!(cpu_seconds(stat), Some(1.5));
        assert_eq!(cpu_seconds("7 (a) S 1"), None);
    }
}
