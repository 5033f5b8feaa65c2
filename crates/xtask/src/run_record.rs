//! The record of a run: command, time, commit, machine and results.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::repository::{Repository, has_extension};

const RECORDS_DIR: &str = "bench/runs";

/// The record of one run, a file under `bench/runs/`.
#[derive(Debug, Serialize)]
pub struct RunRecord<T> {
    name: String,
    /// The command that repeats the run.
    command: String,
    started_at: DateTime<Utc>,
    commit: Commit,
    machine: Machine,
    results: T,
}

/// The state of the checkout that was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Commit {
    short: String,
    /// Whether the working tree held changes, records of other runs aside, that are in no commit.
    dirty: bool,
}

impl Commit {
    fn read(repository: &Repository) -> Result<Self> {
        // A checkout before its first commit has no HEAD to name.
        let short = repository.git(&["rev-parse", "--verify", "--quiet", "--short=10", "HEAD"]);
        Ok(Self {
            short: short.map_or_else(|_| "uncommitted".to_owned(), |id| id.trim().to_owned()),
            dirty: !repository.git(&["status", "--porcelain", "--", ":!bench/runs"])?.is_empty(),
        })
    }
}

impl RunRecord<()> {
    /// Starts the record of a run that begins now.
    pub fn begin(repository: &Repository, name: &str, command: &str) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            command: command.to_owned(),
            started_at: now()?,
            commit: Commit::read(repository)?,
            machine: Machine::read(),
            results: (),
        })
    }

    /// Adds the results.
    pub fn finish<T: Serialize>(self, results: T) -> RunRecord<T> {
        let Self { name, command, started_at, commit, machine, results: () } = self;
        RunRecord { name, command, started_at, commit, machine, results }
    }
}

impl<T: Serialize> RunRecord<T> {
    /// The results.
    pub fn results(&self) -> &T {
        &self.results
    }

    /// The caption of a table made from this run.
    pub fn caption(&self) -> String {
        let changed = if self.commit.dirty { " with changes" } else { "" };
        format!(
            "Measured {} at commit {}{changed} on {}. Repeat: `{}`.",
            self.started_at.format("%Y-%m-%d"),
            self.commit.short,
            self.machine.summary(),
            self.command
        )
    }

    /// Writes the record; a later run of the same day and commit replaces it.
    pub fn write(&self, repository: &Repository) -> Result<PathBuf> {
        let file = PathBuf::from(RECORDS_DIR).join(self.file_name());
        let path = repository.path(&file);
        fs::create_dir_all(repository.path(RECORDS_DIR))?;
        let text = serde_json::to_string_pretty(self)?;
        fs::write(&path, text + "\n").with_context(|| format!("{}", file.display()))?;
        Ok(file)
    }

    fn file_name(&self) -> String {
        let date = self.started_at.format("%Y-%m-%d");
        format!("{date}-{}-{}.json", self.name, self.commit.short)
    }
}

/// The part of a record that is read again.
#[derive(Deserialize)]
struct ReadRecord {
    name: String,
    started_at: DateTime<Utc>,
    results: Value,
}

/// The results of the latest runs whose name begins with `prefix`, by name.
pub fn latest_results(repository: &Repository, prefix: &str) -> Result<BTreeMap<String, Value>> {
    let mut latest: BTreeMap<String, ReadRecord> = BTreeMap::new();
    for entry in fs::read_dir(repository.path(RECORDS_DIR))? {
        let path = entry?.path();
        let mentions = |name: &std::ffi::OsStr| name.to_string_lossy().contains(prefix);
        if !has_extension(&path, "json") || !path.file_name().is_some_and(mentions) {
            continue;
        }
        let record: ReadRecord = serde_json::from_slice(&fs::read(&path)?)
            .with_context(|| format!("{}", path.display()))?;
        let is_newer =
            latest.get(&record.name).is_none_or(|other| other.started_at <= record.started_at);
        if record.name.starts_with(prefix) && is_newer {
            latest.insert(record.name.clone(), record);
        }
    }
    Ok(latest.into_iter().map(|(name, record)| (name, record.results)).collect())
}

fn now() -> Result<DateTime<Utc>> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    DateTime::from_timestamp(i64::try_from(seconds)?, 0).context("the clock is out of range")
}

/// The machine of a run, without which a figure means nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Machine {
    cpu: String,
    cores: usize,
    memory_mib: u64,
    kernel: String,
}

impl Machine {
    /// Reads the properties of this machine; those that cannot be read are `unknown`.
    fn read() -> Self {
        let proc = |name: &str| fs::read_to_string(format!("/proc/{name}")).unwrap_or_default();
        Self {
            cpu: field(&proc("cpuinfo"), "model name").unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: memory_mib(&proc("meminfo")).unwrap_or_default(),
            kernel: match proc("sys/kernel/osrelease").trim() {
                "" => "unknown".to_owned(),
                release => release.to_owned(),
            },
        }
    }

    /// One line for the caption of a table.
    fn summary(&self) -> String {
        let Self { cpu, cores, memory_mib, kernel } = self;
        format!("{cpu}, {cores} cores, {memory_mib} MiB, kernel {kernel}")
    }
}

fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
}

fn memory_mib(meminfo: &str) -> Option<u64> {
    let kib: u64 = field(meminfo, "MemTotal")?.strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_when_what_and_which_commit() {
        let record = RunRecord {
            name: "soak".to_owned(),
            command: "cargo xtask soak".to_owned(),
            started_at: DateTime::from_timestamp(1_794_700_800, 0).unwrap(),
            commit: Commit { short: "0123456789".to_owned(), dirty: true },
            machine: Machine::read(),
            results: (),
        };
        assert_eq!(record.file_name(), "2026-11-15-soak-0123456789.json");
        let caption = record.caption();
        assert!(caption.starts_with("Measured 2026-11-15 at commit 0123456789 with changes on "));
        assert!(caption.ends_with(". Repeat: `cargo xtask soak`."));
    }

    #[test]
    fn fields_are_read() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2:1\nprocessor\t: 1\n";
        assert_eq!(field(cpuinfo, "model name"), Some("Some CPU @ 2:1"));
        assert_eq!(memory_mib("MemTotal:       24576000 kB\nMemFree: 1 kB\n"), Some(24000));
        assert_eq!(memory_mib(""), None);
    }
}
