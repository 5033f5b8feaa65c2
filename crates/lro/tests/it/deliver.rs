//! Delivery: what is stored, and what the client gets.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lro::{
    CLEANUP_INTERVAL, Delivered, Event, EventSink, IdSeed, Ledger, MaintenanceTask, Offloader,
    ResultBody, ToolCall,
};
use lro_core::Extraction;
use lro_core::config::Config;
use lro_core::tool_result::ToolResult;
use lro_spool::{Address, DirOptions, DirSpool, Spool, restore_payload};
use serde_json::Value;

use crate::fixture::{Fixture, moment, recalled};

#[test]
fn a_small_result_stays_inline_and_nothing_is_written() {
    let fixture = Fixture::new();
    let payload = recalled(3);
    let (call, body) = (ToolCall::new("recall_memories"), ResultBody::Payload(payload.as_bytes()));
    assert!(matches!(fixture.offloader.deliver_result(call, body, moment()), Delivered::Inline(_)));
    assert!(fixture.files().is_empty() && fixture.watcher.names().is_empty());
}

#[test]
fn a_large_recall_becomes_a_file_and_a_full_descriptor() {
    let fixture = Fixture::new();
    let payload = recalled(200);
    let (call, body) = (ToolCall::new("recall_memories"), ResultBody::Payload(payload.as_bytes()));
    let Delivered::Offloaded(offloaded) = fixture.offloader.deliver_result(call, body, moment())
    else {
        panic!("not offloaded")
    };
    let descriptor: Value = serde_json::from_str(&offloaded.descriptor).unwrap();
    assert_eq!(descriptor["summary"]["count"], 200);
    assert_eq!(descriptor["summary"]["score_range"], serde_json::json!([0.8, 0.999]));
    assert_eq!(descriptor["lro"]["total_matches"], 205);
    assert_eq!(descriptor["jq_recipes"].as_array().unwrap().len(), 10);
    let file = std::fs::read_to_string(descriptor["file_path"].as_str().unwrap()).unwrap();
    let header: Value = serde_json::from_str(file.lines().next().unwrap()).unwrap();
    assert_eq!((&header["type"], &header["count"]), (&"lro_header".into(), &200.into()));
    assert_eq!(file.lines().count(), 201);
    // No level was requested; file and descriptor name the inferred one.
    assert_eq!(
        (&header["detail"], &descriptor["summary"]["detail"]),
        (&"full".into(), &"full".into())
    );
    assert_eq!(fixture.watcher.names(), ["ResultOffloaded"]);
}

#[test]
fn f6_scores_never_reach_the_file() {
    let fixture = Fixture::new();
    let payload = recalled(200);
    let (call, body) = (ToolCall::new("search_memories"), ResultBody::Payload(payload.as_bytes()));
    let Delivered::Offloaded(offloaded) = fixture.offloader.deliver_result(call, body, moment())
    else {
        panic!("not offloaded")
    };
    let file = std::fs::read_to_string(offloaded.listed.path.as_ref().unwrap()).unwrap();
    assert!(!file.contains("score"));
}

#[test]
fn f30_the_decoded_payload_is_stored_with_what_else_was_said() {
    let fixture = Fixture::new();
    let text = format!("[{}]", vec![r#"{"id":1,"name":"some name"}"#; 4000].join(","));
    let json = serde_json::json!({"content": [
        {"type": "text", "text": text},
        {"type": "text", "text": "and a remark"},
    ]})
    .to_string();
    let result = ToolResult::read(&json).unwrap();
    let (call, body) = (ToolCall::new("list_things"), ResultBody::ToolResult(&result));
    let Delivered::Offloaded(offloaded) = fixture.offloader.deliver_result(call, body, moment())
    else {
        panic!("not offloaded")
    };
    let address = Address::from(offloaded.listed.id());
    let reader = fixture.offloader.spool().open(&address, moment().now).unwrap();
    let mut whole = Vec::new();
    restore_payload(&*reader, &mut whole).unwrap();
    assert_eq!(whole, text.as_bytes());
    assert_eq!(reader.listed().sidecar.parts.len(), 1);
    // The result of another server gets the compact form.
    assert!(!offloaded.descriptor.contains("jq_recipes"));
}

#[test]
fn l2_each_expired_result_is_reported_once() {
    let fixture = Fixture::new();
    let payload = recalled(200);
    let (call, body) = (ToolCall::new("recall_memories"), ResultBody::Payload(payload.as_bytes()));
    fixture.offloader.deliver_result(call, body, moment());
    let hour = Duration::from_hours(1);
    assert!(fixture.offloader.sweep(moment().now + hour / 2).unwrap().expired.is_empty());
    assert_eq!(fixture.offloader.sweep(moment().now + hour).unwrap().expired.len(), 1);
    assert!(fixture.offloader.sweep(moment().now + hour).unwrap().expired.is_empty());
    assert_eq!(fixture.watcher.names(), ["ResultOffloaded", "OffloadFileExpired"]);
    assert!(fixture.files().is_empty());
}

#[test]
fn l2_the_maintenance_task_sweeps_at_once_and_stops_when_dropped() {
    let Fixture { dir, watcher, offloader } = Fixture::new();
    let payload = recalled(200);
    offloader.deliver_result(
        ToolCall::new("recall_memories"),
        ResultBody::Payload(payload.as_bytes()),
        moment(),
    );
    let later = moment().now + Duration::from_hours(2);
    let offloader = Arc::new(offloader);
    let custodian = MaintenanceTask::start(Arc::clone(&offloader), CLEANUP_INTERVAL, move || later);
    let patience = Instant::now();
    while !watcher.names().contains(&"OffloadFileExpired") {
        assert!(patience.elapsed() < Duration::from_secs(10), "nothing was swept");
        std::thread::sleep(Duration::from_millis(5));
    }
    let stopping = Instant::now();
    drop(custodian.unwrap());
    assert!(stopping.elapsed() < Duration::from_secs(1));
    assert_eq!(Arc::strong_count(&offloader), 1);
    drop(dir);
}

#[test]
fn the_ledger_has_a_line_for_each_event_and_no_contents() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.jsonl");
    let spool = DirSpool::open(&dir.path().join("spool"), DirOptions::private()).unwrap();
    let offloader = Offloader::new(Arc::new(spool), &Config::default())
        .with_events(Arc::new(Ledger::open(&path).unwrap()));
    let payload = recalled(200);
    offloader.deliver_result(
        ToolCall::new("recall_memories"),
        ResultBody::Payload(payload.as_bytes()),
        moment(),
    );
    offloader.sweep(moment().now + Duration::from_hours(2)).unwrap();
    let ledger = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = ledger.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines[0]["event"], "ResultOffloaded");
    assert_eq!((&lines[0]["records"], &lines[0]["tool"]), (&200.into(), &"recall_memories".into()));
    assert_eq!(lines[1]["event"], "OffloadFileExpired");
    assert_eq!(lines.len(), 2);
    let first: Value = serde_json::from_str(&payload).unwrap();
    assert!(!ledger.contains(first["memories"][0]["title"].as_str().unwrap()));
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn f23_another_partys_result_lives_a_day_and_memories_an_hour() {
    let fixture = Fixture::new();
    let payload = format!("[{}]", vec![r#"{"id":1,"name":"some name"}"#; 4000].join(","));
    let memories = recalled(200);
    for (n, tool, payload, hours) in
        [(1, "list_things", &payload, 24), (2, "recall_memories", &memories, 1)]
    {
        let at = IdSeed { random: n, ..moment() };
        let (call, body) = (ToolCall::new(tool), ResultBody::Payload(payload.as_bytes()));
        let Delivered::Offloaded(offloaded) = fixture.offloader.deliver_result(call, body, at)
        else {
            panic!("not offloaded")
        };
        let end = at.now + Duration::from_hours(hours);
        assert_eq!(offloaded.listed.sidecar.expires_at, end, "{tool}");
        let before = end - Duration::from_millis(1);
        let gone = fixture.offloader.sweep(before).unwrap().expired;
        assert!(gone.iter().all(|gone| gone.id() != offloaded.listed.id()), "{tool}");
        let address = Address::from(offloaded.listed.id());
        assert!(fixture.offloader.spool().open(&address, before).is_ok(), "{tool}");
    }
}

#[test]
fn f28_what_a_descriptor_names_is_found_after_a_restart() {
    let Fixture { dir, offloader, .. } = Fixture::new();
    let payload = recalled(200);
    let (call, body) = (ToolCall::new("recall_memories"), ResultBody::Payload(payload.as_bytes()));
    let Delivered::Offloaded(offloaded) = offloader.deliver_result(call, body, moment()) else {
        panic!("not offloaded")
    };
    drop(offloader);
    let descriptor: Value = serde_json::from_str(&offloaded.descriptor).unwrap();
    let restarted = DirSpool::open(&dir.path().join("spool"), DirOptions::private()).unwrap();
    for named in [&descriptor["lro"]["ref"], &descriptor["file_path"]] {
        let address: Address = named.as_str().unwrap().parse().unwrap();
        let mut whole = Vec::new();
        restore_payload(&*restarted.open(&address, moment().now).unwrap(), &mut whole).unwrap();
        assert_eq!(String::from_utf8(whole).unwrap(), payload, "{named}");
    }
}

/// Reads each result when its event arrives, through another spool.
struct ReadOnEvent(std::path::PathBuf, Mutex<Vec<Vec<u8>>>);

impl EventSink for ReadOnEvent {
    fn publish(&self, event: Event) {
        let spool = DirSpool::open(&self.0, DirOptions::private()).unwrap();
        let mut whole = Vec::new();
        restore_payload(
            &*spool.open(&event.result.unwrap().0.into(), event.time).unwrap(),
            &mut whole,
        )
        .unwrap();
        self.1.lock().unwrap().push(whole);
    }
}

#[test]
fn f34_a_result_is_saved_whole_before_anyone_hears_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spool");
    let spool = DirSpool::open(&path, DirOptions::private()).unwrap();
    let reader = Arc::new(ReadOnEvent(path, Mutex::default()));
    let offloader = Offloader::new(Arc::new(spool), &Config::default())
        .with_events(Arc::clone(&reader) as Arc<dyn EventSink>);
    let payload = "words and words ".repeat(90_000);
    let (call, body) = (ToolCall::new("read_page"), ResultBody::Payload(payload.as_bytes()));
    assert!(matches!(offloader.deliver_result(call, body, moment()), Delivered::Offloaded(_)));
    let heard = reader.1.lock().unwrap();
    assert!(heard.len() == 1 && heard[0] == payload.as_bytes());
}

/// Without a shell and without the extraction tools, a client still learns what the result was; with
/// the tools, the guidance names them; and the operator can keep results inline.
#[test]
fn r12_a_client_without_a_shell_is_not_stranded() {
    let rows: Vec<String> =
        (0..2000).map(|n| format!(r#"{{"id":{n},"name":"row {n}"}}"#)).collect();
    let deliver = |tool: &str, payload: &str, config: &Config| {
        let dir = tempfile::tempdir().unwrap();
        let spool = DirSpool::open(&dir.path().join("spool"), DirOptions::private()).unwrap();
        let offloader = Offloader::new(Arc::new(spool), config).with_extraction(Extraction::Native);
        match offloader.deliver_result(
            ToolCall::new(tool),
            ResultBody::Payload(payload.as_bytes()),
            moment(),
        ) {
            Delivered::Offloaded(offloaded) => {
                Some(serde_json::from_str::<Value>(&offloaded.descriptor).unwrap())
            }
            Delivered::Inline(_) => {
                let left = std::fs::read_dir(dir.path().join("spool")).unwrap().count();
                assert_eq!(left, 0, "{tool}: nothing is stored");
                None
            }
            other => panic!("{tool}: {other:?}"),
        }
    };
    let memories = recalled(200);
    let descriptor = deliver("recall_memories", &memories, &Config::default()).unwrap();
    let summary = &descriptor["summary"];
    assert_eq!(summary["count"], 200);
    assert!(!summary["top_namespaces"].as_array().unwrap().is_empty(), "{summary}");
    assert!(descriptor["guidance"].as_str().unwrap().contains("lro_extract("), "{descriptor}");
    let table = format!("[{}]", rows.join(","));
    let descriptor = deliver("list_rows", &table, &Config::default()).unwrap();
    assert_eq!(descriptor["summary"]["count"], 2000);
    assert_eq!(
        descriptor["fields"],
        serde_json::json!({
            "id": "integer 0\u{2026}1999",
            "name": "text, over 1024 distinct, \u{2264} 8 characters",
        })
    );
    assert!(!descriptor["lro"]["preview"].as_array().unwrap().is_empty(), "{descriptor}");
    assert!(descriptor["guidance"].as_str().unwrap().contains("lro_extract"), "{descriptor}");

    let mut off = Config::default();
    off.prompt.offload.enabled = false;
    let mut raised = Config::default();
    raised.prompt.offload.threshold_tokens = 1_000_000;
    raised.proxy.threshold_tokens = 1_000_000;
    for config in [&off, &raised] {
        assert!(deliver("recall_memories", &memories, config).is_none());
        assert!(deliver("list_rows", &table, config).is_none());
    }
}
