//! Report: what a run of a cluster came to, as a table and as a verdict.

use std::fmt::{Display, Write};

use serde::Serialize;

use super::counters::Counters;
use super::kill::{Killed, Kills};
use super::tenant_state::Written;
use super::verify::Found;

/// A server works again so soon after an engine does.
const RECOVERY_MS: u128 = 2000;

/// What a run came to. What was not part of it is not there.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) seconds: u64,
    #[serde(flatten)]
    pub(super) written: Written,
    pub(super) load: Option<Counters>,
    pub(super) kills: Option<Kills>,
    pub(super) found: Option<Found>,
}

impl Report {
    /// Everything that must not be.
    pub(super) fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        if let Some(load) = &self.load {
            if load.foreign_seen > 0 {
                findings.push(format!("{} words of other tenants were seen", load.foreign_seen));
            }
            for (what, fault) in &load.errors {
                findings.push(format!("{what} ({} times): {}", fault.times, fault.example));
            }
        }
        if let Some(found) = &self.found {
            if found.lost > 0 {
                findings.push(format!("{} acknowledged memories are lost", found.lost));
            }
            if found.returned > 0 {
                findings.push(format!("{} removed memories are there", found.returned));
            }
            if found.unexplained > 0 {
                findings.push(format!(
                    "{} memories are there of writes that failed",
                    found.unexplained
                ));
            }
        }
        for (name, killed) in self.engines() {
            if let Some(worst) = Kills::worst_recovery(killed).filter(|worst| *worst > RECOVERY_MS)
            {
                findings
                    .push(format!("servers worked again {worst} ms after {name} at the latest"));
            }
        }
        findings
    }

    fn engines(&self) -> Vec<(&'static str, &[Killed])> {
        let kills = self.kills.as_ref();
        kills.map_or_else(Vec::new, |kills| {
            vec![("PostgreSQL", &*kills.postgres), ("S3", &*kills.s3)]
        })
    }

    pub(super) fn table(&self) -> String {
        let mut table = Table::new();
        if let Some(load) = &self.load {
            let speed = load.calls / self.seconds.max(1);
            table.row("calls", format_args!("{} ({speed} a second)", load.calls));
            table.row("acknowledged writes", self.written.acknowledged);
            table.row("acknowledged removals", self.written.removed);
        }
        if let Some(found) = &self.found {
            table.row("read back and equal", found.verified);
            table.row("lost", found.lost);
            table.row("removed, and there again", found.returned);
            table.row("there in all", found.there);
            table.row("there without an explanation", found.unexplained);
        }
        if let Some(load) = &self.load {
            table.row("writes and removals of which nobody knows", self.written.unsure);
            table.row("asked for what is another tenant's", load.foreign_asked);
            table.row("words of another tenant's seen", load.foreign_seen);
            table.row("results stored", load.stored);
            table.row("results cut since they could not be stored", load.truncated);
            for (kind, count) in &load.answers {
                table.row(format_args!("answer {kind}"), count);
            }
            for (status, count) in &load.balancer {
                table.row(format_args!("balancer's own {status}"), count);
            }
            table.row("connections reset", load.resets);
            table.row("connections refused", load.refused);
            table.row("timeouts", load.timeouts);
            let errors: u64 = load.errors.values().map(|fault| fault.times).sum();
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
        for (name, killed) in self.engines() {
            if let Some(worst) = Kills::worst_recovery(killed) {
                let what = format_args!("servers work again after {name} does, worst");
                table.row(what, format_args!("{worst} ms"));
            }
        }
        table.0
    }
}

/// Two columns.
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
    use super::*;
    use crate::cluster::classify::Classification;
    use crate::cluster::http_client::RequestError;

    fn good() -> Report {
        let mut load = Counters { calls: 1000, foreign_asked: 30, ..Counters::default() };
        load.answered(201, &Classification::Given(serde_json::Value::Null));
        load.answered(502, &Classification::Balancer(502));
        load.broke("x", RequestError::Reset);
        let killed =
            |recovered_ms: &[u128]| Killed { started_ms: 300, recovered_ms: recovered_ms.to_vec() };
        let kills = Kills {
            servers: vec![killed(&[])],
            postgres: vec![killed(&[20, 2000])],
            s3: vec![killed(&[5])],
        };
        let found = Found { verified: 9, there: 10, ..Found::default() };
        Report {
            seconds: 10,
            written: Written { acknowledged: 12, removed: 3, unsure: 2 },
            load: Some(load),
            kills: Some(kills),
            found: Some(found),
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
            |report| report.found.as_mut().unwrap().returned = 1,
            |report| report.found.as_mut().unwrap().lost = 1,
            |report| report.found.as_mut().unwrap().unexplained = 1,
            |report| report.load.as_mut().unwrap().foreign_seen = 1,
            |report| report.load.as_mut().unwrap().error("read", "500", "500 x".to_owned()),
            |report| report.kills.as_mut().unwrap().s3[0].recovered_ms.push(2001),
        ];
        for breaks in broken {
            let mut report = good();
            breaks(&mut report);
            assert_eq!(report.findings().len(), 1);
        }
    }
}
