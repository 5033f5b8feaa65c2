//! The state of a cluster in a file, so that every command finds it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::process::Programs;

const STATE_FILE: &str = "state.json";
/// A cluster stops by itself after this time.
const CLUSTER_LIFETIME: Duration = Duration::from_hours(2);

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
    /// The embedder of the servers, as in `memory.embedder`; none without.
    #[serde(default)]
    pub(super) embedder: Option<String>,
    /// The authorization server whose tokens the servers accept; none without.
    #[serde(default)]
    pub(super) issuer: Option<String>,
    /// The ports of the servers' admin listeners; empty without.
    #[serde(default)]
    pub(super) admin_ports: Vec<u16>,
    pub(super) postgres: Endpoint,
    pub(super) s3: Endpoint,
    pub(super) balancer: Endpoint,
    pub(super) replicas: Vec<Endpoint>,
}

/// The port of a component, and its session if it was started.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Endpoint {
    pub(super) port: u16,
    pub(super) session: Option<u32>,
}

/// A component that can be started and killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Component {
    Postgres,
    S3,
    Balancer,
    Replica(usize),
}

impl State {
    /// A cluster with nothing started. The first three ports are those of PostgreSQL, S3 and the
    /// balancer.
    pub(super) fn new(
        dir: &Path,
        postgres_dir: PathBuf,
        programs: Programs,
        ports: &[u16],
    ) -> Result<Self> {
        let mut endpoints = ports.iter().map(|port| Endpoint { port: *port, session: None });
        let mut next = || endpoints.next().context("a port for each component");
        let (postgres, s3, balancer) = (next()?, next()?, next()?);
        let expires_at = now()? + CLUSTER_LIFETIME.as_secs();
        Ok(Self {
            dir: dir.to_path_buf(),
            postgres_dir,
            expires_at,
            programs,
            embedder: None,
            issuer: None,
            admin_ports: Vec::new(),
            postgres,
            s3,
            balancer,
            replicas: endpoints.collect(),
        })
    }

    /// Loads the cluster in `dir`.
    pub(super) fn load(dir: &Path) -> Result<Self> {
        let file = dir.join(STATE_FILE);
        ensure!(file.is_file(), "there is no cluster in {}: cargo loadtest up", dir.display());
        let text = fs::read_to_string(file).context("the state of the cluster")?;
        serde_json::from_str(&text).context("the state of the cluster")
    }

    /// Replaces the file atomically: another command may read it at any time.
    pub(super) fn save(&self) -> Result<()> {
        let new = self.dir.join("state.new");
        fs::write(&new, serde_json::to_string_pretty(self)? + "\n")?;
        fs::rename(new, self.dir.join(STATE_FILE)).context("the state of the cluster")
    }

    /// How long the cluster still runs, in seconds.
    pub(super) fn remaining_seconds(&self) -> Result<u64> {
        Ok(self.expires_at.saturating_sub(now()?))
    }

    pub(super) fn endpoint(&self, component: Component) -> Result<&Endpoint> {
        match component {
            Component::Postgres => Ok(&self.postgres),
            Component::S3 => Ok(&self.s3),
            Component::Balancer => Ok(&self.balancer),
            Component::Replica(number) => self.replicas.get(number).context("no such replica"),
        }
    }

    pub(super) fn endpoint_mut(&mut self, component: Component) -> Result<&mut Endpoint> {
        match component {
            Component::Postgres => Ok(&mut self.postgres),
            Component::S3 => Ok(&mut self.s3),
            Component::Balancer => Ok(&mut self.balancer),
            Component::Replica(number) => self.replicas.get_mut(number).context("no such replica"),
        }
    }
}

fn now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}
