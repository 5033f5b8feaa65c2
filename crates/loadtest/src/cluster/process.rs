//! Process: a program that outlives this one, has an end of its own, and goes with all it started.
//!
//! Each is the leader of a session, so that one signal reaches it and everything below it, and runs
//! under `timeout`: what is forgotten ends by itself.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Whom `PostgreSQL` runs as where we are root, which it refuses to be.
pub(super) const NOBODY: u32 = 65_534;
/// How long a killed process may take to be gone on a busy machine.
const BURIED: Duration = Duration::from_secs(20);
/// How long the rest of a session may take to end by itself.
const BURIAL: Duration = Duration::from_millis(200);

/// A program to start, and how it ends.
#[derive(Debug)]
pub(super) struct Service {
    /// What its log is called.
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(&'static str, String)>,
    /// The signal that makes it end in good order.
    pub(super) end: &'static str,
    pub(super) user: User,
}

/// As whom a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    Ours,
    /// Not as root, whoever we are.
    Nobody,
}

impl Service {
    /// Starts it for at most `seconds`; what it says goes to its log in `dir`. Its process number is
    /// that of the session.
    pub(super) fn start(&self, dir: &Path, seconds: u64) -> Result<u32> {
        let log = dir.join(format!("{}.log", self.name));
        let log = File::options().create(true).append(true).open(&log);
        let log = log.with_context(|| format!("the log of {}", self.name))?;
        let mut words = vec!["setsid".to_owned()];
        words.extend(self.user.words()?);
        words.extend(["timeout".to_owned(), "--kill-after=10".to_owned()]);
        words.extend([format!("--signal={}", self.end), format!("{seconds}s")]);
        let mut command = command(&words);
        command.arg(&self.program).args(&self.args);
        command.env_clear().envs(self.env.iter().map(|(name, value)| (name, value)));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", self.name))?;
        Ok(child.id())
    }
}

impl User {
    /// What stands before a command that runs as this user.
    pub(super) fn words(self) -> Result<Vec<String>> {
        if self == Self::Ours || !is_root()? {
            return Ok(Vec::new());
        }
        let (user, group) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
        Ok(vec!["setpriv".to_owned(), user, group, "--clear-groups".to_owned()])
    }
}

/// A command of these words, in a directory that everyone may look into.
pub(super) fn command(words: &[String]) -> Command {
    let mut words = words.iter();
    let mut command = Command::new(words.next().map_or("true", String::as_str));
    command.args(words).current_dir("/");
    command
}

/// Stdout of a command that has to succeed; what it complains about is part of the error.
pub(super) fn stdout(what: &str, command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| what.to_owned())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{what}: {}: {}", output.status, said.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| what.to_owned())
}

/// Whether we may do everything.
pub(super) fn is_root() -> Result<bool> {
    Ok(fs::metadata("/proc/self").context("/proc")?.uid() == 0)
}

/// Asks a session to end by `signal`.
pub(super) fn ask_to_end(session: u32, signal: &str) {
    send(signal, &[format!("-{session}")]);
}

/// Whether a session that was asked to end did so within that time.
pub(super) fn ended(session: u32, patience: Duration) -> bool {
    within(patience, || members(session).is_empty())
}

/// Kills what works in `directory`, where there is one, and then its session, with no word of warning;
/// returns when nothing is left.
pub(super) fn kill(session: u32, directory: Option<&Path>) -> Result<()> {
    // Those first, and their parent not with them: `PostgreSQL` does not start again while its process
    // is unburied, and whoever started it buries it sooner than the first process of a container.
    if let Some(directory) = directory {
        emptied(session, || working_in(directory))?;
        ended(session, BURIAL);
    }
    emptied(session, || members(session))
}

/// Kills those that `left` tells until it tells of none.
fn emptied(session: u32, left: impl Fn() -> Vec<u32>) -> Result<()> {
    let gone = within(BURIED, || {
        // In their order: the parent goes before it starts anything in the place of what goes.
        let left: Vec<String> = left().iter().map(u32::to_string).collect();
        if !left.is_empty() {
            send("KILL", &left);
        }
        left.is_empty()
    });
    if !gone {
        bail!("what {session} started does not die");
    }
    Ok(())
}

/// Whether anything of a session runs.
pub(super) fn runs(session: u32) -> bool {
    !members(session).is_empty()
}

/// Asks until `done` says so; whether it did within that time.
pub(super) fn within(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if done() {
            return true;
        }
        if begun.elapsed() >= patience {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// One that ended by itself in the meantime is as good as killed.
fn send(signal: &str, whom: &[String]) {
    let mut kill = Command::new("kill");
    kill.args(["-s", signal, "--"]).args(whom).stdin(Stdio::null());
    let _ = kill.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Its leader is one of them before it is one: it is started in the session of whoever starts it.
fn members(session: u32) -> Vec<u32> {
    living(|pid, stat| pid == session || stat.group == session)
}

/// A process of `PostgreSQL` leaves the session and stays in the directory.
fn working_in(directory: &Path) -> Vec<u32> {
    let mut all = living(|_, _| true);
    all.retain(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == directory));
    all
}

/// What Linux tells of a process.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    group: u32,
}

impl Stat {
    /// The name, in brackets, may hold anything; what is behind it is numbers.
    fn read(text: &str) -> Option<Self> {
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        Some(Self { state, group: fields.nth(1)?.parse().ok()? })
    }
}

/// Processes that `wanted` knows; one that ended and was not buried does not live.
fn living(wanted: impl Fn(u32, &Stat) -> bool) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut living: Vec<u32> = all
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = Stat::read(&fs::read_to_string(entry.path().join("stat")).ok()?)?;
            (!matches!(stat.state, 'Z' | 'X') && wanted(pid, &stat)).then_some(pid)
        })
        .collect();
    living.sort_unstable();
    living
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_it_is_called() {
        let stat = |text| Stat::read(text);
        let sleeping = Some(Stat { state: 'S', group: 40 });
        assert_eq!(stat("42 (postgres) S 41 40 40 0 -1"), sleeping);
        assert_eq!(stat("42 (a) Z 7 (b)) S 41 40 40 0 -1"), sleeping);
        for odd in ["", "42", "42 (x)", "42 (x) S", "42 (x) S 1", "42 (x) S 1 y"] {
            assert_eq!(stat(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_session_goes_with_everything_it_started() {
        let home = tempfile::tempdir().unwrap();
        let service = Service {
            name: "two".to_owned(),
            program: "sh".into(),
            args: vec!["-c".to_owned(), "sleep 60 & sleep 60".to_owned()],
            env: Vec::new(),
            end: "TERM",
            user: User::Ours,
        };
        for patience in [Duration::ZERO, Duration::from_secs(10)] {
            let session = service.start(home.path(), 50).unwrap();
            assert!(within(BURIED, || members(session).len() >= 4), "timeout, sh and two sleeps");
            ask_to_end(session, "TERM");
            if !ended(session, patience) {
                kill(session, None).unwrap();
            }
            assert!(!runs(session));
        }
        // And by itself, when its time is over.
        let session = service.start(home.path(), 1).unwrap();
        assert!(within(BURIED, || !runs(session)));
    }
}
