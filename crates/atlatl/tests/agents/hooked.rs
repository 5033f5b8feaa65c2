//! What the models receive with the hooks that `atlatl install --hooks` writes.

use testkit::agents::{Agent, Case, Delivery, Handling, observe};
use testkit::tool::built_program;

/// Outputs that a host does not give to its hook whole. Gemini CLI shows nothing of an output that is not
/// text, and keeps the last 16 MB of a long one.
const LOST: [(Agent, Case); 2] =
    [(Agent::Gemini, Case::Binary), (Agent::Gemini, Case::FiftyMegabytes)];

/// Lines that differ from run to run.
const VOLATILE_LINES: [&str; 3] = ["Chunk ID: ", "Wall time: ", "Process Group PGID: "];

fn stable(text: &str) -> String {
    let is_volatile = |line: &&str| VOLATILE_LINES.iter().any(|start| line.starts_with(start));
    text.lines().filter(|line| !is_volatile(line)).collect::<Vec<_>>().join("\n")
}

fn check(agent: Agent) {
    let program = crate::program();
    let server = built_program("fixture-server", "testkit");
    let mut findings = Vec::new();
    for case in Case::ALL {
        let seen = observe(agent, case, Handling::Hooks(&program), &server);
        let start: String = seen.text.chars().take(2000).collect();
        if case == Case::Small {
            let alone = observe(agent, case, Handling::Host, &server);
            if stable(&seen.text) != stable(&alone.text) {
                findings.push(format!("{case:?}: {start:?} instead of {:?}", alone.text));
            }
            continue;
        }
        if LOST.contains(&(agent, case)) {
            if seen.delivery == Delivery::Descriptor && seen.is_answered(case) {
                findings.push(format!("{case:?}: is whole now; remove it from the list"));
            }
        } else if seen.delivery != Delivery::Descriptor {
            findings.push(format!("{case:?}: {:?} {start:?}", seen.delivery));
        } else if !seen.is_answered(case) {
            let expected = case.answer();
            let answer = seen.answer.unwrap_or_default();
            findings.push(format!("{case:?}: {answer:?}, expected {expected:?}; {start:?}"));
        }
    }
    assert!(findings.is_empty(), "{}:\n{}", agent.title(), findings.join("\n"));
}

#[test]
fn claude_code_receives_descriptors_with_right_answers() {
    check(Agent::ClaudeCode);
}

#[test]
fn codex_receives_descriptors_with_right_answers() {
    check(Agent::Codex);
}

#[test]
fn copilot_receives_descriptors_with_right_answers() {
    check(Agent::Copilot);
}

#[test]
fn gemini_receives_descriptors_with_right_answers() {
    check(Agent::Gemini);
}

#[test]
fn opencode_receives_descriptors_with_right_answers() {
    check(Agent::Opencode);
}
