//! Searches by meaning with an installed model and no configuration.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::counts;
use crate::embedding_model::minilm;
use crate::program::Program;

const DATA_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/data");
/// The number of notes that the questions are asked of.
const NOTES: usize = 200;
/// The number of paraphrases of which the note must be among the first five.
const REQUIRED: usize = 10;

fn read(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(Path::new(DATA_DIR).join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The id of the memory with a key such as `g007`.
fn id(key: &str) -> String {
    format!("00000000-0000-7000-8000-000000000{}", key.strip_prefix('g').unwrap())
}

/// A note as a line of an import.
fn line(mut note: Value) -> String {
    let fields = note.as_object_mut().unwrap();
    let key = fields.remove("key").unwrap();
    fields.insert("id".to_owned(), json!(id(key.as_str().unwrap())));
    fields.insert("created".to_owned(), json!("2026-06-01T12:00:00Z"));
    note.to_string()
}

#[test]
fn g60_paraphrases_over_200_notes_are_found_without_configuration() {
    let program = Program::new();
    let installed = program.run(&["memory", "model", "install", minilm().to_str().unwrap()]);
    assert_eq!(installed.status, 0, "{installed}");
    let notes: Vec<String> =
        read("ranking/facts.jsonl").into_iter().take(NOTES).map(line).collect();
    let imported =
        program.run_with_input(&["memory", "import", "-", "--json"], notes.join("\n").as_bytes());
    assert_eq!(counts(&imported.json()), [200, 0, 0, 0, 0], "{imported}");

    let mut questions = read("notes/questions.jsonl");
    questions.retain(|question| question["kind"] == "paraphrase");
    assert_eq!(questions.len(), 12);
    let is_found = |question: &Value| {
        let query = question["query"].as_str().unwrap();
        let run = program.run(&["memory", "search", query, "--limit", "5", "--json"]);
        let answer = run.json();
        assert_eq!(answer["ranked_by"], "hybrid", "{run}");
        let mut relevant = question["relevant"].as_object().unwrap().keys().map(|key| id(key));
        let hits = answer["memories"].as_array().unwrap();
        relevant.any(|id| hits.iter().any(|hit| hit["id"] == id))
    };
    let (found, missed): (Vec<_>, Vec<_>) = questions.into_iter().partition(is_found);
    assert!(found.len() >= REQUIRED, "{} found, not {missed:#?}", found.len());
}
