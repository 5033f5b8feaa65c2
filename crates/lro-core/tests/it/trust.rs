//! Nothing from a result reaches a trusted field.

use lro_core::{Detail, Extraction, FullDescriptor};
use serde_json::{Value, json};

use crate::memories::{DETAILS, Offloaded, json, payload};

const PATH: &str = "/tmp/atlatl-recall-01KA35ZK000J6HB7H9NF6YV4D3.jsonl";

/// A memory with `hostile` in one field.
fn memory(field: &str, hostile: &str) -> Value {
    let mut memory = json!({
        "id": "0190a000-0000-7000-8000-000000000001", "memory_type": "semantic", "title": "t",
        "namespace": "_semantic", "tags": ["a"], "created": "2026-01-01T00:00:00Z",
        "modified": "2026-01-01T00:00:00Z", "status": "active", "content": "c", "summary": "s",
        "confidence": 0.5, "provenance": {"agent": "x", "confidence": 0.5},
        "entities": [{"name": "n"}], "extensions": {"p": {}},
    });
    match field {
        "tags" => memory["tags"] = json!([hostile]),
        "provenance.agent" => memory["provenance"]["agent"] = json!(hostile),
        "entities.name" => memory["entities"][0]["name"] = json!(hostile),
        "extensions.key" => memory["extensions"] = json!({hostile: 1}),
        "key" => memory[hostile] = json!(1),
        "key of a nested object" => memory["provenance"][hostile] = json!("x"),
        field => memory[field] = json!(hostile),
    }
    memory
}

const SOURCES: [&str; 14] = [
    "id",
    "memory_type",
    "title",
    "namespace",
    "tags",
    "created",
    "status",
    "content",
    "summary",
    "provenance.agent",
    "entities.name",
    "extensions.key",
    "key",
    "key of a nested object",
];

/// The trusted part of a descriptor: everything but the data fields.
fn trusted(descriptor: &Value) -> String {
    let mut trusted = descriptor.clone();
    trusted["line_schema"].take();
    trusted["fields"].take();
    trusted["summary"]["top_namespaces"].take();
    trusted["lro"]["preview"].take();
    trusted.to_string()
}

fn hidden(text: &str) -> bool {
    !lro_core::is_visible(text)
}

#[test]
fn nothing_hostile_reaches_a_trusted_field() {
    let payloads = testkit::hostile::payload_strings();
    assert!(payloads.len() >= 200);
    for source in SOURCES {
        for (i, hostile) in payloads.iter().enumerate() {
            let marker = format!("HOSTILE-{i:03}");
            assert!(hostile.contains(&marker), "{hostile}");
            let line = memory(source, hostile).to_string();
            let text = payload(&[line.clone(), line]);
            let offloaded = Offloaded::of(&text, hostile);
            let detail = DETAILS[i % 3];
            let extraction = if i % 2 == 0 { Extraction::Shell } else { Extraction::Native };
            let full = offloaded.full(PATH, detail, extraction, 300);
            check(&json(&full), &marker, source);
            commands_are_ours(&full);
            let compact = offloaded.compact(PATH, hostile, extraction, 300);
            let mut compact = json(&compact);
            // A summary repeats only the tool's name, reduced to a slug.
            let operation = compact["summary"]["operation"].take();
            assert!(
                operation
                    .as_str()
                    .unwrap()
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c))
            );
            check(&compact, &marker, source);
        }
    }
}

fn check(descriptor: &Value, marker: &str, source: &str) {
    let trusted = trusted(descriptor);
    assert!(!trusted.contains(marker), "{source}: {trusted}");
    assert!(!hidden(&descriptor.to_string()), "{source}: {descriptor}");
}

/// Checks that each command consists of known programs only.
fn commands_are_ours(descriptor: &FullDescriptor) {
    static KNOWN: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| {
        DETAILS
            .iter()
            .flat_map(|detail| harmless(*detail, false).into_iter().chain(harmless(*detail, true)))
            .collect()
    });
    for recipe in &descriptor.response.jq_recipes {
        assert!(KNOWN.contains(&recipe.command), "{}", recipe.command);
    }
}

fn harmless(detail: Detail, sparse: bool) -> Vec<String> {
    let memories = if sparse {
        testkit::corpus::sparse_memories(64, 1)
    } else {
        testkit::corpus::memories(8, 1)
    };
    let offloaded = Offloaded::memories(&memories, detail);
    let descriptor = offloaded.full(PATH, detail, Extraction::Shell, 0);
    descriptor.response.jq_recipes.into_iter().map(|recipe| recipe.command).collect()
}

#[test]
fn text_results_keep_their_words_to_the_preview() {
    for (i, hostile) in testkit::hostile::payload_strings().iter().enumerate() {
        let offloaded = Offloaded::of(&hostile.repeat(3), "read_page");
        let descriptor = json(&offloaded.compact(PATH, "read_page", Extraction::Native, 300));
        check(&descriptor, &format!("HOSTILE-{i:03}"), "text");
    }
}
