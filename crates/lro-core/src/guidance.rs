//! Guidance: what the descriptor tells the model to do next.
//!
//! A trusted text: it holds only constants, numbers, our own references and our own paths. Nothing
//! that came from a result, not even a field's name, is ever put in here.

use crate::detail::Detail;
use crate::location::Place;
use crate::records::Content;
use crate::reference::Reference;
use crate::sanitize::neutralise;
use crate::tokens::Tokens;

/// How the client can get at a stored result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extraction {
    /// Only with tools of its own, if it has any: a shell and jq.
    Shell,
    /// With our extraction tools, which are listed.
    Native,
}

/// Spec R9 and R10: guidance for a set of memories.
pub fn for_memories(
    extraction: Extraction,
    count: u64,
    tokens: Tokens,
    detail: Detail,
    place: Place<'_>,
    reference: Reference,
) -> String {
    match extraction {
        Extraction::Shell => format!(
            "Results offloaded to JSONL ({count} memories, ~{tokens} tokens saved).\n\
             File: {path}\n\
             Detail level: {detail}\n\
             Use the jq recipes above to extract specific data. Common patterns:\n\
             - Browse: recipe #1 (titles with namespaces)\n\
             - Filter: recipe #2 (by namespace) or #3 (by keyword)\n\
             - Analyze: recipe #6 (count by namespace)\n\
             Read the file directly only if you need the complete dataset.\n\
             The header line (line 1) contains metadata; memory objects start at line 2.",
            path = neutralise(place.as_str()),
        ),
        Extraction::Native => {
            let (custom, nine, ten) = match detail {
                Detail::Light => {
                    (r#"select(.status == \"active\")"#, "unique namespaces", "count by type")
                }
                Detail::Medium => ("select(.confidence > 0.8)", "by confidence", "search content"),
                Detail::Full => {
                    ("select(.provenance.confidence > 0.8)", "by confidence", "search content")
                }
            };
            let fresh = match place {
                Place::Link(_) => format!(
                    "\nWith a shell the recipes fetch file_path, a link that is good for a few \
                     minutes; lro_extract(ref=\"{reference}\") alone gives a fresh one."
                ),
                Place::File(_) => String::new(),
            };
            format!(
                "Results offloaded to JSONL ({count} memories, ~{tokens} tokens saved).\n\
                 Detail level: {detail}\n\
                 Use the `lro_extract` tool to query this result set. Examples:\n\
                 - Browse: lro_extract(ref=\"{reference}\", recipe=1)\n\
                 - Filter by namespace: lro_extract(ref=\"{reference}\", recipe=2, \
                 params={{\"namespace\": \"_semantic\"}})\n\
                 - Search by keyword: lro_extract(ref=\"{reference}\", recipe=3, \
                 params={{\"keyword\": \"your term\"}})\n\
                 - Custom filter: lro_extract(ref=\"{reference}\", query=\"{custom}\")\n\
                 Available recipes: 1=titles+namespaces, 2=filter namespace, 3=search titles, \
                 4=IDs+titles, 5=filter type, 6=count by namespace, 7=filter tag, \
                 8=sort by date, 9={nine}, 10={ten}.{fresh}"
            )
        }
    }
}

/// Guidance in one line, for anything; `detail` where it is a set of memories.
pub fn in_one_line(
    extraction: Extraction,
    content: &Content,
    detail: Option<Detail>,
    tokens: Tokens,
    place: Place<'_>,
    reference: Reference,
) -> String {
    let (what, shell, native) = match content {
        Content::Records(records) => (
            match detail {
                Some(detail) => format!("{} memories at {detail} detail", records.count),
                None => format!("{} records", records.count),
            },
            format!("{} | jq -c . | head -n 5", place.records()),
            format!("lro_extract(ref=\"{reference}\", query=\".\", limit=5)"),
        ),
        Content::Document => (
            "One JSON document".to_owned(),
            place.given_to("jq keys"),
            format!("query_large_output(ref=\"{reference}\", query=\"keys\")"),
        ),
        Content::Text => (
            "Text".to_owned(),
            place.given_to("head -c 2000"),
            format!("read_large_output(ref=\"{reference}\", start=0, end=2000)"),
        ),
        Content::Binary => (
            "Binary data".to_owned(),
            place.given_to("file"),
            format!("read_large_output(ref=\"{reference}\", start=0, end=2000)"),
        ),
    };
    match extraction {
        Extraction::Shell => format!(
            "{what} (~{tokens} tokens) stored whole in file_path instead of shown. \
             With a shell, take the part that is needed, for example: {shell}"
        ),
        Extraction::Native => format!(
            "{what} (~{tokens} tokens) stored whole instead of shown. \
             Ask for the part that is needed, for example: {native}"
        ),
    }
}
