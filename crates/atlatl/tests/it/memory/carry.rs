//! Memories carried: what is exported and imported again is the same.

use std::{fs, os::unix::fs::PermissionsExt as _};

use mif::{Memory, MemoryId, MemoryType};

use super::{counts, exported, import};
use crate::program::Program;

/// Contents and fields that look like something else.
pub(super) fn hostile() -> Vec<Memory> {
    let contents = [
        "---",
        "---\n---\n",
        "---\nid: 00000000-0000-0000-0000-000000000000\n---\n\nfake\n",
        "a\r\nb\r\n",
        "\r\n",
        "\n",
        "\n\nfirst and last\n\n",
        " \t",
        "\u{feff}mark",
        "\u{1b}[2J\u{0}\u{7f}\u{9b}\u{202e}\u{2028}",
        "{\"@graph\": []}",
        "\"\\\"]}",
        "字段 🦊 e\u{301}",
    ];
    let time = "2026-01-15T10:30:00.123456789+02:00";
    let mut memories: Vec<Memory> = contents
        .iter()
        .zip(1..)
        .map(|(content, n)| {
            let id = MemoryId::from_u128(n);
            Memory::new(id, MemoryType::Semantic, *content, time.parse().unwrap()).unwrap()
        })
        .collect();
    let fields = [
        r#""long":123456789012345678901234567890.10e+400,"title":"---","tags":["","a, b","---","null"]"#,
        r#""@context":{"x":"y"},"@type":"Concept","@graph":[1],"other":{"a":[{"b":null}]}"#,
        r#""title":null,"tags":[],"namespace":null,"status":"deleted","0":0,"":"","a\nb":"c\r\n""#,
        r#""temporal":{"ttl":"P100Y","decay":{"model":"exponential","half_life":"P7D"}},"type":"note""#,
    ];
    memories.extend(fields.iter().zip(100_u128..).map(|(fields, n)| {
        let id = MemoryId::from_u128(n).to_string().to_uppercase();
        let json = format!(
            r#"{{"id":"{id}","memory_type":"episodic","created":"{time}","content":"x",{fields}}}"#
        );
        Memory::from_json(&json).unwrap()
    }));
    memories
}

fn round_trip(memories: &[Memory]) {
    let program = Program::new();
    let n = memories.len() as u64;
    assert_eq!(counts(&import(&program, memories, "a.db")), [n, 0, 0, 0, 0]);
    let first = exported(&program, "a.db");
    assert_eq!(first.len(), memories.len());
    for memory in memories {
        let same = first.iter().find(|other| other.id == memory.id).unwrap();
        assert_eq!(same, memory);
    }
    for (form, to) in [("jsonl", "a.jsonl"), ("json-ld", "a.jsonld"), ("markdown", "a")] {
        let store = "memory.store=sqlite:a.db";
        let run = program.run(&["--set", store, "memory", "export", "--form", form, "--to", to]);
        assert_eq!((run.status, &*run.stdout), (0, ""), "{run}");
        let copy = format!("{form}.db");
        let set = format!("memory.store=sqlite:{copy}");
        let taken = program.run(&["--set", &set, "memory", "import", to, "--json"]);
        assert_eq!(counts(&taken.json()), [n, 0, 0, 0, 0], "{form}: {taken}");
        assert_eq!(exported(&program, &copy), first, "{form}");
        let again = program.run(&["--set", &set, "memory", "import", to, "--json"]);
        assert_eq!(counts(&again.json()), [0, n, 0, 0, 0], "{form}: {again}");
    }
}

#[test]
fn sparse_memories_are_the_same_after_every_form() {
    round_trip(&testkit::corpus::sparse_memories(450, 3));
}

#[test]
fn hostile_memories_are_the_same_after_every_form() {
    round_trip(&hostile());
}

#[test]
fn what_is_exported_is_private_and_writes_over_nothing() {
    let program =
        Program::new().file("work/taken/note.txt", "mine").file("work/taken.jsonl", "mine");
    import(&program, &testkit::corpus::memories(2, 1), "a.db");
    let export = |args: &[&str]| {
        let first = ["--set", "memory.store=sqlite:a.db", "memory", "export"];
        program.run(&[&first, args].concat())
    };
    insta::assert_snapshot!(export(&["--form", "markdown"]), @"
    status: 2
    --- stdout
    --- stderr
    error: Markdown needs a folder, with one file per memory
    hint: use --to FOLDER
    ");
    insta::assert_snapshot!(export(&["--form", "markdown", "--to", "taken"]), @"
    status: 1
    --- stdout
    --- stderr
    error: taken is not empty
    hint: use --force to write into it and overwrite files of the same memories
    ");
    insta::assert_snapshot!(export(&["--to", "taken.jsonl"]), @"
    status: 1
    --- stdout
    --- stderr
    error: taken.jsonl already exists
    hint: use --force to overwrite it
    ");
    assert_eq!(fs::read_to_string(program.path("work/taken.jsonl")).unwrap(), "mine");
    assert_eq!(export(&["--to", "taken.jsonl", "--force"]).status, 0);
    assert_eq!(export(&["--form", "markdown", "--to", "taken", "--force"]).status, 0);
    assert_eq!(fs::read_dir(program.path("work/taken")).unwrap().count(), 3);
    assert_eq!(export(&["--form", "markdown", "--to", "new/folder"]).status, 0);
    let mode = |name: &str| {
        fs::metadata(program.path(&format!("work/{name}"))).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("taken.jsonl"), mode("new/folder")), (0o600, 0o700));
    for entry in fs::read_dir(program.path("work/new/folder")).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let name = entry.file_name().into_string().unwrap();
        let id = name.strip_suffix(".memory.md").unwrap();
        assert!(id.parse::<MemoryId>().is_ok(), "{name}");
    }
    assert_eq!(export(&["--to", "no/such/folder.jsonl"]).status, 1);
    // No draft of an export is left.
    assert!(
        !program
            .path("work")
            .read_dir()
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_str().unwrap().starts_with(".tmp") })
    );
}

#[test]
fn an_export_does_not_write_through_links() {
    let program = Program::new().file("work/secret", "mine");
    let memories = testkit::corpus::memories(1, 1);
    import(&program, &memories, "a.db");
    fs::create_dir(program.path("work/out")).unwrap();
    let link = program.path(&format!("work/out/{}.memory.md", memories[0].id));
    std::os::unix::fs::symlink(program.path("work/secret"), &link).unwrap();
    let run = program.run(&[
        "--set",
        "memory.store=sqlite:a.db",
        "memory",
        "export",
        "--form",
        "markdown",
        "--to",
        "out",
        "--force",
    ]);
    assert_eq!(run.status, 0, "{run}");
    assert_eq!(fs::read_to_string(program.path("work/secret")).unwrap(), "mine");
    assert!(fs::symlink_metadata(&link).unwrap().is_file());
}

#[test]
fn an_export_can_be_chosen_from_and_has_every_status() {
    let program = Program::new();
    let memories = testkit::corpus::memories(100, 5);
    import(&program, &memories, "a.db");
    assert_eq!(exported(&program, "a.db").len(), 100);
    let run = program.run(&[
        "--set",
        "memory.store=sqlite:a.db",
        "memory",
        "export",
        "--status",
        "archived",
    ]);
    let archived = memories.iter().filter(|memory| memory.status == Some(mif::Status::Archived));
    assert_eq!(run.stdout.lines().count(), archived.count());
}

#[test]
fn a_reader_that_has_seen_enough_of_an_export_is_no_failure() {
    let program = Program::new();
    import(&program, &testkit::corpus::memories(500, 5), "a.db");
    for form in ["jsonl", "json-ld"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let args = ["--set", "memory.store=sqlite:a.db", "memory", "export", "--form", form];
        let run = program.command(&args).stdout(writer).output().unwrap();
        assert_eq!(run.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&run.stderr), "");
    }
}
