//! A real S3 server that checks signatures, in a temporary directory.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use crate::tool::require_s3;

/// The access key with all rights.
pub const ACCESS_KEY: &str = "AKIATESTKIT";
/// The secret of the access key.
pub const SECRET_KEY: &str = "a/secret+with=odd/letters";

/// How long a server may take to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// `$1` is the program, `$2` the directory. A line `start PORT` starts a server and prints its process id,
/// `kill` kills it. The end of the test closes the pipe; then the shell stops the server and removes the
/// directory.
const SCRIPT: &str = r#"
program=$1 home=$2 server=
end() { [ -z "$server" ] || { kill -9 "$server"; wait "$server"; } 2>/dev/null; server=; }
while read -r order port; do
    end
    if [ "$order" = start ]; then
        "$program" --host 127.0.0.1 --port "$port" --access-key "$ACCESS_KEY" \
            --secret-key "$SECRET_KEY" "$home/root" </dev/null >>"$home/log" 2>&1 &
        server=$!
    fi
    echo "${server:-0}"
done
end
rm -rf "$home"
"#;

/// A running server. It stops when it is dropped or the test process ends.
#[derive(Debug)]
pub struct S3Server {
    home: PathBuf,
    shell: Mutex<Shell>,
    port: u16,
    buckets: AtomicUsize,
}

#[derive(Debug)]
struct Shell {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Shell {
    /// Sends a command; returns the process id of the server, or 0.
    fn send(&mut self, command: &str) -> u32 {
        let input = self.input.as_mut().expect("there until it is dropped");
        writeln!(input, "{command}").and_then(|()| input.flush()).expect("a shell that listens");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("a shell that answers");
        answer.trim().parse().expect("the number of a process")
    }
}

impl S3Server {
    /// The shared server of this process.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<S3Server> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// Starts a server.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed or does not start.
    pub fn start() -> Self {
        let program = require_s3();
        let home = directory();
        let root = home.join("root");
        fs::create_dir(&root).expect("a directory for buckets");
        let mut child = Command::new("sh")
            .args(["-c", SCRIPT, "sh"])
            .args([&program, &home])
            .env("ACCESS_KEY", ACCESS_KEY)
            .env("SECRET_KEY", SECRET_KEY)
            .env_remove("RUST_LOG")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The shell outlives the test, which would look like a leaked stream.
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut shell = Shell { child, input, output };
        // Another test may take the port before the server does.
        let port = (0..20).map(|_| free_port()).find(|port| start_on(&mut shell, *port));
        let log = || fs::read_to_string(home.join("log")).unwrap_or_default();
        let port = port.unwrap_or_else(|| panic!("the S3 server does not start: {}", log()));
        Self { home, shell: Mutex::new(shell), port, buckets: AtomicUsize::new(0) }
    }

    /// Creates a bucket; returns its name.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be created.
    pub fn bucket(&self) -> String {
        let name = format!("bucket-{}", self.buckets.fetch_add(1, Ordering::Relaxed));
        fs::create_dir(self.path(&name)).expect("a directory for the bucket");
        name
    }

    /// The directory with the objects of a bucket.
    pub fn path(&self, bucket: &str) -> PathBuf {
        self.home.join("root").join(bucket)
    }

    /// The files of incomplete multipart uploads.
    pub fn unfinished(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(self.home.join("root")).into_iter().flatten().flatten();
        let part = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with(".upload_id-") || name.starts_with(".upload-")
        };
        all.map(|entry| entry.path()).filter(part).collect()
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The environment variables for a client of the server.
    pub fn settings(&self) -> Vec<(String, String)> {
        self.settings_at(self.address())
    }

    /// The environment variables for a client of a proxy at `place`, which forwards to
    /// [`address`](Self::address).
    pub fn settings_at(&self, place: SocketAddr) -> Vec<(String, String)> {
        [
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
            ("AWS_ENDPOINT", format!("http://{place}")),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&self) {
        self.shell.lock().unwrap_or_else(PoisonError::into_inner).send("kill");
    }

    /// Restarts the server with its data; returns when it accepts connections.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub fn start_again(&self) {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(start_on(&mut shell, self.port), "the S3 server does not start again");
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let shell = self.shell.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Closing its input ends the shell.
        drop(shell.input.take());
        let _ = shell.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("its address").port()
}

/// Starts a server and waits until it listens. Returns false if it exited.
fn start_on(shell: &mut Shell, port: u16) -> bool {
    let server = shell.send(&format!("start {port}"));
    let begun = Instant::now();
    loop {
        let listens = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        // Another program may listen on the port; then this server exits soon.
        thread::sleep(Duration::from_millis(if listens { 30 } else { 5 }));
        if !is_running(server) {
            return false;
        }
        if listens {
            return true;
        }
        assert!(begun.elapsed() < START_TIMEOUT, "the S3 server does not listen");
    }
}

/// Whether a process runs; a zombie does not.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z")))
}

fn directory() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    loop {
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let home = env::temp_dir().join(format!("atlatl-s3-{}-{n}", process::id()));
        match fs::create_dir(&home) {
            Ok(()) => return home,
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{error}"),
        }
    }
}
