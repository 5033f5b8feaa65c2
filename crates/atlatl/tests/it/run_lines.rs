//! Command lines of `run_lines.txt`, run by `/bin/sh` and by `atlatl run --shell`: both give the same bytes
//! on each stream, and the same exit status.

use std::{
    fs,
    io::{Read as _, Write as _, pipe},
    process::{Command, ExitStatus, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::program::Program;

const TABLE: &str = include_str!("run_lines.txt");
/// The section whose lines are also run with one pipe for both streams.
const INTERLEAVED: &str = "# interleaved streams";
const INPUT: &[u8] = b"alpha\nbeta\ngamma\n";
const THREADS: usize = 4;

/// What a reader sees of a command.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    stdout: String,
    stderr: String,
    status: ExitStatus,
}

/// Bytes that can be compared and read by a person.
fn escaped(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn lines() -> Vec<&'static str> {
    TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")).collect()
}

/// The command in the directory of `program`, which is emptied.
fn prepare(program: &Program, mut command: Command) -> Command {
    let work = program.path("work");
    fs::remove_dir_all(&work).unwrap();
    fs::create_dir(&work).unwrap();
    command.env("PATH", "/usr/bin:/bin");
    command
}

fn shell(program: &Program, line: &str) -> Command {
    let same = Program::command(program, &[]);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).current_dir(program.path("work")).env_clear();
    command.envs(same.get_envs().filter_map(|(name, value)| Some((name, value?))));
    prepare(program, command)
}

fn atlatl(program: &Program, line: &str) -> Command {
    prepare(program, program.command(&["run", "--shell", line]))
}

fn separate(mut command: Command) -> Seen {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its input may be gone by now.
    let _ = child.stdin.take().unwrap().write_all(INPUT);
    let output = child.wait_with_output().unwrap();
    Seen { stdout: escaped(&output.stdout), stderr: escaped(&output.stderr), status: output.status }
}

/// Both streams in one pipe, so that their order is known.
fn merged(mut command: Command) -> Seen {
    let (mut reader, writer) = pipe().unwrap();
    command.stdin(Stdio::null()).stderr(writer.try_clone().unwrap()).stdout(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    Seen { stdout: escaped(&bytes), stderr: String::new(), status: child.wait().unwrap() }
}

/// Runs `check` for each line, on several threads, and returns the lines that differ.
fn differences(lines: &[&str], check: impl Fn(&Program, &str) -> Option<String> + Sync) -> String {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let work = || {
            let program = Program::new();
            let take = || lines.get(next.fetch_add(1, Ordering::Relaxed));
            std::iter::from_fn(take).filter_map(|line| check(&program, line)).collect::<String>()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn compare(line: &str, plain: &Seen, run: &Seen) -> Option<String> {
    (plain != run).then(|| format!("{line}\n  sh:  {plain:?}\n  run: {run:?}\n"))
}

#[test]
fn every_line_gives_the_same_as_the_plain_shell() {
    let lines = lines();
    assert!(lines.len() >= 500, "{} lines", lines.len());
    let different = differences(&lines, |program, line| {
        compare(line, &separate(shell(program, line)), &separate(atlatl(program, line)))
    });
    assert_eq!(different, "");
}

#[test]
fn with_one_pipe_for_both_streams_their_order_is_exact() {
    let section = TABLE.split(INTERLEAVED).nth(1).unwrap();
    let lines: Vec<&str> =
        section.lines().skip(1).take_while(|line| !line.starts_with("# ")).collect();
    assert!(lines.len() >= 20, "{} lines", lines.len());
    let different = differences(&lines, |program, line| {
        compare(line, &merged(shell(program, line)), &merged(atlatl(program, line)))
    });
    assert_eq!(different, "");
}
