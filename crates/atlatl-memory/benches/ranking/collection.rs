//! The collections of this repository: memories with graded queries.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use chrono::{Months, NaiveDate};
use mif::{Memory, MemoryId, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::figures::Query;

const DATA_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/data");
/// The SHA-256 of the distractors, as in the description of the collection.
const DISTRACTORS: &str = "06df8da3c5ceeedc50180e36484e49633fe0478bca2cfa5e631aa36e6fbe205f";
/// The number of gold memories that the questions about notes are asked of.
const NOTES: usize = 200;

/// When the notes are created that answer questions which name a month. The others are spread over a
/// year.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnswerTime {
    /// On the day that the note is about.
    SameMonth,
    /// A month after it.
    MonthLater,
}

pub(crate) struct Collection {
    pub(crate) memories: Vec<Memory>,
    pub(crate) queries: Vec<Query>,
    /// A digest of all memories, so that vectors of another collection are not reused.
    pub(crate) sha256: String,
}

impl Collection {
    /// Reads the ranking set: gold memories, generated distractors, and graded queries. Returns the
    /// number of gold memories too.
    pub(crate) fn ranking() -> (Self, usize) {
        let facts = read("ranking/facts.jsonl");
        let script = Path::new(DATA_DIR).join("ranking/distractors.py");
        let made = Command::new("python3").arg(script).output().expect("python3");
        assert!(made.status.success(), "distractors.py: {}", made.status);
        assert_eq!(digest(&made.stdout), DISTRACTORS, "the distractors are not the published ones");
        let distractors = String::from_utf8(made.stdout).expect("text");
        let lines: Vec<&str> = facts.lines().chain(distractors.lines()).collect();
        (Self::new(&lines, &read("ranking/queries.jsonl")), facts.lines().count())
    }

    /// Reads the notes: the first gold memories of the ranking set alone, with their own questions.
    pub(crate) fn notes() -> Self {
        Self::notes_with(&read("notes/questions.jsonl"))
    }

    fn notes_with(questions: &str) -> Self {
        let facts = read("ranking/facts.jsonl");
        let lines: Vec<&str> = facts.lines().take(NOTES).collect();
        Self::new(&lines, questions)
    }

    /// Reads the notes with the questions that name a month.
    pub(crate) fn months(answers: AnswerTime) -> Self {
        let questions = read("notes/months.jsonl");
        let mut notes = Self::notes_with(&questions);
        for (memory, n) in notes.memories.iter_mut().zip(1..) {
            let first_month = NaiveDate::from_ymd_opt(2025, 11, 1 + n % 28).expect("a date");
            memory.created = noon(first_month + Months::new(n % 12));
        }
        for (query, line) in notes.queries.iter().zip(questions.lines()) {
            let date: NaiveDate = string(&parse(line), "date").parse().expect("a date");
            let date = match answers {
                AnswerTime::SameMonth => date,
                AnswerTime::MonthLater => date + Months::new(1),
            };
            let is_answer =
                |memory: &&mut Memory| query.relevant.contains_key(&memory.id.as_u128());
            for memory in notes.memories.iter_mut().filter(is_answer) {
                memory.created = noon(date);
            }
        }
        let lines: Vec<String> = notes.memories.iter().map(Memory::to_json).collect();
        notes.sha256 = digest(lines.join("\n").as_bytes());
        notes
    }

    fn new(lines: &[&str], queries: &str) -> Self {
        let objects: Vec<Value> = lines.iter().map(|line| parse(line)).collect();
        let keys: HashMap<&str, u128> =
            objects.iter().zip(1..).map(|(object, id)| (string(object, "key"), id)).collect();
        Self {
            memories: objects.iter().zip(1..).map(|(object, id)| memory(id, object)).collect(),
            queries: queries.lines().map(|line| query(&parse(line), &keys)).collect(),
            sha256: digest(format!("{}\n", lines.join("\n")).as_bytes()),
        }
    }
}

fn read(name: &str) -> String {
    let path = Path::new(DATA_DIR).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).expect("a line of JSON")
}

fn string<'a>(line: &'a Value, field: &str) -> &'a str {
    line[field].as_str().unwrap_or_else(|| panic!("{field} in {line}"))
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
fn memory(id: u128, line: &Value) -> Memory {
    let mut object = line.clone();
    let fields = object.as_object_mut().expect("an object");
    fields.remove("key");
    fields.insert("id".to_owned(), json!(MemoryId::from_u128(id).as_str()));
    fields.insert("created".to_owned(), json!("2026-06-01T12:00:00Z"));
    Memory::from_json(&object.to_string()).expect("a memory")
}

fn noon(date: NaiveDate) -> Timestamp {
    date.and_hms_opt(12, 0, 0).expect("a time").and_utc().into()
}

/// Returns the SHA-256 in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
