//! Guidance and recipes: the part of a descriptor that tells the model what to do next.
//!
//! Both are trusted text: they consist of constants, numbers, our own references and our own paths.
//! They never contain anything from a result, not even a field name.

use serde::{Deserialize, Serialize};

use super::operation::Detail;
use super::records::Content;
use super::reference::{Location, Reference};
use super::sanitize::escape_invisible;
use super::shape::{Presence, Shape};
use super::tokens::Tokens;
use crate::config::OffloadConfig;

/// How the client can query a stored result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extraction {
    /// With its own tools only, if it has any: a shell and jq.
    Shell,
    /// With the extraction tools, which are listed.
    Native,
}

/// Whether a descriptor of memories lists the recipes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a yes or a no")]
pub enum RecipeListing {
    /// Spec R1: all of them.
    #[default]
    Included,
    /// None of them, and the guidance has examples in jq and SQL instead.
    Omitted,
}

impl RecipeListing {
    /// The listing that `prompt.offload.recipes` asks for.
    pub fn from_config(config: &OffloadConfig) -> Self {
        if config.recipes { Self::Included } else { Self::Omitted }
    }
}

/// Guidance for a set of memories whose descriptor lists no recipes.
pub fn without_recipes(
    extraction: Extraction,
    count: u64,
    tokens: Tokens,
    detail: Detail,
    location: Location<'_>,
    reference: Reference,
) -> String {
    let head = format!("Results offloaded to JSONL ({count} memories, ~{tokens} tokens saved).");
    match extraction {
        Extraction::Shell => format!(
            "{head}\n\
             File: {path}\n\
             Detail level: {detail}\n\
             Use jq to extract specific data. Examples:\n\
             - Browse: {records} | jq -r '[.title, .namespace] | @tsv'\n\
             - Count: {records} | jq -r .namespace | sort | uniq -c\n\
             Read the file directly only if you need the complete dataset.\n\
             The header line (line 1) contains metadata; memory objects start at line 2.",
            path = escape_invisible(location.as_str()),
            records = location.records(),
        ),
        Extraction::Native => format!(
            "{head}\n\
             Detail level: {detail}\n\
             Use the `lro_extract` tool to query this result set. Examples:\n\
             - Count: lro_extract(ref=\"{reference}\", \
             sql=\"SELECT namespace, count(*) FROM results GROUP BY 1\")\n\
             - Search: lro_extract(ref=\"{reference}\", \
             sql=\"SELECT id, title FROM results WHERE title LIKE '%your term%'\")\n\
             - Custom filter: lro_extract(ref=\"{reference}\", query=\"{}\"){}",
            custom_filter(detail),
            fresh_link(location, reference),
        ),
    }
}

/// A filter that uses a field of this detail level.
fn custom_filter(detail: Detail) -> &'static str {
    match detail {
        Detail::Light => r#"select(.status == \"active\")"#,
        Detail::Medium => "select(.confidence > 0.8)",
        Detail::Full => "select(.provenance.confidence > 0.8)",
    }
}

/// How to get a new link, if the location is one.
fn fresh_link(location: Location<'_>, reference: Reference) -> String {
    match location {
        Location::Link(_) => format!(
            "\nWith a shell the recipes fetch file_path, a link that is good for a few \
             minutes; lro_extract(ref=\"{reference}\") alone gives a fresh one."
        ),
        Location::File(_) => String::new(),
    }
}

/// Removes `data:…;base64,`, which base64 data may begin with.
const DATA_LABEL_REMOVER: &str = "sed 's/^data:[^,]*,//'";

/// Spec R9 and R10: guidance for a set of memories.
pub fn for_memories(
    extraction: Extraction,
    count: u64,
    tokens: Tokens,
    detail: Detail,
    location: Location<'_>,
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
            path = escape_invisible(location.as_str()),
        ),
        Extraction::Native => {
            let (nine, ten) = match detail {
                Detail::Light => ("unique namespaces", "count by type"),
                Detail::Medium | Detail::Full => ("by confidence", "search content"),
            };
            let (custom, fresh_link) = (custom_filter(detail), fresh_link(location, reference));
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
                 8=sort by date, 9={nine}, 10={ten}.{fresh_link}"
            )
        }
    }
}

/// Guidance in one line, for any content; `detail` is set for memories.
pub fn in_one_line(
    extraction: Extraction,
    content: &Content,
    detail: Option<Detail>,
    tokens: Tokens,
    location: Location<'_>,
    reference: Reference,
    recipes: RecipeListing,
) -> String {
    let (what, shell, native) = match content {
        Content::Records(records) => (
            match detail {
                Some(detail) => format!("{} memories at {detail} detail", records.count),
                None => format!("{} records", records.count),
            },
            match detail {
                Some(_) => {
                    format!("{} | jq -r .namespace | sort | uniq -c", location.records())
                }
                None => format!("{} | jq -c '.<field>' | sort | uniq -c", location.records()),
            },
            match detail {
                Some(_) if recipes == RecipeListing::Omitted => format!(
                    "lro_extract(ref=\"{reference}\", sql=\"SELECT namespace, count(*) FROM results \
                     GROUP BY 1\")"
                ),
                // Every memory has these fields.
                Some(_) => format!(
                    "lro_extract(ref=\"{reference}\", recipe=1) or sql=\"SELECT namespace, count(*) \
                     FROM results GROUP BY 1\""
                ),
                None => format!(
                    "lro_extract(ref=\"{reference}\", sql=\"SELECT <field>, count(*) FROM results \
                     GROUP BY 1\") or WHERE <field> = '<value>'; nested: <field> ->> '$.<inner>'. jq: \
                     query=\"\u{2026}\" per record, whole=true over all"
                ),
            },
        ),
        Content::Document => (
            "One JSON document".to_owned(),
            location.piped_into("jq keys"),
            format!("query_large_output(ref=\"{reference}\", query=\"keys\")"),
        ),
        Content::Text => (
            "Text".to_owned(),
            location.piped_into("grep -n '<word>'"),
            format!(
                "search_large_output(ref=\"{reference}\", pattern=\"<word>\"), with group_by=1 to \
                 count by capture group, or lro_extract(ref=\"{reference}\", sql=\"SELECT count(*) FROM results WHERE text LIKE \
                 '%<word>%'\"); a line is a row (line, text)"
            ),
        ),
        Content::Base64(base64) => (
            format!("Base64 of {} bytes", base64.decoded_bytes),
            format!("{} | base64 -d | file -", location.piped_into(DATA_LABEL_REMOVER)),
            format!(
                "read_large_output(ref=\"{reference}\", start=0, end=2000) for a range of the text. For \
                 the bytes, with a shell: atlatl results show {reference} --original | \
                 {DATA_LABEL_REMOVER} | base64 -d"
            ),
        ),
        Content::Binary => (
            "Binary data".to_owned(),
            location.piped_into("file"),
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

/// Spec R3: the number of recipes.
pub const RECIPES: usize = 10;

/// Spec G1: a recipe as in a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JqRecipe {
    /// What the recipe does.
    pub description: String,
    /// The shell command.
    pub command: String,
}

/// A recipe, independent of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recipe {
    /// Its number, from 1 to 10.
    pub number: u8,
    /// What the recipe does.
    pub description: &'static str,
    /// Whether the filter runs on each record or on the array of all.
    pub input: RecipeInput,
    /// Whether strings are printed without quotes (`jq -r`).
    pub raw: bool,
    /// The jq program.
    pub filter: String,
}

/// The input of a recipe's filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecipeInput {
    /// Each record.
    EachRecord,
    /// One array of all records (`jq -s`).
    WholeSet,
}

/// Which optional fields every record has, with the type that the plain recipes rely on.
///
/// Memories of our own server always have them. Where they may be missing, the recipe contains a
/// default; data is never changed (conformance decision 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionalFields {
    title: Presence,
    namespace: Presence,
    tags: Presence,
    content: Presence,
    provenance: Presence,
}

impl OptionalFields {
    /// Every record has every field.
    pub const ALWAYS: Self = Self {
        title: Presence::Always,
        namespace: Presence::Always,
        tags: Presence::Always,
        content: Presence::Always,
        provenance: Presence::Always,
    };

    /// The presence of the fields in records of this shape.
    pub fn from_shape(shape: &Shape) -> Self {
        Self {
            title: shape.string(&["title"]),
            namespace: shape.string(&["namespace"]),
            tags: shape.array(&["tags"]),
            content: shape.string(&["content"]),
            provenance: shape.object(&["provenance"]),
        }
    }
}

/// Spec R4: the ten recipes for memories at `detail`.
pub fn recipes(detail: Detail, optional: OptionalFields) -> Vec<Recipe> {
    use RecipeInput::{EachRecord, WholeSet};

    let title = or_else("title", optional.title, "strings", "\"\"");
    let namespace = or_else("namespace", optional.namespace, "strings", "\"\"");
    let tags = or_else("tags", optional.tags, "arrays", "[]");
    let content = or_else("content", optional.content, "strings", "\"\"");
    let mut all = vec![
        ("List titles with namespaces", EachRecord, true, format!("[{title}, {namespace}] | @tsv")),
        (
            "Filter by namespace prefix",
            EachRecord,
            false,
            format!("select({namespace} | startswith(\"_semantic\"))"),
        ),
        (
            "Search titles by keyword",
            EachRecord,
            false,
            format!("select({title} | test(\"keyword\"; \"i\"))"),
        ),
        ("Extract IDs and titles only", EachRecord, false, "{id, title, namespace}".to_owned()),
        (
            "Filter by memory type",
            EachRecord,
            false,
            "select(.memory_type == \"semantic\")".to_owned(),
        ),
        (
            "Count by namespace",
            WholeSet,
            false,
            "group_by(.namespace) | map({namespace: .[0].namespace, count: length})".to_owned(),
        ),
        ("Filter by tag", EachRecord, false, format!("select({tags} | index(\"TAG\"))")),
        ("Sort by created date", WholeSet, false, "sort_by(.created)".to_owned()),
    ];
    let by_confidence = |field: &str| {
        let filter = format!("sort_by({field} // 0) | reverse");
        ("Sort by confidence, highest first", WholeSet, false, filter)
    };
    let full_text = (
        "Full-text search in content",
        EachRecord,
        false,
        format!("select({content} | test(\"keyword\"; \"i\"))"),
    );
    all.extend(match detail {
        Detail::Light => [
            (
                "List unique namespaces",
                WholeSet,
                false,
                "map(.namespace // empty) | unique".to_owned(),
            ),
            (
                "Count by memory type",
                WholeSet,
                false,
                "group_by(.memory_type) | map({memory_type: .[0].memory_type, count: length})"
                    .to_owned(),
            ),
        ],
        Detail::Medium => [by_confidence(".confidence"), full_text],
        Detail::Full if optional.provenance == Presence::Mixed => {
            [by_confidence("(.provenance | objects | .confidence)"), full_text]
        }
        Detail::Full => [by_confidence(".provenance.confidence"), full_text],
    });
    all.into_iter()
        .zip(1..)
        .map(|((description, input, raw, filter), number)| Recipe {
            number,
            description,
            input,
            raw,
            filter,
        })
        .collect()
}

/// The jq expression for a field with a default. It checks the type only where the field may have
/// another one, to keep recipes short.
fn or_else(field: &str, presence: Presence, type_filter: &str, default: &str) -> String {
    match presence {
        Presence::Always => format!(".{field}"),
        Presence::Mixed => format!("((.{field} | {type_filter}) // {default})"),
        Presence::Sometimes | Presence::Never => format!("(.{field} // {default})"),
    }
}

impl Recipe {
    /// Spec R6: the recipe as a shell command that reads `location`.
    pub fn command(&self, location: Location<'_>) -> JqRecipe {
        let flags = match (self.input, self.raw) {
            (RecipeInput::EachRecord, false) => "",
            (RecipeInput::EachRecord, true) => "-r ",
            (RecipeInput::WholeSet, false) => "-s ",
            (RecipeInput::WholeSet, true) => "-rs ",
        };
        JqRecipe {
            description: self.description.to_owned(),
            command: format!("{} | jq {flags}'{}'", location.records(), self.filter),
        }
    }
}
