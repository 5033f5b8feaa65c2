//! Asking: requests to a server, with the spans that their client names.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::canaries;
use crate::serving::{Serving, authorization};

pub(super) const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
pub(super) const SPAN: &str = "b7ad6b7169203331";

/// A span of a client in the trace whose number ends with `n`.
pub(super) fn parent(n: usize) -> String {
    format!("00-{}-{SPAN}-01", trace(n))
}

pub(super) fn trace(n: usize) -> String {
    format!("{}{n:04x}", &TRACE[..28])
}

/// A connection that is kept.
pub(super) struct Asker {
    stream: BufReader<TcpStream>,
    host: String,
    authorization: String,
}

impl Asker {
    pub(super) fn of(serving: &Serving) -> Self {
        let host = serving.url.strip_prefix("http://").unwrap().to_owned();
        let stream = TcpStream::connect(&host).unwrap();
        stream.set_nodelay(true).unwrap();
        let authorization = authorization(&serving.url, "");
        Self { stream: BufReader::new(stream), host, authorization }
    }

    /// The answer to `body`, whatever its status.
    pub(super) fn ask(&mut self, headers: &[(&str, &str)], body: &Value) -> Value {
        canaries::register_json(body);
        let body = body.to_string();
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            self.host,
            body.len()
        );
        if !headers.iter().any(|(name, _)| *name == "Authorization") {
            request += &self.authorization;
        }
        for (name, value) in headers {
            write!(request, "{name}: {value}\r\n").unwrap();
        }
        canaries::register_request(&request, "");
        request += "\r\n";
        request += &body;
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.stream.read_line(&mut line).unwrap() > 0, "closed");
            let line = line.trim_end().to_lowercase();
            if let Some(given) = line.strip_prefix("content-length: ") {
                length = given.parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).unwrap();
        serde_json::from_slice(&answer).unwrap_or_default()
    }

    /// Calls a tool as a client of 2025-11-25 does.
    pub(super) fn call(
        &mut self,
        headers: &[(&str, &str)],
        meta: Value,
        tool: &str,
        arguments: &Value,
    ) -> Value {
        let mut params = json!({"name": tool, "arguments": arguments});
        if !meta.is_null() {
            params["_meta"] = meta;
        }
        self.ask(headers, &request("tools/call", &params))
    }

    /// Calls a tool as a client of 2026-07-28 does.
    pub(super) fn modern(&mut self, mut meta: Value, tool: &str, arguments: &Value) -> Value {
        meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        if meta.get(CAPABILITIES).is_none() {
            meta[CAPABILITIES] = json!({});
        }
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", tool),
        ];
        self.call(&headers, meta, tool, arguments)
    }
}

pub(super) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

pub(super) fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}
