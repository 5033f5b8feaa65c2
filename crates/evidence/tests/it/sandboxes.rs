//! The tools that run the code of an agent, and calls that a world refuses.

use std::net::TcpListener;
use std::path::Path;

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
    let outside = call(&mut world, "read_file", &json!({"path": "/etc/hostname"}));
    assert!(outside.is_error, "{}", outside.text);
}
