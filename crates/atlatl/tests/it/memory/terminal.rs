//! What a person at a terminal sees: the bar of an import, the question before forgetting.

use std::{
    io::{Read as _, Write as _},
    process::Stdio,
    thread,
};

use super::add;
use crate::program::{Program, terminal};

/// Runs at a terminal where a person types `typed`; what was shown, and the status.
fn at_a_terminal(program: &Program, args: &[&str], typed: &str) -> (String, i32) {
    let (mut person, terminal) = terminal();
    let mut child = program
        .command(args)
        .stdin(Stdio::from(terminal.try_clone().unwrap()))
        .stdout(Stdio::from(terminal.try_clone().unwrap()))
        .stderr(Stdio::from(terminal))
        .spawn()
        .unwrap();
    person.write_all(typed.as_bytes()).unwrap();
    let reader = thread::spawn(move || {
        let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
        // The end of the program is the end of the terminal, which is an error on Linux.
        while let Ok(read @ 1..) = person.read(&mut buffer) {
            shown.extend_from_slice(&buffer[..read]);
        }
        String::from_utf8(shown).unwrap()
    });
    let status = child.wait().unwrap().code().unwrap();
    (reader.join().unwrap(), status)
}

#[test]
fn forgetting_asks_and_no_is_the_default() {
    let program = Program::new();
    let id = add(&program, &["Keep \u{1b}[2J me."]);
    for no in ["n\n", "\n", "yessir\n"] {
        let (shown, status) = at_a_terminal(&program, &["memory", "forget", &id], no);
        assert!(shown.contains("Delete \"Keep <U+001B>[2J me.\" permanently? [y/N] "), "{shown}");
        assert!(status == 1 && shown.contains("nothing was deleted"), "{shown}");
    }
    let (shown, status) = at_a_terminal(&program, &["memory", "forget", &id], "y\n");
    assert!(status == 0 && shown.contains("forgot 1 memory"), "{shown}");
    assert_eq!(program.run(&["memory", "list", "--json"]).json()["count"], 0);
}

#[test]
fn an_import_shows_a_bar_that_is_gone_at_the_end() {
    let mut program = Program::new();
    for n in 0..600 {
        program = program.file(&format!("work/notes/{n}.md"), format!("note {n}"));
    }
    let (shown, status) = at_a_terminal(&program, &["memory", "import", "notes"], "");
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("importing [..."), "{shown}");
    assert!(shown.contains("\u{1b}[Kstored 600, unchanged 0"), "{shown}");
    let (list, _) = at_a_terminal(&program, &["memory", "list"], "");
    assert!(list.contains("20 of 600 memories"), "{list}");
    assert_eq!(list.lines().count(), 22);
}
