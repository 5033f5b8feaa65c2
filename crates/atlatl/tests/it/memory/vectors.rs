//! Vectors that an import computes, interrupted and continued.

use std::collections::HashSet;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use testkit::embeddings::EmbeddingsServer;
use testkit::http::{HttpServer, reply};

use super::counts;
use crate::program::Program;

const MEMORIES: usize = 500;
/// The number of memories of one request.
const BATCH: usize = 32;
const TIMEOUT: Duration = Duration::from_mins(1);

/// A program with a file of memories, `work/m.jsonl`.
fn program() -> Program {
    let memory = |n: usize| {
        json!({
            "id": format!("00000000-0000-7000-8000-{n:012}"), "memory_type": "semantic",
            "created": "2026-01-15T10:30:00Z", "content": format!("memory number {n}"),
        })
        .to_string()
    };
    let lines: Vec<String> = (0..MEMORIES).map(memory).collect();
    Program::new().file("work/m.jsonl", lines.join("\n"))
}

/// An endpoint of the embeddings API that takes this long for a request.
fn endpoint(delay: Duration) -> EmbeddingsServer {
    EmbeddingsServer::start(3, "memory number ", delay)
}

fn setting(endpoint: &EmbeddingsServer) -> String {
    format!("memory.embedder={}", endpoint.embedder())
}

fn stored_vectors(program: &Program) -> usize {
    let path = program.path("home/.local/share/atlatl/memory.db");
    let count = |path: &Path| {
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
        db.query_row("SELECT count(*) FROM vector", [], |row| row.get::<_, i64>(0)).ok()
    };
    usize::try_from(count(&path).unwrap_or_default()).unwrap()
}

fn wait_for(program: &Program, vectors: usize) {
    let began = Instant::now();
    while stored_vectors(program) < vectors {
        assert!(began.elapsed() < TIMEOUT, "{} of {vectors} vectors", stored_vectors(program));
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn g63_an_import_computes_each_vector_once_and_search_is_hybrid() {
    let (program, endpoint) = (program(), endpoint(Duration::ZERO));
    let set = setting(&endpoint);
    let import = ["memory", "import", "m.jsonl", "--set", &set, "--json"];
    let run = program.run(&import);
    assert_eq!((run.status, counts(&run.json())), (0, [500, 0, 0, 0, 0]), "{run}");
    assert_eq!(run.stderr, "note: computed 500 vectors\n");
    let texts = endpoint.texts();
    assert_eq!((texts.len(), stored_vectors(&program)), (MEMORIES, MEMORIES));
    assert_eq!(texts.iter().collect::<HashSet<_>>().len(), MEMORIES);
    let found = program.run(&["memory", "search", "number 7", "--set", &set, "--json"]);
    let answer = found.json();
    assert_eq!(
        (&answer["ranked_by"], &answer["matched_by"][0]),
        (&json!("hybrid"), &json!("both"))
    );
    assert_eq!(answer["matched_by"].as_array().unwrap().len(), MEMORIES);
    assert!(answer["snippets"].is_null(), "{found}");
    // Nothing is left to compute.
    let again = program.run(&import);
    assert_eq!((counts(&again.json()), &*again.stderr), ([0, 500, 0, 0, 0], ""), "{again}");
    assert_eq!(endpoint.texts().len(), MEMORIES);
}

#[test]
fn an_import_that_is_killed_while_it_embeds_is_continued_by_the_next() {
    let (program, endpoint) = (program(), endpoint(Duration::from_millis(100)));
    let import = ["memory", "import", "m.jsonl", "--set", &setting(&endpoint), "--json"];
    let mut child =
        program.command(&import).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&program, 3 * BATCH);
    child.kill().unwrap();
    child.wait().unwrap();
    let before = stored_vectors(&program);
    assert!(before < MEMORIES, "it was not killed early enough");
    let run = program.run(&import);
    // All memories were stored before the first vector.
    assert_eq!(counts(&run.json()), [0, 500, 0, 0, 0], "{run}");
    assert_eq!(stored_vectors(&program), MEMORIES);
    let texts = endpoint.texts();
    assert!(texts.len() <= MEMORIES + BATCH, "{} texts were sent", texts.len());
}

#[test]
fn without_embedding_the_vectors_are_left_to_a_server() {
    let (program, endpoint) = (program(), endpoint(Duration::ZERO));
    let set = setting(&endpoint);
    let run = program.run(&["memory", "import", "m.jsonl", "--no-embed", "--set", &set]);
    assert_eq!((run.status, &*run.stderr), (0, ""), "{run}");
    assert_eq!(endpoint.requests(), 0);
    let mut server = program
        .command(&["serve", "--set", &set])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&program, MEMORIES);
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
    assert_eq!(endpoint.texts().len(), MEMORIES);
}

#[test]
fn an_embedder_that_fails_leaves_the_import_successful() {
    let program = program();
    let broken = HttpServer::start(|_, stream| reply(stream, "500 Oh", &[], b"broken"));
    for (set, why) in [
        (format!("memory.embedder=openai:{}#m", broken.url("/v1")), "status 500"),
        ("memory.embedder=openai:http://x#m".to_owned(), "invalid endpoint URL"),
        ("memory.embedder=openai:http://127.0.0.1:9/v1#m".to_owned(), "cannot reach"),
    ] {
        let run = program.run(&["memory", "import", "m.jsonl", "--set", &set]);
        assert_eq!(run.status, 0, "{run}");
        assert!(run.stderr.contains("found only by words: memory.embedder: "), "{run}");
        assert!(run.stderr.contains(why), "{why}: {run}");
    }
    assert_eq!(program.run(&["memory", "list", "--json"]).json()["total_matches"], MEMORIES);
}

#[cfg(feature = "local")]
#[test]
fn without_a_server_a_search_computes_the_vectors_of_a_few_memories() {
    let program = crate::embedding_model::with_model();
    for text in ["The cat is sleeping on the sofa.", "Interest rates rose again this quarter."] {
        super::add(&program, &[text]);
    }
    let found = program.run(&["memory", "search", "a kitten naps on the couch", "--json"]);
    let answer = found.json();
    assert_eq!(answer["ranked_by"], "hybrid", "{found}");
    assert_eq!(answer["memories"][0]["content"], "The cat is sleeping on the sofa.", "{found}");
    assert_eq!(answer["matched_by"][0], "meaning", "{found}");
    assert_eq!(stored_vectors(&program), 2);
}

#[cfg(feature = "local")]
#[test]
fn an_import_uses_the_installed_model() {
    let lines: Vec<String> =
        testkit::corpus::memories(40, 5).iter().map(mif::Memory::to_json).collect();
    let program = crate::embedding_model::with_model().file("work/m.jsonl", lines.join("\n"));
    let run = program.run(&["memory", "import", "m.jsonl"]);
    // On a busy machine the model takes long enough for a line of progress before this one.
    assert_eq!((run.status, run.stderr.lines().last()), (0, Some("note: computed 40 vectors")));
    assert_eq!(stored_vectors(&program), 40);
}
