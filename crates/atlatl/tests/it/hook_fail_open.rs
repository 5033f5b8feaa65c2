//! `atlatl hook` fails open: whatever goes wrong, it prints nothing and exits with 0, in time.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use serde_json::json;

use crate::hook::{hook, orders};
use crate::program::{Program, Run};

/// The deadline of a hook, with room for a busy machine to start and end a process.
const MAX_ADDED: Duration = Duration::from_secs(1);

fn large() -> Vec<u8> {
    let response = json!({"stdout": orders(9000), "stderr": "", "interrupted": false});
    let input = json!({"tool_name": "Bash", "tool_input": {}, "tool_response": response});
    input.to_string().into_bytes()
}

fn is_silent(run: &Run) {
    assert_eq!((run.status, &*run.stdout), (0, ""), "{run}");
}

const CLAUDE: [&str; 3] = ["hook", "claude-code", "post-tool-use"];

#[test]
fn input_of_another_kind_is_left_alone() {
    let program = Program::new();
    let nested = "[".repeat(100_000);
    for input in
        ["", "null", "{}", "{", "\u{0}", "[1,2,3]", "{\"tool_name\":[]}", "text", nested.as_str()]
    {
        for (host, event) in [
            ("claude-code", "post-tool-use"),
            ("codex", "post-tool-use"),
            ("copilot", "post-tool-use"),
            ("gemini", "after-tool"),
            ("opencode", "tool.execute.after"),
        ] {
            is_silent(&program.run_with_input(&["hook", host, event], input.as_bytes()));
        }
    }
    is_silent(&program.run_with_input(&CLAUDE, b"\xff\xfe\x00"));
}

#[test]
fn wrong_arguments_are_not_a_refusal() {
    let program = Program::new();
    for args in [
        &["hook"][..],
        &["hook", "unknown", "post-tool-use"],
        &["hook", "claude-code"],
        &["hook", "claude-code", "pre-compact"],
        &["hook", "copilot", "pre-tool-use", "--unknown"],
        &["hook", "claude-code", "post-tool-use", "--tools", "a\"b"],
        &["hook", "claude-code", "post-tool-use", "--set", "nonsense"],
    ] {
        is_silent(&program.run_with_input(args, &large()));
    }
}

#[test]
fn an_invalid_configuration_or_an_unusable_directory_leaves_the_output() {
    let program = Program::new().file("home/.config/atlatl/config.toml", "proxy = [");
    let run = program.run_with_input(&[&CLAUDE[..], &["--deadline", "60000"]].concat(), &large());
    assert_eq!(run.status, 0);
    assert!(run.stdout.contains("updatedToolOutput"), "the defaults apply: {run}");
    // A file in place of the directory of results.
    let program = Program::new().file("home/.local/state/atlatl/results", "a file");
    is_silent(&program.run_with_input(&CLAUDE, &large()));
    // A directory that does not exist and must not be created.
    let program = Program::new().variable("ATLATL_PROXY__DIR", "/nonexistent/atlatl");
    is_silent(&program.run_with_input(&CLAUDE, &large()));
}

#[test]
fn a_full_disk_leaves_the_output() {
    let program = Program::new();
    let mut child = program
        .command(&[&CLAUDE[..], &["--deadline", "60000"]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Every file may have 4 KiB: writes beyond fail, as on a full disk.
    let pid = rustix::process::Pid::from_child(&child);
    let hard = getrlimit(Resource::Fsize).maximum;
    prlimit(Some(pid), Resource::Fsize, Rlimit { current: Some(4096), maximum: hard }).unwrap();
    child.stdin.take().unwrap().write_all(&large()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b""[..]));
}

#[test]
fn a_store_that_hangs_is_given_up_in_time() {
    let program = Program::new();
    // The first run creates the directory, whose files are then locked.
    let args = [&CLAUDE[..], &["--deadline", "60000"]].concat();
    assert!(!program.run_with_input(&args, &large()).stdout.is_empty());
    let locks = lock_everything(&program);
    assert!(!locks.is_empty());
    let began = Instant::now();
    let run = program.run_with_input(&CLAUDE, &large());
    let took = began.elapsed();
    is_silent(&run);
    assert!(took < MAX_ADDED, "{took:?}");
    drop(locks);
    assert!(!program.run_with_input(&args, &large()).stdout.is_empty());
}

/// Exclusive locks on every file of the store and on the ledger.
fn lock_everything(program: &Program) -> Vec<File> {
    let mut locks = Vec::new();
    let mut dirs = vec![program.path("home/.local/state/atlatl")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if let Ok(file) = File::open(&path)
                && rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
                    .is_ok()
            {
                locks.push(file);
            }
        }
    }
    locks
}

#[test]
fn an_agent_that_does_not_close_its_end_does_not_keep_the_hook() {
    let program = Program::new();
    let began = Instant::now();
    let mut child =
        program.command(&CLAUDE).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"{\"tool_name\":").unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(began.elapsed() < MAX_ADDED, "{:?}", began.elapsed());
    drop(input);
}

#[test]
fn a_killed_hook_has_printed_nothing_or_everything() {
    let program = Program::new();
    for delay in [0, 2, 5, 10, 20, 40, 80] {
        let mut child = program
            .command(&[&CLAUDE[..], &["--deadline", "60000"]].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(&large());
        std::thread::sleep(Duration::from_millis(delay));
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.signal() == Some(9) || output.status.code() == Some(0));
        assert!(
            output.stdout.is_empty()
                || serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok()
        );
    }
    // What was interrupted does not harm the next one.
    let run = program.run_with_input(&[&CLAUDE[..], &["--deadline", "60000"]].concat(), &large());
    assert!(run.stdout.contains("updatedToolOutput"), "{run}");
}

#[test]
fn fifty_megabytes_are_stored_and_can_be_queried() {
    let program = Program::new();
    let whole = orders(3_400_000);
    assert!(whole.len() > 50_000_000);
    let input = json!({"tool_name": "run_shell_command", "tool_input": {"command": "cat orders.csv"},
        "tool_response": {"llmContent": whole}});
    let run = hook(&program, &["gemini", "after-tool"], &input);
    let answer = run.json();
    let tail = &answer["hookSpecificOutput"]["tailToolCallRequest"]["args"]["text"];
    let descriptor: serde_json::Value = serde_json::from_str(tail.as_str().unwrap()).unwrap();
    assert_eq!(descriptor["summary"]["bytes"], whole.len());
    let reference = descriptor["lro"]["ref"].as_str().unwrap();
    let sql = "SELECT city FROM results WHERE \"order\" = 3399999";
    let run = program.run(&["extract", "--all", reference, "--sql", sql]);
    assert_eq!(run.json()[0]["city"], "Oslo", "{run}");
}

#[test]
fn a_directory_without_permission_leaves_the_output() {
    if rustix::process::geteuid().is_root() {
        return;
    }
    let program = Program::new().file("home/.local/state/atlatl/x", "");
    let dir = program.path("home/.local/state/atlatl");
    fs::set_permissions(&dir, Permissions::from_mode(0o500)).unwrap();
    let run = program.run_with_input(&CLAUDE, &large());
    assert_eq!(run.status, 0, "{run}");
    fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
}
