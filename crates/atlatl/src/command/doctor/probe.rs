//! Probe: a server, really started, and asked what every client asks first.

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

use lro_proxy::upstream::stdio::Process;
use lro_wire::{meta, version};
use serde_json::{Value, json};

/// How long a server has to say what it is and what it offers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one has whose launcher may have to fetch it first.
const FETCHING: Duration = Duration::from_mins(1);

/// How long a server has that is started with these words.
pub(super) fn patience(words: &[String]) -> Duration {
    let launcher = words.first().and_then(|word| std::path::Path::new(word).file_name()?.to_str());
    let fetches = ["npx", "bunx", "pnpm", "yarn", "uvx", "uv", "pipx", "docker", "podman"];
    if launcher.is_some_and(|name| fetches.contains(&name)) { FETCHING } else { ANSWER_TIMEOUT }
}
/// How long it may take to end after its input has.
const REAP_TIMEOUT: Duration = Duration::from_secs(1);
/// How often is looked whether a person gave up.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A longer message is no answer to what is asked here.
const MAX_MESSAGE_LEN: u64 = 32 << 20;
/// A longer place in a listing is not sent back.
const LONGEST_CURSOR: usize = 4096;
/// Lines that wait to be looked at.
const WAITING: usize = 16;
/// How much of its standard error is kept.
const TAIL: usize = 4096;
/// More pages of tools are not asked for.
const PAGES: usize = 50;

/// How a server is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    /// How long it has to answer.
    pub(super) patience: Duration,
    pub(super) words: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: PathBuf,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The system did not start it.
    NotStarted(String),
    /// It ended before it answered.
    Ended { how: String, said: Option<String> },
    /// It did not answer in time.
    Silent { said: Option<String> },
    /// It answered that it will not.
    Refused { message: String },
    /// It speaks, in this version.
    Answered(Answer),
    /// A person gave up.
    Stopped,
}

/// What a server says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) version: String,
    /// The names of its tools; nothing where it did not say in time.
    pub(super) tools: Option<Vec<String>>,
    /// What it wrote between its messages that is none.
    pub(super) noise: Option<String>,
}

/// Starts a server, asks it, and ends it with all that it started.
pub(super) fn probe(start: &Start, stopped: &AtomicBool) -> Outcome {
    let mut command = Command::new(&start.words[0]);
    command.args(&start.words[1..]).current_dir(&start.cwd);
    command.envs(start.env.iter().map(|(name, value)| (name, value)));
    let (reader, writer) = match io::pipe() {
        Ok(pipe) => pipe,
        Err(error) => return Outcome::NotStarted(error.to_string()),
    };
    let (mut process, input, output) = match Process::start_with(command, Stdio::from(writer)) {
        Ok(started) => started,
        Err(error) => return Outcome::NotStarted(error.to_string()),
    };
    let tail = Tail::read_from(reader);
    let mut talk = Talk {
        input,
        messages: messages(output),
        until: Instant::now() + start.patience,
        stopped,
        noise: None,
        next: 0,
    };
    let outcome = match talk.greeted() {
        Ok(answer) => Outcome::Answered(answer),
        Err(Quiet::Refused(message)) => Outcome::Refused { message },
        Err(Quiet::Late) => Outcome::Silent { said: tail.last_line() },
        Err(Quiet::Stopped) => Outcome::Stopped,
        Err(Quiet::Over) => {
            let status = process.wait(REAP_TIMEOUT);
            // What it said last may still be on its way.
            thread::sleep(POLL_INTERVAL);
            let how = status.map_or_else(|| "closed its output".to_owned(), ended);
            Outcome::Ended { how, said: tail.last_line() }
        }
    };
    drop(talk);
    if process.wait(REAP_TIMEOUT).is_none() {
        process.stop();
    }
    outcome
}

fn ended(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("ended with status {code}"))
}

/// Why there is no answer.
enum Quiet {
    Late,
    Over,
    Stopped,
    Refused(String),
}

/// A conversation with a server.
struct Talk<'a> {
    input: ChildStdin,
    messages: Receiver<String>,
    until: Instant,
    stopped: &'a AtomicBool,
    noise: Option<String>,
    next: u64,
}

impl Talk<'_> {
    /// Who it is, and what it offers: as before 2026, and if it knows nothing of that, as since.
    fn greeted(&mut self) -> Result<Answer, Quiet> {
        let who = json!({"name": "atlatl-doctor", "version": env!("CARGO_PKG_VERSION")});
        let hello = json!({
            "protocolVersion": version::LEGACY[0], "capabilities": {}, "clientInfo": who
        });
        let (result, more) = match self.ask("initialize", &hello) {
            Ok(result) => {
                self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
                (result, json!({}))
            }
            Err(Quiet::Refused(message)) => {
                let modern = json!({"_meta": {
                    meta::PROTOCOL_VERSION: version::MODERN[0],
                    meta::CLIENT_INFO: who,
                    meta::CLIENT_CAPABILITIES: {}
                }});
                // Its first answer says more about what is wrong than its second.
                let result = self.ask("server/discover", &modern);
                (result.map_err(|quiet| refused(quiet, message))?, modern)
            }
            Err(quiet) => return Err(quiet),
        };
        let spoken = spoken(&result);
        let tools = if result["capabilities"].get("tools").is_some() {
            match self.tools(&more) {
                Err(Quiet::Stopped) => return Err(Quiet::Stopped),
                other => other.ok(),
            }
        } else {
            Some(Vec::new())
        };
        Ok(Answer { version: spoken, tools, noise: self.noise.take() })
    }

    fn tools(&mut self, params: &Value) -> Result<Vec<String>, Quiet> {
        let (mut names, mut params) = (Vec::new(), params.clone());
        for _ in 0..PAGES {
            let page = self.ask("tools/list", &params)?;
            let tools = page["tools"].as_array().into_iter().flatten();
            names.extend(tools.filter_map(|tool| tool["name"].as_str().map(str::to_owned)));
            // What does not fit into a pipe would be written for ever to a server that does not read.
            let next = page["nextCursor"].as_str().filter(|cursor| cursor.len() <= LONGEST_CURSOR);
            let Some(cursor) = next else { break };
            params["cursor"] = cursor.into();
        }
        Ok(names)
    }

    fn send(&mut self, message: &Value) -> Result<(), Quiet> {
        writeln!(self.input, "{message}").and_then(|()| self.input.flush()).map_err(|_| Quiet::Over)
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Quiet> {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            let line = self.line()?;
            let Ok(mut message) = serde_json::from_str::<Value>(&line) else {
                if !line.trim().is_empty() && self.noise.is_none() {
                    self.noise = Some(line);
                }
                continue;
            };
            if message["id"] != json!(id) || message.get("method").is_some() {
                continue;
            }
            if let Some(error) = message.get("error") {
                let said = error["message"].as_str().unwrap_or("an error without a message");
                return Err(Quiet::Refused(said.to_owned()));
            }
            return Ok(message["result"].take());
        }
    }

    fn line(&self) -> Result<String, Quiet> {
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return Err(Quiet::Stopped);
            }
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Quiet::Late);
            }
            match self.messages.recv_timeout(left.min(POLL_INTERVAL)) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Quiet::Over),
            }
        }
    }
}

fn refused(quiet: Quiet, first: String) -> Quiet {
    match quiet {
        Quiet::Stopped => quiet,
        _ => Quiet::Refused(first),
    }
}

/// The version that it speaks, the one that we know where there are several.
fn spoken(result: &Value) -> String {
    if let Some(version) = result["protocolVersion"].as_str() {
        return version.to_owned();
    }
    let all: Vec<&str> = result["supportedVersions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let known = all.iter().find(|version| version::MODERN.contains(version));
    known.or(all.first()).map_or_else(|| "none".to_owned(), |version| (*version).to_owned())
}

/// What it writes, a line at a time. The thread ends with the server's output.
fn messages(output: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = sync_channel(WAITING);
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

/// The end of what a server writes to its standard error.
struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    fn read_from(mut error: impl Read + Send + 'static) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let ours = Arc::clone(&kept);
        thread::spawn(move || {
            let mut chunk = [0; 1024];
            while let Ok(read @ 1..) = error.read(&mut chunk) {
                let mut kept = ours.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&chunk[..read]);
                let surplus = kept.len().saturating_sub(TAIL);
                kept.drain(..surplus);
            }
        });
        Self(kept)
    }

    fn last_line(&self) -> Option<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }
}
