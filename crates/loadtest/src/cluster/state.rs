//! State: what a cluster consists of, in a file, so that every command finds it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::process::{self, Service};
use super::programs::Programs;
use super::{balancer, postgres, replica, s3};

const FILE: &str = "state.json";
/// How long everything may take to end in good order.
const GOOD_ORDER: Duration = Duration::from_secs(5);

/// A cluster on this machine.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct State {
    /// Where everything of it lies.
    pub(super) dir: PathBuf,
    /// Where the files of `PostgreSQL` lie: whoever it runs as must be able to reach them.
    pub(super) place: PathBuf,
    /// When it ends by itself, in seconds since 1970.
    until: u64,
    pub(super) programs: Programs,
    pub(super) postgres: Member,
    pub(super) s3: Member,
    pub(super) balancer: Member,
    pub(super) replicas: Vec<Member>,
}

/// Where a part listens, and its session if it was started.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Member {
    pub(super) port: u16,
    session: Option<u32>,
}

/// One that can be started and killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Postgres,
    S3,
    Balancer,
    Replica(usize),
}

impl State {
    /// A cluster of which nothing runs yet.
    pub(super) fn new(
        dir: &Path,
        place: PathBuf,
        programs: Programs,
        ports: &[u16],
        life: Duration,
    ) -> Result<Self> {
        let mut members = ports.iter().map(|port| Member { port: *port, session: None });
        let mut next = || members.next().context("a port for each part");
        let (postgres, s3, balancer) = (next()?, next()?, next()?);
        let until = now()? + life.as_secs();
        let dir = dir.to_path_buf();
        Ok(Self {
            dir,
            place,
            until,
            programs,
            postgres,
            s3,
            balancer,
            replicas: members.collect(),
        })
    }

    /// Whether there is a cluster in `dir`.
    pub(super) fn is_in(dir: &Path) -> bool {
        dir.join(FILE).is_file()
    }

    /// The cluster in `dir`.
    pub(super) fn load(dir: &Path) -> Result<Self> {
        ensure!(Self::is_in(dir), "there is no cluster in {}: cargo loadtest up", dir.display());
        let text = fs::read_to_string(dir.join(FILE)).context("the state of the cluster")?;
        serde_json::from_str(&text).context("the state of the cluster")
    }

    /// In one step: another command may read it at any time.
    pub(super) fn save(&self) -> Result<()> {
        let new = self.dir.join("state.new");
        fs::write(&new, serde_json::to_string_pretty(self)? + "\n")?;
        fs::rename(new, self.dir.join(FILE)).context("the state of the cluster")
    }

    /// Starts a part for as long as the cluster has.
    pub(super) fn start(&mut self, part: Part) -> Result<()> {
        ensure!(self.dir.is_dir(), "the cluster was taken down");
        let left = self.until.saturating_sub(now()?);
        ensure!(left > 0, "the cluster has had its time");
        let service = self.service(part)?;
        let session = service.start(&self.dir, left)?;
        self.member_mut(part)?.session = Some(session);
        self.save()
    }

    /// Kills a part with no word of warning.
    pub(super) fn kill(&self, part: Part) -> Result<()> {
        let Some(session) = self.member(part)?.session else { return Ok(()) };
        let data = postgres::data(self);
        process::kill(session, (part == Part::Postgres).then_some(&*data))
    }

    /// Ends everything, all at once: in good order, or else by force.
    pub(super) fn end(&self) -> Result<()> {
        let replicas = (0..self.replicas.len()).map(Part::Replica);
        let parts = [Part::Balancer, Part::S3, Part::Postgres].into_iter().chain(replicas);
        let parts: Vec<Part> = parts.collect();
        for part in &parts {
            if let Some(session) = self.member(*part)?.session {
                process::ask_to_end(session, self.service(*part)?.end);
            }
        }
        let asked = Instant::now();
        for part in parts {
            if let Some(session) = self.member(part)?.session {
                process::ended(session, GOOD_ORDER.saturating_sub(asked.elapsed()));
                self.kill(part).with_context(|| format!("{part:?}"))?;
            }
        }
        Ok(())
    }

    /// Whether a part runs.
    pub(super) fn runs(&self, part: Part) -> Result<bool> {
        Ok(self.member(part)?.session.is_some_and(process::runs))
    }

    /// The last lines that a part said.
    pub(super) fn last_words(&self, part: Part) -> String {
        let name = self.service(part).map(|service| service.name).unwrap_or_default();
        let log = fs::read_to_string(self.dir.join(format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    fn service(&self, part: Part) -> Result<Service> {
        match part {
            Part::Postgres => postgres::service(self),
            Part::S3 => s3::service(self),
            Part::Balancer => balancer::service(self),
            Part::Replica(number) => replica::service(self, number),
        }
    }

    pub(super) fn member(&self, part: Part) -> Result<&Member> {
        match part {
            Part::Postgres => Ok(&self.postgres),
            Part::S3 => Ok(&self.s3),
            Part::Balancer => Ok(&self.balancer),
            Part::Replica(number) => self.replicas.get(number).context("a replica that is there"),
        }
    }

    fn member_mut(&mut self, part: Part) -> Result<&mut Member> {
        match part {
            Part::Postgres => Ok(&mut self.postgres),
            Part::S3 => Ok(&mut self.s3),
            Part::Balancer => Ok(&mut self.balancer),
            Part::Replica(number) => {
                self.replicas.get_mut(number).context("a replica that is there")
            }
        }
    }
}

/// A path as an argument has it.
pub(super) fn text(path: &Path) -> Result<String> {
    Ok(path.to_str().with_context(|| format!("{} is no text", path.display()))?.to_owned())
}

fn now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}
