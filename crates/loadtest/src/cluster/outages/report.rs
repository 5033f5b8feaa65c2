//! The report of outages: what each replica logged, answered and counted, and what fails the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::dependency::OutageKind;
use super::log::LogLine;
use super::probe::{ProbeLatency, ProbePath, ProbeSample, added};
use crate::cluster::counters::Counters;
use crate::cluster::report::{ClusterReport, Report};

/// The number of lines that a replica may log about an outage.
const MAX_LINES: usize = 10;
/// How long a probe may take.
const MAX_PROBE_MS: f64 = 100.0;
/// How soon `/readyz` has to be 503 without the database.
const MAX_READY_DELAY_MS: i64 = 5000;

/// When a service was removed and restored, since the start of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_field_names, reason = "all are times in the same unit")]
pub(super) struct OutageTimes {
    pub(super) removed_ms: i64,
    /// When its restoration began.
    pub(super) restoring_ms: i64,
    /// When it answered again.
    pub(super) restored_ms: i64,
    /// When all replicas were ready and showed it as available; `None` if they did not in time.
    pub(super) recovered_ms: Option<i64>,
    /// The end of the time to which lines and probes are attributed.
    pub(super) end_ms: i64,
}

/// When a replica showed an outage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Transition {
    /// After the removal; `None` if it did not.
    pub(super) down_after_ms: Option<i64>,
    /// After the service answered again; `None` if it did not recover, or did not show the outage.
    pub(super) up_after_ms: Option<i64>,
}

impl Transition {
    /// The states of a replica by time. It is up again after the last state that is not.
    fn new(states: &[(i64, bool)], times: OutageTimes) -> Self {
        let first_down = states.iter().find(|(at_ms, is_up)| !is_up && *at_ms < times.restoring_ms);
        let last_down = states.iter().rposition(|(_, is_up)| !is_up);
        let up = last_down.and_then(|index| states.get(index + 1));
        Self {
            down_after_ms: first_down.map(|(at_ms, _)| at_ms - times.removed_ms),
            up_after_ms: up.map(|(at_ms, _)| (at_ms - times.restored_ms).max(0)),
        }
    }
}

/// What one replica logged, answered and counted during an outage.
#[derive(Debug, Serialize)]
pub(super) struct ReplicaOutage {
    pub(super) lines: Vec<LogLine>,
    /// By `/readyz`.
    pub(super) ready: Transition,
    /// By `atlatl_dependency_up`.
    pub(super) dependency_up: Transition,
    /// Other dependencies that were shown as unavailable.
    pub(super) other_dependencies_down: BTreeSet<String>,
    /// By `atlatl_calls_total`: MCP calls by outcome until the service was restored.
    pub(super) calls: BTreeMap<String, u64>,
    /// By `atlatl_http_requests_total`: responses by status until the service was restored.
    pub(super) responses: BTreeMap<String, u64>,
    pub(super) probes: ProbeLatency,
}

impl ReplicaOutage {
    /// The outage by the lines of its window and by all probes of a replica.
    pub(super) fn new(
        kind: OutageKind,
        times: OutageTimes,
        lines: Vec<LogLine>,
        samples: &[ProbeSample],
    ) -> Self {
        let window = times.removed_ms..times.end_ms;
        let in_window: Vec<&ProbeSample> =
            samples.iter().filter(|sample| window.contains(&sample.at_ms)).collect();
        let ready: Vec<(i64, bool)> = in_window
            .iter()
            .filter(|sample| sample.path == ProbePath::Readyz)
            .map(|sample| (sample.at_ms, sample.answer == Ok(200)))
            .collect();
        let metrics: Vec<_> = in_window
            .iter()
            .filter_map(|sample| Some((sample.at_ms, sample.metrics.as_ref()?)))
            .collect();
        let up: Vec<(i64, bool)> = metrics
            .iter()
            .map(|(at_ms, values)| (*at_ms, values.up.get(kind.dependency()) != Some(&false)))
            .collect();
        let down = metrics.iter().flat_map(|(_, values)| &values.up);
        let other_dependencies_down = down
            .filter(|(name, is_up)| !**is_up && name.as_str() != kind.dependency())
            .map(|(name, _)| name.clone())
            .collect();
        let first = metrics.first().map(|(_, values)| *values);
        let last = metrics.iter().rfind(|(at_ms, _)| *at_ms < times.restored_ms);
        let (calls, responses) = match (first, last) {
            (Some(first), Some((_, last))) => {
                (added(&first.calls, &last.calls), added(&first.responses, &last.responses))
            }
            _ => (BTreeMap::new(), BTreeMap::new()),
        };
        Self {
            lines,
            ready: Transition::new(&ready, times),
            dependency_up: Transition::new(&up, times),
            other_dependencies_down,
            calls,
            responses,
            probes: ProbeLatency::from_samples(in_window.into_iter()),
        }
    }
}

/// One outage.
#[derive(Debug, Serialize)]
pub(super) struct OutageRecord {
    pub(super) kind: OutageKind,
    #[serde(flatten)]
    pub(super) times: OutageTimes,
    /// Good answers a second to the clients.
    pub(super) rate_before: f64,
    pub(super) rate_during: f64,
    pub(super) rate_after: f64,
    /// Answers to requests with tokens of the issuer until it was restored, by key and status.
    pub(super) token_answers: BTreeMap<String, u64>,
    pub(super) replicas: Vec<ReplicaOutage>,
}

impl OutageRecord {
    fn findings(&self) -> Vec<String> {
        let Self { kind, times, .. } = self;
        let (title, dependency) = (kind.title(), kind.dependency());
        let mut findings = Vec::new();
        if times.recovered_ms.is_none() {
            findings.push(format!("{title}: the replicas did not recover in time"));
        }
        for (number, replica) in (1..).zip(&self.replicas) {
            let mut expect = |holds: bool, what: &str| {
                if !holds {
                    findings.push(format!("{title}: replica {number}: {what}"));
                }
            };
            let lines = &replica.lines;
            let has = |level| lines.iter().any(|line| line.is_about(dependency, level));
            expect(lines.len() <= MAX_LINES, &format!("{} lines of the log", lines.len()));
            expect(has("WARN"), "no warning about the service");
            expect(has("INFO"), "no line about the recovery of the service");
            let Transition { down_after_ms, up_after_ms } = replica.dependency_up;
            expect(down_after_ms.is_some(), "dependency_up did not become 0");
            expect(up_after_ms.is_some(), "dependency_up did not become 1 again");
        }
        let refused = self.token_answers.iter().filter(|(what, _)| {
            *kind == OutageKind::Issuer && what.starts_with("earlier") && !what.ends_with("200")
        });
        findings.extend(refused.map(|(what, count)| format!("{title}: {what}: {count} times")));
        findings
    }
}

/// One replica over the whole run.
#[derive(Debug, Serialize)]
pub(super) struct ReplicaRun {
    /// Lines of the log from before the load.
    pub(super) start_lines: usize,
    /// Lines of the load that belong to no outage.
    pub(super) other_lines: Vec<LogLine>,
    pub(super) probes: BTreeMap<ProbePath, ProbeLatency>,
    /// Probes that took too long.
    pub(super) slow_probes: usize,
    /// Probes with another answer than expected, by description.
    pub(super) wrong_probes: BTreeMap<String, u64>,
}

impl ReplicaRun {
    /// The run by the lines outside outages and by all probes of a replica.
    pub(super) fn new(
        start_lines: usize,
        other_lines: Vec<LogLine>,
        samples: &[ProbeSample],
        outages: &[(OutageKind, OutageTimes)],
    ) -> Self {
        let latency = |path: ProbePath| {
            ProbeLatency::from_samples(samples.iter().filter(|sample| sample.path == path))
        };
        let mut wrong_probes = BTreeMap::new();
        for what in samples.iter().filter_map(|sample| wrong_answer(sample, outages)) {
            *wrong_probes.entry(what).or_default() += 1;
        }
        Self {
            start_lines,
            other_lines,
            probes: ProbePath::ALL.into_iter().map(|path| (path, latency(path))).collect(),
            slow_probes: samples.iter().filter(|sample| sample.took_ms > MAX_PROBE_MS).count(),
            wrong_probes,
        }
    }

    pub(super) fn max_probe_ms(&self) -> f64 {
        self.probes.values().map(|latency| latency.max_ms).fold(0.0, f64::max)
    }
}

/// What is wrong with an answer, if it is.
fn wrong_answer(sample: &ProbeSample, outages: &[(OutageKind, OutageTimes)]) -> Option<String> {
    let at_ms = sample.at_ms;
    let outage =
        outages.iter().find(|(_, times)| (times.removed_ms..times.end_ms).contains(&at_ms));
    let (accepted, expected): (&[u16], &str) = match (sample.path, outage) {
        (ProbePath::Readyz, Some((kind, times))) if kind.ends_readiness() => {
            if at_ms < times.removed_ms + MAX_READY_DELAY_MS {
                (&[200, 503], "200 or 503")
            } else if at_ms < times.restoring_ms {
                (&[503], "503")
            } else if times.recovered_ms.is_none_or(|recovered_ms| at_ms < recovered_ms) {
                (&[200, 503], "200 or 503")
            } else {
                (&[200], "200")
            }
        }
        _ => (&[200], "200"),
    };
    let answer = match &sample.answer {
        Ok(status) if !accepted.contains(status) => status.to_string(),
        Ok(200) if sample.path == ProbePath::Metrics && sample.metrics.is_none() => {
            "invalid metrics".to_owned()
        }
        Ok(_) => return None,
        Err(error) => error.clone(),
    };
    let when = outage.map_or("no outage", |(kind, _)| kind.title());
    Some(format!("{}: {answer} where {expected} is expected ({when})", sample.path.path()))
}

/// The result of a run.
#[derive(Debug, Serialize)]
pub(in crate::cluster) struct OutageReport {
    pub(super) started_at: DateTime<Utc>,
    pub(super) clients: u16,
    /// How long a service is removed before its restoration begins.
    pub(super) away_seconds: u64,
    #[serde(flatten)]
    pub(super) report: Report,
    pub(super) outages: Vec<OutageRecord>,
    pub(super) replicas: Vec<ReplicaRun>,
}

impl OutageReport {
    /// A row per outage.
    pub(super) fn summary(&self) -> String {
        let mut text = String::from(
            "| outage | lines of the log | `/readyz` 503 after | 200 again after | `dependency_up` 0 \
             after | 1 again after | answers/s before, during, after | slowest probe |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|",
        );
        for outage in &self.outages {
            let all =
                |time: fn(&ReplicaOutage) -> Option<i64>| span(outage.replicas.iter().map(time));
            let lines = outage.replicas.iter().map(|replica| replica.lines.len()).max();
            let slowest = outage.replicas.iter().map(|replica| replica.probes.max_ms);
            let _ = write!(
                text,
                "\n| {} | ≤ {} | {} | {} | {} | {} | {:.0}, {:.0}, {:.0} | {:.0} ms |",
                outage.kind.title(),
                lines.unwrap_or_default(),
                all(|replica| replica.ready.down_after_ms),
                all(|replica| replica.ready.up_after_ms),
                all(|replica| replica.dependency_up.down_after_ms),
                all(|replica| replica.dependency_up.up_after_ms),
                outage.rate_before,
                outage.rate_during,
                outage.rate_after,
                slowest.fold(0.0, f64::max),
            );
        }
        text
    }
}

/// The shortest and the longest of several times; a dash if there is none.
pub(super) fn span(times: impl Iterator<Item = Option<i64>>) -> String {
    let times: Vec<i64> = times.flatten().collect();
    match (times.iter().min(), times.iter().max()) {
        (Some(first), Some(last)) if seconds(*first) == seconds(*last) => {
            format!("{} s", seconds(*first))
        }
        (Some(first), Some(last)) => format!("{} to {} s", seconds(*first), seconds(*last)),
        _ => "–".to_owned(),
    }
}

/// Milliseconds as seconds with a decimal.
pub(super) fn seconds(ms: i64) -> String {
    format!("{:.1}", Duration::from_millis(ms.unsigned_abs()).as_secs_f64())
}

impl ClusterReport for OutageReport {
    fn findings(&self) -> Vec<String> {
        let mut findings = self.report.findings();
        // No replica was stopped, so every request gets an answer.
        let unanswered = self.report.load.iter().flat_map(Counters::unanswered);
        findings.extend(unanswered.map(|(kind, count)| format!("{kind}: {count} times")));
        findings.extend(self.outages.iter().flat_map(OutageRecord::findings));
        for (number, replica) in (1..).zip(&self.replicas) {
            let ReplicaRun { slow_probes, wrong_probes, .. } = replica;
            if *slow_probes > 0 {
                let max_ms = replica.max_probe_ms();
                findings.push(format!(
                    "replica {number}: {slow_probes} probes took longer than {MAX_PROBE_MS} ms, up to \
                     {max_ms:.0} ms"
                ));
            }
            for (what, count) in wrong_probes {
                findings.push(format!("replica {number}: {what}: {count} times"));
            }
        }
        findings
    }

    fn table(&self) -> String {
        format!("{}\n\n{}", self.report.table(), self.summary())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::Map;

    use super::super::probe::MetricValues;
    use super::*;

    const TIMES: OutageTimes = OutageTimes {
        removed_ms: 10_000,
        restoring_ms: 25_000,
        restored_ms: 26_000,
        recovered_ms: Some(30_000),
        end_ms: 32_000,
    };

    fn line(level: &str, message: &str) -> LogLine {
        let mut fields = Map::new();
        fields.insert("dependency".to_owned(), "postgresql".into());
        LogLine {
            at_ms: 11_000,
            timestamp: "2026-11-19T18:00:12.204Z".to_owned(),
            level: level.to_owned(),
            message: message.to_owned(),
            fields,
        }
    }

    /// Probes of a replica that answers as it should.
    fn samples() -> Vec<ProbeSample> {
        let sample = |at_ms: i64| {
            let is_ready = !(11_000..27_000).contains(&at_ms);
            let is_up = !(10_500..29_000).contains(&at_ms);
            let counts = |count: i64| BTreeMap::from([("ok".to_owned(), count.unsigned_abs())]);
            let metrics = MetricValues {
                up: BTreeMap::from([("postgresql".to_owned(), is_up)]),
                calls: counts(at_ms / 1000),
                responses: counts(at_ms / 500),
            };
            let probe = |path, status, metrics| {
                let answer = Ok(status);
                ProbeSample { at_ms, took_ms: 2.0, path, answer, metrics }
            };
            [
                probe(ProbePath::Healthz, 200, None),
                probe(ProbePath::Readyz, if is_ready { 200 } else { 503 }, None),
                probe(ProbePath::Metrics, 200, Some(metrics)),
            ]
        };
        (0..80).flat_map(|n| sample(n * 500)).collect()
    }

    fn replica_run(samples: &[ProbeSample]) -> ReplicaRun {
        ReplicaRun::new(2, Vec::new(), samples, &[(OutageKind::PostgresKilled, TIMES)])
    }

    pub(in crate::cluster::outages) fn clean() -> OutageReport {
        let lines = vec![
            line("WARN", "postgresql is unavailable"),
            line("INFO", "postgresql is available again"),
        ];
        let samples = samples();
        let outage = OutageRecord {
            kind: OutageKind::PostgresKilled,
            times: TIMES,
            rate_before: 100.0,
            rate_during: 1.0,
            rate_after: 99.0,
            token_answers: BTreeMap::from([("earlier key: 503".to_owned(), 9)]),
            replicas: vec![ReplicaOutage::new(OutageKind::PostgresKilled, TIMES, lines, &samples)],
        };
        OutageReport {
            started_at: DateTime::UNIX_EPOCH,
            clients: 24,
            away_seconds: 15,
            report: Report { load: Some(Counters::default()), ..Report::default() },
            outages: vec![outage],
            replicas: vec![replica_run(&samples)],
        }
    }

    #[test]
    fn g43_a_replica_shows_an_outage_and_its_end() {
        let report = clean();
        let replica = &report.outages[0].replicas[0];
        let ready = Transition { down_after_ms: Some(1000), up_after_ms: Some(1000) };
        assert_eq!(replica.ready, ready);
        let up = Transition { down_after_ms: Some(500), up_after_ms: Some(3000) };
        assert_eq!(replica.dependency_up, up);
        assert_eq!(replica.calls, BTreeMap::from([("ok".to_owned(), 15)]));
        assert_eq!(replica.responses, BTreeMap::from([("ok".to_owned(), 31)]));
        assert_eq!(replica.probes.probes, 44 * 3);
        assert!(replica.other_dependencies_down.is_empty());
        let table = report.table();
        let row =
            "| PostgreSQL is down | ≤ 2 | 1.0 s | 1.0 s | 0.5 s | 3.0 s | 100, 1, 99 | 2 ms |";
        assert!(table.ends_with(row), "{table}");
    }

    #[test]
    fn g43_whatever_must_not_be_is_a_finding() {
        assert!(clean().findings().is_empty(), "{:?}", clean().findings());
        let faults: [&dyn Fn(&mut OutageReport); 8] = [
            &|report| report.outages[0].times.recovered_ms = None,
            &|report| {
                report.outages[0].replicas[0].lines.extend((0..9).map(|_| line("INFO", "more")));
            },
            &|report| drop(report.outages[0].replicas[0].lines.remove(0)),
            &|report| drop(report.outages[0].replicas[0].lines.remove(1)),
            &|report| report.outages[0].replicas[0].dependency_up.down_after_ms = None,
            &|report| report.outages[0].replicas[0].dependency_up.up_after_ms = None,
            &|report| report.replicas[0].slow_probes = 1,
            &|report| report.report.load.as_mut().unwrap().timeouts = 1,
        ];
        for fault in faults {
            let mut report = clean();
            fault(&mut report);
            assert_eq!(report.findings().len(), 1, "{:?}", report.findings());
        }
    }

    #[test]
    fn g44_an_answer_is_wrong_by_its_time() {
        let wrong = |at_ms: i64, path: ProbePath, answer: Result<u16, String>| {
            let mut samples = samples();
            let metrics = None;
            samples.push(ProbeSample { at_ms, took_ms: 2.0, path, answer, metrics });
            let run = replica_run(&samples);
            run.wrong_probes.into_keys().next()
        };
        let readyz = |at_ms, status| wrong(at_ms, ProbePath::Readyz, Ok(status)).is_some();
        assert!(readyz(9_999, 503), "before");
        assert!(!readyz(10_001, 200) && !readyz(14_999, 503));
        assert!(readyz(15_000, 200), "too late");
        assert!(!readyz(25_000, 200) && !readyz(29_999, 503));
        assert!(readyz(30_000, 503) && readyz(32_000, 503), "after");
        assert!(readyz(16_000, 500));
        assert!(wrong(16_000, ProbePath::Healthz, Ok(503)).is_some());
        let what = wrong(16_000, ProbePath::Metrics, Ok(200)).unwrap();
        assert_eq!(what, "/metrics: invalid metrics where 200 is expected (PostgreSQL is down)");
        let what = wrong(1, ProbePath::Healthz, Err("timed out".to_owned())).unwrap();
        assert_eq!(what, "/healthz: timed out where 200 is expected (no outage)");
        // Without the bucket, a replica is ready.
        let bucket = [(OutageKind::Bucket, TIMES)];
        let metrics = None;
        let answer = Ok(503);
        let sample =
            ProbeSample { at_ms: 16_000, took_ms: 2.0, path: ProbePath::Readyz, answer, metrics };
        assert!(wrong_answer(&sample, &bucket).is_some());
    }

    #[test]
    fn g43_tokens_of_known_keys_are_accepted_without_the_issuer() {
        let mut report = clean();
        report.outages[0].kind = OutageKind::Issuer;
        report.outages[0].token_answers = BTreeMap::from([
            ("earlier key: 200".to_owned(), 60),
            ("earlier key: 401".to_owned(), 1),
            ("new key: 401".to_owned(), 3),
        ]);
        let findings = report.findings();
        let last = findings.last().map(String::as_str);
        assert!(findings.contains(&"The issuer is down: earlier key: 401: 1 times".to_owned()));
        assert!(last.is_some_and(|finding| !finding.contains("new key")), "{findings:?}");
    }
}
