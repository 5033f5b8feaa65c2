//! Streaming offloads: the outcome does not depend on the size or on the chunks.

use std::sync::Arc;

use lro::{
    Delivered, EventSink, OffloadOutcome, Offloader, ResultBody, ScannedPayload, ToolCall,
    WhiteSpace,
};
use lro_core::O200k;
use lro_core::config::Config;
use lro_core::payload::{Payload, Unreadable};
use lro_spool::contract::{FaultDuration, FaultyOs, InjectedFault};
use lro_spool::os::Os;
use lro_spool::{Address, DirOptions, DirSpool, MemorySpool, Quota, Spool, restore_payload};
use serde_json::Value;
use testkit::SplitMix64;

use crate::fixture::{Fixture, Watcher, files, moment, recalled};

/// The memory cap of the tests, instead of 64 MiB.
const CAP: usize = 4096;

/// Payloads of every format, with the tools that return them.
fn payloads() -> Vec<(&'static str, Vec<u8>)> {
    let row = |n| format!(r#"{{"n": {n}, "name": "some name", "big": 12345678901234567890.10}}"#);
    let rows: Vec<String> = (0..4000).map(row).collect();
    let japanese = format!(
        "[{}]",
        vec![format!(r#"{{"t": "{}"}}"#, "\u{7d50}\u{679c}\u{306f}".repeat(40)); 900].join(", ")
    );
    let csv: Vec<String> = (0..9000).map(|n| format!("{n},name {n},\"a, b\"")).collect();
    let head = format!(r#"{{"head": "{}", "rows": ["#, "x".repeat(2 << 20));
    vec![
        ("recall_memories", recalled(300).into_bytes()),
        ("recall_memories", japanese.clone().into_bytes()),
        ("list_rows", japanese.into_bytes()),
        (
            "list_rows",
            format!(r#"{{"next": null, "rows": [ {} ]}}"#, rows.join(",\n")).into_bytes(),
        ),
        ("list_rows", rows.join("\n").into_bytes()),
        ("export", format!("id,name,more\r\n{}\r\n", csv.join("\r\n")).into_bytes()),
        (
            "one_document",
            format!(r#"{{"a": {{"text": "{}"}}}}"#, "word ".repeat(30_000)).into_bytes(),
        ),
        ("read_page", "Text \u{e9} and more of it\n".repeat(9000).into_bytes()),
        ("read_page", "\u{7d50}\u{679c}\u{306f}\n".repeat(60_000).into_bytes()),
        ("fetch", (0..=255).cycle().take(200_000).collect()),
        ("large_envelope", format!("{head}{}1]}}", "123456, ".repeat(400_000)).into_bytes()),
    ]
}

fn offloader(spool: impl Spool + 'static) -> Offloader {
    Offloader::new(Arc::new(spool), &Config::default()).with_tokenizer(O200k).with_memory_cap(CAP)
}

fn arrive(offloader: &Offloader, tool: &str, payload: &[u8], seed: u64) -> OffloadOutcome {
    let mut arriving = offloader.receive(ToolCall::new(tool));
    let (mut random, mut rest) = (SplitMix64::new(seed), payload);
    // Chunks of various sizes, from single bytes to more than the memory cap.
    let largest = 1 << (seed * 5);
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at((1 + random.below(largest)).min(rest.len()));
        arriving.feed(chunk);
        rest = behind;
    }
    arriving.finish(moment())
}

fn whole(arrived: &OffloadOutcome) -> Vec<u8> {
    let mut bytes = Vec::new();
    arrived.payload.write_to(&mut bytes).unwrap();
    bytes
}

/// All stored bytes, including sidecar and parts.
fn stored(spool: &dyn Spool) -> Vec<Vec<u8>> {
    let [listed] = &spool.list().unwrap()[..] else { panic!("not one result") };
    let reader = spool.open(&Address::from(listed.id()), moment().now).unwrap();
    let mut data = vec![0; usize::try_from(reader.len()).unwrap()];
    reader.read_at(0, &mut data).unwrap();
    let mut back = Vec::new();
    restore_payload(&*reader, &mut back).unwrap();
    vec![data, back, serde_json::to_vec(&listed.sidecar).unwrap()]
}

#[test]
fn a_stream_is_delivered_as_the_same_bytes_in_memory_are() {
    for (tool, payload) in payloads() {
        let at_once = MemorySpool::default();
        let (call, body) = (ToolCall::new(tool), ResultBody::Payload(&payload));
        let delivered = offloader(at_once.clone()).deliver_result(call, body, moment());
        let Delivered::Offloaded(expected) = delivered else { panic!("{tool}: {delivered:?}") };
        // Chunks of up to 32 bytes would take long for the largest.
        for seed in if payload.len() > 1_000_000 { 3..5 } else { 1..5 } {
            let in_chunks = MemorySpool::default();
            let arrived = arrive(&offloader(in_chunks.clone()), tool, &payload, seed);
            let Delivered::Offloaded(ours) = &arrived.delivered else {
                panic!("{tool}: {:?}", arrived.delivered)
            };
            assert_eq!(ours.descriptor, expected.descriptor, "{tool}");
            assert!(stored(&in_chunks) == stored(&at_once), "{tool}, chunks of 2^{}", seed * 5);
            assert!(arrived.payload.whole().is_none(), "{tool}: it was set aside");
            assert!(whole(&arrived) == payload, "{tool}");
        }
    }
}

/// A file: bytes that are not in memory, and can be read again.
struct OnDisk<'a>(&'a [u8]);

impl Payload for OnDisk<'_> {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn whole(&self) -> Option<&[u8]> {
        None
    }

    fn chunk_at<'a>(&'a self, at: u64, space: &'a mut Vec<u8>) -> Result<&'a [u8], Unreadable> {
        let rest = self.0.get(usize::try_from(at).unwrap()..).unwrap_or_default();
        space.clear();
        space.extend_from_slice(&rest[..rest.len().min(10_007)]);
        Ok(space)
    }
}

#[test]
fn g37_a_file_is_delivered_as_the_same_bytes_in_memory_are() {
    for (tool, payload) in payloads() {
        let at_once = MemorySpool::default();
        let (call, body) = (ToolCall::new(tool), ResultBody::Payload(&payload));
        let delivered = offloader(at_once.clone()).deliver_result(call, body, moment());
        let Delivered::Offloaded(expected) = delivered else { panic!("{tool}: {delivered:?}") };
        let (scanning, file) = (MemorySpool::default(), OnDisk(&payload));
        let scanned = ScannedPayload::read(&file).unwrap();
        assert_eq!(scanned.is_of_memories(&file).unwrap(), payload == recalled(300).into_bytes());
        let delivered = offloader(scanning.clone()).deliver_scanned(
            ToolCall::new(tool),
            &file,
            scanned,
            WhiteSpace::Insignificant,
            moment(),
        );
        let Delivered::Offloaded(ours) = delivered else { panic!("{tool}: {delivered:?}") };
        assert_eq!(ours.descriptor, expected.descriptor, "{tool}");
        assert!(stored(&scanning) == stored(&at_once), "{tool}");
    }
}

#[test]
fn a_small_stream_stays_inline_and_comes_back() {
    let Fixture { dir, offloader, .. } = Fixture::new();
    let payload = recalled(3);
    for cap in [usize::MAX, 100] {
        let offloader =
            Offloader::new(Arc::clone(offloader.spool()), &Config::default()).with_memory_cap(cap);
        let arrived = arrive(&offloader, "recall_memories", payload.as_bytes(), 1);
        assert!(matches!(arrived.delivered, Delivered::Inline(_)));
        assert_eq!(arrived.payload.whole().is_some(), cap == usize::MAX);
        assert_eq!(whole(&arrived), payload.as_bytes());
        assert_eq!(std::fs::read_dir(dir.path().join("spool")).unwrap().count(), 0);
    }
    let empty = arrive(&offloader, "read_page", b"", 1);
    assert!(matches!(empty.delivered, Delivered::Inline(_)) && empty.payload.bytes() == 0);
}

#[test]
fn what_is_set_aside_has_no_name_and_no_reader() {
    let home = tempfile::tempdir().unwrap();
    for unnamed in [true, false] {
        let os = FaultyOs::new(0, InjectedFault::Io, FaultDuration::Once);
        let os = if unnamed { os } else { os.without_unnamed_files() };
        let path = home.path().join(unnamed.to_string());
        let spool = DirSpool::open(&path, DirOptions::private().os(Arc::new(os))).unwrap();
        let offloader = offloader(spool);
        let mut arriving = offloader.receive(ToolCall::new("read_page"));
        arriving.feed(&vec![b'x'; CAP * 10]);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0, "unnamed: {unnamed}");
        // Only the handle gives access to it, and only its owner may read it.
        let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| {
            let target = std::fs::read_link(fd.unwrap().path()).ok()?;
            target.to_str()?.ends_with(" (deleted)").then_some(target)
        });
        let ours: Vec<_> = open.filter(|target| target.starts_with(&path)).collect();
        assert_eq!(ours.len(), 1, "{ours:?}");
        arriving.feed(&vec![b'y'; CAP * 10]);
        let arrived = arriving.finish(moment());
        assert_eq!(whole(&arrived), [vec![b'x'; CAP * 10], vec![b'y'; CAP * 10]].concat());
    }
}

#[test]
fn f34_a_stream_that_cannot_be_stored_is_passed_on_whole() {
    let quota = Quota { max_bytes: 1000, ..Quota::NONE };
    let fixture = Fixture::with(DirOptions::private().quota(quota));
    let offloader = Offloader::new(Arc::clone(fixture.offloader.spool()), &Config::default())
        .with_memory_cap(CAP);
    let page = "words and words ".repeat(90_000);
    let arrived = arrive(&offloader, "read_page", page.as_bytes(), 2);
    assert!(matches!(arrived.delivered, Delivered::PassedOn(_)));
    assert!(arrived.payload.whole().is_none() && whole(&arrived) == page.as_bytes());
    let memories = recalled(200);
    let arrived = arrive(&offloader, "recall_memories", memories.as_bytes(), 2);
    let Delivered::Truncated(truncated) = &arrived.delivered else { panic!("not truncated") };
    let (call, body) = (ToolCall::new("recall_memories"), ResultBody::Payload(memories.as_bytes()));
    let Delivered::Truncated(expected) = offloader.deliver_result(call, body, moment()) else {
        panic!("not truncated")
    };
    assert_eq!(truncated, &expected);
    assert!(fixture.files().is_empty());
}

#[test]
fn f34_without_room_to_set_it_aside_a_stream_stays_in_memory() {
    let quota = Quota { min_free_bytes: u64::MAX, ..Quota::NONE };
    let fixture = Fixture::with(DirOptions::private().quota(quota));
    let offloader = Offloader::new(Arc::clone(fixture.offloader.spool()), &Config::default())
        .with_memory_cap(CAP);
    let page = "words and words ".repeat(90_000);
    let arrived = arrive(&offloader, "read_page", page.as_bytes(), 2);
    assert!(matches!(arrived.delivered, Delivered::PassedOn(_)));
    assert_eq!(arrived.payload.whole(), Some(page.as_bytes()));
}

/// Whether one delivery on a failing system was offloaded.
fn delivered_on(os: &Arc<FaultyOs>, tool: &str, payload: &[u8], context: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spool");
    let options = DirOptions::private().os(Arc::clone(os) as Arc<dyn Os>);
    let Ok(spool) = DirSpool::open(&path, options) else { return false };
    let watcher = Arc::new(Watcher::default());
    let offloader = offloader(spool).with_events(Arc::clone(&watcher) as Arc<dyn EventSink>);
    let arrived = arrive(&offloader, tool, payload, 3);
    let event = match &arrived.delivered {
        Delivered::Offloaded(offloaded) => {
            let reader = DirSpool::open(&path, DirOptions::private()).unwrap();
            let reader = reader.open(&offloaded.listed.id().into(), moment().now).unwrap();
            let mut back = Vec::new();
            restore_payload(&*reader, &mut back).unwrap();
            assert!(back == payload, "{context}: what was promised");
            "ResultOffloaded"
        }
        Delivered::Truncated(truncated) => {
            serde_json::from_str::<Value>(&truncated.json).unwrap();
            "OffloadWriteFailed"
        }
        Delivered::PassedOn(_) => {
            // A disk that cannot be read gives an error, never wrong or missing bytes.
            let mut bytes = Vec::new();
            match arrived.payload.write_to(&mut bytes) {
                Ok(()) => assert!(bytes == payload, "{context}: what is passed on"),
                Err(_) => assert!(payload.starts_with(&bytes), "{context}"),
            }
            "OffloadWriteFailed"
        }
        other => panic!("{context}: {other:?}"),
    };
    assert_eq!(watcher.names(), [event], "{context}");
    drop((arrived, offloader));
    let clean = DirSpool::open(&path, DirOptions::private()).unwrap();
    let kept: usize = clean.list().unwrap().iter().map(|r| 2 + r.sidecar.parts.len()).sum();
    assert_eq!(files(&path).len(), kept, "{context}: nothing else stays");
    true
}

#[test]
fn l3_whichever_call_fails_no_byte_of_a_stream_is_lost() {
    let memories = recalled(60);
    let page = "words and words ".repeat(4_000);
    for (tool, payload) in [("recall_memories", &memories), ("read_page", &page)] {
        for fault in [
            InjectedFault::NoSpace,
            InjectedFault::Io,
            InjectedFault::Interrupted,
            InjectedFault::ShortWrite,
        ] {
            for lasting in [FaultDuration::Once, FaultDuration::FromThenOn] {
                if matches!(
                    (fault, lasting),
                    (InjectedFault::Interrupted, FaultDuration::FromThenOn)
                ) {
                    // A call that is always interrupted never returns.
                    continue;
                }
                // Without unlinked files, one kind of fault is enough.
                let unnamed =
                    if fault == InjectedFault::NoSpace { &[true, false][..] } else { &[true] };
                for unnamed in unnamed {
                    let mut outcomes = 0;
                    for call in 1.. {
                        let os = FaultyOs::new(call, fault, lasting);
                        let os = Arc::new(if *unnamed { os } else { os.without_unnamed_files() });
                        let context = format!("{tool}: {fault:?} at {call}, {lasting:?}");
                        let opened = delivered_on(&os, tool, payload.as_bytes(), &context);
                        outcomes += usize::from(opened);
                        if !os.fired() {
                            break;
                        }
                    }
                    assert!(outcomes > 9, "{fault:?} never reached a delivery");
                }
            }
        }
    }
}

#[test]
fn f34_a_large_result_is_written_behind_and_whole() {
    // Large enough for the background writer, and for a fault while it writes.
    let rows: Vec<String> =
        (0..60_000).map(|n| format!(r#"{{"n":{n},"text":"{n:0>200}"}}"#)).collect();
    let payload = format!("[{}]", rows.join(","));
    for call in [0, 12, 30, 40, 60] {
        let os = Arc::new(FaultyOs::new(call, InjectedFault::NoSpace, FaultDuration::FromThenOn));
        let context = format!("no space from {call} on");
        delivered_on(&os, "list_rows", payload.as_bytes(), &context);
    }
}

#[test]
fn records_with_and_without_spaces_between_them_are_stored_as_what_a_stream_of_them_is() {
    let memories = testkit::corpus::memories(500, 42);
    let lines = testkit::corpus::lines(&memories, mif::DetailLevel::Full);
    let lines: Vec<&str> = lines.iter().map(String::as_str).cycle().take(15_000).collect();
    // Compact records are copied; others are scanned again.
    for between in [",", ", "] {
        let payload = format!(r#"{{"next":null,"rows":[{}]}}"#, lines.join(between));
        for tool in ["recall_memories", "list_rows"] {
            let (at_once, in_chunks) = (MemorySpool::default(), MemorySpool::default());
            let (call, body) = (ToolCall::new(tool), ResultBody::Payload(payload.as_bytes()));
            let delivered = offloader(at_once.clone()).deliver_result(call, body, moment());
            let Delivered::Offloaded(expected) = delivered else { panic!("{delivered:?}") };
            let arrived = arrive(&offloader(in_chunks.clone()), tool, payload.as_bytes(), 4);
            let Delivered::Offloaded(ours) = &arrived.delivered else { panic!("{arrived:?}") };
            assert_eq!(ours.descriptor, expected.descriptor);
            assert!(stored(&in_chunks) == stored(&at_once), "{tool}");
        }
    }
}
