//! Up and down: a cluster from nothing, and nothing from a cluster.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::postgres::{APP, DATABASE, OWNER};
use super::process::within;
use super::programs::Programs;
use super::state::{Part, State};
use super::{balancer, ports, postgres, replica, s3, tenants};
use xtask::output;

/// After so long a cluster ends by itself.
const LIFE: Duration = Duration::from_hours(2);
/// How long a part may take to answer on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Makes a cluster in `dir` and starts it.
pub(super) fn up(dir: &Path, atlatl: PathBuf, replicas: usize, tenants: usize) -> Result<State> {
    ensure!(
        !dir.exists(),
        "{} is there already: cargo loadtest down ends what is in it",
        dir.display()
    );
    let mut programs = Programs::find(atlatl)?;
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let dir = dir.canonicalize()?;
    let place = postgres::place(&dir, &mut programs)?;
    let mut state = State::new(&dir, place, programs, &ports::free(3 + replicas)?, LIFE)?;
    // From here on `down` finds everything.
    state.save()?;
    match filled(&mut state, tenants) {
        Ok(()) => Ok(state),
        Err(error) => {
            down(&dir)?;
            Err(error)
        }
    }
}

fn filled(state: &mut State, tenants: usize) -> Result<()> {
    output::progress("making a database");
    postgres::make(state)?;
    s3::make(state)?;
    replica::make(state)?;
    balancer::make(state)?;
    output::progress("starting PostgreSQL and S3");
    started(state, Part::Postgres, postgres::answers)?;
    started(state, Part::S3, s3::answers)?;
    let roles = format!(
        "CREATE ROLE {OWNER} LOGIN; CREATE ROLE {APP} LOGIN; CREATE DATABASE {DATABASE} OWNER {OWNER}"
    );
    postgres::sql(state, "postgres", &roles)?;
    postgres::sql(state, DATABASE, "CREATE EXTENSION vector").context("pgvector")?;
    tenants::make(state, tenants)?;
    output::progress(format_args!("starting {} servers and a balancer", state.replicas.len()));
    for number in 0..state.replicas.len() {
        state.start(Part::Replica(number))?;
    }
    for number in 0..state.replicas.len() {
        let port = state.replicas[number].port;
        answering(state, Part::Replica(number), |_| replica::is_ready(port, START_TIMEOUT))?;
    }
    // It answers for itself where it has no server yet, so that this waits for the first one.
    started(state, Part::Balancer, |state| replica::is_ready(state.balancer.port, START_TIMEOUT))
}

fn started(state: &mut State, part: Part, answers: impl Fn(&State) -> bool) -> Result<()> {
    state.start(part)?;
    answering(state, part, answers)
}

fn answering(state: &State, part: Part, answers: impl Fn(&State) -> bool) -> Result<()> {
    let mut ended = false;
    let answered = within(START_TIMEOUT, || {
        ended = !state.runs(part).unwrap_or_default();
        ended || answers(state)
    });
    if ended || !answered {
        bail!("{part:?} does not answer: {}", state.last_words(part));
    }
    Ok(())
}

/// Ends everything in `dir` and removes it.
pub(super) fn down(dir: &Path) -> Result<()> {
    let state = State::load(dir)?;
    state.end()?;
    // Last of all the file by which the rest is found.
    if state.place.is_dir() {
        fs::remove_dir_all(&state.place).context("the directory of PostgreSQL")?;
    }
    fs::remove_dir_all(&state.dir).context("the directory of the cluster")
}

/// Keeps the logs of a cluster that is about to go, for whoever looks for the reason of something.
pub(super) fn keep_logs(dir: &Path) -> Result<PathBuf> {
    let mut kept = dir.as_os_str().to_owned();
    kept.push("-logs");
    let kept = PathBuf::from(kept);
    let _ = fs::remove_dir_all(&kept);
    fs::create_dir_all(&kept)?;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let name = path.file_name().context("a file has a name")?;
            fs::copy(&path, kept.join(name))?;
        }
    }
    Ok(kept)
}
