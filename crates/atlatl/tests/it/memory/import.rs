//! Memories taken in from files of all kinds.

use std::fs;

use super::{counts, exported, import};
use crate::program::Program;

const GOOD: &str = r#"{"id":"00000000-0000-7000-8000-000000000001","memory_type":"semantic","created":"2026-01-15T10:30:00Z","content":"one"}"#;

fn good(n: u32) -> String {
    GOOD.replace("000000000001", &format!("{n:012}")).replace("one", &format!("number {n}"))
}

#[test]
fn bad_ones_are_told_and_the_rest_goes_on() {
    let lines = [
        good(1).as_str(),
        "",
        "{\"id\": 7",
        &good(2),
        &good(3).replace("semantic", "odd"),
        "[]",
        "\u{1b}[2J",
        &good(4),
    ]
    .join("\n");
    let program = Program::new().file("work/m.jsonl", lines);
    let run = program.run(&["memory", "import", "m.jsonl"]);
    insta::assert_snapshot!(run, @r#"
    status: 1
    --- stdout
    stored 3, unchanged 0, kept 0, replaced 0, failed 4
    --- stderr
    error: m.jsonl:3: expected ',' or '}', found the end of the text
    error: m.jsonl:5: `memory_type`: expected semantic, episodic or procedural, found "odd"
    error: m.jsonl:6: `document`: expected an object, found an array
    error: m.jsonl:7: expected a JSON value, found '\u{1b}'
    "#);
    let strict = program.run(&["memory", "import", "m.jsonl", "--strict", "--json"]);
    insta::assert_snapshot!(strict, @r#"
    status: 1
    --- stdout
    {
      "stored": 0,
      "unchanged": 1,
      "kept": 0,
      "replaced": 0,
      "failed": 1
    }
    --- stderr
    error: m.jsonl:3: expected ',' or '}', found the end of the text
    "#);
}

#[test]
fn many_bad_ones_are_counted() {
    let program = Program::new().file("work/m.jsonl", "x\n".repeat(123));
    let run = program.run(&["memory", "import", "m.jsonl", "--json"]);
    assert_eq!((run.status, counts(&run.json())), (1, [0, 0, 0, 0, 123]));
    assert_eq!(run.stderr.lines().count(), 21);
    assert!(run.stderr.ends_with("note: 103 more cannot be read\n"), "{run}");
}

#[test]
fn a_different_one_of_the_same_id_stays_unless_replaced() {
    let program = Program::new()
        .file("work/a.jsonl", good(1))
        .file("work/b.jsonl", [good(1).replace("number 1", "other"), good(2)].join("\n"));
    assert_eq!(
        counts(&program.run(&["memory", "import", "a.jsonl", "--json"]).json()),
        [1, 0, 0, 0, 0]
    );
    let kept = program.run(&["memory", "import", "b.jsonl", "a.jsonl"]);
    insta::assert_snapshot!(kept, @"
    status: 0
    --- stdout
    stored 1, unchanged 1, kept 1, replaced 0, failed 0
    --- stderr
    note: a different memory with the same id was kept; use --replace to overwrite it
    ");
    let replaced = program.run(&["memory", "import", "--replace", "b.jsonl", "--json"]).json();
    assert_eq!(counts(&replaced), [0, 1, 0, 1, 0]);
    let shown =
        program.run(&["memory", "show", "00000000-0000-7000-8000-000000000001", "--json"]).json();
    assert_eq!(shown["content"], "other");
}

#[test]
fn json_comes_as_an_object_an_array_or_a_graph() {
    let graph = format!(
        "{{\"@context\": [\"x\"],\n \"@graph\": [{},\n{}]}}",
        good(4).replace("\"id\":\"", "\"@id\":\"urn:mif:").replace("memory_type", "memoryType"),
        good(5)
    );
    let program = Program::new()
        .file("work/object.json", format!("\u{feff}\n{}\n", good(1)))
        .file("work/array.json", format!("[{},\n  {}\n]", good(2), good(3)))
        .file("work/graph.jsonld", graph)
        .file("work/lines.json", [good(6), good(7)].join("\n"))
        .file("work/none.json", "[]")
        .file("work/bad.json", format!("[\n{},\n{{\"id\":\n7}}, 5, [[]], {}", good(8), good(9)));
    for (file, expected) in [
        ("object.json", [1, 0, 0, 0, 0]),
        ("array.json", [2, 0, 0, 0, 0]),
        ("graph.jsonld", [2, 0, 0, 0, 0]),
        ("lines.json", [2, 0, 0, 0, 0]),
        ("none.json", [0, 0, 0, 0, 0]),
    ] {
        let run = program.run(&["memory", "import", file, "--json"]);
        assert_eq!(counts(&run.json()), expected, "{file}: {run}");
    }
    insta::assert_snapshot!(program.run(&["memory", "import", "bad.json"]), @"
    status: 1
    --- stdout
    stored 2, unchanged 0, kept 0, replaced 0, failed 4
    --- stderr
    error: bad.json:4: `id`: expected a string, found 7
    error: bad.json:4: `document`: expected an object, found 5
    error: bad.json:4: `document`: expected an object, found an array
    error: bad.json:4: unexpected end of file
    ");
    assert_eq!(program.run(&["memory", "list", "--json"]).json()["total_matches"], 9);
}

#[test]
fn a_note_is_the_same_memory_wherever_its_folder_lies() {
    let program = Program::new()
        .file("work/notes/a.md", "# Title\n\ntext\n")
        .file("work/notes/b/a.md", "# Title\n\ntext\n")
        .file("work/notes/b/c.MD", "---\ntags: [x]\nauthor: me\n---\ntagged\n")
        .file("work/notes/d.txt", "not read")
        .file("work/notes/.hidden/e.md", "not read");
    assert_eq!(
        counts(&program.run(&["memory", "import", "notes", "--json"]).json()),
        [3, 0, 0, 0, 0]
    );
    fs::rename(program.path("work/notes"), program.path("work/moved")).unwrap();
    for path in ["moved", "./moved/", "moved/b/../../moved"] {
        let run = program.run(&["memory", "import", path, "--json"]);
        assert_eq!(counts(&run.json()), [0, 3, 0, 0, 0], "{run}");
    }
    let memories = program.run(&["memory", "search", "tagged", "--tag", "x", "--json"]).json();
    let tagged = &memories["memories"][0];
    assert_eq!((&tagged["memory_type"], &tagged["author"]), (&"semantic".into(), &"me".into()));
    // Named by itself, a note is called by its name alone.
    let run = program.run(&["memory", "import", "moved/a.md", "--json"]);
    assert_eq!(counts(&run.json()), [0, 1, 0, 0, 0]);
    // A changed note is a new memory; one that was only touched is not.
    fs::write(program.path("work/moved/a.md"), "# Title\n\nother\n").unwrap();
    assert_eq!(
        counts(&program.run(&["memory", "import", "moved", "--json"]).json()),
        [1, 2, 0, 0, 0]
    );
    let file = fs::File::options().write(true).open(program.path("work/moved/a.md")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(
        counts(&program.run(&["memory", "import", "moved", "--json"]).json()),
        [0, 2, 1, 0, 0]
    );
}

#[test]
fn a_large_file_is_read_in_little_memory() {
    let program = Program::new();
    // 40 memories of the largest size, on one line each and in one array: far more than a batch.
    let content = "\\u0061".repeat(1 << 20);
    let line = |n| good(n).replace(&format!("number {n}"), &content);
    let lines: Vec<String> = (1..=40).map(line).collect();
    fs::write(program.path("work/m.jsonl"), lines.join("\n")).unwrap();
    fs::write(program.path("work/m.json"), format!("[{}]", lines.join(","))).unwrap();
    for (file, expected) in [("m.jsonl", [40, 0, 0, 0, 0]), ("m.json", [0, 40, 0, 0, 0])] {
        let atlatl = env!("CARGO_BIN_EXE_atlatl");
        // 256 MiB of data in all; the file alone has 240.
        let script = format!("ulimit -d 262144; exec {atlatl} memory import {file} --json");
        let mut command = program.command(&[]);
        let home =
            command.get_envs().find(|(name, _)| *name == "HOME").unwrap().1.unwrap().to_owned();
        command = std::process::Command::new("sh");
        command.args(["-c", &script]).current_dir(program.path("work")).env("HOME", home);
        let run = command.output().unwrap();
        let summary = serde_json::from_slice(&run.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&run.stderr)));
        assert_eq!(counts(&summary), expected, "{file}");
    }
}

#[test]
fn paths_are_looked_at_before_anything_is_read() {
    let program = Program::new().file("work/a.jsonl", good(1)).file("work/b.txt", "");
    insta::assert_snapshot!(program.run(&["memory", "import", "a.jsonl", "b.txt"]), @"
    status: 2
    --- stdout
    --- stderr
    error: b.txt: unknown file type
    hint: supported extensions: .jsonl, .json, .jsonld and .md
    ");
    insta::assert_snapshot!(program.run(&["memory", "import", "a.jsonl", "none.md"]), @"
    status: 1
    --- stdout
    --- stderr
    error: none.md: No such file or directory (os error 2)
    ");
    assert_eq!(program.run(&["memory", "list", "--json"]).json()["count"], 0);
}

#[test]
fn trust_is_not_raised_and_nothing_is_invented() {
    let program = Program::new();
    let mut memories = testkit::corpus::sparse_memories(64, 9);
    import(&program, &memories, "a.db");
    memories.sort_by_key(|memory| (memory.created.instant(), memory.id.clone()));
    assert_eq!(exported(&program, "a.db"), memories);
}
