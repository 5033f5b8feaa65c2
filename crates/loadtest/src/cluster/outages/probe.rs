//! Probes of a replica's admin listener: status and latency of every answer, and what metrics show.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cluster::counters::percentile;
use crate::cluster::goodput::GoodputMeter;

/// The interval of a probe of each path.
const INTERVAL: Duration = Duration::from_millis(100);
/// The timeout of kubelet's probes by default.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The last line of `/metrics`.
const METRICS_END: &str = "# EOF\n";

/// What is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProbePath {
    Healthz,
    Readyz,
    Metrics,
}

impl ProbePath {
    pub(super) const ALL: [Self; 3] = [Self::Healthz, Self::Readyz, Self::Metrics];

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Healthz => "/healthz",
            Self::Readyz => "/readyz",
            Self::Metrics => "/metrics",
        }
    }
}

/// The answer to a probe.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ProbeSample {
    /// When the probe began, since the start of the load.
    pub(super) at_ms: i64,
    /// From the connection to the last byte.
    pub(super) took_ms: f64,
    pub(super) path: ProbePath,
    /// The status, or why there is no answer.
    pub(super) answer: Result<u16, String>,
    /// What `/metrics` shows, if it is valid.
    pub(super) metrics: Option<MetricValues>,
}

/// The values of metrics that a report needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct MetricValues {
    /// `atlatl_dependency_up` by dependency.
    pub(super) up: BTreeMap<String, bool>,
    /// `atlatl_calls_total` by outcome.
    pub(super) calls: BTreeMap<String, u64>,
    /// `atlatl_http_requests_total` by status.
    pub(super) responses: BTreeMap<String, u64>,
}

impl MetricValues {
    /// Parses the text of `/metrics`; `None` if the end is missing or a line is not a metric.
    fn parse(text: &str) -> Option<Self> {
        let mut values = Self::default();
        let lines = text.strip_suffix(METRICS_END)?.lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let (metric, value) = line.rsplit_once(' ')?;
            value.parse::<f64>().ok()?;
            let (name, labels) = metric.split_once('{').unwrap_or((metric, ""));
            let (key, counts) = match name {
                "atlatl_dependency_up" => {
                    values.up.insert(label(labels, "dependency")?.to_owned(), value != "0");
                    continue;
                }
                "atlatl_calls_total" => ("outcome", &mut values.calls),
                "atlatl_http_requests_total" => ("status", &mut values.responses),
                _ => continue,
            };
            let count: u64 = value.parse().ok()?;
            *counts.entry(label(labels, key)?.to_owned()).or_default() += count;
        }
        Some(values)
    }
}

/// The value of a label.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = labels.split_once(&format!("{name}=\""))?;
    Some(rest.split_once('"')?.0)
}

/// What was added to counters.
pub(super) fn added(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let added = after.iter().map(|(name, count)| {
        let before = before.get(name).copied().unwrap_or_default();
        (name.clone(), count.saturating_sub(before))
    });
    added.filter(|(_, count)| *count > 0).collect()
}

/// Probes one replica, and keeps all answers.
#[derive(Debug)]
pub(super) struct Prober {
    port: u16,
    samples: Mutex<Vec<ProbeSample>>,
}

impl Prober {
    /// A prober of the admin listener at `port`.
    pub(super) fn new(port: u16) -> Self {
        Self { port, samples: Mutex::default() }
    }

    /// Probes until it is stopped. Each probe has a connection of its own, as those of kubelet do.
    pub(super) fn run(&self, meter: &GoodputMeter, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let next = Instant::now() + INTERVAL;
            for path in ProbePath::ALL {
                let at_ms = elapsed_ms(meter);
                let sample = probe(self.port, path, at_ms);
                self.lock().push(sample);
            }
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }

    /// Whether the last probes since `since_ms` show that the replica is ready and that a dependency
    /// is available.
    pub(super) fn shows_recovery(&self, dependency: &str, since_ms: i64) -> bool {
        let samples = self.lock();
        let last = |path: ProbePath| {
            let mut recent = samples.iter().rev().take_while(|sample| sample.at_ms >= since_ms);
            recent.find(|sample| sample.path == path)
        };
        let is_ready = last(ProbePath::Readyz).is_some_and(|sample| sample.answer == Ok(200));
        let metrics = last(ProbePath::Metrics).and_then(|sample| sample.metrics.as_ref());
        is_ready && metrics.is_some_and(|values| values.up.get(dependency) == Some(&true))
    }

    /// All answers in their order.
    pub(super) fn into_samples(self) -> Vec<ProbeSample> {
        self.samples.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ProbeSample>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds since the start of the load.
pub(super) fn elapsed_ms(meter: &GoodputMeter) -> i64 {
    i64::try_from(meter.elapsed().as_millis()).unwrap_or(i64::MAX)
}

fn probe(port: u16, path: ProbePath, at_ms: i64) -> ProbeSample {
    let began = Instant::now();
    let answer = get(port, path.path());
    let took_ms = began.elapsed().as_secs_f64() * 1000.0;
    let metrics = match &answer {
        Ok((200, body)) if path == ProbePath::Metrics => MetricValues::parse(body),
        _ => None,
    };
    let answer = answer.map(|(status, _)| status).map_err(|error| error.to_string());
    ProbeSample { at_ms, took_ms, path, answer, metrics }
}

fn get(port: u16, path: &str) -> io::Result<(u16, String)> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    parse_response(&response).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The status and the body of a response.
fn parse_response(response: &str) -> Option<(u16, String)> {
    let (head, body) = response.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// The latencies of probes in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct ProbeLatency {
    pub(super) probes: usize,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

impl ProbeLatency {
    pub(super) fn from_samples<'a>(samples: impl Iterator<Item = &'a ProbeSample>) -> Self {
        let mut times: Vec<f64> = samples.map(|sample| sample.took_ms).collect();
        times.sort_by(f64::total_cmp);
        let max_ms = times.last().copied().unwrap_or_default();
        Self { probes: times.len(), p99_ms: percentile(&times, 99), max_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "# HELP atlatl_calls MCP calls.\n\
        atlatl_calls_total{tool=\"a\",outcome=\"ok\"} 3\n\
        atlatl_calls_total{tool=\"b\",outcome=\"ok\"} 4\n\
        atlatl_calls_total{tool=\"b\",outcome=\"store\"} 1\n\
        atlatl_http_requests_total{path=\"/v1/memories/{id}\",status=\"503\"} 2\n\
        atlatl_dependency_up{dependency=\"postgresql\"} 0\n\
        atlatl_dependency_up{dependency=\"embedder\"} 1\n\
        atlatl_start_time_seconds 1.7e9\n# EOF\n";

    #[test]
    fn g44_metrics_are_summed_by_label_and_have_to_be_valid() {
        let values = MetricValues::parse(METRICS).unwrap();
        assert_eq!(values.calls, [("ok".to_owned(), 7), ("store".to_owned(), 1)].into());
        assert_eq!(values.responses, [("503".to_owned(), 2)].into());
        assert_eq!((values.up["postgresql"], values.up["embedder"]), (false, true));
        assert_eq!(MetricValues::parse(&METRICS.replace("# EOF\n", "")), None);
        assert_eq!(MetricValues::parse(&METRICS.replace("1.7e9", "soon")), None);
        let later = [("ok".to_owned(), 9), ("store".to_owned(), 1)].into();
        assert_eq!(added(&values.calls, &later), [("ok".to_owned(), 2)].into());
    }

    #[test]
    fn g44_a_response_has_a_status_and_a_body() {
        let response = parse_response("HTTP/1.1 503 Service Unavailable\r\nA: b\r\n\r\nno\n");
        assert_eq!(response, Some((503, "no\n".to_owned())));
        assert_eq!(parse_response("HTTP/1.1 503"), None);
    }

    fn sample(at_ms: i64, path: ProbePath, took_ms: f64) -> ProbeSample {
        let metrics = MetricValues::parse(METRICS).filter(|_| path == ProbePath::Metrics);
        ProbeSample { at_ms, took_ms, path, answer: Ok(200), metrics }
    }

    #[test]
    fn g44_latencies_are_those_of_all_samples() {
        let samples: Vec<ProbeSample> = (1..=200)
            .map(|n| sample(n, ProbePath::Readyz, if n == 7 { 99.0 } else { 1.0 }))
            .collect();
        let latency = ProbeLatency::from_samples(samples.iter());
        assert_eq!(latency, ProbeLatency { probes: 200, p99_ms: 1.0, max_ms: 99.0 });
        assert_eq!(ProbeLatency::from_samples([].iter()), ProbeLatency::default());
    }

    #[test]
    fn g44_a_replica_has_recovered_by_its_last_probes() {
        let prober = Prober::new(1);
        assert!(!prober.shows_recovery("embedder", 0));
        prober.lock().push(sample(10, ProbePath::Readyz, 1.0));
        prober.lock().push(sample(11, ProbePath::Metrics, 1.0));
        assert!(prober.shows_recovery("embedder", 0));
        assert!(!prober.shows_recovery("postgresql", 0));
        assert!(!prober.shows_recovery("embedder", 11), "the probe of /readyz is older");
        let refused = ProbeSample { answer: Ok(503), ..sample(20, ProbePath::Readyz, 1.0) };
        prober.lock().push(refused);
        assert!(!prober.shows_recovery("embedder", 0));
        assert_eq!(prober.into_samples().len(), 3);
    }
}
