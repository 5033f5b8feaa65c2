//! Real servers over HTTP, each on a port of its own; they end with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use testkit::tool::require_conformance;

use crate::canaries::{self, LineCollector};
use crate::program::Program;
use crate::proxied::real_server;
use crate::serving;

/// A process that answers at a URL.
pub(crate) struct Reached {
    child: Child,
    /// Where MCP is spoken.
    pub(crate) url: String,
    /// Standard error of a proxy.
    log: Option<LineCollector>,
}

impl Drop for Reached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(log) = &self.log {
            canaries::check("the log of the proxy", &log.text());
        }
    }
}

/// The reference server for everything, over streamable HTTP.
pub(crate) struct Everything;

impl Everything {
    pub(crate) fn start() -> Reached {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(real_server("mcp-server-everything"))
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(30), "it does not start");
            thread::sleep(Duration::from_millis(20));
        }
        Reached { child, url: format!("http://127.0.0.1:{port}/mcp"), log: None }
    }
}

/// The server that has everything the official suite asks for, in both eras.
pub(crate) struct Fixture;

impl Fixture {
    pub(crate) fn start() -> Reached {
        let (node, _) = require_conformance();
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/fixture/server.mjs");
        let mut child = Command::new(node)
            .arg(script)
            .args(["--port", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let url = last_word(&mut said);
        Reached { child, url, log: None }
    }
}

/// `atlatl proxy --listen`.
pub(crate) struct Listening;

impl Listening {
    pub(crate) fn start(program: &Program, more: &[&str]) -> Reached {
        let args = [&["proxy", "--listen", "127.0.0.1:0"], more].concat();
        let mut child = program
            .command(&args)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let url = serving::address(&mut said).0 + "/mcp";
        Reached { child, url, log: Some(LineCollector::start(said)) }
    }
}

impl Reached {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it kindly; how long that took.
    pub(crate) fn ends(&mut self) -> Duration {
        let began = Instant::now();
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
        began.elapsed()
    }

    /// Sends a request as it is; the whole answer.
    pub(crate) fn asked(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut answer = String::new();
        self.send(method, headers, body).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: unchunked(head, body) }
    }

    /// Sends a request; the connection to read the answer from.
    pub(crate) fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let address = self.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let length = body.len().to_string();
        let mut all = vec![("Connection", "close"), ("Content-Length", &*length)];
        let usual = [
            ("Host", address),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        all.extend(
            usual.iter().filter(|(name, _)| !headers.iter().any(|(given, _)| given == name)),
        );
        all.extend(headers);
        let bearer = serving::token(&self.url).map(|token| format!("Bearer {token}"));
        if let Some(bearer) = &bearer
            && !headers.iter().any(|(name, _)| *name == "Authorization")
        {
            all.push(("Authorization", bearer));
        }
        let lines: Vec<String> =
            all.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("{method} /mcp HTTP/1.1\r\n{}", lines.concat());
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The messages in it, in either form.
    pub(crate) fn messages(&self) -> Vec<serde_json::Value> {
        if self.head.contains("text/event-stream") {
            let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
            return data.map(|data| serde_json::from_str(data).unwrap()).collect();
        }
        vec![serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))]
    }
}

/// A body that comes in chunks, put together.
fn unchunked(head: &str, body: &str) -> String {
    if !head.to_lowercase().contains("transfer-encoding: chunked") {
        return body.to_owned();
    }
    let (mut out, mut rest) = (String::new(), body);
    while let Some((size, behind)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        out += &behind[..size];
        rest = &behind[size + 2..];
    }
    out
}

/// The address at the end of the first line.
fn last_word(said: &mut impl BufRead) -> String {
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let url = line.split_whitespace().last().filter(|word| word.ends_with("/mcp"));
    url.unwrap_or_else(|| panic!("no address: {line}")).to_owned()
}
