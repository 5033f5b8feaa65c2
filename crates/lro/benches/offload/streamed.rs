//! Streamed: a gigabyte through an offloader, in a process that does nothing else.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use lro::{Delivered, IdSeed, Offloader, ToolCall};
use lro_core::O200k;
use lro_core::config::Config;
use lro_spool::{DirOptions, DirSpool};
use serde_json::{Value, json};

use crate::disk::Disk;

/// The argument that makes the benchmark such a process; the place to store into follows it.
pub(crate) const FLAG: &str = "--stream-into";

const BYTES: usize = 1 << 30;
/// In which chunks it arrives: what a pipe or a socket gives at a time.
const CHUNK: usize = 64 * 1024;
const GOAL_MIB: u64 = 192;

/// Streams in a child and reports the most memory that the child ever had.
pub(crate) fn row(disk: &Disk, rounds: usize) -> Value {
    let program = std::env::current_exe().expect("the benchmark's own program");
    let runs: Vec<Value> = (0..rounds)
        .map(|_| {
            let directory = disk.directory();
            let run = Command::new(&program).arg(FLAG).arg(directory.path()).output();
            let run = run.expect("a child");
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
            serde_json::from_slice(&run.stdout).expect("a child's figures")
        })
        .collect();
    json!({
        "payload": "1 GiB of records, streamed",
        "bytes": BYTES,
        "goal_resident_mib": GOAL_MIB,
        "runs": runs,
    })
}

/// What the child does. The payload is made on the way, so that nothing but the offloader holds it.
pub(crate) fn child(directory: &Path) -> Value {
    let lines = testkit::corpus::lines(&testkit::corpus::memories(2000, 42), mif::Detail::Full);
    let spool = DirSpool::open(&directory.join("spool"), DirOptions::private()).expect("a spool");
    let offloader = Offloader::new(Arc::new(spool), &Config::default()).with_tokenizer(O200k);
    let before = peak_kib();
    let start = Instant::now();
    let mut arriving = offloader.receive(ToolCall::new("list_records"));
    let (mut made, mut chunk) = (0, br#"{"count":1,"records":["#.to_vec());
    for line in lines.iter().cycle() {
        chunk.extend_from_slice(line.as_bytes());
        if made + chunk.len() > BYTES {
            break;
        }
        chunk.push(b',');
        if chunk.len() >= CHUNK {
            arriving.feed(&chunk);
            made += chunk.len();
            chunk.clear();
        }
    }
    chunk.extend_from_slice(b"],\"next_cursor\":null}");
    arriving.feed(&chunk);
    let arrived = arriving.finish(IdSeed::of_system());
    let seconds = start.elapsed().as_secs_f64();
    let Delivered::Offloaded(offloaded) = &arrived.delivered else {
        panic!("{:?}", arrived.delivered)
    };
    json!({
        "seconds": seconds,
        "records": offloaded.listed.sidecar.header.count,
        "stored_bytes": offloaded.listed.sidecar.bytes,
        "peak_kib_before": before,
        "peak_kib": peak_kib(),
    })
}

/// The most memory that this process ever had, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    peak.trim().trim_end_matches(" kB").parse().expect("a number")
}
