//! A running memory server: what is put into its store, and where it is reached.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use mif::{DetailLevel, Memory, Status};
use testkit::corpus;

use crate::canaries::{self, LineCollector};
use crate::program::Program;

/// How long a server may take for its metrics.
const METRICS_TIMEOUT: Duration = Duration::from_secs(2);

/// A program whose store has these memories.
pub(crate) fn remembering(memories: &[Memory]) -> Program {
    register(memories);
    let lines = corpus::lines(memories, DetailLevel::Full).join("\n");
    let program = Program::new().file("work/memories.jsonl", lines);
    let run = program.run(&["memory", "import", "memories.jsonl", "--json"]);
    assert_eq!((run.status, &run.json()["stored"]), (0, &memories.len().into()), "{run}");
    program
}

/// Registers memories as canaries.
pub(crate) fn register(memories: &[Memory]) {
    for memory in memories {
        canaries::register_content(&memory.content);
        canaries::register_content(memory.title.as_deref().unwrap_or_default());
    }
}

/// `n` memories, active, each of which answers to "harbour" at light detail.
pub(crate) fn harbours(n: usize) -> Vec<Memory> {
    let mut memories = corpus::memories(n, 3);
    for (n, memory) in memories.iter_mut().enumerate() {
        memory.title = Some(format!("Ship {n} in the harbour"));
        memory.status = Some(Status::Active);
    }
    memories
}

/// The tokens that servers of this process need, by where they are reached, without a path.
static TOKENS: LazyLock<Mutex<HashMap<String, String>>> = LazyLock::new(Mutex::default);

/// Reads what a server says until it serves: where it is reached, without a path, and what it said
/// before. Its token is kept for [`token`].
pub(crate) fn address(said: &mut impl BufRead) -> (String, String) {
    let mut before = String::new();
    let url = loop {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "no address: {before}");
        if line.contains("serving MCP at ") {
            canaries::check("the line with the address", &line);
            let url = line.split_whitespace().find_map(|word| word.strip_suffix("/mcp"));
            break url.unwrap().to_owned();
        }
        before.push_str(&line);
    };
    let mut tokens = TOKENS.lock().unwrap();
    // The port may have been another server's before.
    tokens.remove(&url);
    let file = before.split_once("the token in ").and_then(|(_, rest)| rest.split_once(" ("));
    if let Some((file, _)) = file {
        let token = fs::read_to_string(file).unwrap().trim_end().to_owned();
        canaries::register_token(&token);
        tokens.insert(url.clone(), token);
    }
    (url, before)
}

/// The token that the server at `url` needs, unless `server.auth` says something else.
pub(crate) fn token(url: &str) -> Option<String> {
    TOKENS.lock().unwrap().get(url.strip_suffix("/mcp").unwrap_or(url)).cloned()
}

/// The header with it, as a line of a request, unless `headers` have one.
pub(crate) fn authorization(url: &str, headers: &str) -> String {
    let given = headers.to_lowercase().contains("authorization:");
    let token = token(url).filter(|_| !given);
    token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default()
}

/// `atlatl serve --http`, on a port that the system chose; it ends with the test. Then all that it wrote is searched
/// for [`canaries`].
pub(crate) struct Serving {
    child: Child,
    /// Where it is reached, without a path.
    pub(crate) url: String,
    /// What it remarked before it said that.
    pub(crate) said: String,
    /// Standard error after that.
    log: LineCollector,
    output: LineCollector,
    /// The file of `server.audit`.
    audit: Option<PathBuf>,
    /// The metrics before it ended.
    metrics: String,
}

impl Serving {
    pub(crate) fn start(program: &Program, more: &[&str]) -> Self {
        let args = [&["serve", "--http", "127.0.0.1:0"], more].concat();
        let setting = |name: &str| more.iter().find_map(|arg| arg.strip_prefix(name));
        let in_work = |name: &str| program.path("work").join(name);
        let audit = setting("server.audit=").map(in_work);
        if let Some(file) = setting("server.auth=token-file:") {
            fs::read_to_string(in_work(file)).unwrap().lines().for_each(canaries::register_token);
        }
        let mut command = program.command(&args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = LineCollector::start(BufReader::new(child.stdout.take().unwrap()));
        let mut remarks = BufReader::new(child.stderr.take().unwrap());
        let (url, said) = address(&mut remarks);
        let log = LineCollector::start(remarks);
        Self { child, url, said, log, output, audit, metrics: String::new() }
    }

    /// The lines on standard error since it serves.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.log.lines()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, and waits for the end.
    pub(crate) fn end_by(&mut self, signal: &str) -> ExitStatus {
        self.read_metrics();
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        self.child.wait().unwrap()
    }

    /// The URL of the admin listener, once the log has named it.
    pub(crate) fn admin(&self) -> Option<String> {
        let lines = self.lines();
        let started =
            lines.iter().find(|line| line.contains("admin") && line.contains("started"))?;
        let (_, url) = started.split_once("admin")?;
        let url = url.trim_start_matches(['"', ':', '=', ' ']).split('"').next()?;
        url.starts_with("http://").then(|| url.to_owned())
    }

    /// Reads the metrics of a server that runs: at the admin listener or else at its own. The latter would be a line
    /// in the audit log, which tests compare.
    fn read_metrics(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let url = match self.admin() {
            Some(admin) => admin,
            None if self.audit.is_none() => self.url.clone(),
            None => return,
        };
        self.metrics = metrics(&url).unwrap_or_default();
    }
}

/// The response to a request for metrics. `None` if there is none in time: a test may have stopped the server.
fn metrics(url: &str) -> Option<String> {
    let address = url.strip_prefix("http://")?;
    let place: SocketAddr = address.parse().ok()?;
    let mut stream = TcpStream::connect_timeout(&place, METRICS_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(METRICS_TIMEOUT)).ok()?;
    let authorization = authorization(url, "");
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{authorization}\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    Some(response)
}

impl Drop for Serving {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.read_metrics();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            return;
        }
        canaries::check("standard error before the server serves", &self.said);
        canaries::check("the log", &self.log.text());
        canaries::check("standard output", &self.output.text());
        canaries::check("the metrics", &self.metrics);
        // A test may have removed it.
        let audit = self.audit.as_ref().and_then(|audit| fs::read_to_string(audit).ok());
        canaries::check("the audit log", &audit.unwrap_or_default());
    }
}
