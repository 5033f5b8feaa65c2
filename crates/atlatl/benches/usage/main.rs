//! What storing a result costs with 10,000 stored results, beside the same with none.
//!
//! `cargo xtask bench usage` runs it and keeps the results. Prints one JSON object.

#![expect(clippy::print_stdout, reason = "its output is its result")]

#[path = "../../../lro/benches/offload/disk.rs"]
mod disk;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use lro::IdSeed;
use lro_core::records::Detected;
use lro_core::{Detail, ResultId, Tokens};
use lro_spool::{DirOptions, DirSpool, Quota, Scope, StoreRequest, store};
use serde_json::{Value, json};

use self::disk::Disk;

const STORED: usize = 10_000;
const ROUNDS: usize = 101;
/// How much more the full directory may take.
const GOAL: f64 = 1.2;
const DAY: Duration = Duration::from_hours(24);

/// A person's machine with a directory for results.
struct Home(PathBuf);

impl Home {
    fn new(path: PathBuf, stored: usize) -> Self {
        for name in ["work", "tmp"] {
            fs::create_dir_all(path.join(name)).expect("a directory");
        }
        let rows: Vec<Value> = (0..400).map(|n| json!({"n": n, "name": "x".repeat(90)})).collect();
        fs::write(path.join("work/rows.json"), json!(rows).to_string()).expect("a result");
        let home = Self(path);
        home.fill(stored);
        home
    }

    /// As the program stores results of this working directory.
    fn fill(&self, stored: usize) {
        let uid = rustix::process::geteuid().as_raw();
        let work = self.0.join("work");
        let scope = Scope::from_fields([
            uid.to_string().as_bytes(),
            work.as_os_str().as_encoded_bytes(),
            b"",
        ]);
        let options = DirOptions::private().scope(scope).quota(Quota::NONE).with_parents();
        let directory = self.0.join(".local/state/atlatl/results");
        let spool = DirSpool::open(&directory, options).expect("a spool");
        let payload = br#"[{"n":1},{"n":2}]"#;
        let found = Detected::detect(payload);
        for _ in 0..stored {
            let at = IdSeed::from_system();
            let what = StoreRequest {
                id: ResultId::new(at.now.timestamp_millis().unsigned_abs(), at.random),
                tool: "get_rows",
                server: None,
                arguments: None,
                exact: false,
                query: None,
                detail: Detail::Light,
                found: &found,
                estimated: Tokens(1),
                created_at: at.now,
                ttl: DAY,
            };
            store(&spool, what, payload, &[]).expect("stored");
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_atlatl"));
        command
            .args(args)
            .current_dir(self.0.join("work"))
            .env_clear()
            .env("HOME", &self.0)
            .env("TMPDIR", self.0.join("tmp"))
            .env("ATLATL_SPOOL__MAX_FILES", "1000000")
            .env("ATLATL_PROXY__THRESHOLD_TOKENS", "100");
        command
    }

    /// One run of the command, in seconds.
    fn offload(&self) -> f64 {
        let mut command = self.command(&["offload", "rows.json", "--tool", "get_rows"]);
        let began = Instant::now();
        let output = command.stdin(Stdio::null()).output().expect("it runs");
        let took = began.elapsed().as_secs_f64();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && stdout.starts_with(r#"{"lro":"#), "{output:?}");
        took
    }
}

/// A proxy that lives on.
struct Proxy {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Proxy {
    fn start(home: &Home, server: &Path) -> Self {
        let server = server.to_str().expect("a path that is text");
        let mut child = home
            .command(&["proxy", "--", server])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a proxy");
        let input = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut proxy = Self { child, input, output };
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
        proxy.ask("initialize", &params);
        proxy
    }

    fn ask(&mut self, method: &str, params: &Value) -> String {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(self.input, "{request}").expect("sent");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("an answer");
        line
    }

    /// One call whose result is stored, in seconds.
    fn offload(&mut self) -> f64 {
        let params = json!({"name": "big", "arguments": {"bytes": 40_000}});
        let began = Instant::now();
        let answer = self.ask("tools/call", &params);
        let took = began.elapsed().as_secs_f64();
        assert!(answer.contains("lro:"), "{answer}");
        took
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main() {
    let disk = Disk::of_the_checkout();
    let directory = disk.directory();
    let none = Home::new(directory.path().join("none"), 0);
    let many = Home::new(directory.path().join("many"), STORED);
    let command = row("`atlatl offload`", || none.offload(), || many.offload());
    let server = testkit::tool::built_program("fixture-server", "testkit");
    let (mut with_none, mut with_many) =
        (Proxy::start(&none, &server), Proxy::start(&many, &server));
    let proxy =
        row("a call through `atlatl proxy`", || with_none.offload(), || with_many.offload());
    println!(
        "{:#}",
        json!({"file_system": disk.kind(), "stored": STORED, "rows": [command, proxy]})
    );
    drop((with_none, with_many));
    // What is measured next shall not pay for it.
    disk::clear(directory.path());
}

/// Both in turn, the first round aside.
fn row(name: &str, mut none: impl FnMut() -> f64, mut many: impl FnMut() -> f64) -> Value {
    none();
    many();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        if round % 2 == 0 {
            without.push(none());
            with.push(many());
        } else {
            with.push(many());
            without.push(none());
        }
    }
    let (none, many) = (median(without), median(with));
    let ratio = many / none;
    json!({"what": name, "rounds": ROUNDS, "none_ms": none * 1e3, "many_ms": many * 1e3, "ratio": ratio, "goal": GOAL})
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
