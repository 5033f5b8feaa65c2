//! The report of a rolling restart.

use std::fmt::Write as _;

use serde::Serialize;

use super::super::counters::Counters;
use super::super::report::{ClusterReport, Report};
use super::confinement::Confinement;
use super::image::ImageFacts;
use super::manifest::PodSettings;
use super::prober::ProbeSummary;

/// The result of a run.
#[derive(Debug, Serialize)]
pub(in crate::cluster) struct RestartReport {
    pub(super) image: ImageFacts,
    pub(super) settings: PodSettings,
    #[serde(flatten)]
    pub(super) report: Report,
    pub(super) probes: ProbeSummary,
    pub(super) restarts: Vec<Restart>,
    /// Of each start.
    pub(super) confinement: Vec<Confinement>,
    /// The user that the image names.
    pub(super) uid: u32,
    /// The longest time without a successful answer to any client, in units of 50 ms.
    pub(super) longest_gap_ms: u128,
}

/// The restart of a server.
#[derive(Debug, Serialize)]
pub(super) struct Restart {
    pub(super) pod: String,
    /// The time of SIGTERM since the start of the load.
    pub(super) at_ms: u128,
    #[serde(flatten)]
    pub(super) shutdown: Shutdown,
    /// From the start of the new process until it was ready.
    pub(super) ready_ms: u128,
}

/// How a server ended after SIGTERM.
#[derive(Debug, Serialize)]
pub(super) struct Shutdown {
    /// The time until its readiness probe had failed often enough, if it did before the end.
    pub(super) unready_ms: Option<u128>,
    pub(super) exit_ms: u128,
    /// The exit code; none if it was killed.
    pub(super) exit_code: Option<i32>,
}

impl Restart {
    fn findings(&self, settings: &PodSettings) -> Vec<String> {
        let Self { pod, at_ms, shutdown, .. } = self;
        let mut findings = Vec::new();
        match shutdown.exit_code {
            Some(0) => {}
            Some(code) => findings.push(format!("{pod} ended with {code} (at {at_ms} ms)")),
            None => {
                let after = shutdown.exit_ms;
                findings.push(format!("{pod} was killed after {after} ms (at {at_ms} ms)"));
            }
        }
        let drain_ms = settings.drain().as_millis();
        match shutdown.unready_ms {
            Some(unready_ms) if unready_ms <= drain_ms => {}
            Some(unready_ms) => findings.push(format!(
                "{pod} was ready for {unready_ms} ms after its stop, and drains for {drain_ms} ms"
            )),
            None => findings.push(format!("{pod} ended while it was ready (at {at_ms} ms)")),
        }
        findings
    }
}

impl ClusterReport for RestartReport {
    /// A request may fail only if the answer asked to repeat it.
    fn findings(&self) -> Vec<String> {
        let mut findings = self.report.findings();
        let unanswered = self.report.load.iter().flat_map(Counters::unanswered);
        findings.extend(unanswered.map(|(kind, count)| format!("{kind}: {count} times")));
        findings.extend(self.restarts.iter().flat_map(|one| one.findings(&self.settings)));
        findings.extend(self.confinement.iter().flat_map(|one| one.findings(self.uid)));
        if self.image.sbom_components == 0 {
            findings.push("the image has no SBOM".to_owned());
        }
        let ProbeSummary { unready, liveness_failures, .. } = self.probes;
        if unready > 0 {
            findings.push(format!("servers that ran were not ready {unready} times"));
        }
        if liveness_failures > 0 {
            findings.push(format!("the liveness probe failed {liveness_failures} times"));
        }
        findings
    }

    fn table(&self) -> String {
        let mut text = self.report.table();
        let Self { image, probes, settings, .. } = self;
        let refusals = self.report.load.iter().flat_map(Counters::refusals);
        let refusals: u64 = refusals.map(|(_, count)| count).sum();
        let entrypoint = image.entrypoint.join(" ");
        let starts = self.confinement.len();
        let confined = self.confinement.iter().filter(|one| one.findings(self.uid).is_empty());
        let rows = [
            ("requests told to repeat", refusals.to_string()),
            ("longest time without a successful answer", format!("{} ms", self.longest_gap_ms)),
            ("probes of running servers", probes.latency.requests.to_string()),
            ("their p99", format!("{:.1} ms", probes.latency.p99_ms)),
            ("their maximum", format!("{:.1} ms", probes.max_ms)),
            ("failed probes of running servers", probes.failures.to_string()),
            ("image, compressed", mebibytes(image.compressed_bytes)),
            ("image, unpacked", mebibytes(image.unpacked_bytes)),
            ("files in the image", image.files.to_string()),
            ("components in its SBOM", image.sbom_components.to_string()),
            ("its user and entrypoint", format!("{} {entrypoint}", image.user)),
            (
                "starts without capabilities, as that user, with a read-only root",
                format!("{} of {starts}", confined.count()),
            ),
        ];
        for (what, value) in rows {
            let _ = write!(text, "\n| {what} | {value} |");
        }
        let _ = write!(
            text,
            "\n\n| restart (drain {} s, grace period {} s) | after | not ready | ended | exit | ready \
             again |\n|---|--:|--:|--:|--:|--:|",
            settings.drain_seconds, settings.termination_grace_seconds
        );
        for Restart { pod, at_ms, shutdown, ready_ms } in &self.restarts {
            let Shutdown { unready_ms, exit_ms, exit_code } = shutdown;
            let unready = unready_ms.map_or_else(|| "never".to_owned(), |ms| format!("{ms} ms"));
            let exit = exit_code.map_or_else(|| "killed".to_owned(), |code| code.to_string());
            let _ = write!(
                text,
                "\n| {pod} | {at_ms} ms | {unready} | {exit_ms} ms | {exit} | {ready_ms} ms |"
            );
        }
        text
    }
}

/// A size in MiB with one decimal.
fn mebibytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) / (1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use xtask::repository::Repository;

    use super::*;
    use crate::cluster::classification::Classification;
    use crate::cluster::http_client::RequestError;

    fn report() -> RestartReport {
        let mut load = Counters::default();
        let kind = "503".to_owned();
        load.count_response(503, &Classification::Unavailable { kind, delay: Duration::ZERO });
        let restart = |exit_code, unready_ms| Restart {
            pod: "pod-1".to_owned(),
            at_ms: 9,
            shutdown: Shutdown { unready_ms, exit_ms: 10_100, exit_code },
            ready_ms: 700,
        };
        RestartReport {
            image: ImageFacts {
                compressed_bytes: 3 << 19,
                sbom_components: 400,
                ..ImageFacts::default()
            },
            settings: PodSettings::read(&Repository::open().unwrap()).unwrap(),
            report: Report { load: Some(load), ..Report::default() },
            probes: ProbeSummary::default(),
            restarts: vec![restart(Some(0), Some(4100))],
            confinement: Vec::new(),
            uid: 65_532,
            longest_gap_ms: 50,
        }
    }

    #[test]
    fn a_restart_without_failures_has_no_findings() {
        let report = report();
        assert!(report.findings().is_empty(), "{:?}", report.findings());
        let table = report.table();
        for row in [
            "| requests told to repeat | 1 |",
            "| longest time without a successful answer | 50 ms |",
            "| image, compressed | 1.5 MiB |",
            "| components in its SBOM | 400 |",
            "| pod-1 | 9 ms | 4100 ms | 10100 ms | 0 | 700 ms |",
        ] {
            assert!(table.lines().any(|line| line == row), "{row}\n{table}");
        }
    }

    #[test]
    fn whatever_a_client_or_the_kubelet_would_notice_is_a_finding() {
        let broken: [fn(&mut RestartReport); 9] = [
            |report| report.restarts[0].shutdown.exit_code = Some(1),
            |report| report.restarts[0].shutdown.exit_code = None,
            |report| report.restarts[0].shutdown.unready_ms = None,
            |report| report.restarts[0].shutdown.unready_ms = Some(10_001),
            |report| report.probes.unready = 1,
            |report| report.probes.liveness_failures = 1,
            |report| report.image.sbom_components = 0,
            |report| {
                let load = report.report.load.as_mut().unwrap();
                load.count_response(502, &Classification::Balancer(502));
            },
            |report| {
                let load = report.report.load.as_mut().unwrap();
                load.count_failure("x", RequestError::Reset);
            },
        ];
        for breaks in broken {
            let mut report = report();
            breaks(&mut report);
            assert_eq!(report.findings().len(), 1, "{:?}", report.findings());
        }
    }
}
