//! Faults of the memory store, of the embedder and of queries.

use std::fs;
use std::net::TcpListener;

use rusqlite::Connection;

use super::*;

const FILE: &str = "home/.local/share/atlatl/memory.db";

/// A machine with three memories.
fn remembering() -> Program {
    let program = machine();
    for text in ["We deploy on Thursdays.", "Ana knows the vault.", "Beans for lunch."] {
        assert_eq!(program.run(&["memory", "add", text]).status, 0);
    }
    is_well(&doctor(&program, &[]));
    program
}

fn database(program: &Program) -> Connection {
    Connection::open(program.path(FILE)).unwrap()
}

#[test]
fn a_file_that_is_no_database_is_a_fault() {
    let program = machine().file(FILE, "this is a text, and none that SQLite wrote ".repeat(40));
    let run = doctor(&program, &[]);
    let fix = fault(&run, "memory-store", FILE);
    assert!(
        finding(&run, "memory-store")["says"].to_string().contains("not a SQLite file"),
        "{run}"
    );
    assert_eq!(fix, format!("mv [DIR]/{FILE} [DIR]/{FILE}.aside"));
    follow(&program, &fix);
    is_well(&doctor(&program, &[]));
}

#[test]
fn a_directory_in_the_place_of_the_store_is_a_fault() {
    let program = machine().file(&format!("{FILE}/x"), "");
    let run = doctor(&program, &[]);
    follow(&program, &fault(&run, "memory-store", FILE));
    is_well(&doctor(&program, &[]));
}

#[test]
fn a_store_of_a_later_version_is_a_fault() {
    let program = remembering();
    database(&program).pragma_update(None, "user_version", 99).unwrap();
    let run = doctor(&program, &[]);
    let fix = fault(&run, "memory-store", FILE);
    assert!(
        finding(&run, "memory-store")["says"].to_string().contains("it has schema version 99"),
        "{run}"
    );
    assert!(fix.contains("install that atlatl"), "{run}");
}

#[test]
fn a_store_that_another_process_holds_is_a_warning() {
    let program = remembering();
    let db = database(&program);
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let run = doctor(&program, &[]);
    let fix = warning(&run, "memory-store", FILE);
    assert_eq!(fix, format!("fuser -v [DIR]/{FILE}, and end the process that hangs"));
    db.execute_batch("ROLLBACK").unwrap();
    is_well(&doctor(&program, &[]));
}

#[test]
fn a_damaged_store_is_a_fault() {
    let program = remembering();
    database(&program).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let path = program.path(FILE);
    let mut bytes = fs::read(&path).unwrap();
    let (first, end) = (8192, bytes.len());
    bytes[first..end].fill(0xA5);
    fs::write(&path, bytes).unwrap();
    let run = doctor(&program, &[]);
    let found = finding(&run, "memory-store");
    assert_eq!((run.status, &found["level"]), (1, &json!("fault")), "{run}");
    assert!(found["about"].as_str().unwrap().ends_with(FILE), "{run}");
}

#[test]
fn an_index_out_of_step_is_a_fault_and_can_be_repaired() {
    let program = remembering();
    database(&program).execute_batch("INSERT INTO words (words) VALUES ('delete-all')").unwrap();
    let run = doctor(&program, &[]);
    assert_eq!(fault(&run, "memory-index", FILE), "atlatl memory repair");
    assert!(finding(&run, "memory-index")["says"].to_string().contains("3 memories are not in"));
    let repaired = program.run(&["memory", "repair", "--json"]);
    assert_eq!((repaired.status, &repaired.json()["missing"]), (0, &json!(3)), "{repaired}");
    is_well(&doctor(&program, &[]));
}

#[test]
fn a_model_that_is_not_there_or_not_whole_is_a_fault() {
    let program = machine().file("model/tokenizer.json", "{}");
    let run = doctor(&program, &["--set", "memory.embedder=local:/gone/model"]);
    let fix = fault(&run, "embedder", "/gone/model");
    assert_eq!(fix, "fix the configuration, or --set memory.embedder=\"none\"");
    let set = format!("memory.embedder=local:{}", program.path("model").display());
    let run = doctor(&program, &["--set", &set]);
    fault(&run, "embedder", "[DIR]/model");
    assert!(
        finding(&run, "embedder")["says"].to_string().contains("no .gguf or .safetensors file"),
        "{run}"
    );
    is_well(&doctor(&program, &["--set", "memory.embedder=\"none\""]));
}

#[test]
fn an_endpoint_that_is_none_or_not_there_is_a_fault_and_missing_vectors_a_warning() {
    let run = doctor(&machine(), &["--set", "memory.embedder=openai:ftp://x#m"]);
    fault(&run, "embedder", "memory.embedder");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let set = format!("memory.embedder=openai:http://{}/v1#m", listener.local_addr().unwrap());
    let program = remembering();
    let run = doctor(&program, &["--set", &set]);
    let fix = warning(&run, "memory-vectors", "memory.embedder");
    assert_eq!(fix, "atlatl serve (it makes them while it runs)");
    assert!(
        finding(&run, "memory-vectors")["says"].to_string().contains("3 memories have no vector")
    );
    drop(listener);
    fault(&doctor(&program, &["--set", &set]), "embedder", "http://127.0.0.1:");
}

#[test]
fn queries_that_are_not_answered_are_faults_with_the_bound_to_raise() {
    let file = "home/.config/atlatl/config.toml";
    let program = machine().file(file, "[query]\nwall_ms = 1\n");
    let run = doctor(&program, &[]);
    let found = findings(&run, "query");
    assert_eq!((run.status, found.len()), (1, 2), "{run}");
    assert_eq!((&found[0]["about"], &found[1]["about"]), (&json!("jq"), &json!("SQL")));
    assert_eq!(found[0]["fix"], format!("in [DIR]/{file}, line 2, write wall_ms = 5000"));
    fs::write(program.path(file), "[query]\nwall_ms = 5000\n").unwrap();
    is_well(&doctor(&program, &[]));
}
