//! Folders that somebody else made: odd names, links, pipes.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, os::unix::fs::symlink};

use super::counts;
use crate::program::Program;

#[test]
fn odd_names_are_names() {
    let program = Program::new();
    let folder = program.path("work/notes");
    fs::create_dir_all(folder.join("-rf")).unwrap();
    let names: [&[u8]; 5] = [b"a\nb.md", b"\xff\xfe.md", b"--replace.md", b"\x1b[2J.md", b" .md"];
    for name in names {
        fs::write(folder.join(OsStr::from_bytes(name)), "text").unwrap();
    }
    fs::write(folder.join("-rf/$(id).md"), "text").unwrap();
    fs::write(folder.join("\u{1b}]0;x\u{7}.md"), "---\nid: 7\n---\nbad").unwrap();
    let run = program.run(&["memory", "import", "notes", "--json"]);
    assert_eq!(counts(&run.json()), [6, 0, 0, 0, 1], "{run}");
    assert!(!run.stderr.contains('\u{1b}'), "{run}");
    insta::assert_snapshot!(run.stderr, @r#"
    error: notes/<U+001B>]0;x<U+0007>.md:2: `id`: expected a UUID such as 018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b, found "7"
    "#);
    let again = program.run(&["memory", "import", "notes", "--json"]);
    assert_eq!(counts(&again.json()), [0, 6, 0, 0, 1]);
}

#[test]
fn links_and_pipes_in_a_folder_are_passed_over() {
    let program = Program::new()
        .file("secret/key.md", "secret")
        .file("work/notes/a.md", "text")
        .file("work/notes/b/c.md", "text");
    let notes = program.path("work/notes");
    symlink(program.path("secret/key.md"), notes.join("key.md")).unwrap();
    symlink(program.path("secret"), notes.join("folder")).unwrap();
    symlink(&notes, notes.join("b/round")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        notes.join("pipe.md"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let run = program.run(&["memory", "import", "notes", "--json"]);
    assert_eq!((run.status, counts(&run.json())), (0, [2, 0, 0, 0, 0]), "{run}");
    // What a person names is followed, but a pipe is not waited for.
    assert_eq!(
        counts(&program.run(&["memory", "import", "notes/key.md", "--json"]).json()),
        [1, 0, 0, 0, 0]
    );
    let pipe = program.run(&["memory", "import", "notes/pipe.md"]);
    insta::assert_snapshot!(pipe.stderr, @"
    error: notes/pipe.md: not a regular file
    ");
}

#[test]
fn bytes_that_are_no_text_are_told() {
    let program = Program::new()
        .file("work/notes/a.md", b"\xff\xfe")
        .file("work/notes/b.md", "")
        .file("work/notes/c.md", "x".repeat((1 << 20) + 1))
        .file("work/notes/d.md", "---\na: &x [1]\nb: *x\n---\ntext")
        .file("work/notes/e.md", "---\n- list\n---\ntext")
        .file("work/m.jsonl", b"\xff\n\n")
        .file("work/m.json", b"[\"\xff\"]");
    let run = program.run(&["memory", "import", "notes", "m.jsonl", "m.json", "--json"]);
    assert_eq!((run.status, counts(&run.json())), (1, [0, 0, 0, 0, 7]));
    insta::assert_snapshot!(run.stderr, @"
    error: notes/a.md: it is not UTF-8
    error: notes/b.md:1: `content`: expected text, found nothing
    error: notes/c.md:1: `content`: expected at most 1048576 bytes, found 1048577 bytes
    error: notes/d.md:2: expected a value without an anchor, found an anchor (&name)
    error: notes/e.md:2: `document`: expected an object, found an array
    error: m.jsonl:1: it is not UTF-8
    error: m.json:1: it is not UTF-8
    ");
}
