//! Failed writes, which never fail the operation.

use std::sync::Arc;

use lro::{Delivered, EventSink, Offloader, ResultBody, ToolCall};
use lro_core::config::Config;
use lro_spool::contract::{FaultDuration, FaultyOs, InjectedFault};
use lro_spool::os::Os;
use lro_spool::{DirOptions, DirSpool, Quota, Spool};
use serde_json::Value;

use crate::fixture::{Fixture, Watcher, moment, recalled};

fn full() -> Fixture {
    Fixture::with(DirOptions::private().quota(Quota { max_bytes: 1000, ..Quota::NONE }))
}

#[test]
fn l3_memories_that_cannot_be_stored_are_cut_at_a_record() {
    let fixture = full();
    let payload = recalled(200);
    let (call, body) = (ToolCall::new("recall_memories"), ResultBody::Payload(payload.as_bytes()));
    let Delivered::Truncated(truncated) = fixture.offloader.deliver_result(call, body, moment())
    else {
        panic!("not truncated")
    };
    let cut: Value = serde_json::from_str(&truncated.json).unwrap();
    let whole: Value = serde_json::from_str(&payload).unwrap();
    let kept = cut["memories"].as_array().unwrap();
    assert_eq!((kept.len() as u64, truncated.total), (truncated.returned, 200));
    assert_eq!(kept[..], whole["memories"].as_array().unwrap()[..kept.len()]);
    let chars: usize = kept.iter().map(|record| record.to_string().chars().count()).sum();
    assert!(!kept.is_empty() && chars.div_ceil(4) <= 1600);
    assert!(truncated.warning.to_string().contains(&format!("{} of 200", truncated.returned)));
    assert_eq!(fixture.watcher.names(), ["OffloadWriteFailed"]);
    assert!(fixture.files().is_empty());
}

#[test]
fn l3_one_memory_too_large_has_its_strings_cut() {
    let fixture = full();
    let memory = format!(
        r#"{{"id":"a","memory_type":"semantic","created":"2026-01-01","content":"{}"}}"#,
        "long ".repeat(9000)
    );
    let payload = format!(r#"{{"count":1,"memories":[{memory}]}}"#);
    let (call, body) = (ToolCall::new("recall_memories"), ResultBody::Payload(payload.as_bytes()));
    let Delivered::Truncated(truncated) = fixture.offloader.deliver_result(call, body, moment())
    else {
        panic!("not truncated")
    };
    let cut: Value = serde_json::from_str(&truncated.json).unwrap();
    assert_eq!(cut["memories"][0]["id"], "a");
    assert!(cut["memories"][0]["content"].as_str().unwrap().ends_with("characters)"));
}

#[test]
fn f34_another_partys_result_is_passed_on_whole() {
    let fixture = full();
    let payload = "words and words ".repeat(9000);
    let (call, body) = (ToolCall::new("read_page"), ResultBody::Payload(payload.as_bytes()));
    let Delivered::PassedOn(warning) = fixture.offloader.deliver_result(call, body, moment())
    else {
        panic!("not passed on")
    };
    assert!(warning.to_string().contains("could not be stored"));
    assert_eq!(fixture.watcher.names(), ["OffloadWriteFailed"]);
}

#[test]
fn l3_whichever_call_fails_the_answer_is_valid_and_nothing_partial_stays() {
    let payload = recalled(200);
    for fault in [
        InjectedFault::NoSpace,
        InjectedFault::Io,
        InjectedFault::Quota,
        InjectedFault::Interrupted,
        InjectedFault::ShortWrite,
    ] {
        for lasting in [FaultDuration::Once, FaultDuration::FromThenOn] {
            if matches!((fault, lasting), (InjectedFault::Interrupted, FaultDuration::FromThenOn)) {
                // A call that is always interrupted never returns.
                continue;
            }
            let mut outcomes = 0;
            for call in 1.. {
                let os = Arc::new(FaultyOs::new(call, fault, lasting));
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("spool");
                let options = DirOptions::private().os(Arc::clone(&os) as Arc<dyn Os>);
                let Ok(spool) = DirSpool::open(&path, options) else { continue };
                let watcher = Arc::new(Watcher::default());
                let offloader = Offloader::new(Arc::new(spool), &Config::default())
                    .with_events(Arc::clone(&watcher) as Arc<dyn EventSink>);
                let tool = ToolCall::new("recall_memories");
                let body = ResultBody::Payload(payload.as_bytes());
                let event = match offloader.deliver_result(tool, body, moment()) {
                    Delivered::Offloaded(offloaded) => {
                        let file = std::fs::read_to_string(offloaded.listed.path.unwrap()).unwrap();
                        assert_eq!(file.lines().count(), 201);
                        "ResultOffloaded"
                    }
                    Delivered::Truncated(truncated) => {
                        serde_json::from_str::<Value>(&truncated.json).unwrap();
                        "OffloadWriteFailed"
                    }
                    other => panic!("{fault:?} at {call}: {other:?}"),
                };
                assert_eq!(watcher.names(), [event]);
                drop(offloader);
                // The next start removes hidden files. If the disk failed at the last sync, a complete
                // result remains, which could not be removed: it expires like any other.
                let clean = DirSpool::open(&path, DirOptions::private()).unwrap();
                let kept = clean.list().unwrap();
                for listed in &kept {
                    let file = std::fs::read_to_string(listed.path.as_ref().unwrap()).unwrap();
                    assert_eq!(file.lines().count(), 201, "{fault:?} at {call}");
                }
                let expected = usize::from(event == "ResultOffloaded");
                let as_expected = kept.len() == expected || lasting == FaultDuration::FromThenOn;
                assert!(as_expected, "{fault:?} at {call}: {}", kept.len());
                outcomes += 1;
                if !os.fired() {
                    break;
                }
            }
            assert!(outcomes > 3, "{fault:?} never reached a delivery");
        }
    }
}
