//! What the manifest for Kubernetes says of a replica: its configuration, probes and times.

use anyhow::{Context, Result};
use serde::Serialize;
use std::str::FromStr;
use std::time::Duration;

use xtask::repository::Repository;

/// The chart with its default values, which `.ci/chart` compares with it.
const MANIFEST: &str = "packages/ops/kubernetes/atlatl.yaml";
/// What Kubernetes takes where a probe names no timeout.
const DEFAULT_TIMEOUT_SECONDS: u64 = 1;

/// How Kubernetes runs a replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PodSettings {
    /// The configuration file.
    #[serde(skip)]
    pub(super) config: String,
    pub(super) startup: ProbeSettings,
    pub(super) liveness: ProbeSettings,
    pub(super) readiness: ProbeSettings,
    /// How long a stopped replica keeps answering.
    pub(super) drain_seconds: u64,
    /// When Kubernetes kills a replica that was stopped.
    pub(super) termination_grace_seconds: u64,
}

/// A probe of Kubernetes. One success is enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ProbeSettings {
    pub(super) path: String,
    pub(super) period_seconds: u64,
    pub(super) timeout_seconds: u64,
    pub(super) failure_threshold: u32,
}

impl PodSettings {
    pub(super) fn read(repository: &Repository) -> Result<Self> {
        Self::parse(&repository.read(MANIFEST)?).context(MANIFEST)
    }

    /// Reads the few values by their names, which is enough for a file that we render.
    fn parse(manifest: &str) -> Result<Self> {
        let config = block(manifest, "config.toml: |")?;
        Ok(Self {
            startup: ProbeSettings::parse(manifest, "startupProbe:")?,
            liveness: ProbeSettings::parse(manifest, "livenessProbe:")?,
            readiness: ProbeSettings::parse(manifest, "readinessProbe:")?,
            drain_seconds: number(&config, "drain_seconds = ")?,
            termination_grace_seconds: number(
                &manifest.lines().map(str::trim).collect::<Vec<_>>(),
                "terminationGracePeriodSeconds: ",
            )?,
            config: config.join("\n") + "\n",
        })
    }

    pub(super) fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds)
    }

    pub(super) fn termination_grace(&self) -> Duration {
        Duration::from_secs(self.termination_grace_seconds)
    }

    /// How long a replica may take until it is ready: the startup probe, and one more for readiness.
    pub(super) fn start_timeout(&self) -> Duration {
        self.startup.period() * self.startup.failure_threshold + self.readiness.period()
    }
}

impl ProbeSettings {
    fn parse(manifest: &str, name: &str) -> Result<Self> {
        let lines = block(manifest, name)?;
        let path = lines.iter().find_map(|line| line.split_once("path: ")?.1.split(',').next());
        Ok(Self {
            path: path.with_context(|| format!("{name} has no path"))?.to_owned(),
            period_seconds: number(&lines, "periodSeconds: ").context(name.to_owned())?,
            timeout_seconds: number(&lines, "timeoutSeconds: ").unwrap_or(DEFAULT_TIMEOUT_SECONDS),
            failure_threshold: number(&lines, "failureThreshold: ").context(name.to_owned())?,
        })
    }

    pub(super) fn period(&self) -> Duration {
        Duration::from_secs(self.period_seconds)
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }
}

/// The lines below the line `header`, without their indentation.
fn block<'a>(text: &'a str, header: &str) -> Result<Vec<&'a str>> {
    let mut lines = text.lines();
    let first = lines.find(|line| line.trim() == header);
    let depth = indentation(first.with_context(|| format!("no line {header:?}"))?);
    let below = lines.take_while(|line| line.trim().is_empty() || indentation(line) > depth);
    Ok(below.map(str::trim).collect())
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The number in the first line that begins with `key`.
fn number<T: FromStr>(lines: &[&str], key: &str) -> Result<T> {
    let value = lines.iter().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    value.with_context(|| format!("no number after {key:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_has_all_that_a_restart_needs() {
        let settings = PodSettings::read(&Repository::open().unwrap()).unwrap();
        assert_eq!(settings.readiness.path, "/readyz");
        assert_eq!((&*settings.startup.path, &*settings.liveness.path), ("/healthz", "/healthz"));
        assert!(settings.config.contains("[server.admin]\nlisten = \"0.0.0.0:7190\"\n"));
        assert!(settings.config.contains("\npassword_file = \"/run/secrets/database/password\"\n"));
        // A balancer with the period of the readiness probe notices a stopped replica in time.
        let ProbeSettings { failure_threshold, .. } = &settings.readiness;
        let probe = settings.readiness.period() + settings.readiness.timeout();
        assert!(probe * *failure_threshold < settings.drain());
        assert!(settings.drain() + Duration::from_secs(10) < settings.termination_grace());
    }

    #[test]
    fn a_block_ends_with_its_indentation() {
        let text = "a:\n  b:\n    path: 1\n\n    x: 3\n  c: 4\n";
        assert_eq!(block(text, "b:").unwrap(), ["path: 1", "", "x: 3"]);
        assert_eq!(number::<u64>(&block(text, "b:").unwrap(), "x: ").unwrap(), 3);
        assert!(number::<u64>(&block(text, "b:").unwrap(), "c: ").is_err());
        assert!(block(text, "d:").is_err());
    }
}
