//! What is outside the records: it is shown or named, and found.

use lro_core::tool_result::ToolResult;
use serde_json::{Value, json};

use crate::fixture::Fixture;

fn rows(count: usize) -> Vec<Value> {
    (0..count).map(|n| json!({"id": n, "name": format!("row {n}")})).collect()
}

fn page() -> Value {
    json!({
        "items": rows(1500),
        "next_page_token": "TOK-abc",
        "has_more": true,
        "warnings": ["partial: shard 3 down"],
    })
}

#[test]
fn g10_a_search_finds_what_is_around_the_records() {
    let fixture = Fixture::new();
    let reference = fixture.store("list_rows", &page().to_string());
    let search = |pattern: &str| {
        fixture.call("search_large_output", &json!({"ref": reference, "pattern": pattern})).text
    };
    assert_eq!(
        search("TOK-abc"),
        "1 of 1 matching lines.\n\
         Note: 1 match is outside the records: \"in\" or \"part\" says where\n\
         {\"in\":\"around\",\"text\":\"next_page_token: TOK-abc\"}\n"
    );
    assert!(search("shard 3").contains("warnings[0]: partial: shard 3 down"));
    assert_eq!(
        search("no such thing"),
        "0 of 0 matching lines.\nNote: no match in 1500 records, the members around them\n"
    );
    // Matches outside are not lost behind many others.
    let both = search("row|shard");
    assert!(both.starts_with("20 of 1501 matching lines. More: offset=20."), "{both}");
    assert!(both.lines().nth(2).unwrap().contains("warnings[0]"), "{both}");
}

#[test]
fn g10_the_descriptor_shows_what_is_around_the_records() {
    let fixture = Fixture::new();
    let descriptor = fixture.descriptor("list_rows", &page().to_string());
    assert_eq!(
        descriptor["lro"]["around"],
        json!({"warnings": ["partial: shard 3 down"], "next_page_token": "TOK-abc", "has_more": true})
    );
}

/// With more than a megabyte around the records, the payload is stored unchanged.
#[test]
fn g10_a_large_envelope_is_named_and_searched() {
    let fixture = Fixture::new();
    let mut page = page();
    page["html"] = "<p>filler</p> ".repeat(80_000).into();
    page["items"] = rows(40_000).into();
    page["last"] = "needle at the end".into();
    let payload = page.to_string();
    let descriptor = fixture.descriptor("list_rows", &payload);
    let around = &descriptor["lro"]["around"];
    assert_eq!(around["html"], "(value, 1120002 bytes)", "{descriptor}");
    assert_eq!(around["next_page_token"], "TOK-abc");
    let reference = descriptor["lro"]["ref"].as_str().unwrap();
    for (pattern, count) in [("needle at", 1), ("TOK-abc", 1), ("row 39999", 1)] {
        let arguments = json!({"ref": reference, "pattern": pattern});
        let (first, lines) = fixture.ask("search_large_output", &arguments);
        assert_eq!(first, format!("{count} of {count} matching lines."), "{pattern}");
        assert_eq!(lines[0].contains(r#""in":"around""#), pattern != "row 39999", "{lines:?}");
    }
}

#[test]
fn g11_the_main_part_is_the_structured_one() {
    let fixture = Fixture::new();
    let records = Value::from(rows(1500)).to_string();
    let long = "A remark of some length. ".repeat(400);
    let texts = ["Found 1500 results", &records, &long];
    let json = texts.map(|text| json!({"type": "text", "text": text}));
    let result = json!({"content": json}).to_string();
    let read = ToolResult::read(&result).unwrap();
    let descriptor = fixture.descriptor_of(&read);
    assert_eq!(descriptor["summary"]["count"], 1500);
    assert_eq!(
        descriptor["lro"]["notes"],
        json!([
            {"part": 1, "text": "Found 1500 results"},
            {"part": 2, "kind": "text", "bytes": long.len()},
        ])
    );
    let reference = descriptor["lro"]["ref"].as_str().unwrap();
    let arguments = json!({"ref": reference, "pattern": "Found \\d+"});
    let (first, lines) = fixture.ask("search_large_output", &arguments);
    assert_eq!(first, "1 of 1 matching lines.");
    assert_eq!(lines, [r#"{"line":0,"column":0,"text":"Found 1500 results","part":1}"#]);
}

#[test]
fn g12_a_thousand_blocks_are_stored_together() {
    let fixture = Fixture::new();
    let texts: Vec<String> = (0..3000).map(|n| format!("block {n}: some words")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let reference = fixture.store_texts("read_many", &texts);
    let arguments = json!({"ref": reference, "part": 2999});
    let (_, lines) = fixture.ask("read_large_output", &arguments);
    assert_eq!(lines, ["block 2999: some words"]);
    let (first, _) =
        fixture.ask("search_large_output", &json!({"ref": reference, "pattern": "block \\d+99:"}));
    assert_eq!(first, "20 of 29 matching lines. More: offset=20.");
}
