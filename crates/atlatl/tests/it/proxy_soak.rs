//! One proxy for a long time: nothing it holds may grow.
//!
//! `cargo xtask soak proxy` makes a million calls, a test run a few thousand. Every hundredth result
//! is offloaded and lives a second, every thousandth is read again.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::Program;
use crate::proxied::{Proxied, descriptor, fixture_server};

const IN_FLIGHT: usize = 64;
const SAMPLES: u64 = 20;
/// Less is over before anything could settle: only the answers are looked at.
const JUDGED_FROM: u64 = 100_000;
/// Of the first third of the samples, behind a tenth to warm up.
const TOLERANCE: f64 = 0.05;
/// How often the proxy sweeps, how long results live, and what either may be late by.
const LIFE: Duration = Duration::from_secs(60 + 1 + 9);
/// A result and its sidecar.
const FILES_OF_A_RESULT: u64 = 2;
/// The ledger, locks.
const OTHER_FILES: u64 = 8;

/// What a call is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Echo(u64),
    Large,
    LargeToRead,
    Read,
}

struct Sample {
    at: Duration,
    calls: u64,
    descriptors: u64,
    resident_kib: u64,
    files: u64,
    /// The most files that results of the last minute account for.
    most_files: u64,
}

#[derive(Default)]
struct Counts {
    echoed: u64,
    offloaded: u64,
    read: u64,
    /// Results that were gone within their second before the question came.
    expired: u64,
}

struct Run<'a> {
    proxied: Proxied,
    program: &'a Program,
    began: Instant,
    in_flight: HashMap<u64, Asked>,
    counts: Counts,
    /// When results were stored, of those that may still lie there.
    stored: VecDeque<Duration>,
}

#[test]
fn a_proxy_uses_as_much_after_many_calls_as_after_few() {
    let calls = std::env::var("ATLATL_SOAK_CASES").map_or(2000, |calls| calls.parse().unwrap());
    let program = Program::new();
    let mut run = Run::start(&program);
    let every = (calls / SAMPLES).max(1);
    let mut samples = Vec::new();
    for call in 1..=calls {
        run.ask(match call {
            _ if call % 1000 == 0 => Asked::LargeToRead,
            _ if call % 100 == 0 => Asked::Large,
            _ => Asked::Echo(call),
        });
        if call % every == 0 {
            samples.push(run.sample(call));
        }
    }
    let Counts { echoed, offloaded, read, expired } = run.counts;
    eprintln!(
        "soak: {calls} calls: {echoed} echoed, {offloaded} offloaded, {read} read again, \
         {expired} expired before they were read, {:.0} s",
        run.began.elapsed().as_secs_f64()
    );
    assert_eq!((echoed + offloaded, offloaded), (calls, calls / 100));
    assert_eq!(read + expired, calls / 1000);
    if calls >= JUDGED_FROM {
        judge(&samples);
        run.all_swept();
    }
}

fn judge(samples: &[Sample]) {
    let settled = &samples[samples.len().div_ceil(10)..];
    let (first, last) =
        (&settled[..settled.len() / 3], &settled[settled.len() - settled.len() / 3..]);
    let mut drifted = Vec::new();
    for (name, value) in [
        ("descriptors", (|sample| sample.descriptors) as fn(&Sample) -> u64),
        ("resident_kib", |sample| sample.resident_kib),
    ] {
        let (from, to) = (mean(first, value), mean(last, value));
        let drift = to / from - 1.0;
        eprintln!("soak: {name}: {from:.1} at first, {to:.1} at last, {:+.1} %", drift * 100.0);
        if drift.abs() > TOLERANCE {
            drifted.push(name);
        }
    }
    assert!(drifted.is_empty(), "not flat: {drifted:?}");
    let too_many = samples.iter().filter(|sample| sample.files > sample.most_files).count();
    eprintln!("soak: samples with more files than a minute of results: {too_many}");
    assert_eq!(too_many, 0);
}

fn mean(samples: &[Sample], value: impl Fn(&Sample) -> u64) -> f64 {
    let sum: u64 = samples.iter().map(value).sum();
    f64::from(u32::try_from(sum).unwrap()) / f64::from(u32::try_from(samples.len()).unwrap())
}

impl<'a> Run<'a> {
    fn start(program: &'a Program) -> Self {
        let flags = ["--set", "proxy.ttl_seconds=1", "--policy", "big=offload"];
        let mut proxied = Proxied::start(program, &flags, &[&fixture_server(), "--list"]);
        let greeting = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "soak", "version": "1"},
        });
        for (method, params) in [("initialize", greeting), ("tools/list", json!({}))] {
            let id = proxied.request(method, &params);
            proxied.answer(id);
        }
        Self {
            proxied,
            program,
            began: Instant::now(),
            in_flight: HashMap::new(),
            counts: Counts::default(),
            stored: VecDeque::new(),
        }
    }

    /// Sends a call, once there is room for it.
    fn ask(&mut self, asked: Asked) {
        while self.in_flight.len() >= IN_FLIGHT {
            self.hear();
        }
        if let Asked::Echo(n) = asked {
            self.send(asked, "echo", &json!({"n": n}));
        } else {
            // Not the same arguments twice: an identical result is not stored again.
            let call = self.began.elapsed().as_nanos().to_string();
            self.send(asked, "big", &json!({"bytes": 20_000, "call": call}));
        }
    }

    fn send(&mut self, asked: Asked, tool: &str, arguments: &Value) {
        let params = json!({"name": tool, "arguments": arguments});
        let id = self.proxied.request("tools/call", &params);
        self.in_flight.insert(id, asked);
    }

    /// Takes one answer.
    fn hear(&mut self) {
        let line = self.proxied.line().expect("an answer");
        let answer: Value = serde_json::from_slice(&line).unwrap();
        let asked = answer["id"].as_u64().and_then(|id| self.in_flight.remove(&id));
        let result = &answer["result"];
        match asked.unwrap_or_else(|| panic!("{answer}")) {
            Asked::Echo(n) => {
                assert_eq!(result["content"][0]["text"], json!({"n": n}).to_string(), "{answer}");
                self.counts.echoed += 1;
            }
            large @ (Asked::Large | Asked::LargeToRead) => {
                let reference = &descriptor(result)["lro"]["ref"];
                assert!(reference.is_string(), "{answer}");
                self.counts.offloaded += 1;
                self.stored.push_back(self.began.elapsed());
                if large == Asked::LargeToRead {
                    let arguments = json!({"ref": reference, "start": 0, "end": 30});
                    self.send(Asked::Read, "read_large_output", &arguments);
                }
            }
            Asked::Read => {
                let text = result["content"][0]["text"].as_str().unwrap_or_default();
                if text.contains("All work and no play makes a l") {
                    self.counts.read += 1;
                } else {
                    assert!(text.contains("expired"), "{answer}");
                    self.counts.expired += 1;
                }
            }
        }
    }

    /// Looks at the proxy while it has nothing to do.
    fn sample(&mut self, calls: u64) -> Sample {
        while !self.in_flight.is_empty() {
            self.hear();
        }
        let at = self.began.elapsed();
        self.stored.retain(|stored| *stored + LIFE > at);
        let process = self.proxied.child.id();
        let sample = Sample {
            at,
            calls,
            descriptors: fs::read_dir(format!("/proc/{process}/fd")).unwrap().count() as u64,
            resident_kib: self.proxied.resident_kib(),
            files: self.files(),
            most_files: FILES_OF_A_RESULT * self.stored.len() as u64 + OTHER_FILES,
        };
        let Sample { descriptors, resident_kib, files, most_files, .. } = sample;
        eprintln!(
            "soak: {:.0} s, {} calls: {descriptors} descriptors, {resident_kib} KiB, {files} files \
             of {most_files} at most",
            sample.at.as_secs_f64(),
            sample.calls,
        );
        sample
    }

    /// Waits until the sweeper has been there once more.
    fn all_swept(&self) {
        let until = Instant::now() + LIFE;
        while self.files() > OTHER_FILES && Instant::now() < until {
            std::thread::sleep(Duration::from_secs(1));
        }
        eprintln!("soak: {} files after the last sweep", self.files());
        assert!(self.files() <= OTHER_FILES);
    }

    fn files(&self) -> u64 {
        files_below(&self.program.path("tmp"))
            + files_below(&self.program.path("home/.local/state/atlatl/results"))
    }
}

/// A folder that goes while it is looked at holds nothing.
fn files_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files_below(&entry.path()),
        // What is kept of their sizes is no result.
        _ if entry.file_name().to_string_lossy().starts_with(".atlatl-usage-") => 0,
        _ => 1,
    };
    entries.map(count).sum()
}
