//! A client of an MCP server that it starts as a process and talks to over standard input and output.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// How long one response may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(1);

/// Why a server did not respond.
pub type McpFailure = Box<dyn Error + Send + Sync>;

/// A started MCP server after its handshake. It ends with its client.
#[derive(Debug)]
pub struct McpProcess {
    child: Child,
    input: ChildStdin,
    lines: Receiver<Vec<u8>>,
    next_id: u64,
}

impl McpProcess {
    /// Starts a server and initializes the connection. What the server writes to standard error is
    /// discarded.
    pub fn start(command: &mut Command) -> Result<Self, McpFailure> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let input = child.stdin.take().ok_or("stdin is piped")?;
        let mut output = BufReader::new(child.stdout.take().ok_or("stdout is piped")?);
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            loop {
                let mut line = Vec::new();
                if output.read_until(b'\n', &mut line).unwrap_or(0) == 0 || send.send(line).is_err()
                {
                    return;
                }
            }
        });
        let mut process = Self { child, input, lines, next_id: 0 };
        let client = json!({"name": "testkit", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        process.request("initialize", &params)?;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        writeln!(process.input, "{initialized}")?;
        Ok(process)
    }

    /// Sends a request and waits for its response; an error is a result with `isError`.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<Value, McpFailure> {
        self.next_id += 1;
        let id = self.next_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.input, "{request}")?;
        loop {
            let line = self
                .lines
                .recv_timeout(RESPONSE_TIMEOUT)
                .map_err(|error| format!("{method}: {error}"))?;
            let mut message: Value = serde_json::from_slice(&line)?;
            if message["id"] != id || message.get("method").is_some() {
                continue;
            }
            if let Some(error) = message.get("error") {
                return Ok(
                    json!({"isError": true, "content": [{"type": "text", "text": error.to_string()}]}),
                );
            }
            return Ok(message["result"].take());
        }
    }

    /// The definitions of the tools, as the server lists them.
    pub fn tools(&mut self) -> Result<Vec<Value>, McpFailure> {
        match self.request("tools/list", &json!({}))?["tools"].take() {
            Value::Array(tools) => Ok(tools),
            other => Err(format!("tools/list: {other}").into()),
        }
    }

    /// Calls a tool; returns its result.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, McpFailure> {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }
}

impl Drop for McpProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
