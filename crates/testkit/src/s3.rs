//! A real S3 server that checks signatures, in a directory that goes with it.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use crate::tool::require_s3;

/// The key that may do everything.
pub const ACCESS_KEY: &str = "AKIATESTKIT";
/// Its secret.
pub const SECRET_KEY: &str = "a/secret+with=odd/letters";

/// How long a server may take to come up on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// `$1` is the program, `$2` the directory. A line `start PORT` starts a server and answers with its
/// number, `kill` kills it with no word of warning. Whatever ends the test closes the pipe, and then
/// server and directory go.
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

/// A server. It ends when it is dropped, and also when the test process ends in any other way.
#[derive(Debug)]
pub struct Server {
    home: PathBuf,
    shell: Mutex<Shell>,
    port: u16,
    buckets: AtomicUsize,
}

#[derive(Debug)]
struct Shell {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Shell {
    /// Gives an order; the number of the server afterwards.
    fn order(&mut self, order: &str) -> u32 {
        let orders = self.orders.as_mut().expect("there until it is dropped");
        writeln!(orders, "{order}").and_then(|()| orders.flush()).expect("a shell that listens");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("a shell that answers");
        answer.trim().parse().expect("the number of a process")
    }
}

impl Server {
    /// The server of this process.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// A server of its own.
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
            // Open for longer than the test, it would look like something left behind.
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("its output"));
        let mut shell = Shell { child, orders, answers };
        // Between finding a free port and using it another test may take it.
        let port = (0..20).map(|_| free_port()).find(|port| comes_up(&mut shell, *port));
        let log = || fs::read_to_string(home.join("log")).unwrap_or_default();
        let port = port.unwrap_or_else(|| panic!("the S3 server does not start: {}", log()));
        Self { home, shell: Mutex::new(shell), port, buckets: AtomicUsize::new(0) }
    }

    /// A new bucket; its name.
    ///
    /// # Panics
    ///
    /// Panics if there cannot be one.
    pub fn bucket(&self) -> String {
        let name = format!("bucket-{}", self.buckets.fetch_add(1, Ordering::Relaxed));
        fs::create_dir(self.path(&name)).expect("a directory for the bucket");
        name
    }

    /// Where the objects of a bucket lie as files.
    pub fn path(&self, bucket: &str) -> PathBuf {
        self.home.join("root").join(bucket)
    }

    /// Where it keeps what was uploaded and is not an object yet.
    pub fn unfinished(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(self.home.join("root")).into_iter().flatten().flatten();
        let part = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with(".upload_id-") || name.starts_with(".upload-")
        };
        all.map(|entry| entry.path()).filter(part).collect()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Settings that reach it, by names of the environment.
    pub fn settings(&self) -> Vec<(String, String)> {
        self.settings_at(self.address())
    }

    /// The same through another place, which passes everything on to [`address`](Self::address).
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

    /// Kills it with no word of warning.
    pub fn kill(&self) {
        self.shell.lock().unwrap_or_else(PoisonError::into_inner).order("kill");
    }

    /// Starts it again, with what it had; returns when it takes connections.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub fn start_again(&self) {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(comes_up(&mut shell, self.port), "the S3 server does not start again");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let shell = self.shell.get_mut().unwrap_or_else(PoisonError::into_inner);
        // The end of its input tells the shell to end.
        drop(shell.orders.take());
        let _ = shell.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("its address").port()
}

/// Starts a server and waits until it listens; false where it ended instead.
fn comes_up(shell: &mut Shell, port: u16) -> bool {
    let server = shell.order(&format!("start {port}"));
    let begun = Instant::now();
    loop {
        let listens = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        // Another program may listen there, and then ours has ended or is about to.
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

/// Whether a process does something; one that ended and was not buried does not.
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
