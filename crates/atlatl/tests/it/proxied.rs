//! A client's end of a running proxy.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::canaries;
use crate::program::Program;

/// How long anything may take before a test gives up on it.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) struct Proxied {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    next: u64,
    /// The bytes of all lines in both directions.
    traffic: Cell<usize>,
}

/// The server for faults.
pub(crate) fn fixture_server() -> String {
    testkit::tool::built_program("fixture-server", "testkit").to_str().unwrap().to_owned()
}

/// A server of the cache that `.ci/npm` fills.
pub(crate) fn real_server(name: &str) -> String {
    testkit::tool::require_npm(name).to_str().unwrap().to_owned()
}

/// The descriptor in a result that was replaced, as a client reads it: `structuredContent`, or the text
/// if there is none. Null if the result was not replaced.
pub(crate) fn descriptor(result: &Value) -> Value {
    let structured = &result["structuredContent"];
    if !structured.is_null() {
        return structured.clone();
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    serde_json::from_str(text).ok().filter(Value::is_object).unwrap_or_default()
}

/// The reference in an answer whose result was replaced.
pub(crate) fn reference(answer: &Value) -> String {
    let descriptor = descriptor(&answer["result"]);
    descriptor["lro"]["ref"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

impl Proxied {
    /// Starts `atlatl proxy FLAGS -- SERVER`.
    pub(crate) fn start(program: &Program, flags: &[&str], server: &[&str]) -> Self {
        let command = program.command(&[&["proxy"], flags, &["--"], server].concat());
        Self::of(command)
    }

    pub(crate) fn of(mut command: Command) -> Self {
        command.stderr(Stdio::inherit());
        Self::of_logged(command)
    }

    /// With standard error where the command sends it.
    pub(crate) fn of_logged(mut command: Command) -> Self {
        // What a server needs to be found.
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (send, lines) = mpsc::channel();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            loop {
                let mut line = Vec::new();
                if output.read_until(b'\n', &mut line).unwrap_or(0) == 0 || send.send(line).is_err()
                {
                    return;
                }
            }
        });
        Self { input: child.stdin.take(), child, lines, next: 0, traffic: Cell::new(0) }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.traffic.set(self.traffic.get() + line.len());
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    /// Asks for something; its id.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        canaries::register_json(arguments);
        let id = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        self.answer(id)
    }

    /// The next line, as it came; `None` where the proxy has ended.
    pub(crate) fn line(&self) -> Option<Vec<u8>> {
        self.try_line(TEST_TIMEOUT)
    }

    /// The next line, if it comes within that time.
    pub(crate) fn try_line(&self, most: Duration) -> Option<Vec<u8>> {
        let line = self.lines.recv_timeout(most).ok()?;
        self.traffic.set(self.traffic.get() + line.len());
        Some(line)
    }

    /// The message that answers `id`; what comes before it is dropped.
    pub(crate) fn answer(&self, id: u64) -> Value {
        serde_json::from_slice(&self.answering_line(id)).unwrap()
    }

    /// The line that answers `id`, as it came; what comes before it is dropped.
    pub(crate) fn answering_line(&self, id: u64) -> Vec<u8> {
        loop {
            let line = self.line().unwrap_or_else(|| panic!("no answer to {id}"));
            if let Ok(message) = serde_json::from_slice::<Value>(&line)
                && message["id"] == json!(id)
                && message.get("method").is_none()
            {
                return line;
            }
        }
    }

    /// Introduces a client of 2025-11-25; the line that answers.
    pub(crate) fn initialize(&mut self, capabilities: &Value) -> Vec<u8> {
        self.initialize_as("test", capabilities)
    }

    /// The same as the client `name`.
    pub(crate) fn initialize_as(&mut self, name: &str, capabilities: &Value) -> Vec<u8> {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": name, "version": "1"},
        });
        let id = self.request("initialize", &params);
        let line = self.answering_line(id);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        line
    }

    /// Ends as a client does: by the end of its input. A proxy that is killed cannot end its server.
    pub(crate) fn close(mut self) -> ExitStatus {
        self.input = None;
        self.ended().0
    }

    /// Asks, answers what the server asks in between, and gives every line up to the answer as it came.
    pub(crate) fn exchange(&mut self, method: &str, params: &Value) -> Vec<String> {
        let id = self.request(method, params);
        let mut lines = Vec::new();
        loop {
            let line = String::from_utf8(self.line().unwrap()).unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            let asked = message["method"].as_str();
            if asked == Some("notifications/tools/list_changed") {
                // Sent after the greeting, at some time.
                continue;
            }
            lines.push(line);
            let result = match asked {
                None if message["id"] == json!(id) => return lines,
                Some("sampling/createMessage") => json!({
                    "role": "assistant", "model": "m", "content": {"type": "text", "text": "Ja."},
                }),
                Some("elicitation/create") => json!({"action": "decline"}),
                _ => continue,
            };
            self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        }
    }

    /// A stored text, read range by range as each reply says.
    pub(crate) fn read_all(&mut self, reference: &str) -> String {
        let mut all = String::new();
        let mut start = 0;
        loop {
            let answer = self.call("read_large_output", &json!({"ref": reference, "start": start}));
            let text = answer["result"]["content"][0]["text"].as_str().unwrap();
            let (head, body) = text.split_once('\n').unwrap();
            all.push_str(body);
            let Some((_, more)) = head.split_once(" More: start=") else { return all };
            let next: u64 = more.trim_end_matches('.').parse().unwrap();
            assert!(next > start, "{head}");
            start = next;
        }
    }

    /// How many bytes the client has sent and read.
    pub(crate) fn traffic(&self) -> usize {
        self.traffic.get()
    }

    /// Waits for the end.
    pub(crate) fn ended(&mut self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, began.elapsed());
            }
            assert!(began.elapsed() < TEST_TIMEOUT, "the proxy does not end");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// What it and its children take of memory at most, in KiB; of the proxy itself.
    pub(crate) fn peak_kib(&self) -> u64 {
        self.status_kib("VmHWM:")
    }

    /// What the proxy itself takes of memory now, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.status_kib("VmRSS:")
    }

    /// Resident memory of the proxy itself that no file backs, in KiB.
    pub(crate) fn anonymous_kib(&self) -> u64 {
        self.status_kib("RssAnon:")
    }

    fn status_kib(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Proxied {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
