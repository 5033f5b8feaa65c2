//! BEAM: chats with an assistant, with probing questions and the messages that answer them
//! (`chats/SIZE/N/chat.json` and `chats/SIZE/N/probing_questions/probing_questions.json`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use serde_json::{Value, json};

use super::{Conversation, QuestionSet, read_files};

/// The sizes whose chats have this layout, with the number of questions that name a message.
const SIZES: [(&str, Option<usize>); 3] = [("100K", Some(355)), ("500K", None), ("1M", None)];
/// The date of a part of a chat, such as `March-15-2024`.
const DATE_FORMAT: &str = "%B-%d-%Y";

/// Reads the sizes that `directory` has.
pub(super) fn read(directory: &Path) -> Vec<QuestionSet> {
    SIZES
        .into_iter()
        .filter_map(|(size, questions)| {
            let chats = directory.join("chats").join(size);
            let set = read_size(&chats, size)?;
            let count: usize = set.conversations.iter().map(|one| one.queries.len()).sum();
            if let Some(questions) = questions {
                let chats = chats.display();
                assert_eq!(count, questions, "{chats} does not have the published chats");
            }
            Some(set)
        })
        .collect()
}

fn read_size(chats: &Path, size: &str) -> Option<QuestionSet> {
    let entries = std::fs::read_dir(chats).ok()?;
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let paths: Vec<PathBuf> = numbers
        .iter()
        .map(|number| chats.join(number.to_string()))
        .flat_map(|chat| {
            let questions = chat.join("probing_questions/probing_questions.json");
            [chat.join("chat.json"), questions]
        })
        .collect();
    let (files, sha256) = read_files(&paths);
    let conversations = files
        .as_chunks::<2>()
        .0
        .iter()
        .map(|[chat, probing]| conversation(chat, probing))
        .collect();
    Some(QuestionSet { name: format!("BEAM {size}"), sha256, conversations })
}

fn conversation(chat: &Value, probing: &Value) -> Conversation {
    let mut conversation = Conversation::default();
    let mut date = DateTime::UNIX_EPOCH;
    add_messages(chat, &mut conversation, &mut date);
    for (kind, questions) in probing.as_object().expect("questions by kind") {
        // Abstention asks for what no message says, and names no message.
        for question in questions.as_array().expect("questions") {
            let mut sources = Vec::new();
            collect_numbers(&question["source_chat_ids"], &mut sources);
            let text = question["question"].as_str().expect("a question");
            conversation.add_question(text, kind, sources.into_iter());
        }
    }
    conversation
}

/// Adds every object with an id and a content. A message without a date has that of the one before.
fn add_messages(value: &Value, conversation: &mut Conversation, date: &mut DateTime<Utc>) {
    match value {
        Value::Array(list) => list.iter().for_each(|one| add_messages(one, conversation, date)),
        Value::Object(object) => {
            if let (Some(id), Some(content)) = (value["id"].as_u64(), value["content"].as_str()) {
                let day = value["time_anchor"]
                    .as_str()
                    .and_then(|text| NaiveDate::parse_from_str(text, DATE_FORMAT).ok());
                *date = day.map_or(*date, |day| day.and_time(NaiveTime::MIN).and_utc());
                let role = value["role"].as_str().expect("a role");
                conversation.add_turn(id.to_string(), format!("{role}: {content}"), *date);
            } else {
                for one in object.values() {
                    add_messages(one, conversation, date);
                }
            }
        }
        _ => {}
    }
}

/// Collects the numbers in lists of any depth, which some files write as strings.
fn collect_numbers(value: &Value, numbers: &mut Vec<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|one| collect_numbers(one, numbers)),
        Value::Object(object) => object.values().for_each(|one| collect_numbers(one, numbers)),
        Value::Number(number) => numbers.push(number.to_string()),
        Value::String(text) => numbers.push(text.trim().to_owned()),
        _ => {}
    }
}

/// Checks the reader with a chat of three messages, because a benchmark has no tests.
pub(super) fn check_reader() {
    let chat = json!([{"batch_number": 1, "turns": [[
        {"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "Hello!"},
        {"role": "assistant", "id": 1, "content": "Hi."},
    ]]}, {"turns": [[{"role": "user", "id": 2, "time_anchor": "May-02-2024", "content": "Bye."}]]}]);
    let probing = json!({
        "abstention": [{"question": "Never?"}],
        "event_ordering": [
            {"question": "What?", "source_chat_ids": {"first": [2], "second": [[0, "1"]]}},
            {"question": "Nothing?", "source_chat_ids": [9]},
        ],
    });
    let read = conversation(&chat, &probing);
    let turns: Vec<(&str, String)> =
        read.memories.iter().map(|one| (one.content.as_str(), one.created.to_string())).collect();
    assert_eq!(
        turns,
        [
            ("user: Hello!", "2024-03-15T00:00:00Z".to_owned()),
            ("assistant: Hi.", "2024-03-15T00:00:00Z".to_owned()),
            ("user: Bye.", "2024-05-02T00:00:00Z".to_owned()),
        ]
    );
    let [query] = &read.queries[..] else { panic!("one question has sources") };
    assert_eq!((query.text.as_str(), query.kind.as_str()), ("What?", "event_ordering"));
    assert_eq!(query.relevant, HashMap::from([(1, 1), (2, 1), (3, 1)]));
}
