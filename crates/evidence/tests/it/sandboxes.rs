//! The tools that run the code of an agent, and calls that a world refuses.

use std::net::TcpListener;
use std::path::Path;

use evidence::corpora;
use evidence::world::{ToolReply, World};
use serde_json::{Value, json};

use crate::fixture::{condition, memories, program, require_sandbox};

fn open(name: &str) -> World {
    World::open(&program(), &condition(name), &memories(50)).unwrap()
}

fn call(world: &mut World, tool: &str, arguments: &Value) -> ToolReply {
    world.call(tool, arguments).unwrap()
}

#[test]
fn the_shell_reads_the_stored_file_and_nothing_else() {
    require_sandbox();
    let mut world = open("s1-c1");
    let listed = call(&mut world, "list_memories", &json!({}));
    let descriptor: Value = serde_json::from_str(&listed.text).unwrap();
    let path = descriptor["file_path"].as_str().unwrap().to_owned();
    let mut bash = |command: String| call(&mut world, "bash", &json!({"command": command}));
    let counted = bash(format!("wc -l < {path}"));
    assert_eq!((counted.text.trim(), counted.is_error), ("51", false), "a header and 50 records");
    assert_eq!(counted.records_given, 0);
    assert_eq!(bash(format!("tail -n +2 {path} | head -3")).records_given, 3);
    let root = Path::new(&path).ancestors().nth(2).unwrap().display();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for refused in [
        format!("echo x >> {path}"),
        format!("rm {path}"),
        // The memories themselves, beside the stored results.
        format!("cat {root}/memory.db"),
        format!("echo > /dev/tcp/127.0.0.1/{port}"),
        // A test runs with variables of cargo.
        "cat /proc/*/environ | grep -z CARGO".to_owned(),
        "cat /etc/passwd".to_owned(),
    ] {
        let reply = bash(refused.clone());
        assert!(reply.is_error, "{refused}: {}", reply.text);
    }
    let scratch = bash("echo a > /tmp/x && cat /tmp/x".to_owned());
    assert_eq!(scratch.text, "a\n");
    let gone = bash("cat /tmp/x".to_owned());
    assert!(gone.is_error && gone.text.contains("[exit status 1]"), "{}", gone.text);
}

#[test]
fn python_keeps_variables_and_sees_pages_only_where_it_should() {
    require_sandbox();
    let mut world = open("s4-pages");
    let first = call(&mut world, "list_memories", &json!({}));
    let page: Value = serde_json::from_str(&first.text).unwrap();
    assert_eq!(page["memories"].as_array().unwrap().len(), 5);
    let cursor = page["next_cursor"].clone();
    let mut python = |code: &str| call(&mut world, "python_exec", &json!({"code": code}));
    assert_eq!(python("n = len(pages[0]['memories'])\nn").text, "5\n");
    let failed = python("1 / 0");
    assert!(failed.is_error && failed.text.contains("ZeroDivisionError"), "{}", failed.text);
    assert_eq!(python("n + 1").text, "6\n", "variables are kept after an error");
    call(&mut world, "list_memories", &json!({"cursor": cursor}));
    let count = "sum(len(page['memories']) for page in pages)";
    let both = call(&mut world, "python_exec", &json!({"code": count}));
    assert_eq!(both.text, "10\n");
    world.begin_conversation().unwrap();
    let forgotten = call(&mut world, "python_exec", &json!({"code": "n"}));
    assert!(forgotten.text.contains("NameError"), "{}", forgotten.text);
    let empty = call(&mut world, "python_exec", &json!({"code": "len(pages)"}));
    assert_eq!(empty.text, "0\n");

    let mut paper = open("s4-paper");
    call(&mut paper, "list_memories", &json!({}));
    let absent = call(&mut paper, "python_exec", &json!({"code": "len(pages)"}));
    assert!(absent.is_error && absent.text.contains("NameError"), "{}", absent.text);
}

#[test]
fn calls_that_a_condition_does_not_have_are_refused() {
    let mut world = open("s2-sql-c1");
    let names: Vec<&str> = world.tools().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names,
        ["list_memories", "lro_extract", "read_large_output", "search_large_output", "answer"]
    );
    let jq = call(&mut world, "lro_extract", &json!({"ref": "lro:1", "query": "."}));
    assert!(jq.is_error && jq.text.contains("no argument query"), "{}", jq.text);
    let other = call(&mut world, "get_memory", &json!({"id": "x"}));
    assert!(other.is_error && other.text.contains("there is no tool get_memory"), "{}", other.text);
    let filtered = call(&mut world, "list_memories", &json!({"namespace": "_semantic"}));
    assert!(filtered.is_error, "{}", filtered.text);
    let answer = call(&mut world, "answer", &json!({"value": null}));
    assert!(answer.is_error, "{}", answer.text);
    assert!(!call(&mut world, "answer", &json!({"value": "none"})).is_error);
}

/// Conditions from which a way to query was removed, with the words that name it.
const REMOVED: [(&str, &[&str]); 5] = [
    ("s2-c2", &["recipe"]),
    ("s2-c4", &["recipe"]),
    ("s2-c8", &["recipe"]),
    ("s2-sql-c1", &["jq", "query=", "whole=", "query_large_output"]),
    ("s2-jq-c1", &["sql", "SQL", "SELECT", "ORDER BY"]),
];

#[test]
fn errors_do_not_name_what_a_condition_removed() {
    for (name, words) in REMOVED {
        let names_removed = |text: &str| words.iter().any(|word| text.contains(word));
        let mut world = open(name);
        let listed = call(&mut world, "list_memories", &json!({}));
        let descriptor: Value = serde_json::from_str(&listed.text).unwrap();
        let guidance = descriptor["guidance"].as_str().unwrap_or_default();
        assert!(!names_removed(guidance), "{name}: {guidance}");
        let stored = &descriptor["lro"]["ref"];
        let mut errors = 0;
        for (tool, arguments) in [
            ("lro_extract", json!({"ref": stored})),
            ("lro_extract", json!({})),
            ("lro_extract", json!({"ref": stored, "query": ".", "sql": "SELECT 1"})),
            ("lro_extract", json!({"ref": stored, "query": "no_such_function(1)"})),
            ("lro_extract", json!({"ref": stored, "sql": "SELECT no_such_function(1)"})),
            ("lro_extract", json!({"ref": stored, "query": ".", "offset": -5})),
            ("lro_extract", json!({"ref": stored, "sql": "SELECT 1", "offset": -5})),
            ("lro_extract", json!({"ref": "lro:unknown", "query": "."})),
            ("lro_extract", json!({"ref": stored, "recipe": 99})),
            ("search_large_output", json!({"ref": stored, "pattern": "(?=a)b"})),
            ("search_large_output", json!({"ref": stored, "pattern": "(a)\\1"})),
            ("search_large_output", json!({"ref": stored})),
            ("query_large_output", json!({"ref": stored})),
            ("read_large_output", json!({"ref": stored, "sql": "SELECT 1"})),
            ("read_large_output", json!({"ref": stored, "start": 5, "end": 1})),
        ] {
            let reply = call(&mut world, tool, &arguments);
            // An error may quote the agent.
            if reply.is_error && !names_removed(&format!("{tool} {arguments}")) {
                errors += 1;
                assert!(!names_removed(&reply.text), "{name}: {tool} {arguments}: {}", reply.text);
            }
        }
        assert!(errors >= 8, "{errors} errors in {name}");
    }
}

#[test]
fn jq_alone_runs_no_sql() {
    let mut world = open("s2-jq-c1");
    let listed = call(&mut world, "list_memories", &json!({}));
    let descriptor: Value = serde_json::from_str(&listed.text).unwrap();
    let stored = &descriptor["lro"]["ref"];
    for tool in ["lro_extract", "query_large_output"] {
        let statement = json!({"ref": stored, "query": "SELECT count(*) FROM results"});
        let refused = call(&mut world, tool, &statement);
        assert!(refused.is_error, "{tool}: {}", refused.text);
        let filter = json!({"ref": stored, "query": "select(.title != null) | .title"});
        let reply = call(&mut world, tool, &filter);
        assert!(!reply.is_error, "{tool}: {}", reply.text);
    }
}

/// A model can send anything, and the next call must work.
#[test]
fn no_call_of_an_agent_fails_the_world() {
    require_sandbox();
    let objects = [
        json!({}),
        json!({"cursor": {"a": 1}}),
        json!({"cursor": "\u{0}"}),
        json!({"command": "echo a\u{0}b"}),
        json!({"command": "x".repeat(200_000)}),
        json!({"code": "1\u{0}2"}),
        json!({"path": 7}),
        json!({"path": "/"}),
        json!({"path": "a\u{0}b"}),
        json!({"ref": "\u{0}", "query": "\u{0}", "pattern": "\u{0}", "start": -1}),
        json!({"value": {"a": [null]}}),
    ];
    let others = [json!(null), json!([]), json!("x"), json!(7)];
    for name in ["s1-c1", "s2-c1", "s2-jq-c1", "s3-5", "s4-pages", "s6", "s7", "s8"] {
        let mut world = open(name);
        let tools: Vec<String> = world.tools().iter().map(|tool| tool.name.clone()).collect();
        for tool in &tools {
            for arguments in objects.iter().chain(&others) {
                let result = world.call(tool, arguments);
                assert!(result.is_ok(), "{name}: {tool} {arguments}: {result:?}");
            }
        }
        let listed = call(&mut world, "list_memories", &json!({}));
        assert!(!listed.is_error, "{name}: {}", listed.text);
    }
}

#[test]
fn a_conversation_sees_only_its_own_result() {
    require_sandbox();
    let log = corpora::generate("log-2k".parse().unwrap());
    let worlds = [
        ("list_memories", open("s1-c1")),
        ("read_log", World::open(&program(), &condition("s1-c1"), &log).unwrap()),
    ];
    for (tool, mut world) in worlds {
        let mut paths = Vec::new();
        for _ in 0..3 {
            world.begin_conversation().unwrap();
            let listed = call(&mut world, tool, &json!({}));
            let descriptor: Value = serde_json::from_str(&listed.text).unwrap();
            let path = descriptor["file_path"].as_str().unwrap().to_owned();
            let (folder, file) = path.rsplit_once('/').unwrap();
            let (_, extension) = file.rsplit_once('.').unwrap();
            let find = format!("find {folder} -type f -name '*.{extension}'");
            let found = call(&mut world, "bash", &json!({"command": find}));
            assert_eq!(found.text.trim(), path, "{tool}");
            paths.push(path);
        }
        assert!(paths[0] != paths[1] && paths[1] != paths[2], "{paths:?}");
    }
}

#[test]
fn the_program_goes_on_without_the_results_of_earlier_conversations() {
    let mut world = open("s2-c1");
    let mut references = Vec::new();
    for _ in 0..2 {
        world.begin_conversation().unwrap();
        let listed = call(&mut world, "list_memories", &json!({}));
        let descriptor: Value = serde_json::from_str(&listed.text).unwrap();
        references.push(descriptor["lro"]["ref"].clone());
    }
    let sql = "SELECT count(*) FROM results";
    let mut counted =
        |stored: &Value| call(&mut world, "lro_extract", &json!({"ref": stored, "sql": sql}));
    assert!(counted(&references[0]).is_error);
    let own = counted(&references[1]);
    assert!(!own.is_error && own.text.contains("50"), "{}", own.text);
}

#[test]
fn a_file_is_read_in_parts_and_only_if_it_is_stored() {
    let mut world = open("s7");
    let listed = call(&mut world, "list_memories", &json!({}));
    let descriptor: Value = serde_json::from_str(&listed.text).unwrap();
    let path = descriptor["file_path"].clone();
    let part = call(&mut world, "read_file", &json!({"path": path, "offset": 2, "limit": 3}));
    assert_eq!(part.records_given, 3, "{}", part.text);
    let note = "[lines 2 to 4 of 51; continue with offset=5]";
    assert!(part.text.ends_with(note), "{}", part.text);
    let folder = Path::new(path.as_str().unwrap()).parent().unwrap();
    for other in [Path::new("/etc/hostname"), folder] {
        let reply = call(&mut world, "read_file", &json!({"path": other}));
        assert!(reply.is_error && reply.text.contains("not a stored file"), "{}", reply.text);
    }
}
