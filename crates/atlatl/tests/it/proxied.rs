//! A client's end of a running proxy.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::Program;

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Proxied {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    next: u64,
}

/// The server for faults.
pub(crate) fn fixture_server() -> String {
    testkit::built::program("fixture-server", "testkit").to_str().unwrap().to_owned()
}

impl Proxied {
    /// Starts `atlatl proxy FLAGS -- SERVER`.
    pub(crate) fn start(program: &Program, flags: &[&str], server: &[&str]) -> Self {
        let command = program.command(&[&["proxy"], flags, &["--"], server].concat());
        Self::of(command)
    }

    pub(crate) fn of(mut command: Command) -> Self {
        // What a server needs to be found.
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
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
        Self { input: child.stdin.take(), child, lines, next: 0 }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Asks for something; its id.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        self.answer(id)
    }

    /// The next line, as it came; `None` where the proxy has ended.
    pub(crate) fn line(&self) -> Option<Vec<u8>> {
        self.lines.recv_timeout(PATIENCE).ok()
    }

    /// The next line, if it comes within that time.
    pub(crate) fn try_line(&self, most: Duration) -> Option<Vec<u8>> {
        self.lines.recv_timeout(most).ok()
    }

    /// The message that answers `id`; what comes before it is dropped.
    pub(crate) fn answer(&self, id: u64) -> Value {
        loop {
            let line = self.line().unwrap_or_else(|| panic!("no answer to {id}"));
            if let Ok(message) = serde_json::from_slice::<Value>(&line)
                && message["id"] == json!(id)
                && message.get("method").is_none()
            {
                return message;
            }
        }
    }

    /// Waits for the end.
    pub(crate) fn ended(&mut self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, began.elapsed());
            }
            assert!(began.elapsed() < PATIENCE, "the proxy does not end");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// What it and its children take of memory at most, in KiB; of the proxy itself.
    pub(crate) fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Proxied {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
