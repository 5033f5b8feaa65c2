//! The names of the arguments, with other names for them that models use.

use crate::mcp::tools::Tool;

/// The argument that names a result comes under three names.
pub(super) const REFERENCES: [&str; 3] = ["ref", "file_path", "filename"];

/// The names that every tool accepts, each with other names for it.
const NAMES: &[(&str, &[&str])] = &[
    ("ref", &["reference", "id", "result", "result_id", "lro", "handle", "uri"]),
    ("file_path", &["path", "file"]),
    ("filename", &["file_name"]),
    ("recipe", &["recipe_number", "recipe_id"]),
    ("query", &["jq", "filter", "expression", "jq_filter", "jq_query", "q", "program"]),
    ("whole", &["slurp"]),
    ("sql", &["statement", "sql_query"]),
    ("with", &["tables"]),
    ("params", &["parameters", "args", "variables", "bindings"]),
    ("pattern", &["regex", "regexp", "search", "grep"]),
    ("case_sensitive", &["match_case"]),
    ("context", &["context_lines", "lines_around"]),
    ("group_by", &["group", "count_by", "capture_group"]),
    ("limit", &["max_results", "count", "max", "top", "page_size", "max_count", "length"]),
    ("offset", &["skip"]),
    ("start", &["from", "begin", "start_line"]),
    ("tail", &["last_lines"]),
    ("end", &["to", "stop", "until", "end_line"]),
    ("unit", &["units"]),
    ("part", &["part_number"]),
    ("target", &["source"]),
    ("raw", &["raw_output"]),
    ("compact", &["compact_output"]),
    ("namespace", &[]),
    ("keyword", &[]),
    ("memory_type", &[]),
    ("tag", &[]),
];

/// The parameters of recipes, which may be arguments of their own.
pub(super) const RECIPE_PARAMS: [&str; 4] = ["namespace", "keyword", "memory_type", "tag"];

/// The proper name for `name` in a tool: `None` if there is no such argument.
pub(super) fn proper(name: &str, tool: Tool) -> Option<&'static str> {
    let normal = name.trim().to_ascii_lowercase().replace('-', "_");
    match (tool, normal.as_str()) {
        (Tool::Search, "query" | "q" | "text" | "term" | "keyword" | "expression") => {
            return Some("pattern");
        }
        (Tool::Read, "offset" | "skip") => return Some("start"),
        (Tool::Read, _) => {}
        (_, "start") => return Some("offset"),
        _ => {}
    }
    let known = NAMES
        .iter()
        .find(|(proper, others)| *proper == normal || others.contains(&normal.as_str()));
    known.map(|(proper, _)| *proper)
}

/// The most similar name.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let names = NAMES.iter().flat_map(|(proper, others)| {
        std::iter::once((*proper, *proper)).chain(others.iter().map(|other| (*proper, *other)))
    });
    let rated = names.map(|(proper, other)| (distance(&name, other), proper));
    rated.min().filter(|(distance, _)| *distance <= 2).map(|(_, proper)| proper)
}

/// The number of characters to insert, delete or replace.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, c) in one.chars().take(40).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, d) in other.iter().enumerate() {
            let cost = diagonal + usize::from(c != *d);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g18_other_names_are_understood() {
        assert_eq!(proper("jq", Tool::Extract), Some("query"));
        assert_eq!(proper("Max-Results", Tool::Query), Some("limit"));
        assert_eq!(proper("query", Tool::Search), Some("pattern"));
        assert_eq!(proper("offset", Tool::Read), Some("start"));
        assert_eq!(proper("start", Tool::Extract), Some("offset"));
        assert_eq!(proper("colour", Tool::Extract), None);
        assert_eq!(nearest("quary"), Some("query"));
        assert_eq!(nearest("limt"), Some("limit"));
        assert_eq!(nearest("colour"), None);
    }
}
