//! A real `PgBouncer` in transaction mode, in a temporary directory. It ends like the server: a shell runs it
//! until the pipe to the test process closes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{
    APP, AS_NOBODY, DEFAULT_PORT, OWNER, PASSWORD, START_TIMEOUT, directory, encoded, nobody, text,
};

/// A running pooler. It stops when it is dropped or the test process ends.
#[derive(Debug)]
pub struct PgBouncer {
    home: PathBuf,
    shell: Child,
    stdin: Option<ChildStdin>,
}

impl PgBouncer {
    /// Starts the program in front of `server`, the parameters of a connection such as `host=/run port=5432`,
    /// with this many server connections per user and database.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub fn start(program: &Path, server: &str, pool_size: usize) -> Self {
        let (home, root) = directory();
        // The user `nobody` cannot read root's home directory, and must be able to read these.
        let file = |name: &str, mode: u32, contents: &[u8]| {
            let path = home.join(name);
            fs::write(&path, contents).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
        };
        file("pgbouncer", 0o755, &fs::read(program).expect("the program"));
        let users = [OWNER, APP].map(|role| format!("\"{role}\" \"{PASSWORD}\"\n"));
        file("users.txt", 0o644, users.concat().as_bytes());
        let place = text(&home);
        let settings = format!(
            "[databases]\n\
             * = {server}\n\
             [pgbouncer]\n\
             pool_mode = transaction\n\
             default_pool_size = {pool_size}\n\
             auth_type = scram-sha-256\n\
             auth_file = {place}/users.txt\n\
             unix_socket_dir = {place}\n\
             listen_port = {DEFAULT_PORT}\n\
             server_login_retry = 1\n"
        );
        file("pgbouncer.ini", 0o644, settings.as_bytes());
        let mut shell = Command::new("sh")
            .args(["-c", &format!("{AS_NOBODY}{SCRIPT}"), "sh", place])
            .env("NOBODY", nobody(root))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // The shell outlives the test, which would look like a leaked stream.
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let stdin = shell.stdin.take();
        let pooler = Self { home, shell, stdin };
        pooler.wait_until_ready();
        pooler
    }

    /// The URL of a database for a role.
    pub fn url(&self, role: &str, database: &str) -> String {
        let (password, home) = (encoded(PASSWORD), encoded(text(&self.home)));
        format!("postgres://{role}:{password}@{home}/{database}")
    }

    /// The directory of its socket and its log.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.home.join(format!(".s.PGSQL.{DEFAULT_PORT}"))
    }

    fn wait_until_ready(&self) {
        let begun = Instant::now();
        let socket = self.socket();
        while UnixStream::connect(&socket).is_err() {
            let log = || fs::read_to_string(self.home.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < START_TIMEOUT, "PgBouncer does not start: {}", log());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // Closing its input ends the shell.
        drop(self.stdin.take());
        let _ = self.shell.wait();
    }
}

/// `$1` is the home directory.
const SCRIPT: &str = r#"
home=$1
(as_nobody "$home/pgbouncer" "$home/pgbouncer.ini") >"$home/log" 2>&1 &
pooler=$!
while read -r _; do :; done
# A signal that is less clear means other things in other versions.
{ kill -KILL "$pooler"; wait "$pooler"; } 2>/dev/null
rm -rf "$home"
"#;
