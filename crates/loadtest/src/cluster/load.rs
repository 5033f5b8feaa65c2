//! Load: many clients of many tenants at once, until their time is over.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::client::Client;
use super::counters::Counters;
use super::tenant_state::Tenants;

/// Runs so many clients against the balancer at `port` for `time`; what they counted together.
pub(super) fn run(fleet: &Tenants, port: u16, clients: usize, time: Duration) -> Result<Counters> {
    let until = Instant::now() + time;
    let tallies = thread::scope(|scope| {
        let clients: Vec<_> = (0..clients)
            .map(|number| {
                scope.spawn(move || {
                    let mut client = Client::new(fleet, number, port);
                    while Instant::now() < until {
                        client.step();
                    }
                    client.asker.tally
                })
            })
            .collect();
        let joined = clients.into_iter().map(thread::ScopedJoinHandle::join);
        joined.collect::<Result<Vec<Counters>, _>>()
    });
    let mut whole = Counters::default();
    for tally in tallies.map_err(|_| anyhow!("a client panicked"))? {
        whole.add(tally);
    }
    Ok(whole)
}
