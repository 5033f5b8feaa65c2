//! The state of a cluster in a file, so that every command finds it; starting and stopping it.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use xtask::output;

use super::process::{self, ProcessSpec, Programs, wait_until};
use super::services::{DATABASE, OWNER_ROLE, SERVER_ROLE};
use super::{services, tenants};

const STATE_FILE: &str = "state.json";
/// How long all processes may take to stop before they are killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// A cluster stops by itself after this time.
const CLUSTER_LIFETIME: Duration = Duration::from_hours(2);
/// How long a component may take to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Lines of a log that an error shows.
const LOG_TAIL_LINES: usize = 5;

/// A cluster on this machine.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct State {
    /// The directory of the cluster.
    pub(super) dir: PathBuf,
    /// The directory of PostgreSQL, which its user must be able to reach.
    #[serde(rename = "place")]
    pub(super) postgres_dir: PathBuf,
    /// When the cluster stops by itself, in seconds since 1970.
    #[serde(rename = "until")]
    expires_at: u64,
    pub(super) programs: Programs,
    pub(super) postgres: Endpoint,
    pub(super) s3: Endpoint,
    pub(super) balancer: Endpoint,
    pub(super) replicas: Vec<Endpoint>,
}

/// The port of a component, and its session if it was started.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Endpoint {
    pub(super) port: u16,
    session: Option<u32>,
}

/// A component that can be started and killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Component {
    Postgres,
    S3,
    Balancer,
    Replica(usize),
}

/// Creates a cluster in `dir` and starts it.
pub(super) fn up(dir: &Path, atlatl: PathBuf, replicas: usize, tenants: usize) -> Result<State> {
    ensure!(
        !dir.exists(),
        "{} exists already: stop its cluster with `cargo loadtest down`",
        dir.display()
    );
    let mut programs = Programs::find(atlatl)?;
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let dir = dir.canonicalize()?;
    let postgres_dir = services::create_postgres_dir(&dir, &mut programs)?;
    let mut state = State::new(&dir, postgres_dir, programs, &process::free_ports(3 + replicas)?)?;
    // From here on `down` finds everything.
    state.save()?;
    match provision(&mut state, tenants) {
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
    // The balancer responds itself while it has no server, so this waits for its first one.
    start_and_wait(state, Component::Balancer, |state| {
        services::is_ready(state.balancer.port, START_TIMEOUT)
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
    state.stop()?;
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

impl State {
    /// A cluster with nothing started. The first three ports are those of PostgreSQL, S3 and the
    /// balancer.
    fn new(dir: &Path, postgres_dir: PathBuf, programs: Programs, ports: &[u16]) -> Result<Self> {
        let mut endpoints = ports.iter().map(|port| Endpoint { port: *port, session: None });
        let mut next = || endpoints.next().context("a port for each component");
        let (postgres, s3, balancer) = (next()?, next()?, next()?);
        let expires_at = now()? + CLUSTER_LIFETIME.as_secs();
        let (dir, replicas) = (dir.to_path_buf(), endpoints.collect());
        Ok(Self { dir, postgres_dir, expires_at, programs, postgres, s3, balancer, replicas })
    }

    /// Loads the cluster in `dir`.
    pub(super) fn load(dir: &Path) -> Result<Self> {
        let file = dir.join(STATE_FILE);
        ensure!(file.is_file(), "there is no cluster in {}: cargo loadtest up", dir.display());
        let text = fs::read_to_string(file).context("the state of the cluster")?;
        serde_json::from_str(&text).context("the state of the cluster")
    }

    /// Replaces the file atomically: another command may read it at any time.
    fn save(&self) -> Result<()> {
        let new = self.dir.join("state.new");
        fs::write(&new, serde_json::to_string_pretty(self)? + "\n")?;
        fs::rename(new, self.dir.join(STATE_FILE)).context("the state of the cluster")
    }

    /// Starts a component for the rest of the cluster's lifetime.
    pub(super) fn start(&mut self, component: Component) -> Result<()> {
        ensure!(self.dir.is_dir(), "the cluster was taken down");
        let seconds = self.expires_at.saturating_sub(now()?);
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

    /// Stops all components at once: by their stop signals, then by SIGKILL.
    fn stop(&self) -> Result<()> {
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
        let log = fs::read_to_string(self.dir.join(format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    fn process(&self, component: Component) -> Result<ProcessSpec> {
        match component {
            Component::Postgres => services::postgres_process(self),
            Component::S3 => services::s3_process(self),
            Component::Balancer => services::balancer_process(self),
            Component::Replica(number) => services::server_process(self, number),
        }
    }

    pub(super) fn endpoint(&self, component: Component) -> Result<&Endpoint> {
        match component {
            Component::Postgres => Ok(&self.postgres),
            Component::S3 => Ok(&self.s3),
            Component::Balancer => Ok(&self.balancer),
            Component::Replica(number) => self.replicas.get(number).context("no such replica"),
        }
    }

    fn endpoint_mut(&mut self, component: Component) -> Result<&mut Endpoint> {
        match component {
            Component::Postgres => Ok(&mut self.postgres),
            Component::S3 => Ok(&mut self.s3),
            Component::Balancer => Ok(&mut self.balancer),
            Component::Replica(number) => self.replicas.get_mut(number).context("no such replica"),
        }
    }
}

/// A path as UTF-8 text, for an argument.
pub(super) fn path_str(path: &Path) -> Result<String> {
    Ok(path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?.to_owned())
}

fn now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}
