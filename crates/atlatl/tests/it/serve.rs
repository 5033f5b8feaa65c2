//! `atlatl serve` on standard input and output: a person's memories, from nothing.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::Program;
use crate::proxied::{Proxied, reference};

fn serve(program: &Program, flags: &[&str]) -> Proxied {
    let mut server = Proxied::of(program.command(&[&["serve"], flags].concat()));
    server.initialize(&json!({}));
    server
}

fn capture(server: &mut Proxied, content: &str) -> String {
    let arguments = json!({"content": content, "memory_type": "semantic"});
    let answer = server.call("capture_memory", &arguments);
    let id = &answer["result"]["structuredContent"]["memory"]["id"];
    id.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn filled(program: &Program, count: usize) {
    let lines: Vec<String> = testkit::corpus::memories(count, 11)
        .into_iter()
        .map(|mut memory| {
            memory.status = Some(mif::Status::Active);
            memory.to_json()
        })
        .collect();
    let run = program.run_with_input(&["memory", "import", "-"], lines.join("\n").as_bytes());
    assert_eq!(run.status, 0, "{run}");
}

#[test]
fn f43_one_binary_and_no_set_up() {
    let program = Program::new();
    let mut server = serve(&program, &[]);
    let id = capture(&mut server, "The harbour opens at six.");
    let found = server.call("recall_memories", &json!({"query": "when does the harbour open"}));
    assert_eq!(found["result"]["structuredContent"]["memories"][0]["id"], id.as_str());
    assert!(server.close().success());
    // The same memories on the command line, and in the next process.
    let shown = program.run(&["memory", "show", &id]);
    assert!(shown.stdout.contains("The harbour opens at six."), "{shown}");
    let listed = serve(&program, &[]).call("list_memories", &json!({}));
    assert_eq!(listed["result"]["structuredContent"]["count"], 1);
}

#[test]
fn g28_the_use_of_memories_is_in_the_ledger_without_contents() {
    let program = Program::new();
    let mut server = serve(&program, &[]);
    let id = capture(&mut server, "The harbour opens at six.");
    server.call("recall_memories", &json!({"query": "harbour"}));
    server.call("delete_memory", &json!({"id": id}));
    assert!(server.close().success());
    let ledger = fs::read_to_string(program.path("home/.local/state/atlatl/ledger.jsonl")).unwrap();
    assert!(!ledger.contains("harbour"), "{ledger}");
    let lines: Vec<Value> =
        ledger.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = |event: &str| {
        lines.iter().find(|line| line["event"] == event).unwrap_or_else(|| panic!("{ledger}"))
    };
    assert_eq!(line("MemoryCaptured")["memory"], id.as_str());
    assert_eq!(line("MemoryRecalled")["count"], 1);
    assert_eq!(line("MemoryDeleted")["memory"], id.as_str());
    for event in ["MemoryCaptured", "MemoryRecalled", "MemoryDeleted"] {
        let line = line(event);
        assert_eq!(line["id"].as_str().unwrap().len(), 26, "{line}");
        assert_eq!(line["source"], "atlatl-server");
        assert!(line["correlation"].as_str().is_some_and(|id| !id.is_empty()), "{line}");
    }
    assert_ne!(line("MemoryCaptured")["correlation"], line("MemoryRecalled")["correlation"]);
}

#[test]
fn f44_what_was_acknowledged_outlives_a_kill() {
    let program = Program::new();
    let mut ids = Vec::new();
    for round in 0..5 {
        let mut server = serve(&program, &[]);
        for n in 0..3 {
            ids.push(capture(&mut server, &format!("Fact {round} {n}.")));
        }
        // Dropped: killed, at once.
        drop(server);
    }
    let mut server = serve(&program, &[]);
    for id in ids {
        let answer = server.call("get_memory", &json!({"id": id}));
        assert_eq!(answer["result"]["structuredContent"]["memory"]["id"], id.as_str());
    }
}

#[test]
fn l2_a_server_cleans_what_has_expired_and_tells_of_each_file() {
    let program = Program::new();
    filled(&program, 200);
    let mut server = serve(&program, &["--set", "prompt.offload.ttl_seconds=1"]);
    let answer = server.call("list_memories", &json!({}));
    let gone = reference(&answer);
    let path = answer["result"]["structuredContent"]["file_path"].as_str().unwrap().to_owned();
    assert!(fs::exists(&path).unwrap());
    drop(server);
    thread::sleep(Duration::from_millis(1100));
    let mut server = serve(&program, &[]);
    let answer = server.call("list_memories", &json!({}));
    let kept = answer["result"]["structuredContent"]["file_path"].as_str().unwrap().to_owned();
    let ledger = program.path("home/.local/state/atlatl/ledger.jsonl");
    let told = || {
        let ledger = fs::read_to_string(&ledger).unwrap();
        let lines = ledger.lines().filter(|line| line.contains("OffloadFileExpired"));
        lines.filter(|line| line.contains(&gone)).count()
    };
    // The task runs when the server starts and every hour from then on.
    for _ in 0..100 {
        if told() == 1 {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(told(), 1);
    assert!(!fs::exists(&path).unwrap(), "L2");
    assert!(fs::exists(&kept).unwrap(), "L4: nothing that has not expired");
}

#[test]
fn n1_a_count_over_10_000_memories_is_exact_in_one_extraction_call() {
    let program = Program::new();
    filled(&program, 10_000);
    let mut server = serve(&program, &[]);
    let answer = server.call("list_memories", &json!({}));
    let summary = &answer["result"]["structuredContent"]["summary"];
    assert_eq!(summary["count"], 10_000, "{answer}");
    let reference = reference(&answer);
    let mut ask = |arguments: Value| {
        let mut arguments = arguments;
        arguments["ref"] = json!(reference);
        let answer = server.call("lro_extract", &arguments);
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let all = testkit::corpus::memories(10_000, 11);
    let episodic = all.iter().filter(|memory| memory.memory_type == mif::MemoryType::Episodic);
    let episodic = episodic.count();
    let said =
        ask(json!({"sql": "SELECT count(*) AS n FROM results WHERE memory_type = 'episodic'"}));
    assert!(said.trim_end().ends_with(&format!("{{\"n\":{episodic}}}")), "{said}");
    let said =
        ask(json!({"query": "map(select(.memory_type == \"episodic\")) | length", "whole": true}));
    assert!(said.trim_end().ends_with(&format!("\n{episodic}")), "{said}");
    let said = ask(json!({"sql": "SELECT count(*) AS n FROM results"}));
    assert!(said.trim_end().ends_with("{\"n\":10000}"), "{said}");
}

#[test]
fn an_endpoint_that_is_away_is_no_reason_to_fail_and_is_said() {
    let program = Program::new();
    filled(&program, 5);
    // Nothing listens on the port that discards everything.
    let flag = "memory.embedder=openai:http://127.0.0.1:9/v1#m";
    let mut server = serve(&program, &["--set", flag]);
    let answer = server.call("recall_memories", &json!({"query": "service"}));
    let set = &answer["result"]["structuredContent"];
    assert_eq!(set["ranked_by"], "lexical", "{answer}");
    assert!(set["warning"].as_str().unwrap().contains("only by words"), "{answer}");
    let run = program.run(&["serve", "--set", "memory.embedder=openai:http://x"]);
    assert_ne!(run.status, 0);
    assert!(run.stderr.contains("memory.embedder"), "{run}");
    assert!(run.stderr.contains("URL#MODEL"), "{run}");
}

#[test]
fn an_address_that_others_reach_is_refused_without_tokens() {
    let program = Program::new();
    let run = program.run(&["serve", "--http", "0.0.0.0:0"]);
    assert_eq!(run.status, 1);
    assert!(
        run.stderr.contains("server.auth is not set") && run.stderr.contains("token-file:"),
        "{run}"
    );
    let run = program.run(&["serve", "--http", "nowhere"]);
    assert!(run.stderr.contains("127.0.0.1:7171"), "{run}");
    let run = program.run(&["serve", "--http", "0.0.0.0:0", "--set", "server.auth=secret-token"]);
    assert!(run.stderr.contains("token-file:PATH") && !run.stderr.contains("secret"), "{run}");
    let run =
        program.run(&["serve", "--set", "memory.store=postgres://u:hidden@h/db?sslmode=disable"]);
    assert!(
        run.stderr.contains("readable on the network") && !run.stderr.contains("hidden"),
        "{run}"
    );
}

/// A panic must not end a server with all its tenants; it is caught only where panics unwind.
#[test]
fn g38_the_released_program_unwinds_on_a_panic() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let manifest: toml::Table = fs::read_to_string(manifest).unwrap().parse().unwrap();
    for (name, profile) in manifest["profile"].as_table().unwrap() {
        let panic = profile.get("panic").and_then(toml::Value::as_str);
        assert!(matches!(panic, None | Some("unwind")), "{name}: {panic:?}");
    }
}
