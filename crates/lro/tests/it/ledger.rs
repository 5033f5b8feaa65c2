//! The ledger: concurrent writers, removal of old lines, and later token counts.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use lro::{
    Event, EventKind, EventSink, IdSeed, Ledger, ResultBody, Spools, TokenCounter, ToolCall,
};
use lro_core::O200k;
use lro_core::tokens::{Method, count_all};

use crate::fixture::{Fixture, Watcher, moment, recalled};

fn listed(time: DateTime<Utc>, server: &str) -> Event {
    let definitions = count_all("abc", &O200k);
    Event::without_result(time, EventKind::ToolsListed { server: server.to_owned(), definitions })
}

fn read(path: &std::path::Path) -> Vec<Event> {
    Ledger::read(path).unwrap().map(Result::unwrap).collect()
}

#[test]
fn an_event_is_read_back_from_the_ledger_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.jsonl");
    let fixture = Fixture::new();
    let payload = recalled(200);
    fixture.offloader.deliver_result(
        ToolCall::new("recall_memories"),
        ResultBody::Payload(payload.as_bytes()),
        moment(),
    );
    fixture.offloader.sweep(moment().now + Duration::from_hours(2)).unwrap();
    let told = fixture.watcher.events();
    let ledger = Ledger::open(&path).unwrap();
    let named: Vec<Event> = told.into_iter().map(|event| event.identified("a test")).collect();
    for event in &named {
        ledger.publish(event.clone());
    }
    ledger.publish(listed(moment().now, "files"));
    assert_eq!(read(&path)[..2], named);
    assert_eq!(read(&path)[2].kind, listed(moment().now, "files").kind);
}

#[test]
fn g28_every_line_of_the_ledger_has_an_id_a_source_and_what_it_belongs_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.jsonl");
    let ledger = Ledger::open(&path).unwrap().with_source("atlatl proxy");
    let result = lro_core::ResultId::new(1, 2);
    let kind = EventKind::OffloadFileExpired { tool: "t".to_owned() };
    for _ in 0..2 {
        ledger.publish(Event::new(moment().now, result, kind.clone()));
    }
    let events = read(&path);
    assert_eq!(events[0].id.len(), 26, "a ULID");
    assert_ne!(events[0].id, events[1].id);
    assert_eq!(events[0].source, "atlatl proxy");
    assert_eq!(events[0].correlation, Some(result.reference().to_string()));
    // A line of version 0.1.0 has none of them.
    let old = r#"{"time":"2026-11-15T10:00:00.123Z","event":"OffloadFileExpired","tool":"t"}"#;
    let old: Event = serde_json::from_str(old).unwrap();
    assert_eq!((old.id.as_str(), old.correlation), ("", None));
}

#[test]
fn old_lines_go_while_others_write_and_no_new_line_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.jsonl");
    let now = moment().now;
    let old = now - TimeDelta::days(100);
    let first = Ledger::open(&path).unwrap();
    for n in 0..500 {
        first.publish(listed(old, &format!("old {n}")));
    }
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let ledger = Ledger::open(path).unwrap();
                for n in 0..200 {
                    ledger.publish(listed(now, &format!("{writer} {n}")));
                    ledger.forget_before(now - TimeDelta::days(90)).unwrap();
                }
            });
        }
    });
    first.publish(listed(now, "the one who opened it first"));
    first.forget_before(now - TimeDelta::days(90)).unwrap();
    let events = read(&path);
    assert_eq!(events.len(), 801);
    assert!(events.iter().all(|event| event.time == now));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_line_that_cannot_be_read_is_an_error_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.jsonl");
    let ledger = Ledger::open(&path).unwrap();
    ledger.publish(listed(moment().now, "a"));
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "half a li\n").unwrap();
    ledger.publish(listed(moment().now, "b"));
    let read: Vec<bool> = Ledger::read(&path).unwrap().map(|line| line.is_ok()).collect();
    assert_eq!(read, [true, false, true]);
}

#[test]
fn f37_what_was_stored_is_counted_to_the_last_token() {
    let fixture = Fixture::new();
    let spools = Spools::new(vec![fixture.offloader.spool().clone()]);
    let counted = Arc::new(Watcher::default());
    let counter = TokenCounter::start(spools, O200k, counted.clone()).unwrap();
    // Larger than the sample that decides, and in several scripts.
    let payloads: Vec<String> =
        (1..4).map(|n| "Größe 見積 данные 0x1F, ".repeat(20_000 * n)).collect();
    for (random, payload) in (0..).zip(&payloads) {
        let at = IdSeed { random, ..moment() };
        fixture.offloader.deliver_result(
            ToolCall::new("read"),
            ResultBody::Payload(payload.as_bytes()),
            at,
        );
    }
    let told = fixture.watcher.events();
    assert_eq!(told.len(), 3);
    for event in &told {
        counter.watch(event);
    }
    counter.finish(Duration::from_mins(1));
    assert_eq!(counted.events().len(), 3);
    for ((payload, told), counted) in payloads.iter().zip(&told).zip(counted.events()) {
        let EventKind::ResultCounted { inline } = counted.kind else { panic!("{counted:?}") };
        assert_eq!((counted.result, counted.time), (told.result, told.time));
        assert_eq!(inline, count_all(payload, &O200k));
        assert_eq!(inline.method, Method::Counted);
    }
    counter.watch(&told[0]);
}
