//! Hostile text in every position of a result: it stays in the data fields of descriptors, and is
//! JSON-encoded in notes and hints.

use std::collections::BTreeSet;
use std::sync::Arc;

use lro_core::{Extraction, is_visible};
use lro_spool::MemorySpool;
use serde_json::{Map, Value, json};
use testkit::hostile::payload_strings;

use crate::any_result::Body;
use crate::descriptor_sizes::descriptor;
use crate::fixture::Fixture;

/// The members of a descriptor that contain data from the result.
const DATA: [(&str, &str); 7] = [
    ("lro", "around"),
    ("lro", "notes"),
    ("lro", "tables"),
    ("lro", "preview"),
    ("summary", "top_namespaces"),
    ("", "fields"),
    ("", "line_schema"),
];

fn marker(number: usize) -> String {
    format!("HOSTILE-{number:03}")
}

fn rows(count: usize) -> Vec<Value> {
    (0..count).map(|n| json!({"id": n, "name": format!("row {n}")})).collect()
}

fn blocks(texts: &[&str]) -> Body {
    let blocks = texts.iter().map(|text| json!({"type": "text", "text": text}));
    Body::Result(json!({"content": blocks.collect::<Vec<_>>()}).to_string())
}

/// Results with `hostile` in one position each.
fn results(hostile: &str) -> Vec<(&'static str, Body)> {
    let json = |value: Value| Body::Payload(value.to_string());
    let named = |name: &str, value: Value| Value::from(Map::from_iter([(name.to_owned(), value)]));
    let with = |mut value: Value, name: &str, member: Value| {
        value[name] = member;
        value
    };
    let keyed: Map<String, Value> =
        (0..20).map(|n| (format!("{hostile}{n}"), json!({"n": n}))).collect();
    let rows_json = Value::from(rows(40)).to_string();
    let csv_cell = format!("\"{}\"", hostile.replace('"', "\"\""));
    let first_line = hostile.lines().next().unwrap_or_default().replace('`', "'");
    vec![
        ("value", json(json!([{"id": 1, "text": hostile}, {"id": 2, "text": "x"}]))),
        ("enumerated value", json((0..30).map(|n| json!({"id": n, "kind": hostile})).collect())),
        (
            "field name",
            json((0..30).map(|n| with(json!({"id": n}), hostile, json!("x"))).collect()),
        ),
        (
            "nested field name",
            json((0..30).map(|n| json!({"id": n, "in": named(hostile, json!(n))})).collect()),
        ),
        ("element", json((0..30).map(|n| json!({"id": n, "tags": [hostile, "b"]})).collect())),
        ("value around the records", json(json!({"items": rows(40), "errors": [hostile]}))),
        ("name around the records", json(with(json!({"items": rows(40)}), hostile, json!(1)))),
        ("name on the way to the records", json(named(hostile, json!({"rows": rows(40), "n": 1})))),
        ("table name", json(with(json!({"items": rows(40), "n": 1}), hostile, rows(12).into()))),
        (
            "field of another table",
            json(json!({
                "items": rows(40),
                "others": (0..12).map(|n| named(hostile, json!(n))).collect::<Vec<_>>(),
            })),
        ),
        ("key of a map", json(json!({"users": keyed}))),
        ("name in a document", json(json!({"a": named(hostile, json!("b")), "c": hostile}))),
        ("note", blocks(&[&rows_json, hostile])),
        ("text before JSON", blocks(&[&format!("{hostile}\n{rows_json}")])),
        ("text after a code fence", blocks(&[&format!("```json\n{rows_json}\n```\n{hostile}")])),
        ("language of a code fence", blocks(&[&format!("```{first_line}\n{rows_json}\n```\n")])),
        ("column name", Body::Payload(format!("id,{csv_cell}\n{}", "1,x\n".repeat(20)))),
        ("cell", Body::Payload(format!("id,name\n{}", format!("1,{csv_cell}\n").repeat(20)))),
        ("line of NDJSON", Body::Payload(format!("{}\n", json!({hostile: hostile})).repeat(12))),
        ("text", Body::Payload(hostile.repeat(3))),
    ]
}

/// A descriptor without the members that contain data.
fn trusted(descriptor: &Value) -> Value {
    let mut trusted = descriptor.clone();
    for (parent, name) in DATA {
        let object = if parent.is_empty() { &mut trusted } else { &mut trusted[parent] };
        object.as_object_mut().unwrap().shift_remove(name);
    }
    trusted
}

/// Guidance without its numbers and references, which are ours.
fn template(guidance: &str) -> String {
    let words = guidance.split(' ').map(|word| match word.split_once("lro:01") {
        Some((before, after)) if after.len() >= 24 => format!("{before}lro:{}", &after[24..]),
        _ => word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect(),
    });
    let mut words: Vec<String> = words.collect();
    words.dedup();
    words.join(" ").replace("00", "0").replace("00", "0").replace("00", "0")
}

#[test]
fn g15_nothing_hostile_leaves_the_data_fields_of_a_descriptor() {
    let strings = payload_strings();
    assert!(strings.len() >= 239, "{}", strings.len());
    let mut templates = BTreeSet::new();
    for (number, hostile) in strings.iter().enumerate() {
        for (position, body) in results(hostile) {
            let extraction = if number % 2 == 0 { Extraction::Native } else { Extraction::Shell };
            let text = descriptor(Arc::new(MemorySpool::default()), "a_tool", &body, extraction);
            let context = || format!("{position}: {hostile:.200}: {text}");
            let value: Value =
                serde_json::from_str(&text).unwrap_or_else(|_| panic!("{}", context()));
            let trusted = trusted(&value);
            assert!(!trusted.to_string().contains(&marker(number)), "{}", context());
            assert!(is_visible(&text), "{}", context());
            templates.insert(template(value["guidance"].as_str().unwrap()));
        }
    }
    // Records, documents, texts, base64 and binary data, for tools and for a shell.
    assert!(templates.len() <= 10, "{templates:#?}");
}

/// The name of a tool is reduced to a word, wherever it appears.
#[test]
fn g15_a_hostile_tool_name_is_reduced_to_a_word() {
    let body = Body::Payload(Value::from(rows(40)).to_string());
    for hostile in payload_strings() {
        let spool = Arc::new(MemorySpool::default());
        let text = descriptor(spool, &hostile, &body, Extraction::Native);
        let mut value: Value = serde_json::from_str(&text).unwrap();
        let operation = value["summary"]["operation"].take();
        let operation = operation.as_str().unwrap();
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
        assert!(operation.len() <= 64 && operation.chars().all(is_word), "{operation}");
        assert!(!value.to_string().contains("HOSTILE-"), "{value}");
    }
}

/// The text without its JSON strings: what is left is ours.
fn without_strings(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = rest.find('"') {
        out.push_str(&rest[..start]);
        let mut strings = serde_json::Deserializer::from_str(&rest[start..]).into_iter::<String>();
        if let Some(Ok(_)) = strings.next() {
            rest = &rest[start + strings.byte_offset()..];
        } else {
            out.push('"');
            rest = &rest[start + 1..];
        }
    }
    out + rest
}

/// Notes and hints of `text`, which are ours except for JSON strings.
fn prose(text: &str) -> String {
    let ours = text.lines().filter(|line| line.starts_with("Note: ") || line.starts_with("Hint: "));
    ours.map(without_strings).collect::<Vec<_>>().join("\n")
}

/// Queries that fail, with names that are similar to hostile ones.
#[test]
fn g18_hostile_names_are_json_strings_in_hints_and_notes() {
    let fixture = Fixture::new();
    for (number, hostile) in payload_strings().iter().enumerate() {
        let record = |n: u32| {
            let mut record = json!({"id": n, "in": {"deep": n}});
            record[hostile] = hostile.as_str().into();
            record["in"][hostile] = n.into();
            record
        };
        let payload = json!({
            "items": (0..20).map(record).collect::<Vec<_>>(),
            hostile: (0..12).map(|n| json!({"n": n})).collect::<Vec<_>>(),
        });
        let reference = fixture.store("list", &payload.to_string());
        let marker = marker(number);
        // Names near to the hostile one: the marker is most of it.
        let near: String = hostile.chars().take(60).collect();
        let quoted = format!("\"{}x\"", near.replace('"', "\"\""));
        let calls = [
            json!({"sql": format!("SELECT {quoted} FROM results")}),
            json!({"sql": format!("SELECT id FROM {quoted}")}),
            json!({"sql": format!("SELECT {} FROM results", marker.replace('-', "_"))}),
            json!({"query": format!(".[{}]", json!(format!("{near}x")))}),
            json!({"query": format!(".{}", marker.replace('-', "_"))}),
            json!({"query": ".id | tonumber | explode"}),
            json!({"query": format!(".[{}] | tonumber", json!(hostile))}),
        ];
        for mut arguments in calls {
            arguments["ref"] = reference.as_str().into();
            let called = fixture.call("lro_extract", &arguments);
            let prose = prose(&called.text);
            assert!(!prose.contains("HOSTILE"), "{arguments:.300}: {}", called.text);
            assert!(is_visible(&prose), "{arguments:.300}: {}", called.text);
        }
    }
    let definitions = Value::from(fixture.tools.definitions()).to_string();
    assert!(!definitions.contains("HOSTILE"), "{definitions}");
}
