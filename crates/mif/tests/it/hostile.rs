//! Hostile documents result in an error, and quickly.

use std::time::{Duration, Instant};

use mif::Memory;

fn front(yaml: &str) -> String {
    format!("---\n{yaml}\n---\n\nx\n")
}

#[test]
fn front_matter_bombs_are_refused_quickly() {
    let laughs = (1..30).fold("a0: &a0 [x]\n".to_owned(), |yaml, i| {
        let alias = format!("*a{}", i - 1);
        format!("{yaml}a{i}: &a{i} [{}]\n", vec![alias; 9].join(", "))
    });
    let documents = [
        laughs,
        "[".repeat(1_000_000),
        "{a: ".repeat(100_000),
        "- ".repeat(100_000),
        "? ".repeat(100_000),
        "a: ".repeat(100_000),
        format!("a: {}", "[".repeat(300) + &"]".repeat(300)),
        (0..2_000).map(|i| " ".repeat(i) + "a:\n").collect(),
        "&a a: *a".to_owned(),
        "a: !!binary AAAA".to_owned(),
        "a: !<tag:x> 1".to_owned(),
        "--- x\n--- y".to_owned(),
        "a: \"unclosed".to_owned(),
        "a: |\n  x\n b: 1".to_owned(),
        "\t- a".to_owned(),
        "a: 'x\u{0}y".to_owned(),
        "\"".repeat(200_000),
        "'".repeat(200_001),
        "%TAG ! x\n".repeat(10_000),
        "#".repeat(1_000_000),
        "a: 0x".to_owned() + &"F".repeat(100_000),
    ];
    for yaml in documents {
        let start = Instant::now();
        let result = Memory::from_markdown(&front(&yaml));
        let head: String = yaml.chars().take(40).collect();
        assert!(result.is_err(), "accepted: {head}");
        assert!(start.elapsed() < Duration::from_secs(5), "slow: {head}");
    }
}

#[test]
fn json_bombs_are_refused_quickly() {
    for text in [
        "[".repeat(5_000_000),
        "{\"a\":".repeat(1_000_000),
        "\"\\".repeat(1_000_000),
        format!("{{\"id\": {}}}", "9".repeat(1_000_000)),
        format!("{{\"provenance\": {{\"confidence\": 0.{}}}}}", "1".repeat(1_000_000)),
    ] {
        let start = Instant::now();
        assert!(Memory::from_json(&text).is_err());
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn a_large_honest_document_is_read_quickly() {
    let mut memory = crate::round_trip::simple(&"x\n".repeat(400_000));
    for i in 0..20_000 {
        memory
            .other
            .insert(format!("key_{i}"), serde_json::json!({"a": [i, "b: c"], "d": null}).into());
    }
    let start = Instant::now();
    assert_eq!(Memory::from_markdown(&memory.to_markdown()).unwrap(), memory);
    assert_eq!(Memory::from_json_ld(&memory.to_json_ld()).unwrap(), memory);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn messages_quote_foreign_text_escaped_and_cut() {
    let status = format!("\u{1b}[31m{}\n", "y".repeat(10_000));
    let text = serde_json::json!({"id": status}).to_string();
    let message = Memory::from_json(&text).unwrap_err().to_string();
    assert!(message.len() < 300 && !message.contains(['\u{1b}', '\n']), "{message}");
}
