//! A server on a local port, and a client with control over every byte.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use atlatl_memory::contract::BlockOn;
use atlatl_server::auth::Authenticator;
use atlatl_server::event::EventBus;
use atlatl_server::http::{self, BearerTokens, HttpOptions, StopHandle, Tenants};
use lro::Spools;
use serde_json::{Value, json};

use crate::fixture::{Era, Place};

/// The timeout of a response.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

const TOKEN: &str = "q7Zt2mXc9Lw4Rk8Vb1Ns6Hd3Jf5Gp0Ya";

/// The header with the token, as a line of a request.
pub(crate) const AUTHORIZED: &str = "Authorization: Bearer q7Zt2mXc9Lw4Rk8Vb1Ns6Hd3Jf5Gp0Ya\r\n";

fn tokens() -> BearerTokens {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens");
    fs::write(&path, TOKEN).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    BearerTokens::read(&path, [5; 32]).unwrap()
}

/// A running server. It stops with the test.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    /// The header of every request without its own token.
    pub(crate) token: Option<&'static str>,
    stop: Option<StopHandle>,
    thread: Option<JoinHandle<()>>,
}

/// A response.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns the value of a header that occurs once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(known, _)| known == name);
        let value = named.next().map(|(_, value)| value.as_str());
        assert!(named.next().is_none(), "{name} twice: {:?}", self.headers);
        value
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("{}: {}", self.status, self.text()))
    }

    /// Asserts a problem document with `status`.
    pub(crate) fn is_problem(&self, status: u16) {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], "about:blank");
        for part in ["title", "detail"] {
            assert!(problem[part].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
        }
    }
}

impl Served {
    pub(crate) fn start(place: &Place) -> Self {
        Self::with(place, HttpOptions::default())
    }

    /// Starts a server with these options. Without tokens it gets one that every request sends.
    pub(crate) fn with(place: &Place, mut options: HttpOptions) -> Self {
        let listener = http::listen("127.0.0.1:0", false).unwrap();
        let address = listener.address().unwrap().unwrap();
        let token = options.tokens.is_none().then_some(TOKEN);
        options.tokens.get_or_insert_with(tokens);
        options.spools = Some(Spools::new(vec![place.spool()]));
        let server = place.server();
        let (stop, stopped) = http::stop_channel();
        let thread = std::thread::spawn(move || {
            http::run(server, listener, options, stopped).wait().unwrap();
        });
        Self { address, token, stop: Some(stop), thread: Some(thread) }
    }

    /// Starts a server for the tenants of `authenticator`.
    pub(crate) fn for_many(
        tenants: Arc<dyn Tenants>,
        authenticator: Arc<Authenticator>,
        events: EventBus,
        options: HttpOptions,
    ) -> Self {
        let listener = http::listen("127.0.0.1:0", true).unwrap();
        let address = listener.address().unwrap().unwrap();
        let (stop, stopped) = http::stop_channel();
        let thread = std::thread::spawn(move || {
            http::run_multi_tenant(tenants, authenticator, events, listener, options, stopped)
                .wait()
                .unwrap();
        });
        Self { address, token: None, stop: Some(stop), thread: Some(thread) }
    }

    /// Sends these bytes, and reads until the server closes.
    pub(crate) fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        // A server that rejects a request may close before it has read everything.
        let _ = stream.write_all(request);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        answer(&all)
    }

    /// A request with these headers, the token and the framing headers only.
    pub(crate) fn bare(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in headers {
            let _ = write!(request, "{name}: {value}\r\n");
        }
        if let Some(token) = self.token {
            let _ = write!(request, "Authorization: Bearer {token}\r\n");
        }
        if !body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH") {
            let _ = write!(request, "Content-Length: {}\r\n", body.len());
        }
        self.raw(format!("{request}\r\n{body}").as_bytes())
    }

    /// The same with the headers that every client sends.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let host = self.address.to_string();
        let mut headers = vec![("Host", host.as_str())];
        if !body.is_empty() {
            headers.push(("Content-Type", "application/json"));
        }
        headers.extend(more);
        self.bare(method, path, &headers, body)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.ask(method, path, &[], &body.to_string())
    }

    /// A message at `/mcp`.
    pub(crate) fn message(&self, headers: &[(&str, &str)], message: &Value) -> Answer {
        let accept = ("Accept", "application/json, text/event-stream");
        self.ask("POST", "/mcp", &[&[accept], headers].concat(), &message.to_string())
    }

    pub(crate) fn client(&self, era: Era) -> Speaker<'_> {
        self.speaker(era, json!({"name": "test", "version": "1"}))
    }

    /// A client that declares itself a proxy.
    pub(crate) fn proxy(&self, era: Era) -> Speaker<'_> {
        self.speaker(era, json!({"name": "test", "version": "1", "proxy": true}))
    }

    fn speaker(&self, era: Era, info: Value) -> Speaker<'_> {
        let mut speaker = Speaker { served: self, era, info, session: None };
        if era == Era::Legacy {
            let params = json!({
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": speaker.info,
            });
            let answer = speaker.answer("initialize", params);
            assert_eq!(answer.json()["result"]["protocolVersion"], "2025-11-25");
            speaker.session = answer.header("mcp-session-id").map(str::to_owned);
        }
        speaker
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.take().unwrap().now();
        let _ = self.thread.take().unwrap().join();
    }
}

/// An MCP client that follows its protocol generation.
pub(crate) struct Speaker<'a> {
    served: &'a Served,
    era: Era,
    info: Value,
    pub(crate) session: Option<String>,
}

/// The `_meta` of a request of 2026-07-28.
pub(crate) fn modern_meta(info: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": info,
    })
}

impl Speaker<'_> {
    pub(crate) fn answer(&self, method: &str, mut params: Value) -> Answer {
        let mut headers: Vec<(&str, &str)> = Vec::new();
        let name = ["name", "uri", "taskId"].iter().find_map(|key| params[*key].as_str());
        let name = name.map(str::to_owned);
        match self.era {
            Era::Legacy => {
                if method != "initialize" {
                    headers.push(("MCP-Protocol-Version", "2025-11-25"));
                }
                headers.extend(self.session.as_deref().map(|id| ("Mcp-Session-Id", id)));
            }
            Era::Modern => {
                params["_meta"] = modern_meta(&self.info);
                headers.extend([("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)]);
                headers.extend(name.as_deref().map(|name| ("Mcp-Name", name)));
            }
        }
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.served.message(&headers, &message)
    }

    pub(crate) fn request(&self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let message = answer.json();
        message.get("result").unwrap_or_else(|| panic!("{method}: {message}")).clone()
    }

    /// Calls a tool, and returns its structured content.
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        let result = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(result["isError"].is_null(), "{result}");
        result["structuredContent"].clone()
    }

    /// The names of the tools.
    pub(crate) fn tools(&self) -> Vec<String> {
        let listing = self.request("tools/list", json!({}));
        let tools = listing["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

fn answer(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(bytes)));
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    let headers: Vec<(String, String)> = lines.map(header).collect();
    let body = &bytes[end + 4..];
    let chunked =
        headers.iter().any(|header| *header == ("transfer-encoding".into(), "chunked".into()));
    let body = if chunked { joined(body) } else { body.to_vec() };
    Answer { status, headers, body }
}

/// Decodes a chunked body.
fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = std::str::from_utf8(&body[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return all;
        }
        all.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 4 + size..];
    }
}
