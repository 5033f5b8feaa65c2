//! Sample documents of both versions: imported, exported in every format, and compared.

use mif::{Memory, Value};

type Read = fn(&str) -> Result<Memory, mif::MifError>;

macro_rules! samples {
    ($read:path: $($file:literal),+) => {
        [$(($file, include_str!(concat!("../samples/", $file)), $read as Read)),+]
    };
}

fn check(name: &str, memory: &Memory) {
    let json = memory.to_json();
    for (form, read) in [
        ("JSON", Memory::from_json(&json)),
        ("JSON-LD", Memory::from_json_ld(&memory.to_json_ld())),
        ("Markdown", Memory::from_markdown(&memory.to_markdown())),
    ] {
        let read = read.unwrap_or_else(|error| panic!("{name} through {form}: {error}"));
        assert_eq!(read.to_json(), json, "{name} through {form}");
    }
}

#[test]
fn json_documents_come_back_as_they_were() {
    for (name, text, read) in samples!(Memory::from_json:
        "v0.1/minimal.json", "v0.1/full.json", "v1.x/full.json")
    {
        let memory = read(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let original: Value = text.parse().unwrap();
        assert_eq!(memory.to_json().parse::<Value>().unwrap(), original, "{name}");
        check(name, &memory);
    }
}

#[test]
fn json_ld_documents_come_back_as_they_were() {
    for (name, text, read) in samples!(Memory::from_json_ld:
        "v0.1/minimal.jsonld", "v0.1/full.jsonld", "v1.x/minimal.jsonld", "v1.x/full.jsonld")
    {
        let memory = read(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let original: Value = text.parse().unwrap();
        assert_eq!(memory.to_json_ld_value(), original, "{name}");
        check(name, &memory);
    }
}

#[test]
fn markdown_documents_survive_every_form() {
    for (name, text, read) in samples!(Memory::from_markdown:
        "v0.1/minimal.memory.md", "v0.1/full.memory.md", "v1.x/concept.memory.md",
        "v1.x/canonical.memory.md")
    {
        let memory = read(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        check(name, &memory);
        if name.contains("canonical") {
            assert_eq!(memory.to_markdown(), text, "{name}");
        }
    }
}

#[test]
fn the_same_memory_in_three_forms_is_one_memory() {
    let json = Memory::from_json(include_str!("../samples/v0.1/minimal.json")).unwrap();
    let json_ld = Memory::from_json_ld(include_str!("../samples/v0.1/minimal.jsonld")).unwrap();
    let markdown =
        Memory::from_markdown(include_str!("../samples/v0.1/minimal.memory.md")).unwrap();
    assert_eq!(json, json_ld);
    assert_eq!(json, markdown);
}

#[test]
fn front_matter_of_the_wild_is_understood() {
    let memory = Memory::from_markdown(include_str!("../samples/v1.x/concept.memory.md")).unwrap();
    let provenance = memory.provenance.unwrap();
    assert_eq!(provenance.agent_version.as_deref(), Some("20240229"));
    assert_eq!(provenance.source_type, Some(mif::SourceType::AgentInferred));
    assert_eq!(provenance.other["@type"], "Provenance".into());
    let temporal = memory.temporal.unwrap();
    assert_eq!(temporal.valid_from.unwrap().as_str(), "2026-07-01T00:00:00Z");
    assert!(temporal.valid_until.is_none() && temporal.other["valid_until"].is_null());
    assert_eq!(memory.other["ontology"].get("version"), Some(&"1.0.0".into()));
}
