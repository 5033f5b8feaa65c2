//! The tool that returns the corpus: its arguments in each strategy, and the form of its reply.

use serde_json::{Map, Value, json};

use crate::condition::{SUMMARY_PAGE, Strategy};
use crate::task::{CorpusId, CorpusKind};
use crate::world::ToolDefinition;

/// The most memories of a listing.
pub(crate) const MAX_LISTED: usize = 10_000;
/// The bytes of a result that a host shows of a file that it wrote.
const SPILL_PREVIEW_BYTES: usize = 2 * 1024;

/// The tool that returns the corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataTool {
    corpus: CorpusId,
}

impl DataTool {
    pub(crate) fn new(corpus: CorpusId) -> Self {
        Self { corpus }
    }

    pub(crate) fn name(self) -> &'static str {
        match self.corpus.kind {
            CorpusKind::Memories => "list_memories",
            CorpusKind::Issues => "list_issues",
            CorpusKind::Log => "read_log",
            CorpusKind::Map => "list_services",
        }
    }

    /// The argument that selects the next page.
    fn cursor(self) -> &'static str {
        if self.corpus.kind == CorpusKind::Memories { "cursor" } else { "offset" }
    }

    /// The definition for an agent. The filters of the server are left out: an agent that uses them
    /// needs no large result.
    pub(crate) fn definition(self, strategy: Strategy) -> ToolDefinition {
        let items = match self.corpus.kind {
            CorpusKind::Memories => "memories with all their fields, newest first",
            CorpusKind::Issues => "issues with all their fields",
            CorpusKind::Log => "lines of the log",
            CorpusKind::Map => "services by id",
        };
        let (description, properties) = match (page(strategy), strategy) {
            (None, _) => (format!("Return all {items}."), json!({})),
            (Some(page), Strategy::Summary) => (
                format!("Return ids and titles of all {items}, {page} in a page."),
                self.cursor_property(),
            ),
            (Some(page), _) => {
                (format!("Return all {items}, {page} in a page."), self.cursor_property())
            }
        };
        ToolDefinition {
            name: self.name().to_owned(),
            description,
            input_schema: json!({"type": "object", "properties": properties}),
        }
    }

    fn cursor_property(self) -> Value {
        if self.corpus.kind == CorpusKind::Memories {
            let description = "next_cursor of the previous page; omit it for the first page";
            json!({"cursor": {"type": "string", "description": description}})
        } else {
            let description = "next_offset of the previous page; omit it for the first page";
            json!({"offset": {"type": "integer", "description": description}})
        }
    }

    /// The arguments for the server. They differ between conversations: the program would not store
    /// the result again for the same ones, and every conversation is to begin without one.
    pub(crate) fn request(self, strategy: Strategy, conversation: u64, arguments: &Value) -> Value {
        let mut request = match self.corpus.kind {
            CorpusKind::Memories => json!({"detail": "full", "status": "any"}),
            _ => json!({}),
        };
        match (page(strategy), self.corpus.kind) {
            (Some(page), _) => request["limit"] = page.into(),
            // A limit that admits all memories. Without offloading, the server has pages otherwise.
            (None, CorpusKind::Memories) => {
                let limits = MAX_LISTED.saturating_sub(self.corpus.size) as u64 + 1;
                request["limit"] = (MAX_LISTED as u64 - conversation % limits).into();
            }
            // The server ignores it.
            (None, _) => request["conversation"] = conversation.into(),
        }
        // A model may send an empty string or null for the first page.
        let first = json!("");
        if let Some(cursor) =
            arguments.get(self.cursor()).filter(|at| !at.is_null() && **at != first)
        {
            request[self.cursor()] = cursor.clone();
        }
        request
    }
}

/// The number of records in an inline reply.
pub(crate) fn records_in(text: &str) -> u64 {
    let items = |value: &Value| match value {
        Value::Array(values) => values.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    };
    let count = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(page)) if page.contains_key("memories") => items(&page["memories"]),
        Ok(Value::Object(page)) if page.contains_key("next_offset") => items(&page["items"]),
        Ok(whole) => items(&whole),
        Err(_) => text.lines().count(),
    };
    count as u64
}

/// The records of a page.
fn page(strategy: Strategy) -> Option<usize> {
    match strategy {
        Strategy::InlinePaged { page } | Strategy::InlineCode { page, .. } => Some(page),
        Strategy::Summary => Some(SUMMARY_PAGE),
        _ => None,
    }
}

/// A page with nothing but the ids and titles of its memories.
pub(crate) fn summary(text: &str) -> Option<String> {
    let mut page: Value = serde_json::from_str(text).ok()?;
    let memories = page.get_mut("memories")?.as_array_mut()?;
    for memory in memories {
        let kept = ["id", "title"]
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), memory.get(key)?.clone())));
        *memory = Value::Object(kept.collect::<Map<String, Value>>());
    }
    Some(page.to_string())
}

/// What stands before the path of a file that a host wrote.
const SAVED_TO: &str = "Full output saved to: ";

/// The path in the note of a host about a file.
pub(crate) fn spilled_path(note: &str) -> Option<&str> {
    let first = note.lines().next().filter(|line| line.starts_with("Output too large"))?;
    first.split_once(SAVED_TO).map(|(_, path)| path)
}

/// What a host shows of a result that it wrote to `path`.
pub(crate) fn spill_note(text: &str, path: &str) -> String {
    let mut end = SPILL_PREVIEW_BYTES.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!(
        "Output too large ({} KB). {SAVED_TO}{path}\n\nPreview (first 2 KB):\n{}\n...",
        text.len() / 1024,
        &text[..end]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::{PAPER_PAGE, PythonPages, SERVER_PAGE};

    fn memories() -> DataTool {
        DataTool::new(CorpusId { kind: CorpusKind::Memories, size: 50 })
    }

    #[test]
    fn pages_have_the_size_of_the_strategy_and_a_cursor() {
        let tool = memories();
        let request = |strategy, arguments: Value| tool.request(strategy, 0, &arguments);
        let first = request(Strategy::InlinePaged { page: PAPER_PAGE }, json!({"cursor": ""}));
        assert_eq!(first, json!({"detail": "full", "status": "any", "limit": 5}));
        let next = request(Strategy::Summary, json!({"cursor": "x"}));
        assert_eq!(next, json!({"detail": "full", "status": "any", "limit": 10, "cursor": "x"}));
        for page in [PAPER_PAGE, SERVER_PAGE] {
            let code = Strategy::InlineCode { pages: PythonPages::Reachable, page };
            assert_eq!(request(code, json!({}))["limit"], page);
        }
        assert_eq!(request(Strategy::InlinePaged { page: SERVER_PAGE }, json!({}))["limit"], 50);
        assert_eq!(request(Strategy::InlineWhole, json!({}))["limit"], MAX_LISTED);
        let issues = DataTool::new(CorpusId { kind: CorpusKind::Issues, size: 50 });
        assert_eq!(
            issues.request(Strategy::InlinePaged { page: 5 }, 0, &json!({"offset": 5})),
            json!({"limit": 5, "offset": 5})
        );
    }

    #[test]
    fn each_conversation_requests_all_records_with_other_arguments() {
        let all = |size, conversation| {
            let tool = DataTool::new(CorpusId { kind: CorpusKind::Memories, size });
            let request = tool.request(Strategy::LroShell, conversation, &json!({}));
            request["limit"].as_u64().unwrap()
        };
        assert_eq!(
            [all(50, 0), all(50, 1), all(50, 9950), all(50, 9951)],
            [10_000, 9999, 50, 10_000]
        );
        assert_eq!([all(10_000, 0), all(10_000, 1)], [10_000, 10_000]);
        let map = DataTool::new(CorpusId { kind: CorpusKind::Map, size: 200 });
        let request = |conversation| map.request(Strategy::LroShell, conversation, &json!({}));
        assert_ne!(request(1), request(2));
    }

    #[test]
    fn only_paged_tools_have_a_cursor() {
        let properties = |strategy| {
            memories().definition(strategy).input_schema["properties"].as_object().unwrap().len()
        };
        assert_eq!(properties(Strategy::LroShell), 0);
        assert_eq!(properties(Strategy::InlineWhole), 0);
        assert_eq!(properties(Strategy::Summary), 1);
        assert_eq!(properties(Strategy::InlinePaged { page: 50 }), 1);
    }

    #[test]
    fn a_summary_has_ids_and_titles() {
        let page =
            r#"{"count":1,"memories":[{"id":"a","content":"x","title":"T"}],"next_cursor":null}"#;
        assert_eq!(
            summary(page).unwrap(),
            r#"{"count":1,"memories":[{"id":"a","title":"T"}],"next_cursor":null}"#
        );
        assert_eq!(summary("error"), None);
    }

    #[test]
    fn a_host_shows_the_beginning_of_a_file() {
        let text = "ü".repeat(3000);
        let note = spill_note(&text, "/x/y.json");
        assert!(note.starts_with("Output too large (5 KB). Full output saved to: /x/y.json\n"));
        assert_eq!(note.matches('ü').count(), 1024);
        assert_eq!(spilled_path(&note), Some("/x/y.json"));
        assert_eq!(spilled_path("{\"offloaded\":true}"), None);
    }

    #[test]
    fn records_are_counted() {
        assert_eq!(records_in(r#"{"memories":[{},{}],"next_cursor":null}"#), 2);
        assert_eq!(records_in(r#"{"items":{"a":1},"next_offset":5}"#), 1);
        assert_eq!(records_in("[1,2,3]"), 3);
        assert_eq!(records_in("a\nb\n"), 2);
    }
}
