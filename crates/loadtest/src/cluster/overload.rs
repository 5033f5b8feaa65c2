//! Overload: what clients that behave get of one server while others ask for too much of it, and how
//! soon it is as before.

mod abuse;
mod meter;
mod scenario;

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use self::abuse::Abuse;
use self::scenario::{Peak, Times, Trial};
use super::state::State;
use super::tenant_state::Tenants;
use super::tenants;
use xtask::output;

/// Numbers of clients. The most of them are those who behave while others do not: as many as a cluster
/// is tried with, and more than it takes to keep a server busy.
const CROWDS: [usize; 4] = [8, 16, 32, MAX_CLIENTS];
const MAX_CLIENTS: usize = 64;
/// Every hazard, one after another.
const HAZARDS: [Abuse; 4] =
    [Abuse::TenTimes, Abuse::SlowReaders, Abuse::IdleConnections, Abuse::LargeBodies];
/// At least so much of the goodput stays.
const GOODPUT: f64 = 0.8;
/// And so soon it is back.
const RECOVERY_MS: u128 = 2000;

/// What a run came to.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Answers a second by number of clients, with nobody in the way.
    peaks: Vec<Peak>,
    trials: Vec<Trial>,
}

/// Measures the first server of a cluster.
pub(super) fn run(state: &State, seconds: u64) -> Result<Report> {
    let port = state.replicas.first().context("a server")?.port;
    let fleet = Tenants::new(tenants::load(&state.dir)?.0);
    let times = Times { before: Duration::from_secs(4), with: Duration::from_secs(seconds) };
    output::progress("filling the memories");
    scenario::fill(&fleet, port)?;
    let mut peaks = Vec::new();
    for clients in CROWDS {
        output::progress(format_args!("{clients} clients, nobody in the way"));
        peaks.push(scenario::peak(&fleet, port, clients, times.before)?);
    }
    let mut trials = Vec::new();
    for hazard in HAZARDS {
        output::progress(format_args!("{MAX_CLIENTS} clients and {hazard}"));
        trials.push(scenario::run(&fleet, port, MAX_CLIENTS, hazard, times)?);
    }
    Ok(Report { peaks, trials })
}

impl Report {
    /// Everything that must not be.
    pub(super) fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        for trial in &self.trials {
            let (hazard, share) = (&trial.hazard, trial.share());
            if share < GOODPUT {
                findings.push(format!("{hazard}: {:.0} % of the goodput stays", share * 100.0));
            }
            if trial.recovered_ms.is_none_or(|recovered| recovered > RECOVERY_MS) {
                findings.push(format!("{hazard}: back after {:?} ms", trial.recovered_ms));
            }
            if trial.foreign_seen > 0 {
                findings.push(format!("{hazard}: words of other tenants were seen"));
            }
            for (what, fault) in &trial.errors {
                findings
                    .push(format!("{hazard}: {what} ({} times): {}", fault.times, fault.example));
            }
        }
        findings
    }

    pub(super) fn table(&self) -> String {
        let mut text = String::from("| clients, nobody in the way | answers a second |\n|--:|--:|");
        for Peak { clients, goodput } in &self.peaks {
            let _ = write!(text, "\n| {clients} | {goodput:.0} |");
        }
        text.push_str(
            "\n\n| with | before, a second | with it | share | back after | those in the way got |\n\
             |---|--:|--:|--:|--:|---|",
        );
        for trial in &self.trials {
            let Trial { hazard, before, with, recovered_ms, got, .. } = trial;
            let recovered = recovered_ms.map_or_else(|| "–".to_owned(), |ms| format!("{ms} ms"));
            let got: Vec<String> =
                got.iter().map(|(what, count)| format!("{what}: {count}")).collect();
            let _ = write!(
                text,
                "\n| {hazard} | {before:.0} | {with:.0} | {:.0} % | {recovered} | {} |",
                trial.share() * 100.0,
                got.join(", ")
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn good() -> Report {
        let trial = Trial {
            hazard: Abuse::TenTimes,
            before: 1000.0,
            with: 800.0,
            recovered_ms: Some(2000),
            got: BTreeMap::from([("429".to_owned(), 7)]),
            foreign_seen: 0,
            errors: BTreeMap::new(),
        };
        Report { peaks: vec![Peak { clients: 8, goodput: 999.6 }], trials: vec![trial] }
    }

    #[test]
    fn a_table_shows_every_number_and_whatever_must_not_be_is_a_finding() {
        let table = good().table();
        assert!(table.contains("\n| 8 | 1000 |\n"), "{table}");
        let row = "\n| ten times the clients | 1000 | 800 | 80 % | 2000 ms | 429: 7 |";
        assert!(table.ends_with(row), "{table}");
        assert!(good().findings().is_empty(), "{:?}", good().findings());
        let broken: [fn(&mut Trial); 4] = [
            |trial| trial.with = 799.0,
            |trial| trial.recovered_ms = Some(2001),
            |trial| trial.recovered_ms = None,
            |trial| trial.foreign_seen = 1,
        ];
        for breaks in broken {
            let mut report = good();
            breaks(&mut report.trials[0]);
            assert_eq!(report.findings().len(), 1);
        }
    }
}
