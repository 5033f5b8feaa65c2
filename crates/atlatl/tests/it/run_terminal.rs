//! `atlatl run` on a terminal: the command has a terminal too, and its output is shown and stored.

use std::{
    io::Read as _,
    process::{Command, ExitStatus, Stdio},
    thread,
};

use rustix::termios::{Winsize, tcsetwinsize};

use crate::program::{Program, terminal};

/// Lines whose result depends on the terminal.
const LINES: [&str; 14] = [
    "test -t 0; echo $?",
    "test -t 1 && echo terminal || echo pipe",
    "test -t 2 && echo terminal || echo pipe",
    "test -t 1 && test -t 2 && echo both >&2",
    "stty size",
    "stty size <&1",
    "stty -a | grep -o 'isig\\|icanon\\|echo ' | sort",
    "ls -C /etc/passwd /etc/group",
    "printf 'a\\nb\\n'; printf 'c\\rd\\n'",
    "echo out; echo err >&2; echo out",
    "tty -s; echo $?",
    "test -t 1 | cat; test -t 1 < /dev/null; echo $?",
    "printf 'no end'; exit 3",
    "echo before; kill -TERM $$",
];

/// Runs on a terminal of 100 columns; what was shown, and the status.
fn on_terminal(mut command: Command) -> (String, ExitStatus) {
    let (mut person, terminal) = terminal();
    let size = Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();
    let end = || Stdio::from(terminal.try_clone().unwrap());
    let mut child = command
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "dumb")
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .unwrap();
    drop((terminal, command));
    let reader = thread::spawn(move || {
        let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
        // The end of the program is the end of the terminal, which is an error on Linux.
        while let Ok(read @ 1..) = person.read(&mut buffer) {
            shown.extend_from_slice(&buffer[..read]);
        }
        String::from_utf8(shown).unwrap()
    });
    let status = child.wait().unwrap();
    (reader.join().unwrap(), status)
}

#[test]
fn a_command_sees_the_terminal_as_without_atlatl() {
    let program = Program::new();
    for line in LINES {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", line]).current_dir(program.path("work")).env_clear();
        let plain = on_terminal(shell);
        assert_eq!(on_terminal(program.command(&["run", "--shell", line])), plain, "{line}");
    }
}

#[test]
fn large_output_is_shown_and_stored() {
    let program = Program::new();
    let (shown, status) = on_terminal(program.command(&["run", "--", "seq", "1", "60000"]));
    assert!(status.success());
    let numbers: Vec<String> = (1..=60_000).map(|n| n.to_string()).collect();
    let numbers = numbers.join("\n") + "\n";
    let lines = numbers.replace('\n', "\r\n");
    assert!(shown.starts_with(&lines), "{} bytes", shown.len());
    let note = &shown[lines.len()..];
    assert!(note.contains("of output as lro:"), "{note}");
    let at = note.find("lro:").unwrap();
    let original = program.run(&["results", "show", &note[at..at + 30], "--original"]).stdout;
    assert!(original == numbers, "{} bytes", original.len());
}

#[test]
fn a_failure_to_store_is_noted() {
    let program = Program::new();
    let args = ["run", "--set", "proxy.dir=/dev/null/results", "--", "seq", "1", "60000"];
    let (shown, status) = on_terminal(program.command(&args));
    assert!(status.success());
    let end = &shown[shown.rfind("60000\r\n").unwrap()..];
    assert!(end.contains("the output could not be stored: "), "{end}");
}

#[test]
fn only_the_redirected_stream_is_held_back() {
    let program = Program::new();
    let line = "test -t 1 && echo terminal || echo pipe; test -t 2 && echo terminal >&2";
    let (mut person, terminal) = terminal();
    let child = program
        .command(&["run", "--shell", line])
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::from(terminal))
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"pipe\n");
    let mut shown = [0; 100];
    let read = person.read(&mut shown).unwrap();
    assert_eq!(&shown[..read], b"terminal\r\n");
}
