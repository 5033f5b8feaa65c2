//! The text and length of replies, and the text of errors.

use chrono::TimeDelta;
use lro_core::{O200k, Tokenizer as _};
use serde_json::json;

use crate::fixture::{Fixture, now};

#[test]
fn f03_every_partial_answer_says_how_many_of_how_many() {
    let fixture = Fixture::new();
    let reference = fixture.memories(500);
    for (arguments, all) in [
        (json!({"recipe": 8}), "500 answers"),
        (json!({"query": "."}), "500 values"),
        (json!({"sql": "SELECT * FROM results"}), "500 rows"),
    ] {
        let mut arguments = arguments;
        arguments["ref"] = reference.clone().into();
        let (first, lines) = fixture.ask("lro_extract", &arguments);
        let given = lines.len();
        assert_eq!(first, format!("{given} of {all}. More: offset={given}."), "{arguments}");
        assert!((2..100).contains(&given), "{given}");
        arguments["limit"] = 2.into();
        arguments["offset"] = 499.into();
        let (first, lines) = fixture.ask("lro_extract", &arguments);
        assert_eq!((&*first, lines.len()), (&*format!("1 of {all}."), 1));
    }
}

#[test]
fn f31_replies_are_cut_and_never_offloaded() {
    let fixture = Fixture::new();
    let memories = fixture.memories(500);
    let huge = format!(r#"[{{"id":1,"text":"{}"}},{{"id":2}}]"#, "many words here ".repeat(60_000));
    let huge = fixture.store("get_rows", &huge);
    let chinese = fixture.store("read_log", &"\u{8a18}\u{61b6}\u{9ad4}\n".repeat(30_000));
    let before = fixture.spool.list().unwrap().len();
    for (tool, arguments) in [
        ("lro_extract", json!({"ref": memories, "recipe": 8})),
        ("lro_extract", json!({"ref": memories, "query": "."})),
        ("lro_extract", json!({"ref": memories, "query": ".", "whole": true})),
        ("lro_extract", json!({"ref": memories, "sql": "SELECT * FROM results"})),
        ("lro_extract", json!({"ref": huge, "query": "."})),
        ("lro_extract", json!({"ref": huge, "sql": "SELECT * FROM results"})),
        ("query_large_output", json!({"ref": huge, "query": ".text"})),
        ("query_large_output", json!({"ref": huge, "query": ".text", "raw": true})),
        ("search_large_output", json!({"ref": chinese, "pattern": ".", "max_results": 500})),
        ("search_large_output", json!({"ref": huge, "pattern": "words", "context": 20})),
        ("read_large_output", json!({"ref": chinese, "start": 0, "end": 90_000})),
        ("read_large_output", json!({"ref": huge, "start": 0, "end": 900_000})),
        ("read_large_output", json!({"ref": huge, "unit": "records"})),
    ] {
        let called = fixture.call(tool, &arguments);
        assert!(!called.is_error, "{arguments}: {}", called.text);
        let tokens = O200k.count_till(&called.text, u64::MAX).unwrap().unwrap().0;
        assert!(tokens <= 1600, "{tool} {arguments}: {tokens}");
        assert!(tokens > 50, "{tool} {arguments}: {}", called.text);
    }
    assert_eq!(fixture.spool.list().unwrap().len(), before);
}

#[test]
fn f24_an_expired_reference_gets_a_final_answer_that_names_the_call() {
    let fixture = Fixture::new();
    let reference = fixture.memories(30);
    let late = now() + TimeDelta::hours(2);
    let ask = || fixture.call_at("lro_extract", &json!({"ref": reference, "recipe": 1}), late);
    let called = ask();
    assert!(called.is_error);
    assert!(
        called.text.contains("Error (expired): the result of `recall` expired at"),
        "{called:?}"
    );
    assert!(called.text.contains("Retrying does not help"), "{called:?}");
    fixture.spool.sweep(late).unwrap();
    assert_eq!(ask(), called, "the same when it is swept");
    let unknown = "lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D";
    let called = fixture.call("lro_extract", &json!({"ref": unknown, "recipe": 1}));
    assert!(called.text.starts_with("Error (not_found): "), "{called:?}");
    assert!(called.text.contains("It was created at 2025-"), "{called:?}");
}

#[test]
fn errors_have_a_class_and_a_hint() {
    let fixture = Fixture::new();
    let memories = fixture.memories(30);
    let text = fixture.store("read_log", &"plain words\n".repeat(100));
    let binary = fixture.store("read_file", &"\0\u{1}".repeat(100));
    for (tool, arguments, class, hint) in [
        (
            "lro_extract",
            json!({"ref": memories, "sql": "SELECT titel FROM results"}),
            "syntax",
            "\"title\"",
        ),
        ("lro_extract", json!({"ref": memories, "sql": "DELETE FROM results"}), "syntax", ""),
        ("lro_extract", json!({"ref": memories, "query": "select("}), "syntax", ""),
        ("lro_extract", json!({"ref": memories, "query": "def f: f; f"}), "", ""),
        ("lro_extract", json!({"ref": text, "recipe": 1}), "syntax", "query or sql"),
        ("lro_extract", json!({"ref": binary, "query": "."}), "syntax", "search_large_output"),
        ("search_large_output", json!({"ref": text, "pattern": "(?!x)"}), "syntax", "NOT REGEXP"),
        ("search_large_output", json!({"ref": text, "pattern": "a{9999}{99}"}), "syntax", "counts"),
        ("read_large_output", json!({"ref": text, "start": 5, "end": 2}), "arguments", ""),
    ] {
        let called = fixture.call(tool, &arguments);
        assert!(called.is_error, "{arguments}: {called:?}");
        assert!(called.text.starts_with("Error ("), "{called:?}");
        let (error, advice) = called.text.split_once("\nHint: ").unwrap();
        assert!(error.contains(class) && advice.contains(hint), "{arguments}: {called:?}");
        assert!(!advice.is_empty(), "{called:?}");
    }
}

/// jq returns null for a misspelt field; the reply warns about it.
#[test]
fn a_misspelt_field_is_reported_with_the_nearest() {
    let fixture = Fixture::new();
    let reference = fixture.memories(30);
    let ask = |query: &str| {
        fixture.call("lro_extract", &json!({"ref": reference, "query": query, "limit": 2})).text
    };
    let told = format!(
        "\nNote: unknown field \"titel\": nearest \"title\", as in lro_extract(ref=\"{reference}\", query="
    );
    assert_eq!(
        ask(".titel"),
        format!("2 of 30 values. More: offset=2.{told}\".title\")\nnull\nnull\n")
    );
    assert_eq!(
        ask("select(.titel == \"x\")"),
        format!(
            "0 of 0 values.{told}\"select(.title == \\\"x\\\")\")\nNote: no value from 30 records\n"
        )
    );
    assert!(!ask(".title").contains("Note:"));
    assert_eq!(ask("select(.title == \"x\")"), "0 of 0 values.\nNote: no value from 30 records\n");
}

#[test]
fn n6_the_same_call_gives_the_same_bytes() {
    let fixture = Fixture::new();
    let reference = fixture.memories(200);
    for arguments in [
        json!({"recipe": 6}),
        json!({"query": ".title"}),
        json!({"sql": "SELECT namespace, count(*) AS n FROM results GROUP BY namespace"}),
        json!({"sql": "SELECT DISTINCT memory_type FROM results"}),
    ] {
        let mut arguments = arguments;
        arguments["ref"] = reference.clone().into();
        let first = fixture.call("lro_extract", &arguments);
        for _ in 0..5 {
            assert_eq!(fixture.call("lro_extract", &arguments), first);
        }
    }
}
