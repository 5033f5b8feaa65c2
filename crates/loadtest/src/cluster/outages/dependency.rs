//! The outages, and how the service of each is removed and restored.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;
use testkit::embeddings::EmbeddingsServer;

use super::issuer::TokenIssuer;
use crate::cluster::process::{self, wait_until};
use crate::cluster::services;
use crate::cluster::state::{Component, State};
use crate::cluster::tenants::CANARY_PREFIX;

const DIMENSIONS: usize = 64;
/// How long a request of the embedding endpoint takes.
const EMBEDDING_DELAY: Duration = Duration::from_millis(5);
/// How long a service may take to start on a busy machine.
const RESTORE_TIMEOUT: Duration = Duration::from_mins(1);
/// How long the port of a stopped endpoint may be in use.
const PORT_TIMEOUT: Duration = Duration::from_secs(10);

/// A service that is removed, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutageKind {
    /// PostgreSQL is killed: connections are reset and refused.
    PostgresKilled,
    /// PostgreSQL is paused: connections stay open, new ones are accepted, and nothing is answered.
    PostgresPaused,
    Bucket,
    Embedder,
    /// The authorization server.
    Issuer,
}

impl OutageKind {
    /// All outages in their order.
    pub(super) const ALL: [Self; 5] =
        [Self::PostgresKilled, Self::PostgresPaused, Self::Bucket, Self::Embedder, Self::Issuer];

    /// The label of the service in metrics and in the log.
    pub(super) fn dependency(self) -> &'static str {
        match self {
            Self::PostgresKilled | Self::PostgresPaused => "postgresql",
            Self::Bucket => "object_storage",
            Self::Embedder => "embedder",
            Self::Issuer => "identity_provider",
        }
    }

    /// The heading of the outage.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::PostgresKilled => "PostgreSQL is down",
            Self::PostgresPaused => "PostgreSQL hangs",
            Self::Bucket => "The bucket is down",
            Self::Embedder => "The embedder is down",
            Self::Issuer => "The issuer is down",
        }
    }

    /// What is done to the service, and what requests get meanwhile.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::PostgresKilled => {
                "All processes of PostgreSQL are killed (SIGKILL) and later started again. Replicas \
                 cannot answer without the database: requests get 503 with `Retry-After`, and \
                 `/readyz` is 503, so that a load balancer sends no more of them. The clients of \
                 this test ignore that."
            }
            Self::PostgresPaused => {
                "All processes of PostgreSQL are paused (SIGSTOP) and later resumed (SIGCONT), as when \
                 its disk hangs. Connections stay open and nothing answers, so only timeouts show the \
                 outage. `/readyz` is 503 as above."
            }
            Self::Bucket => {
                "The S3 server is killed and later started again. Memories can be read and written. \
                 Large results are cut instead of stored, and stored ones cannot be read."
            }
            Self::Embedder => {
                "The embedding endpoint closes its port and all connections, and later opens it again. \
                 Searches use words only, and new memories wait for their vectors. After a failed \
                 query a replica sends no queries for 30 seconds, so it notices the recovery late."
            }
            Self::Issuer => {
                "The authorization server closes its port right after it rotated its key, and later \
                 opens it again. Tokens of the earlier key are accepted, because replicas have it. \
                 Tokens of the new key are refused (401), because replicas cannot fetch it; a client \
                 with such a token asks each replica every five seconds, and each refusal is a line of \
                 the log."
            }
        }
    }

    /// Whether a replica is not ready without the service.
    pub(super) fn ends_readiness(self) -> bool {
        matches!(self, Self::PostgresKilled | Self::PostgresPaused)
    }
}

/// The embedding endpoint and the authorization server, which are part of this process.
#[derive(Debug)]
pub(super) struct Endpoints {
    embedder_port: u16,
    /// `None` while it is stopped.
    embedder: Option<EmbeddingsServer>,
    pub(super) issuer: TokenIssuer,
}

impl Endpoints {
    /// Starts both.
    pub(super) fn start(embedder_port: u16, issuer_port: u16) -> Self {
        let embedder = Some(start_embedder(embedder_port));
        Self { embedder_port, embedder, issuer: TokenIssuer::start(issuer_port) }
    }

    /// The value of `memory.embedder`.
    pub(super) fn embedder(&self) -> Option<String> {
        self.embedder.as_ref().map(EmbeddingsServer::embedder)
    }
}

fn start_embedder(port: u16) -> EmbeddingsServer {
    EmbeddingsServer::start_at(port, DIMENSIONS, CANARY_PREFIX, EMBEDDING_DELAY)
}

/// Removes a service.
pub(super) fn remove(kind: OutageKind, state: &State, endpoints: &mut Endpoints) -> Result<()> {
    match kind {
        OutageKind::PostgresKilled => state.kill(Component::Postgres)?,
        OutageKind::PostgresPaused => {
            process::signal_processes_in(&services::postgres_data_dir(state), "STOP");
        }
        OutageKind::Bucket => state.kill(Component::S3)?,
        OutageKind::Embedder => endpoints.embedder = None,
        OutageKind::Issuer => {
            endpoints.issuer.stop();
            // Only then, so that no replica has fetched the new key.
            endpoints.issuer.rotate_key();
        }
    }
    Ok(())
}

/// Restores a service, and waits until it answers.
pub(super) fn restore(
    kind: OutageKind,
    state: &mut State,
    endpoints: &mut Endpoints,
) -> Result<()> {
    match kind {
        OutageKind::PostgresKilled => state.start(Component::Postgres)?,
        OutageKind::PostgresPaused => {
            process::signal_processes_in(&services::postgres_data_dir(state), "CONT");
        }
        OutageKind::Bucket => state.start(Component::S3)?,
        OutageKind::Embedder => {
            wait_for_port(endpoints.embedder_port)?;
            endpoints.embedder = Some(start_embedder(endpoints.embedder_port));
        }
        OutageKind::Issuer => {
            wait_for_port(endpoints.issuer.port())?;
            endpoints.issuer.restart();
        }
    }
    let is_up = |state: &State| match kind {
        OutageKind::PostgresKilled | OutageKind::PostgresPaused => services::is_postgres_up(state),
        OutageKind::Bucket => services::is_s3_up(state),
        OutageKind::Embedder | OutageKind::Issuer => true,
    };
    let restored = wait_until(RESTORE_TIMEOUT, || is_up(state));
    ensure!(restored, "{} does not come back", kind.dependency());
    Ok(())
}

fn wait_for_port(port: u16) -> Result<()> {
    let is_free = || TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    ensure!(wait_until(PORT_TIMEOUT, is_free), "port {port} is in use");
    Ok(())
}
