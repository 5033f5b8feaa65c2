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
    /// From the start of the component until it responded.
    pub(super) started_ms: u128,
    /// From then until each server worked again; empty after the kill of a server.
    pub(super) recovered_ms: Vec<u128>,
}

impl Kills {
    /// The longest that a server took to work again after an engine did, in milliseconds.
    pub(super) fn worst_recovery(recoveries: &[Recovery]) -> Option<u128> {
        recoveries.iter().flat_map(|recovery| &recovery.recovered_ms).max().copied()
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
    let recovered = match component {
        Component::Postgres | Component::S3 => measure_recovery(state, probe, component),
        Component::Replica(_) | Component::Balancer => Vec::new(),
    };
    let recovered_ms = recovered.iter().map(Duration::as_millis).collect();
    Ok(Recovery { started_ms, recovered_ms })
}

fn summary(component: Component, recovery: &Recovery) -> String {
    let name = match component {
        Component::Postgres => "PostgreSQL".to_owned(),
        Component::S3 => "S3".to_owned(),
        Component::Balancer => "balancer".to_owned(),
        Component::Replica(number) => services::server_name(number),
    };
    let Recovery { started_ms, recovered_ms } = recovery;
    match recovered_ms.iter().max() {
        Some(worst) => format!(
            "killed {name}: it answered after {started_ms} ms, every server {worst} ms later"
        ),
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

/// How long each server takes from now until it works again, at most [`RECOVERY_TIMEOUT`].
fn measure_recovery(state: &State, probe: &Tenant, engine: Component) -> Vec<Duration> {
    let start = Instant::now();
    thread::scope(|scope| {
        let probes: Vec<_> = state
            .replicas
            .iter()
            .map(|endpoint| {
                scope.spawn(move || {
                    let mut api = ApiClient::new(probe, endpoint.port);
                    while start.elapsed() < RECOVERY_TIMEOUT {
                        if services::is_ready(endpoint.port, READINESS_TIMEOUT)
                            && can_list(&mut api, engine)
                        {
                            break;
                        }
                        thread::sleep(POLL_INTERVAL);
                    }
                    start.elapsed()
                })
            })
            .collect();
        probes.into_iter().map(|probe| probe.join().unwrap_or(RECOVERY_TIMEOUT)).collect()
    })
}

/// Whether a listing succeeds: from the database, or offloaded to object storage.
fn can_list(api: &mut ApiClient<'_>, engine: Component) -> bool {
    let arguments = match engine {
        Component::S3 => json!({"detail": "full"}),
        _ => json!({"limit": 5}),
    };
    match api.call_tool("list_memories", &arguments).outcome {
        Outcome::Success(result) => {
            engine != Component::S3 || result["structuredContent"]["offloaded"] == true
        }
        _ => false,
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
            started_ms,
            recovered_ms: recovered_ms.to_vec(),
        };
        let all = [recovery(10, &[1, 7, 3]), recovery(40, &[5, 2, 6]), recovery(20, &[])];
        assert_eq!(Kills::worst_recovery(&all), Some(7));
        assert_eq!(Kills::worst_start(&all), Some(40));
        assert_eq!(Kills::worst_recovery(&[]), None);
        assert_eq!(
            summary(Component::S3, &all[0]),
            "killed S3: it answered after 10 ms, every server 7 ms later"
        );
    }
}
