//! Identical results share a reference; nothing else does.

use std::sync::Arc;

use chrono::TimeDelta;
use lro::{CallArguments, Delivered, IdSeed, Offloaded, Offloader, ResultBody, ToolCall};
use lro_core::config::Config;
use lro_core::tool_result::ToolResult;
use lro_spool::{DirOptions, DirSpool, MemorySpool, Quota, Spool};
use serde_json::{Value, json};

use crate::fixture::{Fixture, moment};

/// An offloader that stores everything, with a spool in a directory.
fn in_directory() -> (tempfile::TempDir, Arc<dyn Spool>) {
    let home = tempfile::tempdir().unwrap();
    let options = DirOptions::private().quota(Quota::NONE);
    let spool = DirSpool::open(&home.path().join("spool"), options).unwrap();
    (home, Arc::new(spool))
}

fn offloader(spool: &Arc<dyn Spool>) -> Offloader {
    let mut config = Config::default();
    config.proxy.threshold_tokens = 1;
    Offloader::new(spool.clone(), &config)
}

/// Delivers a result of the call `arguments`, `seconds` after the first one.
fn deliver(
    offloader: &Offloader,
    arguments: &str,
    body: ResultBody<'_>,
    seconds: i64,
) -> Offloaded {
    let arguments = CallArguments::new(arguments);
    let call =
        ToolCall { arguments: Some(&arguments), server: Some("files"), ..ToolCall::new("read") };
    let now = moment().now + TimeDelta::seconds(seconds);
    let random = u128::from(seconds.unsigned_abs()) + u128::from(rand_bits());
    match offloader.deliver_result(call, body, IdSeed { now, random }) {
        Delivered::Offloaded(offloaded) => *offloaded,
        other => panic!("{other:?}"),
    }
}

fn rand_bits() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed) << 20
}

fn descriptor(offloaded: &Offloaded) -> Value {
    serde_json::from_str(&offloaded.descriptor).unwrap()
}

#[test]
fn g27_an_identical_result_shares_the_reference_and_says_since_when() {
    let (_home, directory) = in_directory();
    let memory: Arc<dyn Spool> = Arc::new(MemorySpool::default());
    let records: Vec<Value> = (0..200).map(|n| json!({"n": n, "name": "some name"})).collect();
    let pretty = serde_json::to_string_pretty(&json!({"rows": records, "next": "x"})).unwrap();
    for spool in [directory, memory] {
        for payload in ["one line\nand another\n", &pretty, "a,b\n1,2\n3,4\n", r#"{"one":[1,  2]}"#]
        {
            let offloader = offloader(&spool);
            let before = spool.list().unwrap().len();
            let body = ResultBody::Payload(payload.as_bytes());
            let first = deliver(&offloader, r#"{"path":"a"}"#, body, 0);
            let second = deliver(&offloader, r#"{"path":"a"}"#, body, 60);
            assert_eq!(first.listed.id(), second.listed.id(), "{payload:.20}");
            assert_eq!(spool.list().unwrap().len(), before + 1);
            let (mut first, mut second) = (descriptor(&first), descriptor(&second));
            let since = moment().now.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
            assert!(first["lro"].as_object_mut().unwrap().remove("unchanged_since").is_none());
            let said = second["lro"].as_object_mut().unwrap().remove("unchanged_since");
            assert_eq!(said, Some(since.into()));
            assert_eq!(first, second);
        }
    }
}

#[test]
fn g27_any_difference_is_stored_again() {
    let (_home, spool) = in_directory();
    let offloader = offloader(&spool);
    let body = |text: &'static str| ResultBody::Payload(text.as_bytes());
    let first = deliver(&offloader, r#"{"path":"a"}"#, body("the same length 1"), 0);
    for (arguments, text) in [
        (r#"{"path":"b"}"#, "the same length 1"),
        (r#"{"path":"a"}"#, "the same length 2"),
        (r#"{"path":"a"}"#, "another length"),
    ] {
        let other = deliver(&offloader, arguments, body(text), 1);
        assert_ne!(other.listed.id(), first.listed.id(), "{arguments} {text}");
    }
    let same = deliver(&offloader, r#"{"path":"a"}"#, body("the same length 1"), 2);
    assert_eq!(same.listed.id(), first.listed.id());

    // The further texts count too.
    let result = |text: &str| {
        let texts =
            ["a long payload of words", text].map(|text| json!({"type": "text", "text": text}));
        json!({"content": texts}).to_string()
    };
    let (one, two) = (result("beside 1"), result("beside 2"));
    let (one, two) = (ToolResult::read(&one).unwrap(), ToolResult::read(&two).unwrap());
    let first = deliver(&offloader, "{}", ResultBody::ToolResult(&one), 3);
    let same = deliver(&offloader, "{}", ResultBody::ToolResult(&one), 4);
    let other = deliver(&offloader, "{}", ResultBody::ToolResult(&two), 5);
    assert_eq!(first.listed.id(), same.listed.id());
    assert_ne!(first.listed.id(), other.listed.id());

    // A call whose arguments are unknown.
    let call = ToolCall { server: Some("files"), ..ToolCall::new("read") };
    let unknown = |random| {
        let seed = IdSeed { random, ..moment() };
        match offloader.deliver_result(call, body("some words"), seed) {
            Delivered::Offloaded(offloaded) => offloaded.listed.id(),
            other => panic!("{other:?}"),
        }
    };
    assert_ne!(unknown(1), unknown(2));
}

#[test]
fn g27_a_result_that_is_gone_changed_or_soon_expires_is_stored_again() {
    let (_home, spool) = in_directory();
    let day = 86_400;
    let body = ResultBody::Payload(b"some words of a page");
    for (change, seconds, same) in [
        ("nothing", day / 2, true),
        ("nothing", day / 2 + 1, false),
        ("nothing", day + 1, false),
        ("nothing", -1, false),
        ("removed", 1, false),
        ("deleted", 1, false),
        ("changed", 1, false),
    ] {
        let offloader = offloader(&spool);
        let first = deliver(&offloader, "{}", body, 0);
        match change {
            "removed" => drop(spool.remove(&first.listed.id().into()).unwrap()),
            "deleted" => std::fs::remove_file(first.listed.path.as_ref().unwrap()).unwrap(),
            "changed" => {
                let path = first.listed.path.as_ref().unwrap();
                std::fs::write(path, b"some words of a past").unwrap();
            }
            _ => {}
        }
        let second = deliver(&offloader, "{}", body, seconds);
        assert_eq!(first.listed.id() == second.listed.id(), same, "{change} after {seconds} s");
        let kept =
            spool.open(&second.listed.id().into(), moment().now + TimeDelta::seconds(seconds));
        assert!(kept.is_ok(), "{change} after {seconds} s");
    }
}

#[test]
fn g27_calls_at_the_same_time_get_references_that_can_be_read() {
    let (_home, spool) = in_directory();
    let offloader = offloader(&spool);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for n in 0..40 {
                    let text = format!("page {} of a book", n % 4);
                    let arguments = format!(r#"{{"page":{}}}"#, n % 4);
                    let body = ResultBody::Payload(text.as_bytes());
                    let offloaded = deliver(&offloader, &arguments, body, n);
                    let id = offloaded.listed.id();
                    // Another thread may have removed it after it was returned.
                    if n % 10 == 9 {
                        let _ = spool.remove(&id.into());
                    } else if let Ok(stored) = spool.open(&id.into(), moment().now) {
                        let mut payload = Vec::new();
                        lro_spool::restore_payload(&*stored, &mut payload).unwrap();
                        assert_eq!(payload, text.as_bytes());
                    }
                }
            });
        }
    });
}

#[test]
fn g27_server_and_arguments_are_stored_without_secrets() {
    let (_home, spool) = in_directory();
    let arguments = r#"{"path":"/srv/a.txt","api_key":"S3CR3T"}"#;
    deliver(&offloader(&spool), arguments, ResultBody::Payload(b"some words"), 0);
    let sidecar = spool.list().unwrap().remove(0).sidecar;
    assert_eq!(sidecar.server.as_deref(), Some("files"));
    assert_eq!(sidecar.arguments.as_deref(), Some("path=/srv/a.txt, api_key=[redacted]"));
    let shown = format!("{:?}", CallArguments::new(arguments));
    assert!(!shown.contains("S3CR3T"), "{shown}");
}

#[test]
fn g27_events_say_that_a_result_was_reused() {
    let fixture = Fixture::new();
    let arguments = CallArguments::new("{}");
    let text = "word ".repeat(60_000);
    for random in [1, 2] {
        let call = ToolCall {
            arguments: Some(&arguments),
            correlation: Some("7"),
            ..ToolCall::new("read_page")
        };
        let body = ResultBody::Payload(text.as_bytes());
        fixture.offloader.deliver_result(call, body, IdSeed { random, ..moment() });
    }
    let events: Vec<Value> =
        fixture.watcher.events().iter().map(|event| serde_json::to_value(event).unwrap()).collect();
    assert_eq!(events[0]["ref"], events[1]["ref"]);
    assert_eq!((events[0].get("reused"), &events[1]["reused"]), (None, &json!(true)));
    assert_eq!((&events[0]["correlation"], events.len()), (&json!("7"), 2));
}
