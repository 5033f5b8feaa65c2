//! Our own text is separate from the data, never part of it.

use lro::{Delivered, ResultBody, ToolCall};
use lro_spool::{Address, DirOptions, Quota, StoredForm, restore_payload};
use serde_json::{Map, Value};

use crate::fixture::{Fixture, moment, recalled};

/// A payload, and where its records are.
struct Payload {
    name: &'static str,
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Records in the array at this JSON pointer.
    Array(&'static str),
    Lines,
    /// One JSON document without records.
    Document,
    Text,
}

/// Each payload is far above the threshold, each of its records far below.
fn payloads() -> Vec<Payload> {
    let record = |n: usize| {
        format!(
            r#"{{"id":{n},"name":"record {n}, \"quoted\" and \\ more","in":{{"deep":[{n},[],{{}}]}},"big":9007199254740993123}}"#
        )
    };
    let records: Vec<String> = (0..2000).map(record).collect();
    let all = records.join(",");
    let words = "Nothing here is a record, and there is much of it. ".repeat(2000);
    let payload = |name, kind, text: String| Payload { name, text, kind };
    vec![
        payload("memories", Kind::Array("/memories"), recalled(200)),
        payload("top-level array", Kind::Array(""), format!("[{all}]")),
        payload(
            "array beside others",
            Kind::Array("/issues"),
            format!(r#"{{"labels":["a","b"],"next":null,"issues":[{all}],"note":"[1,2]"}}"#),
        ),
        payload(
            "array far inside",
            Kind::Array("/data/search/nodes"),
            format!(
                r#"{{"data":{{"search":{{"total":2000,"nodes":[{all}],"more":true}}}},"z":{{}}}}"#
            ),
        ),
        payload("one record a line", Kind::Lines, records.join("\n") + "\n"),
        payload(
            "one document",
            Kind::Document,
            format!(r#"{{"title":"a page","body":{},"size":1}}"#, Value::from(words.clone())),
        ),
        payload("one string", Kind::Document, Value::from(words.clone()).to_string()),
        payload(
            "nested objects",
            Kind::Document,
            (0..60).fold(format!(r#"{{"leaf":{}}}"#, Value::from(words.clone())), |inner, n| {
                format!(r#"{{"level{n}":{inner}}}"#)
            }),
        ),
        payload("text", Kind::Text, words),
    ]
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:.200}"))
}

/// All lines, parsed as JSON.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(value).collect()
}

/// The payload with its first `kept` records, otherwise unchanged.
fn with_first(payload: &Payload, at: &str, kept: usize) -> Value {
    let mut whole = value(&payload.text);
    whole.pointer_mut(at).and_then(Value::as_array_mut).unwrap().truncate(kept);
    whole
}

fn deliver(fixture: &Fixture, tool: &str, payload: &Payload) -> Delivered {
    fixture.offloader.deliver_result(
        ToolCall::new(tool),
        ResultBody::Payload(payload.text.as_bytes()),
        moment(),
    )
}

fn full() -> Fixture {
    Fixture::with(DirOptions::private().quota(Quota { max_bytes: 1000, ..Quota::NONE }))
}

#[test]
fn f05_a_descriptor_is_one_object_and_what_is_stored_holds_nothing_of_ours() {
    for payload in payloads() {
        for tool in ["recall_memories", "list_things"] {
            let context = format!("{}, {tool}", payload.name);
            let fixture = Fixture::new();
            let Delivered::Offloaded(offloaded) = deliver(&fixture, tool, &payload) else {
                panic!("{context}: not offloaded")
            };
            // One object, nothing before it and nothing after it.
            let descriptor: Map<String, Value> = serde_json::from_str(&offloaded.descriptor)
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(descriptor.contains_key("lro"), "{context}: {descriptor:?}");

            let file = std::fs::read_to_string(offloaded.listed.path.as_ref().unwrap()).unwrap();
            match payload.kind {
                Kind::Array(at) => {
                    let whole = value(&payload.text);
                    let records = whole.pointer(at).and_then(Value::as_array).unwrap();
                    assert_eq!(&lines(&file)[1..], records, "{context}");
                    assert_eq!(lines(&file)[0]["type"], "lro_header", "{context}");
                }
                Kind::Lines => assert_eq!(lines(&file)[1..], lines(&payload.text), "{context}"),
                Kind::Document | Kind::Text => assert!(file == payload.text, "{context}"),
            }
            let address = Address::from(offloaded.listed.id());
            let reader = fixture.offloader.spool().open(&address, moment().now).unwrap();
            let mut back = Vec::new();
            restore_payload(&*reader, &mut back).unwrap();
            let back = String::from_utf8(back).unwrap();
            match reader.listed().sidecar.content {
                StoredForm::Lines => assert_eq!(lines(&back), lines(&payload.text), "{context}"),
                StoredForm::Text => assert!(back == payload.text, "{context}"),
                _ => assert!(value(&back) == value(&payload.text), "{context}"),
            }
        }
    }
}

#[test]
fn f05_what_is_cut_is_cut_between_records_and_the_warning_is_separate() {
    let fixture = full();
    for payload in payloads() {
        let context = payload.name;
        let delivered = deliver(&fixture, "recall_memories", &payload);
        let (Kind::Array(_) | Kind::Lines, Delivered::Truncated(cut)) = (payload.kind, &delivered)
        else {
            // No records to truncate.
            let apart = matches!(&delivered, Delivered::PassedOn(warning)
                if !payload.text.contains(&warning.to_string()));
            assert!(apart && matches!(payload.kind, Kind::Document | Kind::Text), "{context}");
            continue;
        };
        let kept = usize::try_from(cut.returned).unwrap();
        assert!(kept > 1 && cut.returned < cut.total, "{context}: {kept} of {}", cut.total);
        match payload.kind {
            Kind::Array(at) => {
                // The first records, complete, in their envelope. g21: an object begins with the mark
                // that it is truncated.
                let mut json = value(&cut.json);
                if let Some(object) = json.as_object_mut() {
                    assert_eq!(object.remove("truncated"), Some(true.into()), "{context}");
                    assert_eq!(object.remove("returned"), Some(kept.into()), "{context}");
                    object.remove("warning").unwrap();
                    if value(&payload.text).get("count").is_none() {
                        assert_eq!(object.remove("count"), Some(cut.total.into()), "{context}");
                    }
                }
                let mut expected = with_first(&payload, at, kept);
                if let Some(scores) = expected.get_mut("scores").and_then(Value::as_array_mut) {
                    scores.truncate(kept);
                }
                assert_eq!(json, expected, "{context}");
            }
            _ => assert_eq!(lines(&cut.json), lines(&payload.text)[..kept], "{context}"),
        }
        let warning = cut.warning.to_string();
        assert!(warning.contains(&format!("{kept} of {}", cut.total)), "{context}: {warning}");
        for sentence in warning.split(['.', ':']).filter(|part| part.len() > 10) {
            assert!(!cut.json.contains(sentence.trim()), "{context}: {sentence}");
        }
    }
}

/// Spec L3: data is marked only in strings of a single record that is too large. The mark ends the
/// string, and does not add, remove or rename a field.
#[test]
fn f05_a_single_record_too_large_stays_one_record_with_the_same_fields() {
    let fixture = full();
    let long = "long ".repeat(9000);
    for payload in [
        format!(
            r#"{{"count":1,"memories":[{{"id":"a","content":"{long}","n":[1,{{"b":"{long}"}}]}}]}}"#
        ),
        format!(r#"[{{"id":"a","content":"{long}"}},{{"id":"b","content":"{long}"}}]"#),
    ] {
        let (call, body) =
            (ToolCall::new("recall_memories"), ResultBody::Payload(payload.as_bytes()));
        let Delivered::Truncated(cut) = fixture.offloader.deliver_result(call, body, moment())
        else {
            panic!("not truncated")
        };
        let records = |text: &str| {
            let whole = value(text);
            whole.get("memories").unwrap_or(&whole).as_array().unwrap().clone()
        };
        let (kept, came) = (records(&cut.json), records(&payload));
        assert_eq!((kept.len(), cut.returned), (1, 1));
        assert_eq!(kept[0]["id"], came[0]["id"]);
        let fields =
            |record: &Value| record.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(fields(&kept[0]), fields(&came[0]));
        let content = kept[0]["content"].as_str().unwrap();
        assert!(content.starts_with("long long ") && content.len() < long.len());
        assert!(!cut.json.contains(&cut.warning.to_string()));
    }
}

#[test]
fn f05_what_is_passed_on_comes_with_a_warning_of_its_own() {
    let fixture = full();
    for payload in payloads() {
        // The outcome has no data: the caller sends its own bytes.
        let Delivered::PassedOn(warning) = deliver(&fixture, "list_things", &payload) else {
            panic!("{}: not passed on", payload.name)
        };
        let warning = warning.to_string();
        assert!(warning.starts_with("The result could not be stored"), "{warning}");
        assert!(!payload.text.contains(&warning), "{}", payload.name);
    }
}
