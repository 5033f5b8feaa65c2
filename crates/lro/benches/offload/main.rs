//! The cost of an offload compared with the bare work on the same bytes, and the memory of a streamed
//! one.
//!
//! `cargo xtask bench offload` runs it and keeps the results. Prints one JSON object.

#![expect(clippy::print_stdout, reason = "its output is its result")]

mod disk;
mod rounds;
mod streamed;

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use lro::{Delivered, IdSeed, Offloader, ResultBody, ToolCall};
use lro_core::O200k;
use lro_core::config::Config;
use lro_spool::{DirOptions, DirSpool};
use serde_json::{Value, json};

use self::disk::Disk;
use self::rounds::Rounds;

/// The size of a large payload.
const LARGE_BYTES: usize = 100_000_000;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, flag, directory] = args.as_slice()
        && flag == streamed::FLAG
    {
        return println!("{}", streamed::child(Path::new(directory)));
    }
    let disk = Disk::of_the_checkout();
    let memories = |between| records("memories", between);
    let rows = vec![
        compare(&disk, "500 memories, full detail", "recall_memories", &recalled(500), 2.0, 301),
        compare(&disk, "100 MB of records", "list_records", &records("records", ","), 1.5, 25),
        compare(&disk, "100 MB of memories", "recall_memories", &memories(","), 1.5, 25),
        compare(&disk, "100 MB, spaces between", "list_records", &memories(",\n "), 1.5, 25),
    ];
    let streamed = streamed::row(&disk, 3);
    println!("{:#}", json!({"file_system": disk.kind(), "compared": rows, "streamed": streamed}));
}

/// The result of `recall_memories` with `count` memories.
fn recalled(count: usize) -> String {
    let memories = testkit::corpus::memories(count, 42);
    let lines = testkit::corpus::lines(&memories, mif::DetailLevel::Full);
    format!(r#"{{"count":{count},"memories":[{}],"next_cursor":null}}"#, lines.join(","))
}

/// The records of the corpus, repeated, as the member `name`.
fn records(name: &str, between: &str) -> String {
    let lines =
        testkit::corpus::lines(&testkit::corpus::memories(2000, 42), mif::DetailLevel::Full);
    let mut payload = String::with_capacity(LARGE_BYTES + 4096);
    payload.extend([r#"{"count":1,""#, name, r#"":["#]);
    for line in lines.iter().cycle() {
        payload.push_str(line);
        if payload.len() > LARGE_BYTES {
            break;
        }
        payload.push_str(between);
    }
    payload.push_str("],\"next_cursor\":null}");
    payload
}

/// An offload and the bare work, alternating.
fn compare(disk: &Disk, name: &str, tool: &str, payload: &str, goal: f64, rounds: usize) -> Value {
    let directory = disk.directory();
    let spool = DirSpool::open(&directory.path().join("spool"), DirOptions::private());
    let offloader =
        Offloader::new(Arc::new(spool.expect("a spool")), &Config::default()).with_tokenizer(O200k);
    let bytes = payload.as_bytes();
    let bare = directory.path().join("bare");
    let rounds = Rounds::run(
        rounds,
        || scan(bytes),
        || write(&bare, bytes),
        || offload(&offloader, tool, bytes),
        || disk::clear(directory.path()),
    );
    json!({"payload": name, "bytes": bytes.len(), "goal": goal, "figures": rounds.figures()})
}

/// The fastest bare scan of `bench core`.
fn scan(bytes: &[u8]) {
    black_box(serde_json::from_slice::<serde::de::IgnoredAny>(bytes)).expect("JSON");
}

fn write(path: &Path, bytes: &[u8]) {
    let mut file = File::create_new(path).expect("a new file");
    file.write_all(bytes).expect("written");
    file.sync_data().expect("synced");
}

fn offload(offloader: &Offloader, tool: &str, bytes: &[u8]) {
    let body = ResultBody::Payload(bytes);
    let delivered = offloader.deliver_result(ToolCall::new(tool), body, IdSeed::from_system());
    assert!(matches!(delivered, Delivered::Offloaded(_)), "{delivered:?}");
}
