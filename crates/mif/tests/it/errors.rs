//! Error messages for invalid documents.

use mif::{MAX_CONTENT_BYTES, Memory, MifError};

/// A valid memory in JSON with one line replaced or added.
fn json(line: &str) -> String {
    let mut lines = vec![
        r#"  "id": "018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b","#.to_owned(),
        r#"  "memory_type": "semantic","#.to_owned(),
        r#"  "content": "x","#.to_owned(),
        r#"  "created": "2026-01-15T10:30:00Z","#.to_owned(),
    ];
    let key = line.split(':').next().unwrap_or_default();
    match lines.iter_mut().find(|l| l.trim_start().starts_with(key)) {
        Some(old) => *old = format!("  {line},"),
        None => lines.push(format!("  {line},")),
    }
    format!("{{\n{}\n  \"z\": 0\n}}", lines.join("\n"))
}

fn front(yaml: &str) -> String {
    format!(
        "---\nid: 018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b\ntype: semantic\n\
         created: 2026-01-15T10:30:00Z\n{yaml}\n---\n\nx\n"
    )
}

#[test]
fn fields_in_json() {
    for (line, message) in [
        (
            r#""id": "cats""#,
            r#"line 2, column 9, `id`: expected a UUID such as 018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b, found "cats""#,
        ),
        (
            r#""memory_type": "visual""#,
            r#"line 3, column 18, `memory_type`: expected semantic, episodic or procedural, found "visual""#,
        ),
        (r#""content": """#, "line 4, column 14, `content`: expected text, found nothing"),
        (r#""content": ["x"]"#, "line 4, column 14, `content`: expected a string, found an array"),
        (
            r#""created": "2026-01-15""#,
            r#"line 5, column 14, `created`: expected an RFC 3339 time such as 2026-01-15T10:30:00Z, found "2026-01-15""#,
        ),
        (
            r#""status": "lost""#,
            r#"line 6, column 13, `status`: expected active, archived, superseded or deleted, found "lost""#,
        ),
        (
            r#""namespace": "a//b""#,
            r#"line 6, column 16, `namespace`: expected segments of letters, digits, '_' and '-' separated by '/', found "a//b""#,
        ),
        (r#""tags": ["a", 7]"#, "line 6, column 17, `tags[1]`: expected a string, found 7"),
        (r#""tags": "a""#, r#"line 6, column 11, `tags`: expected an array, found "a""#),
        (
            r#""provenance": {"confidence": 1.5}"#,
            "line 6, column 32, `provenance.confidence`: expected a number from 0 to 1, found 1.5",
        ),
        (
            r#""provenance": {"confidence": "0.5"}"#,
            r#"line 6, column 32, `provenance.confidence`: expected a number from 0 to 1, found "0.5""#,
        ),
        (
            r#""provenance": {"confidence": 1e999}"#,
            "line 6, column 32, `provenance.confidence`: expected a number from 0 to 1, found 1e999",
        ),
        (
            r#""relationships": [{"type": "uses"}]"#,
            "line 6, column 21, `relationships[0].target`: expected a value, the field is required, found nothing",
        ),
        (
            r#""relationships": [{"type": "uses", "target": {}}]"#,
            "line 6, column 48, `relationships[0].target.@id`: expected a value, the field is required, found nothing",
        ),
        (
            r#""relationships": [{"type": "uses", "target": "x", "strength": -0.1}]"#,
            "line 6, column 65, `relationships[0].strength`: expected a number from 0 to 1, found -0.1",
        ),
        (
            r#""temporal": {"decay": {"half_life": "30 days"}}"#,
            r#"line 6, column 39, `temporal.decay.half_life`: expected an ISO 8601 duration such as P30D or PT12H, found "30 days""#,
        ),
        (
            r#""temporal": {"access_count": -1}"#,
            "line 6, column 32, `temporal.access_count`: expected an integer from 0 to 18446744073709551615, found -1",
        ),
        (
            r#""embedding": {"normalized": "yes"}"#,
            r#"line 6, column 31, `embedding.normalized`: expected true or false, found "yes""#,
        ),
        (
            r#""extensions": []"#,
            "line 6, column 17, `extensions`: expected an object, found an array",
        ),
        (
            r#""memoryType": "semantic""#,
            r#"line 6, column 17, `memory_type`: expected the field once, found it again as "memoryType""#,
        ),
        (
            r#""created": null"#,
            "line 1, column 1, `created`: expected a value, the field is required, found null",
        ),
    ] {
        assert_eq!(Memory::from_json(&json(line)).unwrap_err().to_string(), message, "{line}");
    }
}

#[test]
fn syntax_of_json() {
    for (text, message) in [
        ("", "JSON, line 1, column 1: expected a JSON value, found the end of the text"),
        ("{\n  \"é\": 1,\n}", "JSON, line 3, column 1: expected a key in double quotes, found '}'"),
        ("{\"é\" 1}", "JSON, line 1, column 6: expected ':', found '1'"),
        ("{\"a\": 01}", "JSON, line 1, column 7: expected a JSON number, found \"01\""),
        (
            "{\"a\": 1, \"a\": 2}",
            "JSON, line 1, column 10: expected each key once, found a second \"a\"",
        ),
        (
            "{\"a\": \"\\ud800\"}",
            r#"JSON, line 1, column 7: expected a string whose escapes are valid Unicode, found "\"\\ud800\"""#,
        ),
        (
            "{\"a\": \"b",
            "JSON, line 1, column 9: expected a closing '\"', found the end of the text",
        ),
        ("{} x", "JSON, line 1, column 4: expected the end of the document, found 'x'"),
        ("[]", "line 1, column 1, `document`: expected an object, found an array"),
    ] {
        assert_eq!(Memory::from_json(text).unwrap_err().to_string(), message, "{text}");
    }
}

#[test]
fn front_matter() {
    for (text, message) in [
        (
            String::new(),
            "Markdown, line 1, column 1: expected '---' as the first line, found an empty text",
        ),
        (
            "# Hi".to_owned(),
            "Markdown, line 1, column 1: expected '---' as the first line, found \"# Hi\"",
        ),
        (
            "---\nid: 1\n".to_owned(),
            "Markdown, line 2, column 1: expected a closing '---' line, found the end of the text",
        ),
        (
            "---\n---\nx".to_owned(),
            "line 2, column 1, `id`: expected a value, the field is required, found nothing",
        ),
        (
            "---\n- a\n---\nx".to_owned(),
            "line 2, column 1, `document`: expected an object, found an array",
        ),
        (
            front("provenance:\n  confidence: 2"),
            "line 6, column 15, `provenance.confidence`: expected a number from 0 to 1, found 2",
        ),
        (
            front("status: gone"),
            "line 5, column 9, `status`: expected active, archived, superseded or deleted, found \"gone\"",
        ),
        (
            front("content: x"),
            "line 5, column 10, `content`: expected the body of the document only, found the key in the front matter",
        ),
        (
            front("a: &x 1"),
            "Markdown, line 5, column 4: expected a value without an anchor, found an anchor (&name)",
        ),
        (
            front("a: 1\nb: *x"),
            "Markdown, line 6, column 4: expected valid YAML, found while parsing node, found unknown anchor",
        ),
        (
            front("a: !!str 1"),
            "Markdown, line 5, column 4: expected a value without a tag, found the tag \"tag:yaml.org,2002:!str\"",
        ),
        (
            front("a: 1\na: 2"),
            "Markdown, line 6, column 1: expected each key once, found a second \"a\"",
        ),
        (
            front("a: .inf"),
            "Markdown, line 5, column 4: expected a number that JSON can express, found \".inf\"",
        ),
        (
            front("[a]: 1"),
            "Markdown, line 5, column 1: expected a plain text key, found something else",
        ),
    ] {
        assert_eq!(Memory::from_markdown(&text).unwrap_err().to_string(), message, "{text}");
    }
    let empty = front("").replace("\nx\n", "");
    let error = Memory::from_markdown(&empty).unwrap_err();
    assert_eq!(error.to_string(), "line 7, column 1, `content`: expected text, found nothing");
}

#[test]
fn sizes() {
    let error = |line: String| Memory::from_json(&json(&line)).unwrap_err();
    assert!(
        Memory::from_json(&json(&format!("\"content\": \"{}\"", "x".repeat(MAX_CONTENT_BYTES))))
            .is_ok()
    );
    assert_eq!(
        error(format!("\"content\": \"{}\"", "x".repeat(MAX_CONTENT_BYTES + 1))).to_string(),
        "line 4, column 14, `content`: expected at most 1048576 bytes, found 1048577 bytes"
    );
    assert!(Memory::from_json(&json(&format!("\"summary\": \"{}\"", "é".repeat(500)))).is_ok());
    assert_eq!(
        error(format!("\"summary\": \"{}\"", "é".repeat(501))).to_string(),
        "line 6, column 14, `summary`: expected at most 500 characters, found 501 characters"
    );
}

#[test]
fn values_without_a_text_have_no_line() {
    let error = Memory::from_value(&serde_json::json!({"id": 3}).into()).unwrap_err();
    assert_eq!(error.to_string(), "`id`: expected a string, found 3");
    assert_eq!((error.position(), error.path()), (None, Some("id")));
    assert!(matches!(error, MifError::Field { .. }));
}
