//! Trial: clients that behave, before, with and after one hazard.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use serde::Serialize;

use super::super::client::Client;
use super::super::counters::{Counters, Fault};
use super::super::tenant_state::{Crew, Tenants};
use super::abuse::{self, Abuse, Got};
use super::meter::Meter;

/// Memories of a tenant before anything is measured, so that those which are written meanwhile change
/// little of what an answer costs.
const FILLED: usize = 500;
const FILLERS: usize = 4;
/// How long that may take.
const FILL_TIMEOUT: Duration = Duration::from_mins(2);
/// Their numbers are no other client's.
const FIRST_FILLER: usize = 10_000;
/// How long they need until all of them ask.
const WARM: Duration = Duration::from_secs(1);
/// How long it is looked whether all is as before.
const AFTER: Duration = Duration::from_secs(5);
/// From so much of what there was on it counts as that.
const BACK: f64 = 0.8;

/// How long a trial takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) before: Duration,
    pub(super) with: Duration,
}

/// Good answers a second to so many clients.
#[derive(Debug, Serialize)]
pub(super) struct Peak {
    pub(super) clients: usize,
    pub(super) goodput: f64,
}

/// What came of a hazard.
#[derive(Debug, Serialize)]
pub(super) struct Trial {
    pub(super) hazard: Abuse,
    /// Good answers a second.
    pub(super) before: f64,
    pub(super) with: f64,
    /// From its end until there were nearly as many as before.
    pub(super) recovered_ms: Option<u128>,
    /// What those in the way got.
    pub(super) got: Got,
    pub(super) foreign_seen: u64,
    pub(super) errors: BTreeMap<String, Fault>,
}

impl Trial {
    /// How much of the goodput stayed.
    pub(super) fn share(&self) -> f64 {
        self.with / self.before
    }
}

/// Gives every tenant something to ask for.
pub(super) fn fill(fleet: &Tenants, port: u16) -> Result<()> {
    let end = Instant::now() + FILL_TIMEOUT;
    thread::scope(|scope| {
        for number in 0..FILLERS * fleet.crews.len() {
            scope.spawn(move || {
                let mut client = Client::new(fleet, FIRST_FILLER + number, port);
                let crew = &fleet.crews[number % fleet.crews.len()];
                while crew.held().ledger.len() < FILLED && Instant::now() < end {
                    client.capture();
                }
            });
        }
    });
    let full = |crew: &Crew| crew.held().ledger.len() >= FILLED;
    ensure!(fleet.crews.iter().all(full), "the memories are not filled in {FILL_TIMEOUT:?}");
    Ok(())
}

/// The goodput with nobody in the way.
pub(super) fn peak(fleet: &Tenants, port: u16, clients: usize, time: Duration) -> Result<Peak> {
    let (meter, over) = (Meter::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        let crowd = Crowd::begin(scope, fleet, port, 0..clients, &meter, &over);
        thread::sleep(WARM + time);
        over.store(true, Ordering::Relaxed);
        crowd.end()
    })?;
    Ok(Peak { clients, goodput: meter.speed(WARM, WARM + time) })
}

/// The goodput before, with and after `hazard`.
pub(super) fn run(
    fleet: &Tenants,
    port: u16,
    clients: usize,
    hazard: Abuse,
    times: Times,
) -> Result<Trial> {
    let meter = Meter::new();
    let (over, hazard_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let (tally, got, with, end) = thread::scope(|scope| {
        let crowd = Crowd::begin(scope, fleet, port, 0..clients, &meter, &over);
        thread::sleep(WARM + times.before);
        let (there, begun) = mpsc::channel();
        let (meter, hazard_over) = (&meter, &hazard_over);
        let way = scope.spawn(move || {
            // Whoever waits for it is there until it comes.
            let there = move || {
                let _ = there.send(());
            };
            match hazard {
                Abuse::TenTimes => {
                    let further = clients..10 * clients;
                    there();
                    thread::scope(|scope| {
                        Crowd::begin(scope, fleet, port, further, meter, hazard_over).end()
                    })
                    .map(|tally| got(&tally))
                }
                Abuse::SlowReaders => abuse::slow_readers(fleet, port, there, hazard_over),
                Abuse::IdleConnections => abuse::idle_connections(port, there, hazard_over),
                Abuse::LargeBodies => {
                    there();
                    abuse::large_bodies(fleet, port, hazard_over)
                }
            }
        });
        // Where it could not begin there is nothing to wait for.
        let _ = begun.recv();
        let from = meter.now();
        thread::sleep(times.with);
        let to = meter.now();
        hazard_over.store(true, Ordering::Relaxed);
        let got = way.join().map_err(|_| anyhow!("whoever is in the way panicked"));
        thread::sleep(AFTER.saturating_sub(meter.now().saturating_sub(to)));
        over.store(true, Ordering::Relaxed);
        let tally = crowd.end();
        (tally, got, from..to, to + AFTER)
    });
    let (tally, got) = (tally?, got??);
    let before = meter.speed(WARM, WARM + times.before);
    let back = meter.back(with.end, end, before * BACK);
    Ok(Trial {
        hazard,
        before,
        with: meter.speed(with.start, with.end),
        recovered_ms: back.map(|back| back.as_millis()),
        got,
        foreign_seen: tally.foreign_seen,
        errors: tally.errors,
    })
}

/// Clients that behave.
struct Crowd<'scope>(Vec<ScopedJoinHandle<'scope, Counters>>);

impl<'scope> Crowd<'scope> {
    fn begin<'env>(
        scope: &'scope Scope<'scope, 'env>,
        fleet: &'env Tenants,
        port: u16,
        numbers: std::ops::Range<usize>,
        meter: &'env Meter,
        over: &'env AtomicBool,
    ) -> Self {
        let clients = numbers.map(|number| {
            scope.spawn(move || {
                let mut client = Client::new(fleet, number, port);
                let mut good = 0;
                while !over.load(Ordering::Relaxed) {
                    client.step();
                    let now = client.asker.tally.good();
                    meter.add(now - good);
                    good = now;
                }
                client.asker.tally
            })
        });
        Self(clients.collect())
    }

    fn end(self) -> Result<Counters> {
        let mut whole = Counters::default();
        for client in self.0 {
            whole.add(client.join().map_err(|_| anyhow!("a client panicked"))?);
        }
        Ok(whole)
    }
}

/// What clients got that were too many.
fn got(tally: &Counters) -> Got {
    let mut got = tally.answers.clone();
    got.insert("resets".to_owned(), tally.resets);
    got.insert("timeouts".to_owned(), tally.timeouts);
    got
}
