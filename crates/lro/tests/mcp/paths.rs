//! Path traversal in every argument that names a result.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::fixture::Fixture;

const SECRET: &str = "TOP-SECRET-CANARY";

/// 40 names that are not stored results; some exist and would be readable.
fn corpus(fixture: &Fixture, reference: &str) -> Vec<String> {
    let home = fixture.home.path();
    let spool = home.join("spool");
    let id = &reference[4..];
    let name = format!("atlatl-list-{id}.jsonl");
    let outside = home.join("spool2");
    fs::create_dir(&outside).unwrap();
    let header = r#"{"type":"lro_header","operation":"list","query":null,"count":1,"schema_version":"0.1.0","timestamp":"2027-01-15T08:00:00Z","estimated_tokens":1,"detail":"full"}"#;
    let content = format!("{header}\n{{\"id\":\"{SECRET}\"}}\n");
    fs::write(outside.join(&name), &content).unwrap();
    fs::write(home.join("secret.jsonl"), &content).unwrap();
    // Links in the spool directory, with names of stored results.
    let linked = "01KA2Z3T4V5W6X7Y8Z9A0B1C2D";
    symlink(home.join("secret.jsonl"), spool.join(format!("atlatl-list-{linked}.jsonl"))).unwrap();
    let hard = "01KA2Z3T4V5W6X7Y8Z9A0B1C2E";
    fs::hard_link(home.join("secret.jsonl"), spool.join(format!("atlatl-list-{hard}.jsonl")))
        .unwrap();
    symlink(&outside, spool.join("inside")).unwrap();
    let (spool, outside, home) = (spool.display(), outside.display(), home.display());
    vec![
        "/etc/passwd".to_owned(),
        "/etc/shadow".to_owned(),
        "/proc/self/environ".to_owned(),
        "/dev/zero".to_owned(),
        "../secret.jsonl".to_owned(),
        "../../../../etc/passwd".to_owned(),
        format!("{spool}/../secret.jsonl"),
        format!("{spool}/../spool2/{name}"),
        format!("{outside}/{name}"),
        format!("{spool}2/{name}"),
        format!("{home}/secret.jsonl"),
        format!("{spool}/inside/{name}"),
        format!("inside/{name}"),
        format!("./{name}"),
        format!("spool/{name}"),
        format!("{spool}//../spool2/{name}"),
        format!("{spool}/./../spool2/{name}"),
        format!("{spool}/{name}/../../spool2/{name}"),
        format!("file://{outside}/{name}"),
        format!("file:///{name}"),
        format!("~/{name}"),
        format!("$HOME/{name}"),
        format!("{name}\0.txt"),
        format!("{outside}/{name}\0"),
        format!("lro:{linked}"),
        linked.to_owned(),
        format!("atlatl-list-{linked}.jsonl"),
        format!("{spool}/atlatl-list-{linked}.jsonl"),
        format!("lro:{hard}"),
        format!("{spool}/atlatl-list-{hard}.jsonl"),
        "lro:".to_owned(),
        "lro:../../etc/passwd".to_owned(),
        format!("lro:{id}/../../secret.jsonl"),
        format!("lro:{id}\n/etc/passwd"),
        format!("{spool}\\..\\secret.jsonl"),
        "%2e%2e%2fsecret.jsonl".to_owned(),
        format!("\u{202e}{name}"),
        ".".to_owned(),
        String::new(),
        "x".repeat(100_000),
    ]
}

#[test]
fn n4_nothing_outside_is_read_by_any_argument_of_any_tool() {
    let fixture = Fixture::new();
    let good = fixture.store("list_memories", r#"[{"id":"1"},{"id":"2"}]"#);
    let corpus = corpus(&fixture, &good);
    assert_eq!(corpus.len(), 40);
    let mut calls = 0;
    for bad in &corpus {
        for argument in ["ref", "file_path", "filename"] {
            for (tool, rest) in [
                ("lro_extract", json!({"recipe": 4})),
                ("lro_extract", json!({"query": "."})),
                ("lro_extract", json!({"sql": "SELECT * FROM results"})),
                ("read_large_output", json!({"start": 0})),
                ("search_large_output", json!({"pattern": "."})),
                ("query_large_output", json!({"query": "."})),
            ] {
                let mut arguments = rest;
                arguments[argument] = Value::from(bad.as_str());
                let called = fixture.call(tool, &arguments);
                assert!(called.is_error, "{tool} {arguments}: {called:?}");
                assert!(
                    !called.text.contains(SECRET) && !called.text.contains("root:"),
                    "{called:?}"
                );
                calls += 1;
            }
        }
        let arguments = json!({"ref": good, "sql": "SELECT * FROM other", "with": {"other": bad}});
        let called = fixture.call("lro_extract", &arguments);
        assert!(called.is_error && !called.text.contains(SECRET), "{called:?}");
    }
    assert_eq!(calls, 40 * 18);
    // The names from a descriptor are accepted.
    let path = fixture
        .spool
        .list()
        .unwrap()
        .iter()
        .find(|l| l.id().reference().to_string() == good)
        .unwrap()
        .path
        .clone()
        .unwrap();
    fixture.ask("read_large_output", &json!({"file_path": path.to_str().unwrap(), "start": 0}));
}
