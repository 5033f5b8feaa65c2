//! A client on two pipes, behind a proxy in front of a scripted server.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use http::HeaderMap;
use lro_core::config::Config;
use lro_proxy::session;
use lro_proxy::upstream::http::{Credentials, Remote, RemoteOptions, UpstreamEndpoint};
use serde_json::{Value, json};
use testkit::http::{HttpServer, ReceivedRequest, reply_json};

use crate::fixture::Fixture;

/// Longer than any step takes that does not hang.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A client that is connected to a server through the proxy.
pub(crate) struct Client {
    to: Option<PipeWriter>,
    lines: Receiver<String>,
    session: Option<JoinHandle<u8>>,
    _ended: mpsc::Sender<session::EndReason>,
}

/// Options of the connection from the proxy to the server.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) headers: HeaderMap,
    pub(crate) credentials: Option<std::sync::Arc<dyn Credentials>>,
    pub(crate) silence: Duration,
}

impl Client {
    pub(crate) fn connect(server: &HttpServer) -> Self {
        Self::with(server, Options::default(), &Config::default())
    }

    pub(crate) fn with(server: &HttpServer, options: Options, config: &Config) -> Self {
        let endpoint = UpstreamEndpoint::parse(&server.url("/mcp")).unwrap();
        let mut remote_options = RemoteOptions::default();
        (remote_options.headers, remote_options.credentials, remote_options.silence) =
            (options.headers, options.credentials, options.silence);
        let remote = Remote::new(endpoint, remote_options).unwrap();
        let (from_client, to): (PipeReader, PipeWriter) = io::pipe().unwrap();
        let (from, to_client) = io::pipe().unwrap();
        let (ends, ended) = mpsc::channel();
        let fixture = Fixture::with(config);
        let session = thread::spawn({
            let ends = ends.clone();
            move || {
                let (relay, _kept) = fixture.into_relay();
                session::run_remote(relay, (from_client, to_client), remote, (ends, &ended))
                    .unwrap()
            }
        });
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { to: Some(to), lines, session: Some(session), _ended: ends }
    }

    pub(crate) fn send(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.to.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The next line, unparsed.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(TEST_TIMEOUT).expect("a line")
    }

    pub(crate) fn receive(&self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Whether no message arrives for a while.
    pub(crate) fn receives_nothing(&self) -> bool {
        self.lines.recv_timeout(Duration::from_millis(300)).is_err()
    }

    pub(crate) fn request(&mut self, line: &str) -> Value {
        self.send(line);
        self.receive()
    }

    /// Performs the `initialize` handshake.
    pub(crate) fn initialize(&mut self) -> Value {
        let greeting = self.request(INITIALIZE);
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        greeting
    }

    /// Closes the client's stream; returns the exit code and how long the shutdown took.
    pub(crate) fn disconnect(&mut self) -> (u8, Duration) {
        let began = Instant::now();
        drop(self.to.take());
        let code = self.session.take().unwrap().join().unwrap();
        (code, began.elapsed())
    }
}

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

/// A `tools/call` in a session.
pub(crate) fn call(id: u32) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t", "arguments": {}}})
        .to_string()
}

/// A stateless request (2026-07-28).
pub(crate) fn stateless_request(id: u32, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// The default response to requests that a test does not script.
pub(crate) fn default_response(
    received: &ReceivedRequest,
    stream: &mut TcpStream,
) -> io::Result<()> {
    let message = received.json();
    match (received.method.as_str(), message["method"].as_str()) {
        ("GET", _) => testkit::http::reply(stream, "405 Method Not Allowed", &[], b""),
        ("DELETE", _) => testkit::http::reply(stream, "204 No Content", &[], b""),
        (_, Some("initialize")) => {
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}});
            let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
            let headers = [("Content-Type", "application/json"), ("Mcp-Session-Id", "s-1")];
            testkit::http::reply(stream, "200 OK", &headers, body.as_bytes())
        }
        _ if message["id"].is_null() => testkit::http::reply(stream, "202 Accepted", &[], b""),
        _ => reply_json(stream, "200 OK", &answer(&message["id"])),
    }
}

/// A small result.
pub(crate) fn answer(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "ok"}]}})
}
