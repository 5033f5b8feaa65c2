//! The directory of results that are no memory operations: where it is, and what gets in its way.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::program::Program;
use crate::proxied::{Proxied, descriptor, fixture_server, reference};

const STATE: &str = "home/.local/state/atlatl/results";

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The directory in the temporary directory that another user can create first.
fn temporary() -> String {
    format!("tmp/atlatl-{}", uid())
}

fn rows() -> String {
    let rows: Vec<Value> =
        (0..500).map(|n| json!({"n": n, "text": "some words to store"})).collect();
    json!({"rows": rows}).to_string()
}

const OFFLOAD: [&str; 5] =
    ["offload", "--tool", "list_rows", "--set", "proxy.threshold_tokens=100"];

/// Stores a result: its reference and its file.
fn store(program: &Program, further: &[&str]) -> (String, PathBuf) {
    let run = program.run_with_input(&[&OFFLOAD, further].concat(), rows().as_bytes());
    assert!(run.status == 0 && run.stderr.is_empty(), "{run}");
    let descriptor = run.json();
    let reference = descriptor["lro"]["ref"].as_str().expect("it is stored").to_owned();
    let path = descriptor["file_path"].as_str().unwrap().strip_prefix("[DIR]/").unwrap();
    (reference, program.path(path))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Puts a directory where earlier versions stored results: another user's, where this test may do
/// that, else one that others may write to.
fn plant(program: &Program) {
    let dir = program.path(&temporary());
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
    if uid() == 0 {
        chown(&dir, Some(12345), None).unwrap();
    }
}

#[test]
fn g08_a_planted_directory_does_not_keep_results_inline() {
    let program = Program::new();
    plant(&program);
    let (reference, path) = store(&program, &[]);
    assert!(path.starts_with(program.path(STATE)), "{path:?}");
    for dir in [program.path(STATE), program.path("home/.local/state/atlatl")] {
        assert_eq!(mode(&dir), 0o700, "{dir:?}");
    }
    let list = program.run(&["results", "list", "--json"]);
    assert_eq!((list.status, &*list.stderr), (0, ""), "{list}");
    assert_eq!(list.json().as_array().unwrap().len(), 1, "{list}");
    assert_eq!(program.run(&["results", "path", &reference]).status, 0);
    let mut proxied = Proxied::start(&program, &[], &[&fixture_server()]);
    let answer = proxied.call("big", &json!({"bytes": 2_000_000}));
    assert!(descriptor(&answer["result"])["file_path"].is_string(), "{answer}");

    let doctor = program.run(&["doctor", "--json"]).stdout;
    let doctor: Value = serde_json::from_str(&doctor).unwrap();
    let text = doctor.to_string();
    let owner =
        if uid() == 0 { "it belongs to user 12345" } else { "other users have access to it" };
    assert!(text.contains(owner) && text.contains(&temporary()), "{text}");
    assert_eq!(fs::read_dir(program.path(&temporary())).unwrap().count(), 0, "it is left alone");
}

#[test]
fn g08_results_of_the_former_directory_stay_readable_until_they_expire() {
    let program = Program::new();
    let former = format!("proxy.dir={}", program.path(&temporary()).display());
    let (old, old_path) = store(&program, &["--set", &former]);
    assert!(old_path.starts_with(program.path(&temporary())), "{old_path:?}");
    let (new, new_path) = store(&program, &[]);
    assert!(new_path.starts_with(program.path(STATE)), "{new_path:?}");

    let list = program.run(&["results", "list"]).stdout;
    assert!(list.contains(&old) && list.contains(&new), "{list}");
    for reference in [&*old, old_path.to_str().unwrap()] {
        let args = ["extract", reference, "--query", ".n | select(. == 499)"];
        let extracted = program.run(&args);
        assert!(extracted.status == 0 && extracted.stdout.contains("499"), "{extracted}");
    }
    let mut proxied = Proxied::start(&program, &[], &[&fixture_server()]);
    for stored in [&old, &new] {
        let answer = proxied
            .call("query_large_output", &json!({"ref": stored, "query": "select(.n == 499)"}));
        assert!(answer.to_string().contains("499"), "{answer}");
    }
    let answer = proxied.call("big", &json!({"bytes": 2_000_000}));
    let path = program.run(&["results", "path", &reference(&answer)]);
    assert!(path.stdout.contains(STATE), "{path}");
    drop(proxied);

    // Cleaned like the others.
    let clean = program.run(&["results", "clean", "--all", "--json"]);
    assert_eq!(clean.json()["removed"].as_array().unwrap().len(), 3, "{clean}");
    assert!(!old_path.exists());
}

#[test]
fn g08_without_a_state_directory_results_are_in_the_temporary_one() {
    // A file where the directory would have to be: not even root can create it.
    let program = Program::new().file("file", "");
    let state = program.path("file/state").display().to_string();
    let program = program.variable("XDG_STATE_HOME", &state);
    let ledger = format!("ledger.path={}", program.path("ledger.jsonl").display());
    let (_, path) = store(&program, &["--set", &ledger]);
    assert!(path.starts_with(program.path(&temporary())), "{path:?}");

    // A directory that the user chose, and one that the group may read, are in the open.
    let program = Program::new();
    fs::create_dir(program.path("chosen")).unwrap();
    let chosen = format!("prompt.offload.output_dir={}", program.path("chosen").display());
    let (_, path) = store(&program, &["--set", &chosen]);
    assert!(path.starts_with(program.path(&format!("chosen/atlatl-{}", uid()))), "{path:?}");
    let (_, path) = store(&program, &["--set", "spool.readable_by=group"]);
    assert!(path.starts_with(program.path(&temporary())), "{path:?}");
}

#[test]
fn g08_a_file_size_limit_passes_the_result_on() {
    let program = Program::new().file("work/result.json", rows());
    let limited = |tool: &str| {
        // dash counts in blocks of 512 bytes: 1 KiB for each file, less than the result.
        let script = format!(
            "ulimit -f 2; exec '{}' offload --tool {tool} --set proxy.threshold_tokens=100 \
             --set prompt.offload.threshold_tokens=100 result.json",
            env!("CARGO_BIN_EXE_atlatl")
        );
        let mut command = Command::new(testkit::tool::require("dash"));
        let given = program.command(&[]);
        let variables = given.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.env_clear().envs(variables).current_dir(program.path("work"));
        let output = command.args(["-c", &script]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{tool}: {} {stderr}", output.status);
        (stdout, stderr)
    };
    let (stdout, stderr) = limited("list_rows");
    assert_eq!(stdout.trim(), rows());
    assert!(
        stderr.contains("returned in full. Raise the file size limit (ulimit -f)."),
        "{stderr}"
    );
    // Spec L3: those of memory operations are cut.
    let (stdout, stderr) = limited("recall_memories");
    assert!(stdout.contains("some words") && stdout.len() < rows().len(), "{stdout}");
    assert!(!stderr.is_empty());
    assert_eq!(program.run(&["results", "list", "--all", "--json"]).stdout, "[]\n");
}
