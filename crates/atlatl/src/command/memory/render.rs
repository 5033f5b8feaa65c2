//! Renders memories as text and as JSON.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use mif::{Memory, Namespace, UnitInterval};
use serde::Serialize;

use crate::output::{Facts, Table, distance};

/// The widest cells of a table.
const TITLE_CHARS: usize = 36;
const NAMESPACE_CHARS: usize = 22;
/// The shortest beginning of an id that is shown. The ids of a minute share 8 digits, those of a
/// millisecond these.
const ID_CHARS: usize = 13;

/// As a program reads them: the form in which a memory server answers.
#[derive(Serialize)]
pub(super) struct Answer<'a> {
    pub(super) count: usize,
    pub(super) total_matches: u64,
    pub(super) detail: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ranked_by: Option<&'static str>,
    pub(super) memories: Vec<&'a Memory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scores: Option<Vec<f64>>,
}

/// In columns, with scores where there are any.
pub(super) fn table(memories: &[&Memory], scores: Option<&[f64]>, now: DateTime<Utc>) -> Table {
    let headings = ["SCORE", "TITLE", "NAMESPACE", "CREATED", "ID"];
    let first = usize::from(scores.is_none());
    let mut table = Table::new(&headings[first..]);
    let length = id_chars(memories);
    for (row, memory) in memories.iter().enumerate() {
        let score = scores.and_then(|scores| scores.get(row));
        let cells = [
            score.map(|score| format!("{score:.2}")).unwrap_or_default(),
            shortened(&memory.called(), TITLE_CHARS),
            shortened(memory.namespace.as_ref().map_or("", Namespace::as_str), NAMESPACE_CHARS),
            distance(memory.created.instant().to_utc(), now),
            memory.id.as_str()[..length].to_owned(),
        ];
        table.row(&cells[first..]);
    }
    table
}

/// How much of each id tells these memories apart.
fn id_chars(memories: &[&Memory]) -> usize {
    let apart = |length: &usize| {
        let mut seen = BTreeSet::new();
        memories.iter().all(|memory| seen.insert(memory.id.as_str()[..*length].to_lowercase()))
    };
    (ID_CHARS..36).find(apart).unwrap_or(36)
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text.to_owned(),
    }
}

/// What is said of a memory above its content.
pub(super) fn facts(memory: &Memory, now: DateTime<Utc>) -> Facts {
    let mut facts = Facts::default();
    facts.list("id", &[memory.id.to_string()]);
    facts.text("title", &memory.called());
    facts.text("type", memory.memory_type.as_str());
    if let Some(namespace) = &memory.namespace {
        facts.text("namespace", namespace.as_str());
    }
    if !memory.tags().is_empty() {
        facts.list("tags", memory.tags());
    }
    if let Some(status) = memory.status {
        facts.text("status", status.as_str());
    }
    if let Some(summary) = &memory.summary {
        facts.text("summary", summary);
    }
    if let Some(confidence) = memory.confidence().map(UnitInterval::get) {
        facts.text("confidence", &confidence.to_string());
    }
    let times = [("created", Some(&memory.created)), ("modified", memory.modified.as_ref())];
    for (label, time) in times {
        if let Some(time) = time {
            let ago = distance(time.instant().to_utc(), now);
            facts.text(label, &format!("{time} ({ago})"));
        }
    }
    facts
}
