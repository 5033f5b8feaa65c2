//! A team's memories: one real database, several processes.

mod administration;
mod commands;
mod doctor;
mod erasure;
mod faults;
mod identity;
mod kills;
mod links;
mod logins;
mod operations;
mod provider;
mod replicas;
mod restore;
mod tenants;
mod upgrade;
#[cfg(feature = "otel")]
mod verbose_log;
mod waiting;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use testkit::postgres::{APP, OWNER, PostgresServer};
use testkit::s3;

use crate::canaries;
use crate::program::Program;
use crate::serving::{Serving, authorization, harbours, register};

/// A program whose memories are in a database that has our schema.
fn team(server: &PostgresServer) -> Program {
    let (program, database) = stranger(server);
    let owner = server.url(OWNER, &database);
    let run = program.run(&["db", "migrate", "--as", &owner]);
    assert_eq!(run.status, 0, "{run}");
    program
}

/// The same before it was migrated, with the name of the database.
fn stranger(server: &PostgresServer) -> (Program, String) {
    let database = server.database();
    (using(&server.url(APP, &database)), database)
}

fn using(url: &str) -> Program {
    Program::new().variable("ATLATL_MEMORY__STORE", url)
}

/// The same, whose large results go to a bucket of a real S3 server.
fn storing(program: Program, s3: &s3::S3Server) -> Program {
    storing_at(program, s3, s3.address())
}

/// The same through another place, which passes everything on.
fn storing_at(program: Program, s3: &s3::S3Server, place: SocketAddr) -> Program {
    let url = format!("s3://{}/atlatl", s3.bucket());
    let program = program.variable("ATLATL_SPOOL__URL", &url);
    s3.settings_at(place)
        .iter()
        .fold(program, |program, (name, value)| program.variable(&name.to_uppercase(), value))
}

/// Fills the store.
fn filled(program: &Program, memories: usize) {
    let memories = harbours(memories);
    register(&memories);
    let lines = testkit::corpus::lines(&memories, mif::DetailLevel::Full).join("\n");
    let run = program.run_with_input(&["memory", "import", "-"], lines.as_bytes());
    assert_eq!(run.status, 0, "{run}");
}

/// An answer over HTTP.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends one request on a new connection. `None` if there is no answer.
fn asked(url: &str, method: &str, path: &str, body: &str) -> Option<Answer> {
    asked_with(url, method, path, body, "")
}

/// The same with further headers.
fn asked_with(url: &str, method: &str, path: &str, body: &str, more: &str) -> Option<Answer> {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).ok()?;
    let length = body.len();
    canaries::register_request(more, body);
    let authorization = authorization(url, more);
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: {length}\r\n{authorization}{more}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).unwrap();
    let (headers, body) = answer.split_once("\r\n\r\n")?;
    let status = headers.split(' ').nth(1)?.parse().ok()?;
    canaries::check_response(status, &answer);
    Some(Answer { status, headers: headers.to_lowercase(), body: body.to_owned() })
}

fn get(serving: &Serving, path: &str) -> Answer {
    asked(&serving.url, "GET", path, "").unwrap()
}

/// Calls a tool as a client of the older era does, without a session.
fn call(serving: &Serving, tool: &str, arguments: &Value) -> Value {
    message(serving, "tools/call", &json!({"name": tool, "arguments": arguments}))
}

fn message(serving: &Serving, method: &str, params: &Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let answer = asked(&serving.url, "POST", "/mcp", &body).unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Keeps a memory; its id.
fn capture(serving: &Serving, content: &str) -> String {
    let arguments = json!({"content": content, "memory_type": "semantic"});
    let answer = call(serving, "capture_memory", &arguments);
    let id = &answer["result"]["structuredContent"]["memory"]["id"];
    id.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}
