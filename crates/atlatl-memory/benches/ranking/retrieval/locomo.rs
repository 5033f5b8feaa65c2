//! `LoCoMo`: ten long conversations with questions and the turns that answer them
//! (`data/locomo10.json`).

use std::collections::HashMap;
use std::path::Path;

use chrono::{DateTime, NaiveDateTime, Utc};
use serde_json::{Value, json};

use super::{Conversation, QuestionSet, read_files};

/// The questions of the published file that name an existing turn, adversarial ones left out.
const QUESTIONS: usize = 1_536;
/// The time of a session, such as `1:56 pm on 8 May, 2023`.
const TIME_FORMAT: &str = "%I:%M %P on %d %B, %Y";

/// Reads the set, if `directory` has it.
pub(super) fn read(directory: &Path) -> Option<QuestionSet> {
    let path = directory.join("data/locomo10.json");
    if !path.exists() {
        return None;
    }
    let (files, sha256) = read_files(&[path]);
    let conversations: Vec<Conversation> =
        files[0].as_array().expect("a list of conversations").iter().map(conversation).collect();
    let questions: usize = conversations.iter().map(|one| one.queries.len()).sum();
    assert_eq!(questions, QUESTIONS, "data/locomo10.json is not the published file");
    Some(QuestionSet { name: "LoCoMo".to_owned(), sha256, conversations })
}

fn conversation(sample: &Value) -> Conversation {
    let mut conversation = Conversation::default();
    let sessions = &sample["conversation"];
    let mut numbers: Vec<u32> = sessions
        .as_object()
        .expect("sessions by name")
        .keys()
        .filter_map(|key| key.strip_prefix("session_")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    for number in numbers {
        let created = time(&text(&sessions[format!("session_{number}_date_time")]));
        for turn in sessions[format!("session_{number}")].as_array().expect("turns") {
            let shared = turn["blip_caption"].as_str();
            let shared = shared.map(|caption| format!(" [shares {caption}]")).unwrap_or_default();
            let content = format!("{}: {}{shared}", text(&turn["speaker"]), text(&turn["text"]));
            conversation.add_turn(text(&turn["dia_id"]), content, created);
        }
    }
    for question in sample["qa"].as_array().expect("questions") {
        let kind = match question["category"].as_u64() {
            Some(1) => "multi-hop",
            Some(2) => "temporal",
            Some(3) => "open",
            Some(4) => "single-hop",
            // Adversarial questions have no answer.
            _ => continue,
        };
        let evidence = question["evidence"].as_array().into_iter().flatten();
        let sources = evidence.filter_map(Value::as_str).flat_map(turn_names);
        conversation.add_question(&text(&question["question"]), kind, sources);
    }
    conversation
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("expected a string, found {value}")).to_owned()
}

fn time(text: &str) -> DateTime<Utc> {
    let time = NaiveDateTime::parse_from_str(text, TIME_FORMAT);
    time.unwrap_or_else(|error| panic!("the time {text}: {error}")).and_utc()
}

/// Returns the turns in a piece of evidence, which may be `D8:6; D9:17` or `D30:05`.
fn turn_names(evidence: &str) -> Vec<String> {
    let is_part = |c: char| c == 'D' || c == ':' || c.is_ascii_digit();
    evidence
        .split(|c| !is_part(c))
        .filter_map(|name| {
            let (session, turn) = name.strip_prefix('D')?.split_once(':')?;
            let (session, turn): (u32, u32) = (session.parse().ok()?, turn.parse().ok()?);
            Some(format!("D{session}:{turn}"))
        })
        .collect()
}

/// Checks the reader with a conversation of three turns, because a benchmark has no tests.
pub(super) fn check_reader() {
    let sample = json!({
        "conversation": {
            "speaker_a": "Ana",
            "session_2_date_time": "12:05 am on 1 June, 2023",
            "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "Bye."}],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ana", "dia_id": "D1:1", "text": "Hello!"},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "Look.", "blip_caption": "a cat"},
            ],
        },
        "qa": [
            {"question": "What?", "category": 1, "evidence": ["D1:01; D2:1", "D9:9", "D"]},
            {"question": "Nothing?", "category": 2, "evidence": ["D3:1"]},
            {"question": "Never?", "category": 5, "evidence": ["D1:1"]},
        ],
    });
    let read = conversation(&sample);
    let turns: Vec<(&str, String)> =
        read.memories.iter().map(|one| (one.content.as_str(), one.created.to_string())).collect();
    assert_eq!(
        turns,
        [
            ("Ana: Hello!", "2023-05-08T13:56:00Z".to_owned()),
            ("Ben: Look. [shares a cat]", "2023-05-08T13:56:00Z".to_owned()),
            ("Ben: Bye.", "2023-06-01T00:05:00Z".to_owned()),
        ]
    );
    let [query] = &read.queries[..] else { panic!("one question has sources") };
    assert_eq!((query.text.as_str(), query.kind.as_str()), ("What?", "multi-hop"));
    assert_eq!(query.relevant, HashMap::from([(1, 1), (3, 1)]));
}
