//! `atlatl doctor`: no findings on a healthy machine, and a finding with a working fix for every
//! seeded fault.

mod access;
mod clients;
mod configuration;
mod memories;
mod servers;
mod storage;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::program::{Program, Run};
use crate::proxied::real_server;

/// A machine with system programs only.
fn machine() -> Program {
    Program::new().variable("PATH", "/usr/bin:/bin").file("home/.keep", "")
}

/// The program of this build.
fn atlatl() -> &'static str {
    env!("CARGO_BIN_EXE_atlatl")
}

fn doctor(program: &Program, more: &[&str]) -> Run {
    program.run(&[&["doctor", "--json"], more].concat())
}

/// All findings of a check.
fn findings(run: &Run, check: &str) -> Vec<Value> {
    let report = run.json();
    let all = report["findings"].as_array().unwrap().iter();
    all.filter(|finding| finding["check"] == check).cloned().collect()
}

/// The one finding of a check.
fn finding(run: &Run, check: &str) -> Value {
    let found = findings(run, check);
    assert_eq!(found.len(), 1, "{check}: {run}");
    for text in ["about", "says", "fix"] {
        assert!(!found[0][text].as_str().unwrap().is_empty(), "{run}");
    }
    found[0].clone()
}

/// Expects one fault and returns its fix.
fn fault(run: &Run, check: &str, about: &str) -> String {
    let found = finding(run, check);
    assert_eq!((run.status, &found["level"]), (1, &json!("fault")), "{run}");
    assert!(found["about"].as_str().unwrap().contains(about), "{about}: {run}");
    found["fix"].as_str().unwrap().to_owned()
}

/// Expects one warning, with exit status 0, and returns its fix.
fn warning(run: &Run, check: &str, about: &str) -> String {
    let found = finding(run, check);
    assert_eq!((run.status, &found["level"]), (0, &json!("warning")), "{run}");
    assert!(found["about"].as_str().unwrap().contains(about), "{about}: {run}");
    found["fix"].as_str().unwrap().to_owned()
}

/// Expects no findings, except for a missing kernel feature.
fn is_well(run: &Run) {
    let report = run.json();
    let kernel = |finding: &&Value| finding["check"] != "query-files";
    let found: Vec<_> = report["findings"].as_array().unwrap().iter().filter(kernel).collect();
    assert!(found.is_empty() && run.status == 0, "{run}");
}

/// Runs the command of a fix.
fn follow(program: &Program, fix: &str) {
    let fix = fix.replace("[DIR]", program.path("").to_str().unwrap().trim_end_matches('/'));
    let status = std::process::Command::new("sh").args(["-c", &fix]).status().unwrap();
    assert!(status.success(), "{fix}");
}

/// A script that a client can start.
fn script(program: Program, name: &str, text: &str) -> (Program, String) {
    let program = program.file(name, text);
    let path = program.path(name);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (program, path)
}

/// A server with this protocol version and these tools.
fn fake(version: &str, tools: &[&str]) -> String {
    let tools: Vec<Value> =
        tools.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    let hello = json!({"jsonrpc": "2.0", "id": 0, "result": {
        "protocolVersion": version, "capabilities": {"tools": {}},
        "serverInfo": {"name": "fake", "version": "1"}}});
    let listing = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}});
    format!(
        "#!/bin/sh\nwhile read -r line; do\n  case \"$line\" in\n    *'\"initialize\"'*) echo \
         '{hello}';;\n    *'\"tools/list\"'*) echo '{listing}';;\n  esac\ndone\n"
    )
}

/// An entry that starts a server behind the proxy of this build.
fn wrapped(server: &str) -> Value {
    json!({"command": atlatl(), "args": ["proxy", "--tools", "separate", "--", server]})
}

/// A client file with these servers and an entry for the extraction tools.
fn config(name: &str, entry: &Value) -> String {
    let mut servers = json!({"atlatl": {"command": atlatl(), "args": ["tools"]}});
    servers[name] = entry.clone();
    json!({"mcpServers": servers}).to_string()
}

/// Every file below a directory with its modification time.
fn tree(dir: &Path) -> Vec<(PathBuf, std::time::SystemTime, u64)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let there = entry.metadata().unwrap();
        if there.is_dir() {
            all.extend(tree(&entry.path()));
        } else {
            all.push((entry.path(), there.modified().unwrap(), there.len()));
        }
    }
    all.sort();
    all
}

#[test]
fn doctor_is_quiet_on_a_healthy_machine() {
    let server = real_server("mcp-server-everything");
    let config = json!({"mcpServers": {"everything": {"command": server}}}).to_string();
    let bin = Path::new(atlatl()).parent().unwrap().display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let program = Program::new()
        .variable("PATH", &path)
        .file("home/.cursor/mcp.json", &config)
        .file("work/.mcp.json", &config);
    assert_eq!(program.run(&["install", "--yes"]).status, 0);
    assert_eq!(program.run(&["memory", "add", "We deploy on Thursdays."]).status, 0);
    let before = tree(&program.path(""));
    let mut run = doctor(&program, &["--project"]);
    for _ in 0..3 {
        // On a busy machine, a server may exceed its time limit.
        if findings(&run, "server-start").is_empty() {
            break;
        }
        run = doctor(&program, &["--project"]);
    }
    is_well(&run);
    let passed = run.json()["passed"].to_string();
    assert!(passed.contains("everything (Cursor) answers"), "{run}");
    assert!(passed.contains("everything (Claude Code) answers"), "{run}");
    assert_eq!(tree(&program.path("")), before, "nothing was changed");

    let run = program.run(&["doctor", "--no-start"]);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines.iter().any(|line| line.starts_with("✓ ok") && line.contains("configuration")));
    assert!(lines.last().unwrap().contains(" checks, 0 faults, "), "{run}");
    assert!(lines.len() <= 13 && lines.iter().all(|line| line.chars().count() <= 80), "{run}");
    // f22: usage is also shown without findings.
    assert!(run.lines("storage")[0].contains("0 results, 0 B of 10.7 GB; "), "{run}");
    let all = program.run(&["doctor", "--no-start", "--all"]);
    assert!(all.stdout.contains("  ✓ results-dir: "), "{all}");
}

#[test]
fn nothing_is_started_where_that_is_not_wanted() {
    let (program, server) = script(machine(), "bin/server", "#!/bin/sh\ntouch \"$HOME/started\"\n");
    let program = program.file("home/.claude.json", config("s", &wrapped(&server)));
    is_well(&doctor(&program, &["--no-start"]));
    assert!(!program.path("home/started").exists());
    fault(&doctor(&program, &[]), "server-start", "s in [DIR]/home/.claude.json (Claude Code)");
    assert!(program.path("home/started").exists());
}

#[test]
fn a_person_sees_each_trouble_with_its_fix_below_it() {
    let program =
        machine().file("home/.claude.json", config("s\u{1b}[2J", &wrapped("no-such-program")));
    let run = program.run(&["doctor"]);
    assert_eq!(run.status, 1, "{run}");
    let at =
        run.stdout.lines().position(|line| line.starts_with("  ✗ fault server-program: ")).unwrap();
    let lines: Vec<&str> = run.stdout.lines().skip(at).collect();
    assert!(lines[0].contains("s<U+001B>[2J in ~/.claude.json (Claude Code)"), "{run}");
    assert_eq!(lines[1], "    the server's program `no-such-program` is not on PATH");
    assert!(lines[2].starts_with("    fix: install no-such-program, or in [DIR]"), "{run}");
    assert!(run.stdout.lines().last().unwrap().contains(" 1 fault, "), "{run}");
}
