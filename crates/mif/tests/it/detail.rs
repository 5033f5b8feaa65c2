//! The detail levels.

use mif::{DetailLevel, Memory, Value};

use crate::round_trip::simple;

fn whole() -> Memory {
    Memory::from_json(include_str!("../samples/v0.1/full.json")).unwrap()
}

fn keys(memory: &Memory, detail: DetailLevel) -> Vec<String> {
    memory.at(detail).keys().cloned().collect()
}

#[test]
fn each_level_has_its_fields() {
    let memory = whole();
    let light =
        ["id", "memory_type", "title", "namespace", "tags", "created", "modified", "status"];
    assert_eq!(keys(&memory, DetailLevel::Light), light);
    let medium: Vec<_> = light.into_iter().chain(["content", "summary", "confidence"]).collect();
    assert_eq!(keys(&memory, DetailLevel::Medium), medium);
    let full = keys(&memory, DetailLevel::Full);
    assert!(full.contains(&"provenance".to_owned()) && !full.contains(&"confidence".to_owned()));
    let confidence = "0.98".parse::<Value>().unwrap();
    assert_eq!(memory.at(DetailLevel::Medium)["confidence"], confidence);
    assert_eq!(memory.at(DetailLevel::Full)["provenance"].get("confidence"), Some(&confidence));
}

#[test]
fn nothing_is_made_up() {
    let memory = simple("x");
    assert_eq!(keys(&memory, DetailLevel::Light), ["id", "memory_type", "created"]);
    assert_eq!(keys(&memory, DetailLevel::Medium), ["id", "memory_type", "created", "content"]);
}

#[test]
fn a_line_is_one_line_of_json() {
    let memory = simple("a\nb\u{2028}\r\0\"");
    for detail in DetailLevel::ALL {
        let line = memory.to_line(detail);
        assert!(!line.contains(['\n', '\r']));
        assert_eq!(line.parse::<Value>().unwrap(), Value::Object(memory.at(detail)));
        assert_eq!(detail.as_str().parse::<DetailLevel>().unwrap(), detail);
    }
}
