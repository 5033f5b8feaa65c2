//! The lifecycle of a cluster: creating, starting and stopping it and its components.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use xtask::output;

use super::process::{self, ProcessSpec, Programs, wait_until};
use super::services::{DATABASE, OWNER_ROLE, SERVER_ROLE};
use super::state::{Component, State};
use super::{services, tenants};

/// How long all processes may take to stop before they are killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a component may take to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Lines of a log that an error shows.
const LOG_TAIL_LINES: usize = 5;

/// What a cluster consists of.
#[derive(Debug, Clone)]
pub(super) struct ClusterSpec {
    /// The program of the servers.
    pub(super) atlatl: PathBuf,
    pub(super) replicas: usize,
    pub(super) tenants: usize,
    /// The embedder of the servers, as in `memory.embedder`; without one, memories get no vectors.
    pub(super) embedder: Option<String>,
    /// The authorization server whose tokens the servers accept in addition to keys. With one, the
    /// servers run as an operator runs them: each has an admin listener, and its log is JSON.
    pub(super) issuer: Option<String>,
}

/// The CPU time of the processes of a cluster since their start.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuTime {
    pub(super) postgres: Duration,
    /// All servers together.
    pub(super) servers: Duration,
}

impl CpuTime {
    /// The CPU time since an earlier reading.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            postgres: self.postgres.saturating_sub(earlier.postgres),
            servers: self.servers.saturating_sub(earlier.servers),
        }
    }
}

/// Creates a cluster in `dir`, passes it to `measure` and takes it down. If `measure` fails, the logs
/// are kept.
pub(super) fn with_cluster<T>(
    dir: &Path,
    spec: &ClusterSpec,
    measure: impl FnOnce(&mut State) -> Result<T>,
) -> Result<T> {
    let mut state = up(dir, spec)?;
    let measured = measure(&mut state);
    if measured.is_err() {
        let logs = save_logs(&state.dir)?;
        output::progress(format_args!("the logs are kept in {}", logs.display()));
    }
    output::progress("taking the cluster down");
    down(&state.dir)?;
    measured
}

/// Creates a cluster in `dir` and starts it.
pub(super) fn up(dir: &Path, spec: &ClusterSpec) -> Result<State> {
    ensure!(
        !dir.exists(),
        "{} exists already: stop its cluster with `cargo loadtest down`",
        dir.display()
    );
    let mut programs = Programs::find(spec.atlatl.clone())?;
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let dir = dir.canonicalize()?;
    let postgres_dir = services::create_postgres_dir(&dir, &mut programs)?;
    let components = 3 + spec.replicas;
    let admin_listeners = if spec.issuer.is_some() { spec.replicas } else { 0 };
    let ports = process::free_ports(components + admin_listeners)?;
    let (ports, admin_ports) = ports.split_at(components);
    let mut state = State::new(&dir, postgres_dir, programs, ports)?;
    state.embedder.clone_from(&spec.embedder);
    state.issuer.clone_from(&spec.issuer);
    state.admin_ports = admin_ports.to_vec();
    // From here on `down` finds everything.
    state.save()?;
    match provision(&mut state, spec.tenants) {
        Ok(()) => Ok(state),
        Err(error) => {
            down(&dir)?;
            Err(error)
        }
    }
}

fn provision(state: &mut State, tenants: usize) -> Result<()> {
    output::progress("making a database");
    services::init_postgres(state)?;
    services::init_s3(state)?;
    services::init_servers(state)?;
    services::init_balancer(state)?;
    output::progress("starting PostgreSQL and S3");
    start_and_wait(state, Component::Postgres, services::is_postgres_up)?;
    start_and_wait(state, Component::S3, services::is_s3_up)?;
    let roles = format!(
        "CREATE ROLE {OWNER_ROLE} LOGIN; CREATE ROLE {SERVER_ROLE} LOGIN; \
         CREATE DATABASE {DATABASE} OWNER {OWNER_ROLE}"
    );
    services::psql(state, "postgres", &roles)?;
    services::psql(state, DATABASE, "CREATE EXTENSION vector").context("pgvector")?;
    tenants::create(state, tenants)?;
    if state.replicas.is_empty() {
        // Who asked for none starts servers of another kind, and the balancer afterwards.
        return Ok(());
    }
    output::progress(format_args!("starting {} servers and a balancer", state.replicas.len()));
    for number in 0..state.replicas.len() {
        state.start(Component::Replica(number))?;
    }
    for number in 0..state.replicas.len() {
        let port = state.replicas[number].port;
        wait_until_ready(state, Component::Replica(number), |_| {
            services::is_ready(port, START_TIMEOUT)
        })?;
    }
    start_balancer(state)
}

/// Starts the balancer and waits until it has a server: it responds itself while it has none.
pub(super) fn start_balancer(state: &mut State) -> Result<()> {
    start_and_wait(state, Component::Balancer, |state| {
        services::is_ready(state.balancer.port, START_TIMEOUT)
    })
}

/// Starts a server and waits until it is ready.
pub(super) fn start_server(state: &mut State, number: usize) -> Result<()> {
    start_and_wait(state, Component::Replica(number), |state| {
        let server = state.replicas.get(number);
        server.is_some_and(|server| services::is_ready(server.port, START_TIMEOUT))
    })
}

fn start_and_wait(
    state: &mut State,
    component: Component,
    is_up: impl Fn(&State) -> bool,
) -> Result<()> {
    state.start(component)?;
    wait_until_ready(state, component, is_up)
}

fn wait_until_ready(
    state: &State,
    component: Component,
    is_up: impl Fn(&State) -> bool,
) -> Result<()> {
    let mut exited = false;
    let ready = wait_until(START_TIMEOUT, || {
        exited = !state.is_running(component).unwrap_or_default();
        exited || is_up(state)
    });
    if exited || !ready {
        bail!("{component:?} does not answer: {}", state.log_tail(component));
    }
    Ok(())
}

/// Stops everything in `dir` and removes it.
pub(super) fn down(dir: &Path) -> Result<()> {
    let state = State::load(dir)?;
    state.stop_all()?;
    // The state file goes last: the rest is found by it.
    if state.postgres_dir.is_dir() {
        fs::remove_dir_all(&state.postgres_dir).context("the directory of PostgreSQL")?;
    }
    fs::remove_dir_all(&state.dir).context("the directory of the cluster")
}

/// Copies the logs of a cluster that is about to be removed, for diagnosis.
pub(super) fn save_logs(dir: &Path) -> Result<PathBuf> {
    let mut logs = dir.as_os_str().to_owned();
    logs.push("-logs");
    let logs = PathBuf::from(logs);
    let _ = fs::remove_dir_all(&logs);
    fs::create_dir_all(&logs)?;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let name = path.file_name().context("a file has a name")?;
            fs::copy(&path, logs.join(name))?;
        }
    }
    Ok(logs)
}

/// The last lines of a log.
pub(super) fn log_tail(path: &Path) -> String {
    let log = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

impl State {
    /// Starts a component for the rest of the cluster's lifetime.
    pub(super) fn start(&mut self, component: Component) -> Result<()> {
        ensure!(self.dir.is_dir(), "the cluster was taken down");
        let seconds = self.remaining_seconds()?;
        ensure!(seconds > 0, "the cluster's lifetime is over");
        let session = self.process(component)?.start(&self.dir, seconds)?;
        self.endpoint_mut(component)?.session = Some(session);
        self.save()
    }

    /// Kills a component with SIGKILL.
    pub(super) fn kill(&self, component: Component) -> Result<()> {
        let Some(session) = self.endpoint(component)?.session else { return Ok(()) };
        let data_dir = services::postgres_data_dir(self);
        process::kill(session, (component == Component::Postgres).then_some(&*data_dir))
    }

    /// Stops a component by its stop signal; by SIGKILL if it runs after `timeout`.
    pub(super) fn stop(&self, component: Component, timeout: Duration) -> Result<()> {
        if let Some(session) = self.endpoint(component)?.session {
            process::signal_session(session, self.process(component)?.stop_signal);
            process::wait_for_exit(session, timeout);
        }
        self.kill(component)
    }

    /// The CPU time of PostgreSQL and of the servers that run.
    pub(super) fn cpu_time(&self) -> Result<CpuTime> {
        let data_dir = services::postgres_data_dir(self);
        let postgres = self.postgres.session.context("PostgreSQL was not started")?;
        let sessions = self.replicas.iter().filter_map(|server| server.session);
        Ok(CpuTime {
            postgres: process::cpu_time(postgres, Some(&data_dir)),
            servers: sessions.map(|session| process::cpu_time(session, None)).sum(),
        })
    }

    /// Stops all components at once: by their stop signals, then by SIGKILL.
    fn stop_all(&self) -> Result<()> {
        let replicas = (0..self.replicas.len()).map(Component::Replica);
        let engines = [Component::Balancer, Component::S3, Component::Postgres];
        let components: Vec<Component> = engines.into_iter().chain(replicas).collect();
        for component in &components {
            if let Some(session) = self.endpoint(*component)?.session {
                process::signal_session(session, self.process(*component)?.stop_signal);
            }
        }
        let start = Instant::now();
        for component in components {
            if let Some(session) = self.endpoint(component)?.session {
                process::wait_for_exit(session, STOP_TIMEOUT.saturating_sub(start.elapsed()));
                self.kill(component).with_context(|| format!("{component:?}"))?;
            }
        }
        Ok(())
    }

    fn is_running(&self, component: Component) -> Result<bool> {
        Ok(self.endpoint(component)?.session.is_some_and(process::is_running))
    }

    /// The last lines of a component's log.
    pub(super) fn log_tail(&self, component: Component) -> String {
        let name = self.process(component).map(|process| process.name).unwrap_or_default();
        log_tail(&self.dir.join(format!("{name}.log")))
    }

    fn process(&self, component: Component) -> Result<ProcessSpec> {
        match component {
            Component::Postgres => services::postgres_process(self),
            Component::S3 => services::s3_process(self),
            Component::Balancer => services::balancer_process(self),
            Component::Replica(number) => services::server_process(self, number),
        }
    }
}
