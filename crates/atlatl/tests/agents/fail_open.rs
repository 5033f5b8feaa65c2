//! Hooks that fail: the host's own output stands, and the turn continues.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use testkit::agents::{Agent, AgentSandbox, Case, Script, ScriptedModel};

/// The faults: how the program is replaced after its hooks are installed.
const FAULTS: [(&str, Option<&str>); 6] = [
    ("missing", None),
    ("killed", Some("kill -KILL $$")),
    ("crashing", Some("kill -SEGV $$")),
    ("of another version", Some("echo 'error: unrecognized subcommand' >&2; exit 2")),
    ("writing garbage", Some("echo '{\"hookSpecificOutput\":'")),
    ("hanging", Some("exec sleep 1000")),
];

/// Replaces the program by one whose hook runs this script, or removes it.
fn replace(program: &Path, script: Option<&str>) {
    fs::remove_file(program).unwrap();
    if let Some(script) = script {
        let text = format!("#!/bin/sh\n[ \"$1\" = hook ] || exit 1\n{script}\n");
        fs::write(program, text).unwrap();
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn check(agent: Agent) {
    let mut findings = Vec::new();
    for (name, script) in FAULTS {
        let sandbox = AgentSandbox::new(agent);
        let program = sandbox.home().join("bin/atlatl");
        fs::create_dir(program.parent().unwrap()).unwrap();
        fs::copy(crate::program(), &program).unwrap();
        let sandbox = sandbox.with_atlatl(&program);
        let model = ScriptedModel::start(Script::new().call(Case::Small.call(agent)));
        sandbox.prepare(&model);
        replace(&program, script);
        let run = sandbox.run_prepared(model);
        run.assert_finished();
        let result = &run.results()[0];
        if !result.contains("one\ntwo") {
            findings.push(format!("with a program {name} the model receives {result:?}"));
        }
    }
    assert!(findings.is_empty(), "{}: {}", agent.title(), findings.join("\n"));
}

#[test]
fn claude_code_continues_without_its_hook() {
    check(Agent::ClaudeCode);
}

#[test]
fn codex_continues_without_its_hook() {
    check(Agent::Codex);
}

#[test]
fn copilot_continues_without_its_hook() {
    check(Agent::Copilot);
}

#[test]
fn gemini_continues_without_its_hook() {
    check(Agent::Gemini);
}

#[test]
fn opencode_continues_without_its_hook() {
    check(Agent::Opencode);
}
