//! The collection: gold memories, distractors, and graded queries.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use mif::{Memory, MemoryId};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/data/ranking");
/// The SHA-256 of the distractors, as in the description of the collection.
const DISTRACTORS: &str = "06df8da3c5ceeedc50180e36484e49633fe0478bca2cfa5e631aa36e6fbe205f";

pub(crate) struct Query {
    pub(crate) text: String,
    pub(crate) kind: String,
    /// Grades by memory: 2 answers the query, 1 is related.
    pub(crate) relevant: HashMap<u128, u8>,
}

pub(crate) struct Collection {
    pub(crate) memories: Vec<Memory>,
    pub(crate) gold: usize,
    pub(crate) queries: Vec<Query>,
    /// A digest of all memories, so that vectors of another collection are not reused.
    pub(crate) sha256: String,
}

impl Collection {
    /// Reads the collection and generates its distractors.
    pub(crate) fn read() -> Self {
        let facts = file("facts.jsonl");
        let made = Command::new("python3").arg(Path::new(FOLDER).join("distractors.py")).output();
        let made = made.expect("python3 makes the distractors");
        assert!(made.status.success(), "distractors.py: {}", made.status);
        assert_eq!(digest(&made.stdout), DISTRACTORS, "the distractors are not the published ones");
        let distractors = String::from_utf8(made.stdout).expect("text");
        let lines: Vec<Value> = facts.lines().chain(distractors.lines()).map(parse).collect();
        let keys: HashMap<&str, u128> =
            lines.iter().enumerate().map(|(i, line)| (string(line, "key"), number(i))).collect();
        let queries =
            file("queries.jsonl").lines().map(|line| query(&parse(line), &keys)).collect();
        Self {
            memories: lines.iter().enumerate().map(|(i, line)| memory(i, line)).collect(),
            gold: facts.lines().count(),
            queries,
            sha256: digest(format!("{facts}{distractors}").as_bytes()),
        }
    }
}

fn file(name: &str) -> String {
    let path = Path::new(FOLDER).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).expect("a line of JSON")
}

fn string<'a>(line: &'a Value, field: &str) -> &'a str {
    line[field].as_str().unwrap_or_else(|| panic!("{field} in {line}"))
}

fn number(i: usize) -> u128 {
    i as u128 + 1
}

fn query(line: &Value, keys: &HashMap<&str, u128>) -> Query {
    let grades = line["relevant"].as_object().expect("grades");
    let grade = |value: &Value| value.as_u64().and_then(|grade| grade.try_into().ok());
    let relevant = grades
        .iter()
        .map(|(key, value)| (keys[key.as_str()], grade(value).expect("a grade")))
        .collect();
    Query {
        text: string(line, "query").to_owned(),
        kind: string(line, "kind").to_owned(),
        relevant,
    }
}

/// All have one creation time, so that time does not affect the ranking.
fn memory(i: usize, line: &Value) -> Memory {
    let mut object = line.clone();
    let fields = object.as_object_mut().expect("an object");
    fields.remove("key");
    fields.insert("id".to_owned(), json!(MemoryId::from_u128(number(i)).as_str()));
    fields.insert("created".to_owned(), json!("2026-06-01T12:00:00Z"));
    Memory::from_json(&object.to_string()).expect("a memory")
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
