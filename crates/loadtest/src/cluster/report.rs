//! The report of a run as a table and as findings.

use std::fmt::{Display, Write};

use serde::Serialize;

use super::counters::Counters;
use super::kill::{Kills, Recovery};
use super::tenants::WriteCounts;
use super::workload::Verification;

/// How soon servers must work again after PostgreSQL or S3 does.
const MAX_RECOVERY_MS: u128 = 2000;

/// A report with a table for people and findings.
pub(super) trait ClusterReport: Serialize {
    /// Everything that fails the run.
    fn findings(&self) -> Vec<String>;

    /// The figures in Markdown.
    fn table(&self) -> String;
}

/// The report of a run; phases that were not part of it are `None`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) seconds: u64,
    #[serde(flatten)]
    pub(super) writes: WriteCounts,
    pub(super) load: Option<Counters>,
    pub(super) kills: Option<Kills>,
    #[serde(rename = "found")]
    pub(super) verification: Option<Verification>,
}

impl ClusterReport for Report {
    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        if let Some(load) = &self.load {
            if load.leaks > 0 {
                findings.push(format!("{} words of other tenants were seen", load.leaks));
            }
            for (what, error) in &load.errors {
                findings.push(format!("{what} ({} times): {}", error.count, error.example));
            }
        }
        if let Some(verification) = &self.verification {
            let Verification { lost, reappeared, unexplained, .. } = verification;
            if *lost > 0 {
                findings.push(format!("{lost} acknowledged memories are lost"));
            }
            if *reappeared > 0 {
                findings.push(format!("{reappeared} removed memories are there"));
            }
            if *unexplained > 0 {
                findings.push(format!("{unexplained} memories are there of writes that failed"));
            }
        }
        for (name, recoveries) in self.engines() {
            let worst = Kills::worst_recovery(recoveries);
            if let Some(worst) = worst.filter(|worst| *worst > MAX_RECOVERY_MS) {
                findings
                    .push(format!("servers worked again {worst} ms after {name} at the latest"));
            }
        }
        findings
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        if let Some(load) = &self.load {
            let rate = load.calls / self.seconds.max(1);
            table.row("calls", format_args!("{} ({rate} a second)", load.calls));
            table.row("acknowledged writes", self.writes.acknowledged);
            table.row("acknowledged removals", self.writes.removed);
        }
        if let Some(verification) = &self.verification {
            table.row("read back and equal", verification.verified);
            table.row("lost", verification.lost);
            table.row("removed, and there again", verification.reappeared);
            table.row("there in all", verification.total);
            table.row("there without an explanation", verification.unexplained);
        }
        if let Some(load) = &self.load {
            table.row("writes and removals with an unknown outcome", self.writes.unknown_outcomes);
            table.row("requests for objects of another tenant", load.foreign_requests);
            table.row("words of another tenant's seen", load.leaks);
            table.row("results stored", load.offloaded);
            table.row("results cut since they could not be stored", load.truncated);
            for (kind, count) in &load.responses {
                table.row(format_args!("answer {kind}"), count);
            }
            for (status, count) in &load.balancer_responses {
                table.row(format_args!("balancer's own {status}"), count);
            }
            table.row("connections reset", load.resets);
            table.row("connections refused", load.refused);
            table.row("timeouts", load.timeouts);
            let errors: u64 = load.errors.values().map(|error| error.count).sum();
            table.row("answers that should not be", errors);
        }
        if let Some(kills) = &self.kills {
            table.row("servers killed", kills.servers.len());
            table.row("PostgreSQL killed", kills.postgres.len());
            table.row("S3 killed", kills.s3.len());
            if let Some(worst) = Kills::worst_start(&kills.servers) {
                table.row("a server ready after its start, worst", format_args!("{worst} ms"));
            }
        }
        for (name, recoveries) in self.engines() {
            if let Some(worst) = Kills::worst_before(recoveries) {
                let what = format_args!("the same call before {name} is killed, worst");
                table.row(what, format_args!("{worst} ms"));
            }
            if let Some(worst) = Kills::worst_recovery(recoveries) {
                let what = format_args!("servers work again after {name} does, worst");
                table.row(what, format_args!("{worst} ms"));
            }
        }
        table.0
    }
}

impl Report {
    fn engines(&self) -> Vec<(&'static str, &[Recovery])> {
        let kills = self.kills.as_ref();
        kills.map_or_else(Vec::new, |kills| {
            vec![("PostgreSQL", &*kills.postgres), ("S3", &*kills.s3)]
        })
    }
}

/// A Markdown table of two columns.
struct Table(String);

impl Table {
    fn new() -> Self {
        Self("| what | |\n|---|--:|".to_owned())
    }

    fn row(&mut self, what: impl Display, count: impl Display) {
        let _ = write!(self.0, "\n| {what} | {count} |");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::cluster::classification::Classification;
    use crate::cluster::http_client::RequestError;

    fn good() -> Report {
        let mut load = Counters { calls: 1000, foreign_requests: 30, ..Counters::default() };
        load.count_response(201, &Classification::Success(Value::Null));
        load.count_response(502, &Classification::Balancer(502));
        load.count_failure("x", RequestError::Reset);
        let recovery = |recovered_ms: &[u128]| Recovery {
            before_ms: vec![40],
            started_ms: 300,
            recovered_ms: recovered_ms.to_vec(),
            attempts: Vec::new(),
        };
        let kills = Kills {
            servers: vec![recovery(&[])],
            postgres: vec![recovery(&[20, 2000])],
            s3: vec![recovery(&[5])],
        };
        let verification = Verification { verified: 9, total: 10, ..Verification::default() };
        Report {
            seconds: 10,
            writes: WriteCounts { acknowledged: 12, removed: 3, unknown_outcomes: 2 },
            load: Some(load),
            kills: Some(kills),
            verification: Some(verification),
        }
    }

    #[test]
    fn a_table_has_a_row_for_all_that_was_counted() {
        let table = good().table();
        for row in [
            "| calls | 1000 (100 a second) |",
            "| acknowledged writes | 12 |",
            "| acknowledged removals | 3 |",
            "| lost | 0 |",
            "| words of another tenant's seen | 0 |",
            "| answer 201 | 1 |",
            "| balancer's own 502 | 1 |",
            "| connections reset | 1 |",
            "| PostgreSQL killed | 1 |",
            "| servers work again after PostgreSQL does, worst | 2000 ms |",
            "| servers work again after S3 does, worst | 5 ms |",
        ] {
            assert!(table.lines().any(|line| line == row), "{row}\n{table}");
        }
        assert!(Report::default().table().ends_with("|--:|"));
    }

    #[test]
    fn whatever_must_not_be_is_a_finding() {
        assert!(good().findings().is_empty(), "{:?}", good().findings());
        let broken: [fn(&mut Report); 6] = [
            |report| report.verification.as_mut().unwrap().reappeared = 1,
            |report| report.verification.as_mut().unwrap().lost = 1,
            |report| report.verification.as_mut().unwrap().unexplained = 1,
            |report| report.load.as_mut().unwrap().leaks = 1,
            |report| report.load.as_mut().unwrap().record_error("read", "500", "500 x".to_owned()),
            |report| report.kills.as_mut().unwrap().s3[0].recovered_ms.push(2001),
        ];
        for breaks in broken {
            let mut report = good();
            breaks(&mut report);
            assert_eq!(report.findings().len(), 1);
        }
    }

    #[test]
    fn a_record_keeps_its_field_names() {
        let record = serde_json::to_value(good()).unwrap();
        assert_eq!((&record["unsure"], &record["found"]["there"]), (&2.into(), &10.into()));
        assert_eq!(record["found"]["returned"], 0);
        let load = &record["load"];
        for name in ["answers", "balancer", "foreign_asked", "foreign_seen", "stored"] {
            assert!(!load[name].is_null(), "{name}");
        }
    }
}
