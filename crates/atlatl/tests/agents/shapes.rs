//! What the hosts give to their hooks, compared with recorded inputs: a host that changes its shape fails
//! here before it breaks a hook.
//!
//! `UPDATE_FIXTURES=1` writes today's inputs to `crates/testkit/fixtures/agents`.

use std::{env, fs};

use serde_json::Value;
use testkit::agents::{Agent, Case, differences, fixture_path, record};
use testkit::tool::built_program;

/// The differences between two recordings, one line each.
fn changes(expected: &Value, found: &Value) -> Vec<String> {
    let mut changes = Vec::new();
    for case in Case::ALL {
        let hooks = |recording: &Value| recording["cases"][case.name()]["hooks"].clone();
        let events = |hooks: &Value| {
            let hooks = hooks.as_array().into_iter().flatten();
            hooks.map(|hook| hook["event"].to_string()).collect::<Vec<_>>()
        };
        let (expected, found) = (hooks(expected), hooks(found));
        let (before, now) = (events(&expected), events(&found));
        if before != now {
            changes.push(format!("{case:?}: the events are {now:?}, were {before:?}"));
            continue;
        }
        for (index, event) in now.iter().enumerate() {
            let input = |hooks: &Value| hooks[index]["input"].clone();
            let lines = differences(&input(&expected), &input(&found));
            changes.extend(lines.into_iter().map(|line| format!("{case:?}, {event}: {line}")));
        }
    }
    changes
}

fn check(agent: Agent) {
    let found = record(agent, &built_program("fixture-server", "testkit"));
    let path = fixture_path(agent);
    let expected: Value =
        fs::read(&path).map_or(Value::Null, |text| serde_json::from_slice(&text).unwrap());
    let changes = changes(&expected, &found);
    let is_same = changes.is_empty() && expected["version"] == found["version"];
    if !is_same && env::var_os("UPDATE_FIXTURES").is_some() {
        let text = serde_json::to_string_pretty(&found).unwrap() + "\n";
        fs::write(&path, text).unwrap();
        return;
    }
    assert!(
        changes.is_empty(),
        "{} {} calls its hooks in another way than {}:\n{}",
        agent.title(),
        agent.version(),
        expected["version"],
        changes.join("\n")
    );
}

#[test]
fn claude_code_calls_its_hooks_as_recorded() {
    check(Agent::ClaudeCode);
}

#[test]
fn codex_calls_its_hooks_as_recorded() {
    check(Agent::Codex);
}

#[test]
fn copilot_calls_its_hooks_as_recorded() {
    check(Agent::Copilot);
}

#[test]
fn gemini_calls_its_hooks_as_recorded() {
    check(Agent::Gemini);
}

#[test]
fn opencode_calls_its_hooks_as_recorded() {
    check(Agent::Opencode);
}
