//! `atlatl run`: what is printed, what is stored, and what happens if nothing can be stored.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::program::Program;

/// Runs with the tools of the machine.
fn run(program: &Program, args: &[&str]) -> Output {
    with_path(program.command(args)).stdin(Stdio::null()).output().unwrap()
}

fn with_path(mut command: Command) -> Command {
    command.env("PATH", "/usr/bin:/bin");
    command
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

/// The reference in what was printed.
fn reference(printed: &[u8]) -> String {
    let printed = text(printed);
    let at = printed.find("lro:").unwrap_or_else(|| panic!("no reference: {printed}"));
    printed[at..at + 30].to_owned()
}

fn plain(line: &str) -> Output {
    Command::new("/bin/sh").args(["-c", line]).stdin(Stdio::null()).output().unwrap()
}

fn original(program: &Program, reference: &str) -> Vec<u8> {
    let shown = run(program, &["results", "show", reference, "--original"]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    shown.stdout
}

fn stream(program: &Program, reference: &str, name: &str) -> Vec<u8> {
    let shown = run(program, &["results", "show", reference, "--stream", name]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    shown.stdout
}

/// The hidden files in the directories of results.
fn leftovers(program: &Program) -> Vec<String> {
    let mut found = Vec::new();
    let mut dirs = vec![program.path("home"), program.path("tmp")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else if name.starts_with(".output-") || name.starts_with(".part-") {
                found.push(name);
            }
        }
    }
    found
}

/// Runs a line with the environment of the program.
fn in_shell(program: &Program, line: &str) -> Output {
    let same = program.command(&[]);
    Command::new("/bin/sh")
        .args(["-c", line])
        .current_dir(program.path("work"))
        .env_clear()
        .envs(same.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap()
}

#[test]
fn small_output_is_printed_and_leaves_nothing_behind() {
    let program = Program::new();
    for args in [&["run", "--", "echo", "a", "--json"][..], &["run", "echo", "a", "--json"]] {
        let ran = run(&program, args);
        assert_eq!((text(&ran.stdout), text(&ran.stderr)), ("a --json\n", ""));
    }
    // Slow enough for a log.
    let ran = run(&program, &["run", "--shell", "echo a; echo b >&2; sleep 0.2; echo c; exit 3"]);
    assert_eq!((text(&ran.stdout), text(&ran.stderr)), ("a\nc\n", "b\n"));
    assert_eq!(ran.status.code(), Some(3));
    assert_eq!(leftovers(&program), [""; 0]);
    assert_eq!(program.run(&["results", "list", "--json"]).json(), Value::Array(Vec::new()));
}

#[test]
fn large_text_is_replaced_by_a_descriptor_and_can_be_queried() {
    let program = Program::new();
    let ran = run(&program, &["run", "--", "seq", "1", "60000"]);
    let shown = text(&ran.stdout);
    assert!(ran.status.success() && ran.stderr.is_empty(), "{}", text(&ran.stderr));
    assert!(shown.starts_with("[atlatl] 348,894 bytes of output stored as lro:"), "{shown}");
    assert!(shown.contains("60,000 lines") && shown.contains("exit status 0"), "{shown}");
    assert!(shown.contains("--- first lines\n1\n2\n"), "{shown}");
    assert!(shown.contains("\n59999\n60000\n---\n"), "{shown}");
    assert!(shown.len() < 4000, "{shown}");
    let reference = reference(&ran.stdout);
    assert!(shown.contains(&format!("atlatl extract {reference} --search")), "{shown}");
    assert_eq!(original(&program, &reference), plain("seq 1 60000").stdout);
    assert_eq!(stream(&program, &reference, "stdout"), plain("seq 1 60000").stdout);
    assert_eq!(stream(&program, &reference, "stderr"), b"");
    let found = run(&program, &["extract", &reference, "--search", "^31415$"]);
    assert!(text(&found.stdout).contains("31415"), "{}", text(&found.stdout));
    let listed = program.run(&["results", "list", "--json"]).json();
    assert_eq!(listed[0]["query"], "seq 1 60000", "{listed}");
    assert_eq!(listed[0]["tool"], "Bash", "{listed}");
    assert_eq!(leftovers(&program), [""; 0]);
}

#[test]
fn a_failing_command_keeps_its_status_and_shows_its_last_lines() {
    let program = Program::new();
    let line = "seq 1 60000; echo 'error: it broke' >&2; exit 42";
    let ran = run(&program, &["run", "--shell", line]);
    let shown = text(&ran.stdout);
    assert_eq!(ran.status.code(), Some(42));
    assert!(shown.contains("exit status 42") && shown.contains("\nerror: it broke\n"), "{shown}");
    assert!(shown.contains("16 bytes of it on standard error"), "{shown}");
    let reference = reference(&ran.stdout);
    assert_eq!(stream(&program, &reference, "stdout"), plain("seq 1 60000").stdout);
    assert_eq!(stream(&program, &reference, "stderr"), b"error: it broke\n");
}

#[test]
fn json_output_becomes_records() {
    let program = Program::new();
    let line = r#"i=0; printf '[ '; while [ $i -lt 4000 ]; do [ $i -gt 0 ] && printf ', '; printf '{"id": %d, "state": "s%d"}' $i $((i % 3)); i=$((i+1)); done; echo ' ]'"#;
    let ran = run(&program, &["run", "--json", "--shell", line]);
    let descriptor: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(descriptor["summary"]["count"], 4000, "{descriptor}");
    assert_eq!(descriptor["run"]["exit_status"], 0, "{descriptor}");
    assert_eq!(descriptor["run"]["stderr_bytes"], 0, "{descriptor}");
    let reference = descriptor["lro"]["ref"].as_str().unwrap();
    let sql = "SELECT state, count(*) AS n FROM results GROUP BY 1 ORDER BY 1";
    let answer = program.run(&["extract", reference, "--sql", sql]).json();
    assert_eq!(answer[0], serde_json::json!({"state": "s0", "n": 1334}), "{answer}");
    // White space is restored too.
    assert_eq!(original(&program, reference), plain(line).stdout);
}

#[test]
fn messages_on_standard_error_do_not_spoil_json() {
    let program = Program::new();
    let line = r#"echo 'warning: first' >&2; i=0; printf '['; while [ $i -lt 4000 ]; do [ $i -gt 0 ] && printf ','; printf '{"id":%d,"state":"s%d"}' $i $((i % 3)); i=$((i+1)); [ $i = 2000 ] && { sleep 0.1; echo 'warning: half' >&2; sleep 0.1; }; done; echo ']'"#;
    let ran = run(&program, &["run", "--shell", line]);
    assert!(text(&ran.stdout).contains("4,000 records"), "{}", text(&ran.stdout));
    assert_eq!(text(&ran.stderr), "warning: first\nwarning: half\n");
    let reference = reference(&ran.stdout);
    let plain = plain(line);
    assert_eq!(stream(&program, &reference, "stdout"), plain.stdout);
    assert_eq!(stream(&program, &reference, "stderr"), plain.stderr);
    // In the order of reading: one warning is before the records, and one between them.
    let original = original(&program, &reference);
    assert_eq!(original.len(), plain.stdout.len() + plain.stderr.len());
    let half = text(&original).find("warning: half").unwrap();
    assert!(half > plain.stdout.len() / 4 && half < plain.stdout.len() * 3 / 4, "{half}");
    let sql = "SELECT count(*) AS n FROM results";
    assert_eq!(program.run(&["extract", &reference, "--sql", sql]).json()[0]["n"], 4000);
}

#[test]
fn both_streams_are_restored_byte_for_byte_in_their_order() {
    let program = Program::new();
    let line =
        "i=0; while [ $i -lt 5000 ]; do echo out line $i; echo err line $i >&2; i=$((i+1)); done";
    let ran = run(&program, &["run", "--shell", line]);
    let (reference, plain) = (reference(&ran.stdout), plain(line));
    assert_eq!(stream(&program, &reference, "stdout"), plain.stdout);
    assert_eq!(stream(&program, &reference, "stderr"), plain.stderr);
    assert_eq!(original(&program, &reference).len(), plain.stdout.len() + plain.stderr.len());
}

#[test]
fn binary_output_is_restored_byte_for_byte() {
    let program = Program::new();
    let line = "seq 1 50000 | gzip -n; head -c 200000 /dev/zero | tr '\\0' '\\377'";
    let ran = run(&program, &["run", "--shell", line]);
    assert!(text(&ran.stdout).contains("--original > FILE"), "{}", text(&ran.stdout));
    assert_eq!(original(&program, &reference(&ran.stdout)), plain(line).stdout);
}

#[test]
fn the_threshold_and_policies_apply() {
    let program = Program::new();
    let stored = |args: &[&str]| {
        let ran = run(&program, args);
        text(&ran.stdout).contains("stored as lro:")
    };
    assert!(!stored(&["run", "--", "seq", "1", "3000"]));
    assert!(stored(&["run", "--set", "proxy.threshold_tokens=1000", "--", "seq", "1", "3000"]));
    assert!(stored(&["run", "--set", "proxy.policy.Bash=offload", "--", "echo", "a"]));
    assert!(!stored(&["run", "--set", "proxy.policy.Bash=inline", "--", "seq", "1", "60000"]));
    let policy = "proxy.policy.\"Bash(seq *)\"=inline";
    assert!(!stored(&["run", "--set", policy, "--", "seq", "1", "60000"]));
    assert!(stored(&["run", "--set", policy, "--shell", "exec seq 1 60000"]));
    assert!(!stored(&["run", "--set", "prompt.offload.enabled=false", "--", "seq", "1", "60000"]));
}

#[test]
fn g76_an_agents_command_counts_as_the_agent_would_have_shown_it() {
    let answered = |program: &Program, agent: &[&str]| {
        let command = [&["run"], agent, &["--", "seq", "1", "60000"]].concat();
        let reference = reference(&run(program, &command).stdout);
        let asked = run(program, &["extract", &reference, "--search", "^31415$"]);
        assert!(asked.status.success(), "{}", text(&asked.stderr));
        program.run(&["stats", "--json"]).json()
    };
    let counts = |stats: &Value| {
        let all = &stats["all"];
        let of_program = [&all["without_limit"], &all["to_programs"]];
        let of_agent = [&stats["hooks"]["results"], &all["questions_answered"]];
        [of_agent, of_program].map(|counts| counts.map(Value::as_u64))
    };
    for (agent, visible_bytes) in [("claude-code", 2000), ("codex", 12_000)] {
        let stats = answered(&Program::new(), &["--agent", agent]);
        assert_eq!(stats["servers"][0]["name"], format!("hook {agent}"), "{stats}");
        // The agent reads what its shell prints.
        assert_eq!(counts(&stats), [[Some(1); 2], [Some(0); 2]], "{stats}");
        let tokens = |of: &str| stats["all"][of]["tokens"].as_u64().unwrap();
        let bytes = stats["all"]["bytes"].as_u64().unwrap();
        assert_eq!(tokens("visible_tokens"), tokens("inline") * visible_bytes / bytes, "{stats}");
        assert!(tokens("visible_tokens") > 0 && tokens("replies") > 0, "{stats}");
    }
    // A person has no agent.
    let stats = answered(&Program::new(), &[]);
    assert_eq!(stats["servers"][0]["name"], "(no server)", "{stats}");
    assert_eq!(counts(&stats), [[Some(0); 2], [Some(1); 2]], "{stats}");
    assert_eq!(stats["all"]["visible_tokens"], stats["all"]["inline"], "{stats}");
    let program = Program::new();
    assert_eq!(run(&program, &["run", "--agent", "unknown", "--", "true"]).status.code(), Some(2));
    assert!(!program.run(&["run", "--help"]).stdout.contains("--agent"), "only hooks pass it");
}

#[test]
fn what_cannot_be_stored_is_printed_unchanged() {
    let line = "seq 1 60000; echo e >&2; exit 5";
    let plain = plain(line);
    let cases: [(&str, &[&str]); 4] = [
        ("no directory", &["--set", "proxy.dir=/dev/null/results"]),
        ("a quota", &["--set", "spool.max_bytes=100000"]),
        ("no free space", &["--set", "spool.min_free_bytes=1000000000000000000"]),
        ("no room for another result", &["--set", "spool.max_files=1"]),
    ];
    for (name, settings) in cases {
        let program = Program::new();
        let other = [&["run"], settings, &["--set", "proxy.policy.Bash=offload", "--", "pwd"]];
        run(&program, &other.concat());
        let ledger = program.path("home/.local/state/atlatl/ledger.jsonl");
        let _ = fs::remove_file(&ledger);
        let args = [&["run"], settings, &["--shell", line]].concat();
        let ran = run(&program, &args);
        assert_eq!(ran.status.code(), Some(5), "{name}");
        assert_eq!(text(&ran.stderr), "e\n", "{name}");
        assert!(ran.stdout == plain.stdout, "{name}: {} bytes", ran.stdout.len());
        assert_eq!(leftovers(&program), [""; 0], "{name}");
        let events = fs::read_to_string(&ledger).unwrap();
        assert_eq!(events.matches("OffloadWriteFailed").count(), 1, "{name}: {events}");
        // Slow enough for a log, but too small to be stored in any case.
        fs::remove_file(&ledger).unwrap();
        let args = [&["run"], settings, &["--shell", "echo a; sleep 0.1"]].concat();
        assert_eq!(text(&run(&program, &args).stdout), "a\n", "{name}");
        assert!(!ledger.exists(), "{name}");
    }
}

#[test]
fn a_file_size_limit_is_like_a_full_disk() {
    let program = Program::new();
    let executable = env!("CARGO_BIN_EXE_atlatl");
    // The limit is in blocks of 512 bytes, and reached while the log is written.
    let line = format!("ulimit -f 200; exec {executable} run --shell 'seq 1 60000; exit 6'");
    let ran = in_shell(&program, &line);
    assert_eq!(ran.status.code(), Some(6), "{}", text(&ran.stderr));
    assert!(ran.stdout == plain("seq 1 60000").stdout, "{} bytes", ran.stdout.len());
}

#[test]
fn an_invalid_configuration_does_not_stop_the_command() {
    let program = Program::new().file("home/.config/atlatl/config.toml", "nonsense = [");
    let ran = run(&program, &["run", "--", "echo", "a"]);
    assert_eq!((text(&ran.stdout), text(&ran.stderr)), ("a\n", ""));
    let ran = run(&program, &["run", "--set", "no.such.key=1", "--", "echo", "a"]);
    assert_eq!((ran.status.code(), text(&ran.stdout)), (Some(2), ""));
}

#[test]
fn a_command_that_cannot_be_started_has_the_status_of_a_shell() {
    let program = Program::new().file("work/data", "not a program");
    for settings in ["prompt.offload.enabled=true", "prompt.offload.enabled=false"] {
        let missing = run(&program, &["run", "--set", settings, "--", "no-such-command"]);
        assert_eq!(missing.status.code(), Some(127));
        assert!(text(&missing.stderr).starts_with("error: cannot run no-such-command: "));
        let data = run(&program, &["run", "--set", settings, "--", "./data"]);
        assert_eq!(data.status.code(), Some(126));
    }
    assert_eq!(run(&program, &["run"]).status.code(), Some(2));
    assert_eq!(run(&program, &["run", "--shell", "true", "--", "true"]).status.code(), Some(2));
    let bash = run(&program, &["run", "--sh", "/bin/bash", "--shell", "echo {a,b}"]);
    assert_eq!(text(&bash.stdout), "a b\n");
}

#[test]
fn the_command_runs_if_its_output_cannot_be_connected() {
    let program = Program::new();
    let executable = env!("CARGO_BIN_EXE_atlatl");
    for limit in [5, 6, 7, 8, 10] {
        let line = format!("ulimit -n {limit}; exec {executable} run -- echo hi");
        let ran = in_shell(&program, &line);
        assert_eq!((text(&ran.stdout), text(&ran.stderr)), ("hi\n", ""), "{limit} descriptors");
        assert!(ran.status.success());
    }
}

#[test]
fn a_script_without_an_interpreter_line_runs_as_in_a_shell() {
    let program = Program::new().file("work/script", "echo \"$1\"; seq 1 \"$2\"; exit 7\n");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(program.path("work/script"), mode).unwrap();
    for settings in ["prompt.offload.enabled=true", "prompt.offload.enabled=false"] {
        let ran = run(&program, &["run", "--set", settings, "--", "./script", "a b", "2"]);
        assert_eq!((text(&ran.stdout), ran.status.code()), ("a b\n1\n2\n", Some(7)), "{settings}");
    }
    let ran = run(&program, &["run", "--", "./script", "a", "60000"]);
    assert!(text(&ran.stdout).contains("stored as lro:"), "{}", text(&ran.stdout));
}

#[test]
fn a_reader_that_closes_early_ends_the_command() {
    let program = Program::new();
    let executable = env!("CARGO_BIN_EXE_atlatl");
    let line = format!("{executable} run --set spool.max_bytes=1000000 -- yes | head -n 1");
    let began = Instant::now();
    let ran = in_shell(&program, &line);
    assert_eq!(text(&ran.stdout), "y\n");
    assert!(began.elapsed() < Duration::from_secs(20));
    // One that reads nothing is noticed before the limit of the spool.
    let line = format!("{executable} run -- sh -c 'while :; do echo a; sleep 0.01; done' | true");
    let began = Instant::now();
    let ran = Command::new("/bin/sh")
        .args(["-c", &line])
        .current_dir(program.path("work"))
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", program.path("home"))
        .output()
        .unwrap();
    assert!(ran.status.success());
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_blocked_sigchld_does_not_hold_the_run() {
    let program = Program::new();
    let block = "env --block-signal=CHLD";
    if !in_shell(&program, &format!("{block} true")).status.success() {
        eprintln!("a_blocked_sigchld_does_not_hold_the_run: skipped, env cannot block signals");
        return;
    }
    let executable = env!("CARGO_BIN_EXE_atlatl");
    let line = format!("timeout 60 {block} {executable} run --shell 'echo hi; exit 3'");
    let ran = in_shell(&program, &line);
    assert_eq!((text(&ran.stdout), ran.status.code()), ("hi\n", Some(3)));
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let program = Program::new();
    let executable = env!("CARGO_BIN_EXE_atlatl");
    let ran = in_shell(&program, &format!("{executable} run -- echo hi > /dev/full"));
    assert_eq!(ran.status.code(), Some(1), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).starts_with("error: cannot write the output: "));
    // The status of a command that failed itself stays.
    let ran =
        in_shell(&program, &format!("{executable} run --shell 'echo hi; exit 4' > /dev/full"));
    assert_eq!((ran.status.code(), text(&ran.stderr)), (Some(4), ""));
    // Slow enough for a log, which is kept.
    let line = format!("{executable} run --shell 'echo a; sleep 0.2; echo b' > /dev/full");
    let ran = in_shell(&program, &line);
    assert_eq!(ran.status.code(), Some(1));
    assert!(text(&ran.stderr).contains("hint: atlatl results list"), "{}", text(&ran.stderr));
    let listed = program.run(&["results", "list", "--json"]).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(original(&program, listed[0]["ref"].as_str().unwrap()), b"a\nb\n");
}

#[test]
fn a_descriptor_goes_where_the_output_would_go() {
    let program = Program::new();
    let executable = env!("CARGO_BIN_EXE_atlatl");
    let line = format!("{executable} run --shell 'seq 1 60000 >&2' > out 2> err");
    assert!(in_shell(&program, &line).status.success());
    assert_eq!(fs::read(program.path("work/out")).unwrap(), b"");
    let printed = fs::read(program.path("work/err")).unwrap();
    let found = reference(&printed);
    assert_eq!(stream(&program, &found, "stderr"), plain("seq 1 60000").stdout);
    // A reader that closes standard output gets nothing. It stays until something was written there:
    // the signal of a closed pipe would end the command.
    let command = "echo a; sleep 1.5; seq 1 60000 >&2";
    let line = format!("{executable} run --shell '{command}' 2> err | sleep 0.7");
    in_shell(&program, &line);
    let printed = fs::read(program.path("work/err")).unwrap();
    let found = reference(&printed);
    assert_eq!(stream(&program, &found, "stderr"), plain("seq 1 60000").stdout);
}

#[test]
fn a_stream_without_a_reader_is_not_stored() {
    let program = Program::new();
    let mut command = with_path(program.command(&["run", "--shell", "seq 1 60000; echo e >&2"]));
    let ran = command.stdin(Stdio::null()).stdout(Stdio::null()).output().unwrap();
    assert_eq!(text(&ran.stderr), "e\n");
    let mut command = with_path(program.command(&["run", "--shell", "seq 1 60000 >&2"]));
    let ran = command.stdin(Stdio::null()).stdout(Stdio::null()).output().unwrap();
    let reference = reference(&ran.stderr);
    assert_eq!(stream(&program, &reference, "stderr"), plain("seq 1 60000").stdout);
    assert_eq!(stream(&program, &reference, "stdout"), b"");
}

/// 64 MiB of lines: more than the memory that the program may use.
#[test]
fn large_output_needs_little_memory() {
    let program = Program::new();
    let line = "head -c 67108864 /dev/zero | tr '\\0' 'x' | fold -w 100";
    let mut child = with_path(program.command(&["run", "--shell", line]))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let value = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        peak = value.unwrap_or(peak);
        std::thread::sleep(Duration::from_millis(2));
    }
    let ran = child.wait_with_output().unwrap();
    assert!(text(&ran.stdout).contains("bytes of output stored as lro:"), "{}", text(&ran.stdout));
    assert!(peak > 1000 && peak < 48 * 1024, "{peak} KiB");
}
