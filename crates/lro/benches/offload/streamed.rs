//! Streams a gigabyte through an offloader, in a process of its own.

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

/// The argument that starts this process; the spool directory follows it.
pub(crate) const FLAG: &str = "--stream-into";

const BYTES: usize = 1 << 30;
/// The chunk size, as of a pipe or a socket.
const CHUNK_BYTES: usize = 64 * 1024;
const GOAL_MIB: u64 = 192;

/// Streams in a child process and reports its peak memory.
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

/// The child process. It generates the payload on the fly, so that only the offloader keeps it.
pub(crate) fn child(directory: &Path) -> Value {
    let lines =
        testkit::corpus::lines(&testkit::corpus::memories(2000, 42), mif::DetailLevel::Full);
    let spool = DirSpool::open(&directory.join("spool"), DirOptions::private()).expect("a spool");
    let offloader = Offloader::new(Arc::new(spool), &Config::default()).with_tokenizer(O200k);
    let before = peak_kib();
    let start = Instant::now();
    let mut stream = offloader.receive(ToolCall::new("list_records"));
    let (mut made, mut chunk) = (0, br#"{"count":1,"records":["#.to_vec());
    for line in lines.iter().cycle() {
        chunk.extend_from_slice(line.as_bytes());
        if made + chunk.len() > BYTES {
            break;
        }
        chunk.push(b',');
        if chunk.len() >= CHUNK_BYTES {
            stream.feed(&chunk);
            made += chunk.len();
            chunk.clear();
        }
    }
    chunk.extend_from_slice(b"],\"next_cursor\":null}");
    stream.feed(&chunk);
    let outcome = stream.finish(IdSeed::from_system());
    let seconds = start.elapsed().as_secs_f64();
    let Delivered::Offloaded(offloaded) = &outcome.delivered else {
        panic!("{:?}", outcome.delivered)
    };
    json!({
        "seconds": seconds,
        "records": offloaded.listed.sidecar.header.count,
        "stored_bytes": offloaded.listed.sidecar.bytes,
        "peak_kib_before": before,
        "peak_kib": peak_kib(),
    })
}

/// The peak memory of this process, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    peak.trim().trim_end_matches(" kB").parse().expect("a number")
}
