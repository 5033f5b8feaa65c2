//! Overload: the goodput of well-behaved clients of one server before, during and after abuse by
//! other clients, and how soon the server recovers.

mod abuse;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use xtask::output;

use self::abuse::{Abuse, ResultCounts};
use super::counters::{Counters, InvalidResponse};
use super::goodput::{GoodputMeter, spawn_clients};
use super::report::ClusterReport;
use super::state::State;
use super::tenants::{self, Tenants};
use super::workload::{fill, join_clients};

/// Numbers of clients for which the peak goodput is measured.
const CLIENT_COUNTS: [usize; 4] = [8, 16, 32, MAX_CLIENTS];
/// Well-behaved clients during abuse: as many as load a cluster, more than keep one server busy.
const MAX_CLIENTS: usize = 64;
/// All kinds of abuse, one after another.
const ABUSES: [Abuse; 4] =
    [Abuse::TenfoldClients, Abuse::SlowReaders, Abuse::IdleConnections, Abuse::LargeBodies];
/// The share of the goodput that must remain during abuse.
const MIN_GOODPUT_SHARE: f64 = 0.8;
/// How soon the server must have recovered after abuse.
const MAX_RECOVERY_MS: u128 = 2000;
/// The goodput has recovered when it reaches this share of what it was.
const RECOVERED_SHARE: f64 = 0.8;

/// Memories of each tenant before a measurement, so that those written during it change the cost of
/// a response little.
const MEMORIES_PER_TENANT: usize = 500;
const FILL_CLIENTS_PER_TENANT: usize = 4;
/// How long the clients take to start.
const WARM_UP: Duration = Duration::from_secs(1);
const BASELINE_DURATION: Duration = Duration::from_secs(4);
/// How long the recovery is observed.
const RECOVERY_DURATION: Duration = Duration::from_secs(5);

/// The result of an overload run.
#[derive(Debug, Serialize)]
pub(super) struct OverloadReport {
    /// The goodput without abuse.
    peaks: Vec<Peak>,
    trials: Vec<Trial>,
}

/// Good responses a second by number of clients.
#[derive(Debug, Serialize)]
struct Peak {
    clients: usize,
    goodput: f64,
}

/// The effect of one kind of abuse.
#[derive(Debug, Serialize)]
struct Trial {
    #[serde(rename = "hazard")]
    abuse: Abuse,
    /// Good responses a second.
    #[serde(rename = "before")]
    goodput_before: f64,
    #[serde(rename = "with")]
    goodput_during: f64,
    /// From the end of the abuse until the goodput recovered.
    recovered_ms: Option<u128>,
    /// What the abusive clients got.
    #[serde(rename = "got")]
    abuser_results: ResultCounts,
    #[serde(rename = "foreign_seen")]
    leaks: u64,
    errors: BTreeMap<String, InvalidResponse>,
}

impl Trial {
    /// The share of the goodput that remains during abuse.
    fn goodput_share(&self) -> f64 {
        self.goodput_during / self.goodput_before
    }
}

/// Measures the first server of a cluster, with `seconds` of each kind of abuse.
pub(super) fn run(state: &State, seconds: u64) -> Result<OverloadReport> {
    let port = state.replicas.first().context("a server")?.port;
    let tenants = Tenants::new(tenants::load(&state.dir)?.0);
    output::progress("filling the memories");
    fill(&tenants, port, MEMORIES_PER_TENANT, FILL_CLIENTS_PER_TENANT)?;
    let mut peaks = Vec::new();
    for clients in CLIENT_COUNTS {
        output::progress(format_args!("{clients} clients, no abuse"));
        peaks.push(measure_peak(&tenants, port, clients)?);
    }
    let mut trials = Vec::new();
    for abuse in ABUSES {
        output::progress(format_args!("{MAX_CLIENTS} clients and {abuse}"));
        trials.push(run_trial(&tenants, port, abuse, Duration::from_secs(seconds))?);
    }
    Ok(OverloadReport { peaks, trials })
}

/// Measures the goodput without abuse.
fn measure_peak(tenants: &Tenants, port: u16, clients: usize) -> Result<Peak> {
    let (meter, stop) = (GoodputMeter::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        let group = spawn_clients(scope, tenants, port, 0..clients, &meter, &stop);
        thread::sleep(WARM_UP + BASELINE_DURATION);
        stop.store(true, Ordering::Relaxed);
        join_clients(group)
    })?;
    Ok(Peak { clients, goodput: meter.rate(WARM_UP, WARM_UP + BASELINE_DURATION) })
}

/// Measures the goodput before, during and after `abuse`.
fn run_trial(tenants: &Tenants, port: u16, abuse: Abuse, duration: Duration) -> Result<Trial> {
    let meter = GoodputMeter::new();
    let (stop, stop_abuse) = (AtomicBool::new(false), AtomicBool::new(false));
    let (counters, abuser_results, during, end) = thread::scope(|scope| {
        let group = spawn_clients(scope, tenants, port, 0..MAX_CLIENTS, &meter, &stop);
        thread::sleep(WARM_UP + BASELINE_DURATION);
        let (ready, started) = mpsc::channel();
        let (meter, stop_abuse) = (&meter, &stop_abuse);
        let abusers = scope.spawn(move || {
            // The receiver waits until this is sent or dropped.
            let on_ready = move || {
                let _ = ready.send(());
            };
            match abuse {
                Abuse::TenfoldClients => {
                    let numbers = MAX_CLIENTS..10 * MAX_CLIENTS;
                    on_ready();
                    let counters = thread::scope(|scope| {
                        let group = spawn_clients(scope, tenants, port, numbers, meter, stop_abuse);
                        join_clients(group)
                    });
                    counters.map(|counters| client_results(&counters))
                }
                Abuse::SlowReaders => abuse::slow_readers(tenants, port, on_ready, stop_abuse),
                Abuse::IdleConnections => abuse::idle_connections(port, on_ready, stop_abuse),
                Abuse::LargeBodies => {
                    on_ready();
                    abuse::large_bodies(tenants, port, stop_abuse)
                }
            }
        });
        // An error means that the abuse could not start; joining it returns why.
        let _ = started.recv();
        let abuse_start = meter.elapsed();
        thread::sleep(duration);
        let abuse_end = meter.elapsed();
        stop_abuse.store(true, Ordering::Relaxed);
        let results = abusers.join().map_err(|_| anyhow!("an abusive client panicked"));
        let since_end = meter.elapsed().saturating_sub(abuse_end);
        thread::sleep(RECOVERY_DURATION.saturating_sub(since_end));
        stop.store(true, Ordering::Relaxed);
        let counters = join_clients(group);
        (counters, results, abuse_start..abuse_end, abuse_end + RECOVERY_DURATION)
    });
    let (counters, abuser_results) = (counters?, abuser_results??);
    let goodput_before = meter.rate(WARM_UP, WARM_UP + BASELINE_DURATION);
    let recovered = meter.time_to_reach(goodput_before * RECOVERED_SHARE, during.end, end);
    Ok(Trial {
        abuse,
        goodput_before,
        goodput_during: meter.rate(during.start, during.end),
        recovered_ms: recovered.map(|time| time.as_millis()),
        abuser_results,
        leaks: counters.leaks,
        errors: counters.errors,
    })
}

/// What superfluous clients got.
fn client_results(counters: &Counters) -> ResultCounts {
    let mut results = counters.responses.clone();
    results.insert("resets".to_owned(), counters.resets);
    results.insert("timeouts".to_owned(), counters.timeouts);
    results
}

impl ClusterReport for OverloadReport {
    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        for trial in &self.trials {
            let (abuse, share) = (&trial.abuse, trial.goodput_share());
            if share < MIN_GOODPUT_SHARE {
                findings.push(format!("{abuse}: {:.0} % of the goodput stays", share * 100.0));
            }
            if trial.recovered_ms.is_none_or(|recovered| recovered > MAX_RECOVERY_MS) {
                findings.push(format!("{abuse}: back after {:?} ms", trial.recovered_ms));
            }
            if trial.leaks > 0 {
                findings.push(format!("{abuse}: words of other tenants were seen"));
            }
            for (what, error) in &trial.errors {
                findings
                    .push(format!("{abuse}: {what} ({} times): {}", error.count, error.example));
            }
        }
        findings
    }

    fn table(&self) -> String {
        let mut text = String::from("| clients, no abuse | answers a second |\n|--:|--:|");
        for Peak { clients, goodput } in &self.peaks {
            let _ = write!(text, "\n| {clients} | {goodput:.0} |");
        }
        text.push_str(
            "\n\n| with | before, a second | with it | share | back after | the abusive clients got |\n\
             |---|--:|--:|--:|--:|---|",
        );
        for trial in &self.trials {
            let Trial { abuse, goodput_before, goodput_during, recovered_ms, .. } = trial;
            let recovered = recovered_ms.map_or_else(|| "–".to_owned(), |ms| format!("{ms} ms"));
            let results = trial.abuser_results.iter();
            let results: Vec<String> =
                results.map(|(what, count)| format!("{what}: {count}")).collect();
            let _ = write!(
                text,
                "\n| {abuse} | {goodput_before:.0} | {goodput_during:.0} | {:.0} % | {recovered} | {} |",
                trial.goodput_share() * 100.0,
                results.join(", ")
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> OverloadReport {
        let trial = Trial {
            abuse: Abuse::TenfoldClients,
            goodput_before: 1000.0,
            goodput_during: 800.0,
            recovered_ms: Some(2000),
            abuser_results: BTreeMap::from([("429".to_owned(), 7)]),
            leaks: 0,
            errors: BTreeMap::new(),
        };
        OverloadReport { peaks: vec![Peak { clients: 8, goodput: 999.6 }], trials: vec![trial] }
    }

    #[test]
    fn a_table_shows_every_number_and_whatever_must_not_be_is_a_finding() {
        let table = good().table();
        assert!(table.contains("\n| 8 | 1000 |\n"), "{table}");
        let row = "\n| ten times the clients | 1000 | 800 | 80 % | 2000 ms | 429: 7 |";
        assert!(table.ends_with(row), "{table}");
        assert!(good().findings().is_empty(), "{:?}", good().findings());
        let broken: [fn(&mut Trial); 4] = [
            |trial| trial.goodput_during = 799.0,
            |trial| trial.recovered_ms = Some(2001),
            |trial| trial.recovered_ms = None,
            |trial| trial.leaks = 1,
        ];
        for breaks in broken {
            let mut report = good();
            breaks(&mut report.trials[0]);
            assert_eq!(report.findings().len(), 1);
        }
    }
}
