//! Recipe: the ten ready-made questions to a set of memories.

use serde::{Deserialize, Serialize};

use crate::detail::Detail;
use crate::location::Place;
use crate::shape::{Presence, Shape};

/// Spec R3: how many recipes there always are.
pub const RECIPES: usize = 10;

/// Spec G1: a recipe as it stands in a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JqRecipe {
    /// What it answers.
    pub description: String,
    /// The shell command.
    pub command: String,
}

/// A recipe before it meets a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recipe {
    /// Its number, from 1 to 10.
    pub number: u8,
    /// What it answers.
    pub description: &'static str,
    /// Whether it looks at the records one by one or at all of them at once.
    pub input: Input,
    /// Whether strings are printed without quotes.
    pub raw: bool,
    /// The jq program.
    pub filter: String,
}

/// What a recipe's filter is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// One record after the other.
    EachRecord,
    /// One array of all records (`jq -s`).
    WholeSet,
}

/// Which of the optional fields every record has, as the kind the plain recipes rely on.
///
/// Memories of our own server always have them. Others may lack them, and then the recipe says
/// what to take instead; data is never touched (conformance decision 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Optional {
    title: Presence,
    namespace: Presence,
    tags: Presence,
    content: Presence,
    provenance: Presence,
}

impl Optional {
    /// Every record has every field.
    pub const ALWAYS: Self = Self {
        title: Presence::Always,
        namespace: Presence::Always,
        tags: Presence::Always,
        content: Presence::Always,
        provenance: Presence::Always,
    };

    /// What the shape of the records says.
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
pub fn recipes(detail: Detail, optional: Optional) -> Vec<Recipe> {
    use Input::{EachRecord, WholeSet};

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

/// A field of the wanted type, or what to take where it is missing. Only where it may be something
/// else altogether is its type asked for, since every word of a recipe is read ten times.
fn or_else(field: &str, presence: Presence, of_type: &str, otherwise: &str) -> String {
    match presence {
        Presence::Always => format!(".{field}"),
        Presence::Mixed => format!("((.{field} | {of_type}) // {otherwise})"),
        Presence::Sometimes | Presence::Never => format!("(.{field} // {otherwise})"),
    }
}

impl Recipe {
    /// Spec R6: the recipe as a command on what is at `place`.
    pub fn command(&self, place: Place<'_>) -> JqRecipe {
        let flags = match (self.input, self.raw) {
            (Input::EachRecord, false) => "",
            (Input::EachRecord, true) => "-r ",
            (Input::WholeSet, false) => "-s ",
            (Input::WholeSet, true) => "-rs ",
        };
        JqRecipe {
            description: self.description.to_owned(),
            command: format!("{} | jq {flags}'{}'", place.records(), self.filter),
        }
    }
}
