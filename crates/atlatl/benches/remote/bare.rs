//! Bare: the exchange itself, by hand on one connection, with nothing between.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::way::META;

pub(crate) struct Bare {
    stream: BufReader<TcpStream>,
    modern: bool,
    body: Vec<u8>,
    next: u64,
}

impl Bare {
    pub(crate) fn connect(port: u16, modern: bool) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server");
        stream.set_nodelay(true).expect("a socket");
        Self {
            stream: BufReader::with_capacity(1 << 16, stream),
            modern,
            body: Vec::new(),
            next: 0,
        }
    }

    /// Calls a tool; what came, and how long it took.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> io::Result<(&[u8], Duration)> {
        self.next += 1;
        let mut params = json!({"name": tool, "arguments": arguments});
        let mut headers =
            "Mcp-Session-Id: bench\r\nMCP-Protocol-Version: 2025-06-18\r\n".to_owned();
        if self.modern {
            params["_meta"] = META.parse().expect("JSON");
            headers = format!(
                "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
            );
        }
        let body =
            json!({"jsonrpc": "2.0", "id": self.next, "method": "tools/call", "params": params})
                .to_string();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let start = Instant::now();
        self.stream.get_mut().write_all(request.as_bytes())?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        self.body.resize(length, 0);
        self.stream.read_exact(&mut self.body)?;
        Ok((&self.body, start.elapsed()))
    }
}
