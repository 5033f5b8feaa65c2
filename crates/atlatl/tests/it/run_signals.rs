//! `atlatl run` and signals, the death of either process, and processes that the command leaves behind.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{Program, terminal};

/// The time limit for anything that a test waits for, for busy machines.
const TIMEOUT: Duration = Duration::from_secs(30);

fn start(program: &Program, line: &str) -> Child {
    program
        .command(&["run", "--shell", line])
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn wait_until(what: &str, met: impl Fn() -> bool) {
    let since = Instant::now();
    while !met() {
        assert!(since.elapsed() < TIMEOUT, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn output(child: Child) -> (String, ExitStatus) {
    let output = child.wait_with_output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status)
}

#[test]
fn signals_reach_the_command() {
    for (name, number) in
        [("TERM", Signal::TERM), ("INT", Signal::INT), ("HUP", Signal::HUP), ("USR1", Signal::USR1)]
    {
        let program = Program::new();
        let ready = program.path("work/ready");
        let line = format!(
            "trap 'echo got {name}; exit 9' {name}; : > ready; while :; do sleep 0.02; done"
        );
        let child = start(&program, &line);
        wait_until("the command does not start", || ready.exists());
        signal(&child, number);
        let (stdout, status) = output(child);
        assert_eq!((&*stdout, status.code()), (&*format!("got {name}\n"), Some(9)));
    }
}

/// A program with a full screen cancels a command with a signal, in the foreground of its terminal.
#[test]
fn an_interrupt_by_a_program_in_raw_mode_reaches_the_command() {
    let setsid = Path::new("/usr/bin/setsid");
    if !setsid.exists() {
        eprintln!("an_interrupt_by_a_program_in_raw_mode: skipped, there is no setsid");
        return;
    }
    let program = Program::new();
    let ready = program.path("work/ready");
    let trap = "trap \"echo got; exit 9\" INT; : > ready; while :; do sleep 0.02; done";
    let executable = env!("CARGO_BIN_EXE_atlatl");
    let line = format!("stty -isig; echo $$ > pid; exec {executable} run --shell '{trap}'");
    let same = program.command(&[]);
    let (_person, terminal) = terminal();
    let child = Command::new(setsid)
        .args(["-c", "/bin/sh", "-c", &line])
        .current_dir(program.path("work"))
        .env_clear()
        .envs(same.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::from(terminal))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the command does not start", || ready.exists());
    let pid = std::fs::read_to_string(program.path("work/pid")).unwrap();
    kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), Signal::INT).unwrap();
    let (stdout, status) = output(child);
    assert_eq!((&*stdout, status.code()), ("got\n", Some(9)));
}

#[test]
fn a_signal_that_ends_the_command_ends_the_run() {
    for number in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR2] {
        let program = Program::new();
        let ready = program.path("work/ready");
        let child = start(&program, "echo before; : > ready; exec sleep 30");
        wait_until("the command does not start", || ready.exists());
        signal(&child, number);
        let (stdout, status) = output(child);
        assert_eq!((&*stdout, status.signal()), ("before\n", Some(number.as_raw())));
    }
}

#[test]
fn what_was_read_survives_the_death_of_the_run() {
    let program = Program::new();
    let ready = program.path("work/ready");
    let line =
        "seq 1 40000; echo oops >&2; sleep 0.3; echo more; sleep 0.3; : > ready; exec sleep 30";
    let mut child = start(&program, line);
    wait_until("the command does not start", || ready.exists());
    signal(&child, Signal::KILL);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(printed, "", "nothing was printed before the end");

    let listed = program.run(&["results", "list", "--json"]).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed[0]["query"], "interrupted command", "{listed}");
    let reference = listed[0]["ref"].as_str().unwrap();
    let numbers: Vec<String> = (1..=40_000).map(|n| n.to_string()).collect();
    let numbers = numbers.join("\n") + "\n";
    let stdout = program.run(&["results", "show", reference, "--stream", "stdout"]).stdout;
    assert!(stdout == format!("{numbers}more\n"), "{} bytes", stdout.len());
    assert_eq!(program.run(&["results", "show", reference, "--stream", "stderr"]).stdout, "oops\n");
    // Once only.
    assert_eq!(program.run(&["results", "list", "--json"]).json(), listed);
}

#[test]
fn small_output_survives_too() {
    let program = Program::new();
    let ready = program.path("work/ready");
    let mut child = start(&program, "echo only this; sleep 0.3; : > ready; exec sleep 30");
    wait_until("the command does not start", || ready.exists());
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    let listed = program.run(&["results", "list", "--json"]).json();
    let reference = listed[0]["ref"].as_str().unwrap();
    assert_eq!(program.run(&["results", "show", reference, "--original"]).stdout, "only this\n");
}

#[test]
fn output_in_the_other_directory_survives_too() {
    let program = Program::new();
    let ready = program.path("work/ready");
    let dir = format!("prompt.offload.output_dir={}", program.path("tmp").display());
    let line = "echo elsewhere; sleep 0.3; : > ready; exec sleep 30";
    let mut child = program
        .command(&["run", "--set", &dir, "--shell", line])
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the command does not start", || ready.exists());
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    // Results are in the home directory by default, and in the temporary one where that is not writable.
    let listed = program.run(&["results", "list", "--json"]).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    let reference = listed[0]["ref"].as_str().unwrap();
    assert_eq!(program.run(&["results", "show", reference, "--original"]).stdout, "elsewhere\n");
}

#[test]
fn the_log_of_a_running_command_is_left_alone() {
    let program = Program::new();
    let ready = program.path("work/ready");
    let line = "echo a; sleep 0.3; : > ready; while [ -e ready ]; do sleep 0.02; done; echo b";
    let child = start(&program, line);
    wait_until("the command does not start", || ready.exists());
    assert_eq!(program.run(&["results", "list", "--json"]).json(), Value::Array(Vec::new()));
    program.run(&["results", "clean"]);
    std::fs::remove_file(&ready).unwrap();
    assert_eq!(output(child).0, "a\nb\n");
}

#[test]
fn ignored_signals_stay_ignored() {
    let program = Program::new();
    let executable = env!("CARGO_BIN_EXE_atlatl");
    let line = format!(
        "trap '' HUP INT; exec {executable} run --shell 'kill -HUP $$; kill -INT $$; echo survived'"
    );
    let ran = Command::new("/bin/sh")
        .args(["-c", &line])
        .env("HOME", program.path("home"))
        .current_dir(program.path("work"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), "survived\n");
}

#[test]
fn a_process_left_behind_does_not_delay_the_end_and_keeps_its_output() {
    let program = Program::new();
    let line = "(while [ ! -e go ]; do sleep 0.02; done; echo late; echo late too >&2) & echo now";
    let mut child = start(&program, line);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let status = child.wait().unwrap();
    assert!(status.success());
    let mut first = String::new();
    stdout.read_line(&mut first).unwrap();
    assert_eq!(first, "now\n");
    std::fs::write(program.path("work/go"), "").unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "late\n");
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(errors, "late too\n");
}

#[test]
fn a_process_left_behind_that_writes_without_end_does_not_hold_the_run() {
    let program = Program::new();
    let mut child = start(&program, "yes & echo $! > pid; exit 7");
    let mut stdout = child.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        // Until the process is killed.
        while stdout.read(&mut buffer).is_ok_and(|read| read > 0) {}
    });
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let pid = std::fs::read_to_string(program.path("work/pid")).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    reader.join().unwrap();
}
