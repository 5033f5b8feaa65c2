//! `atlatl offload --dry-run`: the decision and its reason, and the usage of the command.

use mif::DetailLevel;
use serde_json::json;

use crate::{
    offload::{ask, ask_json, memories},
    program::Program,
};

/// The rows of the report about the tool and the decision.
fn decision(result: &str, args: &[&str]) -> String {
    let run = ask(result, args);
    let rows = ["tool ", "decision ", "decided by ", "in its place "];
    let is_asked_for = |line: &&str| rows.iter().any(|row| line.starts_with(row));
    run.stdout.lines().filter(is_asked_for).collect::<Vec<_>>().join("\n")
}

#[test]
fn f35_a_policy_decides_before_any_threshold() {
    let offload = ["--set", r#"proxy.policy."read_*"="offload""#, "--tool"];
    insta::assert_snapshot!(decision("short", &[&offload[..], &["read_file"]].concat()), @r#"
    tool          read_file
    decision      offload: a policy says so, whatever the size
    decided by    proxy.policy."read_*"
    in its place  a compact descriptor of about 190 tokens
    "#);
    insta::assert_snapshot!(decision("short", &[&offload[..], &["write_file"]].concat()), @"
    tool        write_file
    decision    inline: 5 bytes are too few for 10,000 tokens
    decided by  proxy.threshold_tokens
    ");
    let long = "word ".repeat(20_000);
    let inline = ["--set", "proxy.policy.get_page=inline", "--tool", "get_page"];
    insta::assert_snapshot!(decision(&long, &inline), @r#"
    tool        get_page
    decision    inline: a policy says so, whatever the size
    decided by  proxy.policy."get_page"
    "#);
    let run = ask_json(&long, &inline).json();
    assert_eq!(
        run["decision"],
        json!({
            "delivery": "inline",
            "because": "policy",
            "glob": "get_page",
            "key": "proxy.policy.\"get_page\"",
        })
    );
    assert!(run.get("descriptor").is_none());
}

#[test]
fn f35_a_tool_may_have_a_threshold_of_its_own() {
    let own = ["--set", "proxy.policy.read_*={ threshold_tokens = 50 }", "--tool", "read_file"];
    insta::assert_snapshot!(decision(&"word ".repeat(60), &own), @r#"
    tool          read_file
    decision      offload: 61 tokens are at least 50
    decided by    proxy.policy."read_*"
    in its place  a compact descriptor of about 249 tokens
    "#);
    insta::assert_snapshot!(decision(&"word ".repeat(20), &own), @r#"
    tool        read_file
    decision    inline: 21 tokens are less than 50
    decided by  proxy.policy."read_*"
    "#);
}

#[test]
fn f35_a_policy_for_every_tool_includes_the_one_without_a_name() {
    let every = ["--set", "proxy.policy.*=offload"];
    insta::assert_snapshot!(decision("short", &every), @r#"
    tool          not given (name it with --tool to apply its policy)
    decision      offload: a policy says so, whatever the size
    decided by    proxy.policy."*"
    in its place  a compact descriptor of about 187 tokens
    "#);
    let others = ["--set", "proxy.policy.t*=offload"];
    insta::assert_snapshot!(decision("short", &others), @"
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 5 bytes are too few for 10,000 tokens
    decided by  proxy.threshold_tokens
    ");
}

#[test]
fn f35_offloading_can_be_switched_off() {
    let off = ["--set", "prompt.offload.enabled=false"];
    insta::assert_snapshot!(decision(&memories(500, DetailLevel::Light), &off), @"
    tool        recall_memories, assumed since these are memories (see --tool)
    decision    inline: offloading is switched off
    decided by  prompt.offload.enabled
    ");
}

#[test]
fn f35_another_tools_result_is_offloaded_from_10_000_tokens_on() {
    let words = |count: usize| "a".to_owned() + &" a".repeat(count - 1);
    insta::assert_snapshot!(decision(&words(9_999), &[]), @"
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 9,999 tokens are less than 10,000
    decided by  proxy.threshold_tokens
    ");
    insta::assert_snapshot!(decision(&words(10_000), &[]), @"
    tool          not given (name it with --tool to apply its policy)
    decision      offload: 10,000 tokens are at least 10,000
    decided by    proxy.threshold_tokens
    in its place  a compact descriptor of about 500 tokens
    ");
    insta::assert_snapshot!(decision(&words(2_000), &[]), @"
    tool        not given (name it with --tool to apply its policy)
    decision    inline: 3,999 bytes are too few for 10,000 tokens
    decided by  proxy.threshold_tokens
    ");
}

/// One memory with this number of characters.
fn memory(characters: usize) -> String {
    let memory = |content: &str| {
        json!([{
            "id": "a",
            "memory_type": "semantic",
            "created": "2026-01-05T08:00:00Z",
            "content": content,
        }])
        .to_string()
    };
    // The enclosing brackets are not part of the record.
    let rest = memory("").len() - 2;
    memory(&"x".repeat(characters - rest))
}

#[test]
fn t4_memories_are_offloaded_above_1600_tokens_only() {
    insta::assert_snapshot!(decision(&memory(6400), &[]), @"
    tool        recall_memories, assumed since these are memories (see --tool)
    decision    inline: 1,600 tokens are not more than 1,600
    decided by  prompt.offload.threshold_tokens
    ");
    insta::assert_snapshot!(decision(&memory(6401), &[]), @"
    tool          recall_memories, assumed since these are memories (see --tool)
    decision      offload: 1,601 tokens are more than 1,600
    decided by    prompt.offload.threshold_tokens
    in its place  a compact descriptor of about 362 tokens
    ");
    // A token has at least one byte.
    insta::assert_snapshot!(decision(&memory(1598), &[]), @"
    tool        recall_memories, assumed since these are memories (see --tool)
    decision    inline: 1,600 bytes are too few for more than 1,600 tokens
    decided by  prompt.offload.threshold_tokens
    ");
}

#[test]
fn the_tool_says_whether_it_is_a_memory_operation() {
    let memories = memories(20, DetailLevel::Full);
    insta::assert_snapshot!(decision(&memories, &[]), @"
    tool          recall_memories, assumed since these are memories (see --tool)
    decision      offload: 2,963 tokens are more than 1,600
    decided by    prompt.offload.threshold_tokens
    in its place  a compact descriptor of about 533 tokens
    ");
    insta::assert_snapshot!(decision(&memories, &["--tool", "search_memories"]), @"
    tool          search_memories
    decision      offload: 2,963 tokens are more than 1,600
    decided by    prompt.offload.threshold_tokens
    in its place  a compact descriptor of about 530 tokens
    ");
    insta::assert_snapshot!(decision(&memories, &["--tool", "export_rows"]), @"
    tool        export_rows
    decision    inline: 3,330 tokens are less than 10,000
    decided by  proxy.threshold_tokens
    ");
}

#[test]
fn f11_an_error_is_never_offloaded() {
    let result = json!({
        "content": [{"type": "text", "text": "no such table: rows ".repeat(10_000)}],
        "isError": true,
    });
    insta::assert_snapshot!(decision(&result.to_string(), &["--set", "proxy.policy.*=offload"]), @"
    tool        not given (name it with --tool to apply its policy)
    decision    inline: the tool reported an error, which the model has to see
    ");
    insta::assert_snapshot!(ask_json(result.to_string(), &[]), @r#"
    status: 0
    --- stdout
    {
      "kind": "text",
      "tool_result": {
        "payload": "text",
        "further_texts": 0,
        "other_blocks": 0
      },
      "bytes": 200000,
      "characters": 200000,
      "tool": null,
      "tokens": {
        "of": "result",
        "estimated": {
          "tokens": 50008,
          "method": "sampled"
        },
        "real": {
          "tokens": 50001,
          "method": "counted"
        }
      },
      "decision": {
        "delivery": "inline",
        "because": "tool_failed"
      }
    }
    --- stderr
    "#);
}

#[test]
fn an_unfinished_result_stays_inline() {
    let result = json!({
        "content": [{"type": "text", "text": "working on it"}],
        "resultType": "task",
    });
    insta::assert_snapshot!(decision(&result.to_string(), &["--set", "proxy.policy.*=offload"]), @"
    tool        not given (name it with --tool to apply its policy)
    decision    inline: the result is not the final one
    ");
}

#[test]
fn the_result_comes_from_a_file_or_from_standard_input() {
    let program = Program::new().file("work/rows.json", "[{\"a\":1},{\"a\":2}]");
    let from_file = program.run(&["offload", "--dry-run", "rows.json", "--json"]);
    let piped =
        program.run_with_input(&["offload", "--dry-run", "--json"], b"[{\"a\":1},{\"a\":2}]");
    assert_eq!(from_file.status, 0);
    assert_eq!(from_file.to_string(), piped.to_string());
    assert_eq!(piped.json()["records"]["count"], 2);
}

#[test]
fn a_file_that_cannot_be_read_exits_with_1() {
    insta::assert_snapshot!(Program::new().run(&["offload", "--dry-run", "none.json"]), @"
    status: 1
    --- stdout
    --- stderr
    error: none.json: cannot be read: No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(Program::new().run(&["offload", "--dry-run", "."]), @"
    status: 1
    --- stdout
    --- stderr
    error: .: cannot be read: Is a directory (os error 21)
    ");
}

#[test]
fn nothing_is_stored_by_a_dry_run() {
    let memories = memories(50, DetailLevel::Full);
    let program = Program::new().file("work/result", memories);
    assert_eq!(program.run(&["offload", "--dry-run", "result"]).status, 0);
    assert_eq!(std::fs::read_dir(program.path("tmp")).unwrap().count(), 0);
    assert!(!program.path("home").exists());
}

/// The number before ` tokens` or ` |` at the end of the README's row about a page of issues.
fn readme_figures() -> Vec<f64> {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let row = readme.lines().find(|line| line.contains("`issues.json`")).unwrap();
    let after = row.split("about ").skip(1);
    let digits = |text: &str| {
        text.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(|c| *c != ',').collect()
    };
    after.map(digits).map(|digits: String| digits.parse().unwrap()).collect()
}

#[test]
fn the_readme_shows_what_a_page_of_issues_takes() {
    let issues = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/issues.json");
    let program = Program::new();
    let run = program.run(&["offload", "--dry-run", issues, "--tool", "list_issues", "--json"]);
    let measured = run.json();
    let measured = [&measured["tokens"]["real"]["tokens"], &measured["descriptor"]["tokens"]];
    let shown = readme_figures();
    assert_eq!(shown.len(), 2, "{shown:?}");
    for (shown, measured) in shown.into_iter().zip(measured) {
        let ratio = shown / measured.as_f64().unwrap();
        assert!((0.85..1.15).contains(&ratio), "{shown} in README.md, {measured} measured: {run}");
    }
}
