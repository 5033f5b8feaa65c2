//! Fault injection: kills servers and engines in turn with SIGKILL, and measures how long the cluster
//! takes to recover.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde::Serialize;
use serde_json::json;
use xtask::output;

use super::api_client::{ApiClient, Outcome};
use super::classification::ExpectedBody;
use super::http_client::Request;
use super::process::wait_until;
use super::services;
use super::state::{Component, State};
use super::tenants::Tenant;

/// How long a component may take to restart on a busy machine.
const RESTART_TIMEOUT: Duration = Duration::from_mins(1);
/// A server that does not work after this time counts as recovered after this time.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a server may take to respond to a readiness check.
const READINESS_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Memories of the probe tenant: enough for a listing that is offloaded.
const PROBE_MEMORIES: usize = 40;

/// When components are killed, and for how long they stay down.
#[derive(Debug, Clone, Copy)]
pub(super) struct KillSchedule {
    pub(super) duration: Duration,
    pub(super) interval: Duration,
    pub(super) downtime: Duration,
}

/// The kills of a run.
#[derive(Debug, Default, Serialize)]
pub(super) struct Kills {
    pub(super) servers: Vec<Recovery>,
    pub(super) postgres: Vec<Recovery>,
    pub(super) s3: Vec<Recovery>,
}

/// How long the cluster took to recover from one kill.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Recovery {
    /// How long each server took for the same call before the kill. The first call since a server was
    /// started lists the tenant's results in object storage.
    pub(super) before_ms: Vec<u128>,
    /// From the start of the component until it responded.
    pub(super) started_ms: u128,
    /// From then until each server worked again; empty after the kill of a server.
    pub(super) recovered_ms: Vec<u128>,
    /// The attempts at the server that took longest.
    pub(super) attempts: Vec<Attempt>,
}

/// An attempt to use a server after an engine was restarted.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Attempt {
    pub(super) outcome: String,
    /// The duration of the attempt, with the delay that the response asked for.
    pub(super) ms: u128,
}

/// The attempts at one server, the last of which succeeded unless the time was up.
#[derive(Debug, Default)]
struct Probe {
    time: Duration,
    attempts: Vec<Attempt>,
}

impl Kills {
    /// The longest that a server took to work again after an engine did, in milliseconds.
    pub(super) fn worst_recovery(recoveries: &[Recovery]) -> Option<u128> {
        recoveries.iter().flat_map(|recovery| &recovery.recovered_ms).max().copied()
    }

    /// The longest that a server took for the same call before the kill, in milliseconds.
    pub(super) fn worst_before(recoveries: &[Recovery]) -> Option<u128> {
        recoveries.iter().flat_map(|recovery| &recovery.before_ms).max().copied()
    }

    /// The longest that a component took to respond after its start, in milliseconds.
    pub(super) fn worst_start(recoveries: &[Recovery]) -> Option<u128> {
        recoveries.iter().map(|recovery| recovery.started_ms).max()
    }

    fn recoveries_mut(&mut self, component: Component) -> &mut Vec<Recovery> {
        match component {
            Component::Postgres => &mut self.postgres,
            Component::S3 => &mut self.s3,
            Component::Replica(_) | Component::Balancer => &mut self.servers,
        }
    }
}

/// Kills one component after another; all run when it returns.
pub(super) fn run(state: &mut State, probe: &Tenant, schedule: KillSchedule) -> Result<Kills> {
    let KillSchedule { duration, interval, downtime } = schedule;
    fill_probe_tenant(state, probe)?;
    let start = Instant::now();
    let mut kills = Kills::default();
    for turn in 0.. {
        let next = interval.saturating_mul(turn + 1);
        if next >= duration {
            break;
        }
        thread::sleep(next.saturating_sub(start.elapsed()));
        let component = target(turn as usize, state.replicas.len());
        let recovery = kill_and_restart(state, probe, component, downtime)?;
        output::progress(summary(component, &recovery));
        kills.recoveries_mut(component).push(recovery);
        // A recovery longer than the interval must not prolong the run.
        if start.elapsed() >= duration {
            break;
        }
    }
    Ok(kills)
}

/// The component to kill: a server, the database, object storage, the next server and so on.
fn target(turn: usize, replicas: usize) -> Component {
    match turn % 3 {
        0 => Component::Replica(turn / 3 % replicas.max(1)),
        1 => Component::Postgres,
        _ => Component::S3,
    }
}

fn kill_and_restart(
    state: &mut State,
    probe: &Tenant,
    component: Component,
    downtime: Duration,
) -> Result<Recovery> {
    let use_servers = |state: &State| match component {
        Component::Postgres | Component::S3 => use_until_success(state, probe, component),
        Component::Replica(_) | Component::Balancer => Vec::new(),
    };
    let milliseconds =
        |probes: &[Probe]| probes.iter().map(|probe| probe.time.as_millis()).collect();
    let before_ms = milliseconds(&use_servers(state));
    state.kill(component)?;
    thread::sleep(downtime);
    state.start(component)?;
    let start = Instant::now();
    let is_up = |state: &State| match component {
        Component::Postgres => services::is_postgres_up(state),
        Component::S3 => services::is_s3_up(state),
        _ => state
            .endpoint(component)
            .is_ok_and(|endpoint| services::is_ready(endpoint.port, RESTART_TIMEOUT)),
    };
    if !wait_until(RESTART_TIMEOUT, || is_up(state)) {
        bail!("{component:?} does not come back: {}", state.log_tail(component));
    }
    let started_ms = start.elapsed().as_millis();
    let probes = use_servers(state);
    let recovered_ms = milliseconds(&probes);
    let slowest = probes.into_iter().max_by_key(|probe| probe.time).unwrap_or_default();
    Ok(Recovery { before_ms, started_ms, recovered_ms, attempts: slowest.attempts })
}

fn summary(component: Component, recovery: &Recovery) -> String {
    let name = match component {
        Component::Postgres => "PostgreSQL".to_owned(),
        Component::S3 => "S3".to_owned(),
        Component::Balancer => "balancer".to_owned(),
        Component::Replica(number) => services::server_name(number),
    };
    let Recovery { started_ms, recovered_ms, attempts, .. } = recovery;
    match recovered_ms.iter().max() {
        Some(worst) => {
            let attempts =
                attempts.iter().map(|Attempt { outcome, ms }| format!("{outcome} {ms} ms"));
            format!(
                "killed {name}: it answered after {started_ms} ms, every server {worst} ms later ({})",
                attempts.collect::<Vec<_>>().join(", ")
            )
        }
        None => format!("killed {name}: it answered after {started_ms} ms"),
    }
}

/// Writes memories for the probes to list.
fn fill_probe_tenant(state: &State, probe: &Tenant) -> Result<()> {
    let mut api = ApiClient::new(probe, state.balancer.port);
    let start = Instant::now();
    let mut written = 0;
    while written < PROBE_MEMORIES {
        ensure!(start.elapsed() < RECOVERY_TIMEOUT, "the cluster keeps no memories");
        let content =
            format!("{} {written}. {}", probe.canary, "The probe has many words. ".repeat(12));
        let body = json!({"content": content, "memory_type": "semantic"}).to_string();
        let request = Request::post("/v1/memories", body);
        let reply = api.send("POST /v1/memories", request, ExpectedBody::Json);
        written += usize::from(matches!(reply.outcome, Outcome::Success(_)));
    }
    Ok(())
}

/// Uses each server until it works, for at most [`RECOVERY_TIMEOUT`].
fn use_until_success(state: &State, tenant: &Tenant, engine: Component) -> Vec<Probe> {
    let start = Instant::now();
    thread::scope(|scope| {
        let probes: Vec<_> = state
            .replicas
            .iter()
            .map(|endpoint| {
                scope.spawn(move || {
                    let mut api = ApiClient::new(tenant, endpoint.port);
                    let mut attempts = Vec::new();
                    while start.elapsed() < RECOVERY_TIMEOUT {
                        let began = Instant::now();
                        let used = use_server(&mut api, endpoint.port, engine);
                        let outcome = used.as_ref().err().map_or("success", String::as_str);
                        let ms = began.elapsed().as_millis();
                        attempts.push(Attempt { outcome: outcome.to_owned(), ms });
                        if used.is_ok() {
                            break;
                        }
                        thread::sleep(POLL_INTERVAL);
                    }
                    Probe { time: start.elapsed(), attempts }
                })
            })
            .collect();
        let failed = || Probe { time: RECOVERY_TIMEOUT, attempts: Vec::new() };
        probes.into_iter().map(|probe| probe.join().unwrap_or_else(|_| failed())).collect()
    })
}

/// Lists memories: from the database, or offloaded to object storage. An error says why not.
fn use_server(api: &mut ApiClient<'_>, port: u16, engine: Component) -> Result<(), String> {
    if !services::is_ready(port, READINESS_TIMEOUT) {
        return Err("not ready".to_owned());
    }
    let arguments = match engine {
        Component::S3 => json!({"detail": "full"}),
        _ => json!({"limit": 5}),
    };
    let reply = api.call_tool("list_memories", &arguments);
    match reply.outcome {
        Outcome::Success(result) => {
            let is_offloaded = result["structuredContent"]["offloaded"] == true;
            let works = engine != Component::S3 || is_offloaded;
            if works { Ok(()) } else { Err("not offloaded".to_owned()) }
        }
        Outcome::Unavailable => Err(format!("unavailable: {}", reply.excerpt)),
        Outcome::Unknown => Err("outcome unknown".to_owned()),
        Outcome::Denied(reason) | Outcome::Invalid(reason) => Err(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_has_a_turn() {
        let targets: Vec<Component> = (0..9).map(|turn| target(turn, 2)).collect();
        let [first, second] = [Component::Replica(0), Component::Replica(1)];
        let (database, storage) = (Component::Postgres, Component::S3);
        assert_eq!(
            targets,
            [first, database, storage, second, database, storage, first, database, storage]
        );
    }

    #[test]
    fn the_worst_is_of_all_servers_and_all_kills() {
        let recovery = |started_ms, recovered_ms: &[u128]| Recovery {
            before_ms: vec![started_ms * 2],
            started_ms,
            recovered_ms: recovered_ms.to_vec(),
            attempts: vec![Attempt { outcome: "not ready".to_owned(), ms: 4 }],
        };
        let all = [recovery(10, &[1, 7, 3]), recovery(40, &[5, 2, 6]), recovery(20, &[])];
        assert_eq!(Kills::worst_recovery(&all), Some(7));
        assert_eq!(Kills::worst_start(&all), Some(40));
        assert_eq!(Kills::worst_before(&all), Some(80));
        assert_eq!(Kills::worst_recovery(&[]), None);
        assert_eq!(
            summary(Component::S3, &all[0]),
            "killed S3: it answered after 10 ms, every server 7 ms later (not ready 4 ms)"
        );
    }
}
