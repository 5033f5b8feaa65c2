//! Client: one end of a server's standard streams, which measures how long an answer takes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    next: u64,
    /// What every request says of its sender, from 2026-07-28 on.
    pub(crate) meta: Option<Value>,
}

impl Client {
    /// Starts a server; what it says on standard error is dropped.
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        let started = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().display()));
        let mut child = started?;
        let input = child.stdin.take().expect("piped");
        let output = BufReader::with_capacity(1 << 16, child.stdout.take().expect("piped"));
        Ok(Self { child, input, output, line: Vec::new(), next: 0, meta: None })
    }

    /// Greets it and lists its tools, as every client does.
    pub(crate) fn greet(&mut self) -> Result<(), String> {
        self.initialize()?;
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        writeln!(self.input, "{note}").map_err(|error| error.to_string())?;
        self.list()
    }

    /// Lists its tools.
    pub(crate) fn list(&mut self) -> Result<(), String> {
        self.ask("tools/list", &json!({})).map(drop)
    }

    pub(crate) fn initialize(&mut self) -> Result<(), String> {
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        });
        self.ask("initialize", &params).map(drop)
    }

    /// Calls a tool; its result, and the time from the first byte that was sent to the last that
    /// came.
    pub(crate) fn call(
        &mut self,
        tool: &str,
        arguments: &Value,
    ) -> Result<(Value, Duration), String> {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// The same for a result that is only counted: the length of the line.
    pub(crate) fn call_bytes(
        &mut self,
        tool: &str,
        arguments: &Value,
    ) -> Result<(usize, Duration), String> {
        let (_, request) =
            self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        let took = self.exchange(&request)?;
        Ok((self.line.len(), took))
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    fn request(&mut self, method: &str, params: &Value) -> (u64, String) {
        self.next += 1;
        let id = self.next;
        let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if let Some(meta) = &self.meta {
            message["params"]["_meta"] = meta.clone();
        }
        (id, format!("{message}\n"))
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<(Value, Duration), String> {
        let (id, request) = self.request(method, params);
        let mut took = self.exchange(&request)?;
        loop {
            let mut message: Value =
                serde_json::from_slice(&self.line).map_err(|error| error.to_string())?;
            if message["id"] == id && message.get("method").is_none() {
                return match message.get_mut("result") {
                    Some(result) => Ok((result.take(), took)),
                    None => Err(message["error"].to_string()),
                };
            }
            // A notification came first; the answer is still under way.
            took += self.exchange("")?;
        }
    }

    /// Sends and waits for one line.
    fn exchange(&mut self, request: &str) -> Result<Duration, String> {
        self.line.clear();
        let start = Instant::now();
        self.input.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        match self.output.read_until(b'\n', &mut self.line) {
            Ok(0) => Err("it ended without an answer".to_owned()),
            Ok(_) => Ok(start.elapsed()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
