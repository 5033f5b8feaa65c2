//! Kill: servers and engines, in turn and with no word of warning, and how long all of it takes to
//! work again.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;

use super::process::within;
use super::state::{Part, State};
use super::tenants::Tenant;
use super::{postgres, probe, replica, s3};
use xtask::output;

/// How long something may take to be there again on a busy machine.
const RECOVERY_TIMEOUT: Duration = Duration::from_mins(1);

/// What was killed, and what came of it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Kills {
    pub(super) servers: Vec<Killed>,
    pub(super) postgres: Vec<Killed>,
    pub(super) s3: Vec<Killed>,
}

/// When something is killed, and for how long it stays away.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turns {
    pub(super) time: Duration,
    pub(super) every: Duration,
    pub(super) away: Duration,
}

/// One that was killed and started again.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Killed {
    /// From its start until it answered.
    pub(super) started_ms: u128,
    /// From then until each server worked again; nothing for a server itself.
    pub(super) recovered_ms: Vec<u128>,
}

impl Kills {
    /// The longest that a server took to work again after an engine did, in milliseconds.
    pub(super) fn worst_recovery(killed: &[Killed]) -> Option<u128> {
        killed.iter().flat_map(|killed| &killed.recovered_ms).max().copied()
    }

    /// The longest that one took to answer after it was started.
    pub(super) fn worst_start(killed: &[Killed]) -> Option<u128> {
        killed.iter().map(|killed| killed.started_ms).max()
    }

    fn of(&mut self, part: Part) -> &mut Vec<Killed> {
        match part {
            Part::Postgres => &mut self.postgres,
            Part::S3 => &mut self.s3,
            Part::Replica(_) | Part::Balancer => &mut self.servers,
        }
    }
}

/// Kills one part after another until their time is over; in the end all runs.
pub(super) fn run(state: &mut State, tenant: &Tenant, turns: Turns) -> Result<Kills> {
    let Turns { time, every, away } = turns;
    probe::prepare(state, tenant)?;
    let begun = Instant::now();
    let mut kills = Kills::default();
    for turn in 0.. {
        let next = every.saturating_mul(turn + 1);
        if next >= time {
            break;
        }
        thread::sleep(next.saturating_sub(begun.elapsed()));
        let part = part(turn as usize, state.replicas.len());
        let killed = kill(state, tenant, part, away)?;
        output::progress(told(part, &killed));
        kills.of(part).push(killed);
        // What took longer than a turn must not make the rest longer than it was to be.
        if begun.elapsed() >= time {
            break;
        }
    }
    Ok(kills)
}

/// Whose turn it is: a server, the database, object storage, the next server and so on.
fn part(turn: usize, replicas: usize) -> Part {
    match turn % 3 {
        0 => Part::Replica(turn / 3 % replicas.max(1)),
        1 => Part::Postgres,
        _ => Part::S3,
    }
}

fn kill(state: &mut State, tenant: &Tenant, part: Part, away: Duration) -> Result<Killed> {
    state.kill(part)?;
    thread::sleep(away);
    state.start(part)?;
    let started = Instant::now();
    let there = |state: &State| match part {
        Part::Postgres => postgres::answers(state),
        Part::S3 => s3::answers(state),
        _ => {
            state.member(part).is_ok_and(|member| replica::is_ready(member.port, RECOVERY_TIMEOUT))
        }
    };
    if !within(RECOVERY_TIMEOUT, || there(state)) {
        bail!("{part:?} does not come back: {}", state.last_words(part));
    }
    let started_ms = started.elapsed().as_millis();
    let recovered = match part {
        Part::Postgres | Part::S3 => probe::recovered(state, tenant, part),
        Part::Replica(_) | Part::Balancer => Vec::new(),
    };
    let recovered_ms = recovered.iter().map(Duration::as_millis).collect();
    Ok(Killed { started_ms, recovered_ms })
}

fn told(part: Part, killed: &Killed) -> String {
    let name = match part {
        Part::Postgres => "PostgreSQL".to_owned(),
        Part::S3 => "S3".to_owned(),
        Part::Balancer => "balancer".to_owned(),
        Part::Replica(number) => replica::name(number),
    };
    let Killed { started_ms, recovered_ms } = killed;
    match recovered_ms.iter().max() {
        Some(worst) => format!(
            "killed {name}: it answered after {started_ms} ms, every server {worst} ms later"
        ),
        None => format!("killed {name}: it answered after {started_ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_has_a_turn() {
        let turns: Vec<Part> = (0..9).map(|turn| part(turn, 2)).collect();
        let [first, second] = [Part::Replica(0), Part::Replica(1)];
        let (database, storage) = (Part::Postgres, Part::S3);
        assert_eq!(
            turns,
            [first, database, storage, second, database, storage, first, database, storage]
        );
    }

    #[test]
    fn the_worst_is_of_all_servers_and_all_kills() {
        let killed = |started_ms, recovered_ms: &[u128]| Killed {
            started_ms,
            recovered_ms: recovered_ms.to_vec(),
        };
        let all = [killed(10, &[1, 7, 3]), killed(40, &[5, 2, 6]), killed(20, &[])];
        assert_eq!(Kills::worst_recovery(&all), Some(7));
        assert_eq!(Kills::worst_start(&all), Some(40));
        assert_eq!(Kills::worst_recovery(&[]), None);
        assert_eq!(
            told(Part::S3, &all[0]),
            "killed S3: it answered after 10 ms, every server 7 ms later"
        );
    }
}
