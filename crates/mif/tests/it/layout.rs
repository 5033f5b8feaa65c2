//! The layout of each format, and the exact rules of the Markdown body.

use mif::{Memory, MemoryId, MemoryType, Relationship, RelationshipType, Value};
use serde_json::json;

use crate::round_trip::simple;

#[test]
fn markdown_is_readable() {
    let mut memory = simple("# Dark mode\n\nEverywhere.");
    memory.title = Some("Dark mode: everywhere".to_owned());
    memory.namespace = Some("_semantic/preferences".parse().unwrap());
    memory.tags = Some(vec!["ui".to_owned(), "yes".to_owned(), "2026".to_owned()]);
    memory.relationships =
        Some(vec![Relationship::new(RelationshipType::PartOf, "urn:mif:profile".into())]);
    memory.other.insert("mood".to_owned(), json!({"calm": {"a": {"b": [1, null, "x y"]}}}).into());
    memory.other.insert("none".to_owned(), json!({}).into());
    let expected = r#"---
id: "018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b"
memory_type: semantic
title: "Dark mode: everywhere"
namespace: _semantic/preferences
tags:
  - ui
  - "yes"
  - "2026"
created: "2026-01-15T10:30:00Z"
relationships:
  - type: part-of
    target: "urn:mif:profile"
mood:
  calm:
    a:
      b: [1, null, x y]
none: {}
---

# Dark mode

Everywhere.
"#;
    assert_eq!(memory.to_markdown(), expected);
    assert_eq!(Memory::from_markdown(expected).unwrap(), memory);
}

#[test]
fn json_ld_follows_the_version_it_came_from() {
    let old = simple("x");
    assert_eq!(
        old.to_json_ld_value(),
        Value::from(json!({
            "@context": "https://mif-spec.dev/schema/context.jsonld",
            "@type": "Memory",
            "@id": "urn:mif:018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b",
            "memoryType": "semantic",
            "created": "2026-01-15T10:30:00Z",
            "content": "x",
        }))
    );
    let mut new = old;
    new.other.insert("@type".to_owned(), json!(["Concept", "prov:Entity"]).into());
    let document = new.to_json_ld_value();
    assert_eq!(document.get("conceptType"), Some(&"semantic".into()));
    assert!(document.get("memoryType").is_none());
    assert_eq!(Memory::from_json_ld(&document.to_string()).unwrap(), new);
}

#[test]
fn body_rules() {
    let front =
        "id: 018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b\ntype: semantic\ncreated: 2026-01-15T10:30:00Z\n";
    for (body, content) in [
        ("\nabc\n", "abc"),
        ("abc\n", "abc"),
        ("abc", "abc"),
        ("\nabc", "abc"),
        ("\n\nabc\n\n", "\nabc\n"),
        ("\n---\nabc\n---\n", "---\nabc\n---"),
        ("\nabc\r\n", "abc\r"),
        ("\r\nabc\n", "\r\nabc"),
    ] {
        let text = format!("---\n{front}---\n{body}");
        assert_eq!(Memory::from_markdown(&text).unwrap().content, content, "{body:?}");
    }
    let windows = format!("---\n{front}---\n\nabc\n\ndef\n").replace('\n', "\r\n");
    let memory = Memory::from_markdown(&windows).unwrap();
    assert_eq!(memory.content, "abc\r\n\r\ndef");
    assert_eq!(memory.created.as_str(), "2026-01-15T10:30:00Z");
}

#[test]
fn unquoted_scalars_are_text_where_text_is_wanted() {
    let text = "---\nid: 018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b\nmemory_type: semantic\n\
                created: 2026-01-15T10:30:00Z\ntitle: 007\ntags: [2024, true, no, 1.50]\n\
                count: 007\n---\nx";
    let memory = Memory::from_markdown(text).unwrap();
    assert_eq!(memory.title.as_deref(), Some("007"));
    assert_eq!(memory.tags(), ["2024", "true", "no", "1.50"]);
    assert_eq!(memory.other["count"], 7_u64.into());
}

#[test]
fn a_type_beside_the_memory_type_is_just_another_key() {
    let mut memory = simple("x");
    memory.other.insert("type".to_owned(), json!("how-to").into());
    assert_eq!(Memory::from_markdown(&memory.to_markdown()).unwrap(), memory);
}

#[test]
fn a_note_gets_what_it_does_not_say() {
    let id = "018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b".parse().unwrap();
    let created = "2026-01-15T10:30:00Z".parse().unwrap();
    let read = |text: &str| Memory::from_note(text, &id, MemoryType::Semantic, &created);
    for (text, content) in [
        ("plain\n", "plain"),
        ("plain\r\n", "plain"),
        ("\u{feff}# A\n\n", "# A\n"),
        ("---\nrule\n", "---\nrule"),
        ("", ""),
    ] {
        match read(text) {
            Ok(memory) => assert_eq!(memory, simple(content)),
            Err(error) => assert!(content.is_empty(), "{text:?}: {error}"),
        }
    }
    let mut tagged = simple("text");
    tagged.tags = Some(vec!["a".to_owned()]);
    tagged.memory_type = MemoryType::Episodic;
    assert_eq!(read("---\ntags: [a]\ntype: episodic\n---\n\ntext\n").unwrap(), tagged);
    let other = MemoryId::from_u128(7);
    let whole = Memory::new(
        other,
        MemoryType::Procedural,
        "x",
        "1999-01-01T00:00:00+02:00".parse().unwrap(),
    );
    let whole = whole.unwrap();
    assert_eq!(read(&whole.to_markdown()).unwrap(), whole);
    assert!(read("---\ntags: a\n---\ntext").unwrap_err().to_string().contains("`tags`"));
}
