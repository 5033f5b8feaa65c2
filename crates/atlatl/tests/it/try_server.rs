//! `atlatl try`.

use serde_json::json;

use crate::program::Program;
use crate::proxied::fixture_server;

#[test]
fn a_tool_is_called_once_and_nothing_is_kept() {
    let program = Program::new();
    let server = fixture_server();
    let tried = |args: &[&str]| program.run(&[&["try"], args, &["--", &server, "--list"]].concat());
    let listed = tried(&[]);
    assert_eq!((listed.status, &*listed.stdout), (0, "echo\nbig\n"), "{listed}");
    assert!(listed.stderr.contains("2 tools; nothing was called"), "{listed}");
    let large = tried(&["--tool", "big", "--arguments", "{\"bytes\": 200000}"]);
    assert_eq!(large.status, 0, "{large}");
    let begins = |text: &str| large.stdout.lines().any(|line| line.starts_with(text));
    assert!(begins("Without Atlatl: ") && begins("With Atlatl: "), "{large}");
    assert!(large.stdout.contains("\"ref\": \"lro:"), "{large}");
    let report = tried(&["--json", "--tool", "big", "--arguments", "{\"bytes\": 200000}"]).json();
    assert_eq!((&report["bytes"], &report["stored"]), (&json!(200_000), &json!(true)));
    assert!(report["tokens_before"].as_u64() > report["tokens_after"].as_u64());
    let small = tried(&["--tool", "echo", "--arguments", "{\"a\": 1}"]);
    assert!(small.stderr.contains("small results pass unchanged"), "{small}");
    assert!(
        program.run(&["results", "list", "--all", "--json"]).json().as_array().unwrap().is_empty()
    );
    assert_eq!(program.run(&["stats", "--json"]).json()["all"]["results"], 0);
}

#[test]
fn what_cannot_be_tried_says_why() {
    let program = Program::new();
    let server = fixture_server();
    for (args, status, said) in [
        (vec!["--tool", "none", "--", &server, "--list"], 1, "the server has no tool none"),
        (vec!["--tool", "echo", "--arguments", "[]", "--", &server], 2, "not a JSON object"),
        (vec!["--", "/no/such/server"], 1, "cannot start /no/such/server"),
        (vec!["--", "sh", "-c", "echo broken >&2; exit 3"], 1, "ended with status 3: broken"),
    ] {
        let run = program.run(&[&["try"], &args[..]].concat());
        assert_eq!(run.status, status, "{run}");
        assert!(run.stderr.contains(said), "{run}");
    }
}
