//! `atlatl offload` of inputs that do not fit into memory.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::program::{Program, terminal};

const MIB: usize = 1 << 20;
/// What a large input may take more than a small one: what is held of it before it is set aside.
const MAX_GROWTH_KIB: u64 = 40 * 1024;

/// Lines of records, so many bytes of them.
fn lines(bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 200);
    let mut n = 0;
    while text.len() < bytes {
        n += 1;
        let word = "word ".repeat(30);
        writeln!(text, r#"{{"n":{n},"price":1.50,"text":"{word}"}}"#).unwrap();
    }
    text
}

/// Runs to the end and says what it printed, and its peak of resident memory.
fn peak(command: &mut Command) -> (Value, u64) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let peak = watched(&mut child);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (serde_json::from_slice(&output.stdout).unwrap(), peak)
}

/// The peak only grows, so the last one that is seen is the peak but for the very end.
fn watched(child: &mut Child) -> u64 {
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(peak);
        thread::sleep(Duration::from_millis(1));
    }
    peak
}

/// What does not differ between two stored results of the same content.
fn same_parts(descriptor: &Value) -> Value {
    let mut lro = descriptor["lro"].clone();
    for name in ["ref", "path", "file", "file_path", "expires_at", "guidance", "how"] {
        lro.as_object_mut().unwrap().remove(name);
    }
    let text = lro.to_string();
    assert!(text.contains("price"), "{text}");
    lro
}

/// The stored lines behind the header.
fn stored_lines(program: &Program, descriptor: &Value) -> Vec<u8> {
    let reference = descriptor["lro"]["ref"].as_str().unwrap();
    let bare = reference.trim_start_matches("lro:");
    let mut found = Vec::new();
    let mut folders = vec![program.path("tmp"), program.path("home")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.contains(bare) && path.extension().is_some_and(|end| end == "jsonl") {
                found = fs::read(path).unwrap();
            }
        }
    }
    let header = found.iter().position(|byte| *byte == b'\n').unwrap();
    found.split_off(header + 1)
}

#[test]
fn g37_offload_of_a_large_input_takes_bounded_memory_from_file_and_pipe() {
    let large = lines(64 * MIB);
    let program = Program::new().file("work/small", lines(2 * MIB)).file("work/large", &large);
    let offload = |file: &str| program.command(&["offload", file, "--tool", "get_rows"]);
    let (_, small) = peak(offload("small").stdin(Stdio::null()));
    let (from_file, file_peak) = peak(offload("large").stdin(Stdio::null()));
    assert!(stored_lines(&program, &from_file) == large, "the file's bytes are stored");
    assert!(file_peak <= small + MAX_GROWTH_KIB, "a file: {small} KiB, then {file_peak} KiB");

    let mut cat =
        Command::new("cat").arg(program.path("work/large")).stdout(Stdio::piped()).spawn().unwrap();
    let pipe = cat.stdout.take().unwrap();
    let (from_pipe, pipe_peak) = peak(offload("-").stdin(pipe));
    assert!(cat.wait().unwrap().success());
    assert!(stored_lines(&program, &from_pipe) == large, "the pipe's bytes are stored");
    assert!(pipe_peak <= small + MAX_GROWTH_KIB, "a pipe: {small} KiB, then {pipe_peak} KiB");
    assert_eq!(same_parts(&from_file), same_parts(&from_pipe));

    let redirected = File::open(program.path("work/large")).unwrap();
    let mut report = program.command(&["offload", "--dry-run", "--tool", "get_rows", "--json"]);
    let (report, dry_peak) = peak(report.stdin(redirected));
    assert_eq!(report["bytes"], large.len());
    assert_eq!(report["decision"]["delivery"], "offload");
    assert!(dry_peak <= small + MAX_GROWTH_KIB, "a report: {small} KiB, then {dry_peak} KiB");
}

#[test]
fn g37_a_large_tool_result_gives_what_its_payload_gives() {
    let text = lines(20 * MIB);
    let result = serde_json::json!({
        "content": [{"type": "text", "text": String::from_utf8(text.clone()).unwrap()}],
        "isError": false,
    });
    let program = Program::new().file("work/text", &text).file("work/result", result.to_string());
    let offload = |file: &str| {
        let run = program.run(&["offload", file, "--tool", "get_rows"]);
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{run}");
        run.json()
    };
    let (bare, wrapped) = (offload("text"), offload("result"));
    assert_eq!(same_parts(&bare), same_parts(&wrapped));
    assert!(stored_lines(&program, &wrapped) == text);
    // Several texts cannot be told from ranges: they are read whole, and nothing is lost.
    let mut several = result;
    let more = serde_json::json!({"type": "text", "text": "and a word"});
    several["content"].as_array_mut().unwrap().push(more);
    fs::write(program.path("work/several"), several.to_string()).unwrap();
    assert!(stored_lines(&program, &offload("several")) == text);
}

#[test]
fn g37_a_large_result_that_stays_inline_is_printed_as_it_came() {
    let text = lines(17 * MIB);
    let program = Program::new().file("work/large", &text);
    let args = ["offload", "large", "--tool", "x", "--set", "proxy.policy.x=inline"];
    let run = program.run(&args);
    assert!(run.status == 0 && run.stdout.as_bytes() == text, "{}", run.stderr);
}

#[test]
fn g37_a_terminal_shows_how_far_it_is() {
    let program = Program::new().file("work/large", lines(48 * MIB));
    let (mut person, theirs) = terminal();
    let mut child = program
        .command(&["offload", "large", "--tool", "get_rows"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(theirs)
        .spawn()
        .unwrap();
    // The terminal's end is closed with the program.
    let mut shown = Vec::new();
    let mut buf = [0; 4096];
    while let Ok(read @ 1..) = person.read(&mut buf) {
        shown.extend_from_slice(&buf[..read]);
    }
    assert!(child.wait().unwrap().success());
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("ing [") && shown.contains('%'), "{shown}");
}
