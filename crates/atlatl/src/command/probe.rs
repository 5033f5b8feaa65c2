//! A minimal MCP client over stdio: starts a server, initializes it, lists its tools, perhaps calls one, and
//! stops it.
//!
//! It handles both protocol generations, and answers nothing that the server asks.

use std::{
    io::{self, BufRead as _, BufReader, Read, Write as _},
    path::PathBuf,
    process::{ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use lro_proxy::upstream::process::Process;
use lro_wire::{meta, version};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The time limit for initialization and the list of tools.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for launchers that may download the server first.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_mins(1);
/// The time limit for the call of a tool.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a server may take to exit after its standard input is closed.
const REAP_TIMEOUT: Duration = Duration::from_secs(1);
/// The interval at which an interrupt by the user is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Longer messages are split and then ignored as invalid JSON.
const MAX_MESSAGE_LEN: u64 = 32 << 20;
/// A longer cursor ends the list of tools.
const MAX_CURSOR_LEN: usize = 4096;
/// Output lines that are buffered before the server is throttled.
const MAX_QUEUED_LINES: usize = 16;
/// The size of the buffer for the end of standard error.
const STDERR_TAIL_BYTES: usize = 4096;
/// The maximum number of pages of the list of tools.
const MAX_TOOL_PAGES: usize = 50;

/// The time limit for a server with this command.
pub(crate) fn probe_timeout(words: &[String]) -> Duration {
    let launcher = words.first().and_then(|word| std::path::Path::new(word).file_name()?.to_str());
    let fetches = ["npx", "bunx", "pnpm", "yarn", "uvx", "uv", "pipx", "docker", "podman"];
    if launcher.is_some_and(|name| fetches.contains(&name)) {
        DOWNLOAD_TIMEOUT
    } else {
        ANSWER_TIMEOUT
    }
}

/// The command of a server and the time it has to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeTarget {
    /// The time to answer, from its start.
    pub(crate) timeout: Duration,
    pub(crate) words: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: PathBuf,
}

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeOutcome {
    /// The process could not be started.
    NotStarted(String),
    /// It exited, or closed its output, before it answered.
    Exited { how: String, stderr: Option<String> },
    /// It did not answer in time.
    TimedOut { stderr: Option<String> },
    /// It answered with a JSON-RPC error.
    Rejected { message: String },
    /// It was initialized.
    Answered(ServerInfo),
    /// The user interrupted the probe.
    Interrupted,
}

/// What a server reports about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    pub(crate) version: String,
    /// The names of its tools; `None` if it did not list them in time.
    pub(crate) tools: Option<Vec<String>>,
    /// The first line on standard output that is not JSON.
    pub(crate) noise: Option<String>,
}

/// Starts a server, initializes it, lists its tools and stops its process group.
#[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not general enough")]
pub(crate) fn probe(target: &ProbeTarget, interrupted: &AtomicBool) -> ProbeOutcome {
    match with_session(target, interrupted, |session| session.inspect()) {
        Ok(info) => ProbeOutcome::Answered(info),
        Err(outcome) => outcome,
    }
}

/// A call of a tool, and its result.
#[derive(Debug)]
pub(crate) struct ToolCallOutcome {
    /// The definitions of the server's tools.
    pub(crate) tools: Vec<Value>,
    /// The result of the call, as the server wrote it; `None` if there was none.
    pub(crate) result: Option<String>,
}

/// Starts a server, calls the tool that `choose` names with its arguments, if any, and stops the server.
pub(crate) fn call_tool(
    target: &ProbeTarget,
    interrupted: &AtomicBool,
    choose: impl FnOnce(&[Value]) -> Option<(String, Value)>,
) -> Result<ToolCallOutcome, ProbeOutcome> {
    with_session(target, interrupted, |session| {
        let (_, params) = session.initialize()?;
        let tools = session.tools(&params)?;
        let Some((name, arguments)) = choose(&tools) else {
            return Ok(ToolCallOutcome { tools, result: None });
        };
        let mut params = params;
        params["name"] = name.into();
        params["arguments"] = arguments;
        session.deadline = Instant::now() + CALL_TIMEOUT;
        let (line, _) = session.response("tools/call", &params)?;
        let raw: RawResponse<'_> = serde_json::from_str(&line)
            .map_err(|_| ProbeError::Rejected("an answer without a result".to_owned()))?;
        Ok(ToolCallOutcome { tools, result: Some(raw.result.get().to_owned()) })
    })
}

/// A response whose result is kept as it was written.
#[derive(Deserialize)]
struct RawResponse<'a> {
    #[serde(borrow)]
    result: &'a RawValue,
}

/// Starts a server, does something with it, and stops its process group.
fn with_session<T>(
    target: &ProbeTarget,
    interrupted: &AtomicBool,
    work: impl FnOnce(&mut ProbeSession<'_>) -> Result<T, ProbeError>,
) -> Result<T, ProbeOutcome> {
    let mut command = Command::new(&target.words[0]);
    command.args(&target.words[1..]).current_dir(&target.cwd);
    command.envs(target.env.iter().map(|(name, value)| (name, value)));
    let not_started = |error: io::Error| ProbeOutcome::NotStarted(error.to_string());
    let (reader, writer) = io::pipe().map_err(not_started)?;
    let (mut process, input, output) =
        Process::start_with(command, Stdio::from(writer)).map_err(not_started)?;
    let tail = StderrTail::read_from(reader);
    let mut session = ProbeSession {
        input,
        lines: read_lines(output),
        deadline: Instant::now() + target.timeout,
        interrupted,
        noise: None,
        next: 0,
    };
    let outcome = work(&mut session).map_err(|error| match error {
        ProbeError::Rejected(message) => ProbeOutcome::Rejected { message },
        ProbeError::TimedOut => ProbeOutcome::TimedOut { stderr: tail.last_line() },
        ProbeError::Interrupted => ProbeOutcome::Interrupted,
        ProbeError::Closed => {
            let status = process.wait(REAP_TIMEOUT);
            // The end of its standard error may not have been read yet.
            thread::sleep(POLL_INTERVAL);
            let how = status.map_or_else(|| "closed its output".to_owned(), exit_description);
            ProbeOutcome::Exited { how, stderr: tail.last_line() }
        }
    });
    drop(session);
    if process.wait(REAP_TIMEOUT).is_none() {
        process.stop();
    }
    outcome
}

fn exit_description(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("ended with status {code}"))
}

/// Why a request has no result.
enum ProbeError {
    TimedOut,
    Closed,
    Interrupted,
    Rejected(String),
}

/// A connection to a started server.
struct ProbeSession<'a> {
    input: ChildStdin,
    lines: Receiver<String>,
    deadline: Instant,
    interrupted: &'a AtomicBool,
    noise: Option<String>,
    next: u64,
}

impl ProbeSession<'_> {
    /// Initializes the server, and lists the names of its tools.
    fn inspect(&mut self) -> Result<ServerInfo, ProbeError> {
        let (result, list_params) = self.initialize()?;
        let tools = if result["capabilities"].get("tools").is_some() {
            match self.tools(&list_params) {
                Err(ProbeError::Interrupted) => return Err(ProbeError::Interrupted),
                other => other.ok(),
            }
        } else {
            Some(Vec::new())
        };
        let name = |tool: &Value| tool["name"].as_str().map(str::to_owned);
        let tools = tools.map(|tools| tools.iter().filter_map(name).collect());
        Ok(ServerInfo { version: protocol_version(&result), tools, noise: self.noise.take() })
    }

    /// Initializes the server, with `initialize` or, if it rejects that, with `server/discover`. Returns
    /// its answer, and the parameters of further requests.
    fn initialize(&mut self) -> Result<(Value, Value), ProbeError> {
        let client_info = json!({"name": "atlatl", "version": env!("CARGO_PKG_VERSION")});
        let initialize_params = json!({
            "protocolVersion": version::SESSION_VERSIONS[0], "capabilities": {}, "clientInfo": client_info
        });
        match self.request("initialize", &initialize_params) {
            Ok(result) => {
                self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
                Ok((result, json!({})))
            }
            Err(ProbeError::Rejected(message)) => {
                let modern = json!({"_meta": {
                    meta::PROTOCOL_VERSION: version::STATELESS_VERSIONS[0],
                    meta::CLIENT_INFO: client_info,
                    meta::CLIENT_CAPABILITIES: {}
                }});
                // If both fail, the first error is the more helpful one.
                let result = self.request("server/discover", &modern);
                Ok((result.map_err(|error| keep_first_rejection(error, message))?, modern))
            }
            Err(error) => Err(error),
        }
    }

    fn tools(&mut self, params: &Value) -> Result<Vec<Value>, ProbeError> {
        let (mut tools, mut params) = (Vec::new(), params.clone());
        for _ in 0..MAX_TOOL_PAGES {
            let page = self.request("tools/list", &params)?;
            tools.extend(page["tools"].as_array().into_iter().flatten().cloned());
            // Writing more than a pipe buffers blocks if the server does not read.
            let next = page["nextCursor"].as_str().filter(|cursor| cursor.len() <= MAX_CURSOR_LEN);
            let Some(cursor) = next else { break };
            params["cursor"] = cursor.into();
        }
        Ok(tools)
    }

    fn send(&mut self, message: &Value) -> Result<(), ProbeError> {
        writeln!(self.input, "{message}")
            .and_then(|()| self.input.flush())
            .map_err(|_| ProbeError::Closed)
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, ProbeError> {
        Ok(self.response(method, params)?.1["result"].take())
    }

    /// The response to a request, as it was written and parsed.
    fn response(&mut self, method: &str, params: &Value) -> Result<(String, Value), ProbeError> {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            let line = self.line()?;
            let Ok(message) = serde_json::from_str::<Value>(&line) else {
                if !line.trim().is_empty() && self.noise.is_none() {
                    self.noise = Some(line);
                }
                continue;
            };
            if message["id"] != json!(id) || message.get("method").is_some() {
                continue;
            }
            if let Some(error) = message.get("error") {
                let message = error["message"].as_str().unwrap_or("an error without a message");
                return Err(ProbeError::Rejected(message.to_owned()));
            }
            return Ok((line, message));
        }
    }

    fn line(&self) -> Result<String, ProbeError> {
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(ProbeError::Interrupted);
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ProbeError::TimedOut);
            }
            match self.lines.recv_timeout(left.min(POLL_INTERVAL)) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(ProbeError::Closed),
            }
        }
    }
}

fn keep_first_rejection(error: ProbeError, first: String) -> ProbeError {
    match error {
        ProbeError::Interrupted => error,
        _ => ProbeError::Rejected(first),
    }
}

/// The negotiated protocol version; of several, one that Atlatl supports.
fn protocol_version(result: &Value) -> String {
    if let Some(version) = result["protocolVersion"].as_str() {
        return version.to_owned();
    }
    let all: Vec<&str> = result["supportedVersions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let supported = all.iter().find(|version| version::STATELESS_VERSIONS.contains(version));
    supported.or(all.first()).map_or_else(|| "none".to_owned(), |version| (*version).to_owned())
}

/// Reads the lines of the server's output in a thread, which ends with the output.
fn read_lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = sync_channel(MAX_QUEUED_LINES);
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            match output.by_ref().take(MAX_MESSAGE_LEN).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() => return,
                Ok(_) => {}
            }
        }
    });
    receive
}

/// The last bytes of a server's standard error.
struct StderrTail(Arc<Mutex<Vec<u8>>>);

impl StderrTail {
    fn read_from(mut error: impl Read + Send + 'static) -> Self {
        let buffer = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&buffer);
        thread::spawn(move || {
            let mut chunk = [0; 1024];
            while let Ok(read @ 1..) = error.read(&mut chunk) {
                let mut buffer = shared.lock().unwrap_or_else(PoisonError::into_inner);
                buffer.extend_from_slice(&chunk[..read]);
                let surplus = buffer.len().saturating_sub(STDERR_TAIL_BYTES);
                buffer.drain(..surplus);
            }
        });
        Self(buffer)
    }

    fn last_line(&self) -> Option<String> {
        let buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&buffer);
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }
}
