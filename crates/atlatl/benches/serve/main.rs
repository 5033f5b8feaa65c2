//! How many requests `atlatl serve --http` answers that ask its store for nothing.
//!
//! `cargo xtask bench server` runs it and keeps the results. Prints one JSON object. Server and load
//! are two processes on the same processors: what the one uses the other lacks, so both are told.
//! `ATLATL_BENCH_SECONDS` bounds the time for a row.

#![expect(clippy::print_stdout, reason = "its output is its result")]

mod load;
mod server;
#[path = "../proxy/spread.rs"]
#[expect(dead_code, reason = "the other benchmarks show more")]
mod spread;

use std::time::Duration;

use serde_json::{Value, json};

use self::load::{Load, processor_seconds};
use self::server::Server;

/// Requests a second that are wanted.
const GOAL: f64 = 5000.0;
/// Clients that ask at a time, each on a connection that it keeps.
const CONNECTIONS: usize = 32;
const WARM: Duration = Duration::from_millis(500);

fn main() {
    let server = Server::start();
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let rows: Vec<Value> = [
        ("GET /healthz", get("/healthz")),
        ("POST /mcp, ping", post(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, &server.token)),
        ("POST /mcp, tools/list", post(list, &server.token)),
    ]
    .iter()
    .map(|(name, request)| row(&server, name, request))
    .collect();
    println!("{:#}", json!({"goal": GOAL, "connections": CONNECTIONS, "rows": rows}));
}

fn row(server: &Server, name: &str, request: &str) -> Value {
    let load = Load::new(server.address, request);
    load.run(CONNECTIONS, WARM);
    let before = [processor_seconds(server.id()), processor_seconds(std::process::id())];
    let taken = load.run(CONNECTIONS, patience());
    let used = |n: usize, id: u32| {
        processor_seconds(id).zip(before[n]).map(|(after, before)| (after - before) / taken.seconds)
    };
    json!({
        "request": name,
        "requests": taken.answered,
        "seconds": taken.seconds,
        "per_second": taken.per_second(),
        "milliseconds": taken.times.tails(),
        "processors": {"server": used(0, server.id()), "load": used(1, std::process::id())},
    })
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn post(body: &str, token: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n\
         Authorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn patience() -> Duration {
    let seconds = std::env::var("ATLATL_BENCH_SECONDS").map(|text| text.parse());
    Duration::from_secs(
        seconds.map_or(10, |seconds: Result<u64, _>| seconds.expect("a number of seconds").min(10)),
    )
}
