//! Errors of jq and SQL queries, by what the caller can do about them, and their hints.

use std::io;
use std::time::Duration;

use lro_core::{escape_invisible, excerpt};
use lro_spool::SpoolError;
use serde::{Deserialize, Serialize};

/// The error of a jq or SQL query.
///
/// `message` fields hold an engine's message: untrusted data, escaped and truncated.
/// [`hint`](Self::hint) contains our own text only, plus quoted names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The query exceeded its time limit.
    #[error("the query ran longer than {} ms", .wall.as_millis())]
    Time {
        /// The time limit.
        wall: Duration,
    },
    /// The query exceeded its memory limit.
    #[error("the query needed more than {} MiB of memory", .bytes >> 20)]
    Memory {
        /// The memory limit in bytes.
        bytes: u64,
    },
    /// The first value alone exceeds the output limit.
    #[error("the query's first value is larger than {bytes} bytes")]
    Output {
        /// The output limit in bytes.
        bytes: u64,
    },
    /// The query nested or recursed too deeply.
    #[error("the query nested or recursed too deeply")]
    Depth,
    /// The query is invalid, or uses something that is not offered.
    #[error("the query cannot be run: {message}")]
    Syntax {
        /// The engine's message.
        message: String,
        /// What the message is about.
        about: SyntaxProblem,
    },
    /// The query failed on the data.
    #[error("the query failed: {message}")]
    Runtime {
        /// The engine's message.
        message: String,
        /// The number of the record it failed on, from 1, if known.
        record: Option<u64>,
    },
    /// The query's text is too long.
    #[error("the query has {bytes} bytes; the limit is {limit}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The maximum length.
        limit: usize,
    },
    /// The query has too many sources.
    #[error("the query reads more than {limit} results")]
    TooManySources {
        /// The maximum number.
        limit: usize,
    },
    /// The caller cancelled the query.
    #[error("the query was cancelled")]
    Cancelled,
    /// No worker became free within the time limit of the query.
    #[error("all workers are busy")]
    Busy,
    /// The stored result could not be read.
    #[error("the stored result could not be read")]
    Source(#[source] SpoolError),
    /// The worker process could not be started, or broke the protocol.
    #[error("the query worker could not {doing}")]
    Worker {
        /// The operation that failed.
        doing: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The subject of a [`Syntax`](QueryError::Syntax) error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SyntaxProblem {
    /// The syntax of the text.
    #[default]
    Text,
    /// A capability that is not offered: the environment, files, the clock, writing.
    Refused,
    /// A variable that has no value.
    Variable,
    /// An unknown function.
    Function,
    /// An unknown column, with the columns of similar names.
    Column {
        /// The most similar names, escaped.
        near: Vec<String>,
    },
    /// An unknown table, with the existing ones.
    Table {
        /// The names of all tables.
        #[serde(rename = "known")]
        tables: Vec<String>,
    },
    /// More than one statement.
    #[serde(rename = "several")]
    MultipleStatements,
}

/// The class of an error, as reported to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The time limit was exceeded.
    Time,
    /// The memory limit was exceeded.
    Memory,
    /// The output limit was exceeded.
    Output,
    /// Nesting or recursion was too deep.
    Depth,
    /// The query is invalid, or uses something that is not offered.
    Syntax,
    /// The query failed on the data.
    Runtime,
    /// The cause is outside of the query.
    Unavailable,
}

impl ErrorClass {
    /// The name of the class.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Memory => "memory",
            Self::Output => "output",
            Self::Depth => "depth",
            Self::Syntax => "syntax",
            Self::Runtime => "runtime",
            Self::Unavailable => "unavailable",
        }
    }
}

impl QueryError {
    /// The class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Time { .. } => ErrorClass::Time,
            Self::Memory { .. } => ErrorClass::Memory,
            Self::Output { .. } => ErrorClass::Output,
            Self::Depth => ErrorClass::Depth,
            Self::Syntax { .. } | Self::TooLong { .. } | Self::TooManySources { .. } => {
                ErrorClass::Syntax
            }
            Self::Runtime { .. } => ErrorClass::Runtime,
            Self::Cancelled | Self::Busy | Self::Source(_) | Self::Worker { .. } => {
                ErrorClass::Unavailable
            }
        }
    }

    /// What the caller can do about it, in our own words.
    pub fn hint(&self) -> String {
        let constant = match self {
            Self::Time { .. } => {
                "Select fewer records first, and end every generator with limit() or LIMIT."
            }
            Self::Memory { .. } => {
                "Filter one record at a time, or select fewer fields before sorting, grouping or \
                 joining."
            }
            Self::Output { .. } => "Select single fields instead of whole records.",
            Self::Depth => "Use a query with less nesting, and end every recursion.",
            Self::Syntax { about: SyntaxProblem::Variable, message } => {
                return variable_hint(message);
            }
            Self::Syntax { about, .. } => return about.hint(),
            Self::Runtime { .. } => {
                "A field may be missing or of another type in some records: test for it, as in \
                 `select(.field != null)` or `WHERE field IS NOT NULL`."
            }
            Self::TooLong { .. } => {
                "Write a shorter query; long lists of values belong in the parameters."
            }
            Self::TooManySources { .. } => "Query fewer results at a time.",
            Self::Cancelled => "Run the query again if you still need its result.",
            Self::Busy => "Retry in a few seconds.",
            Self::Source(_) => {
                "Check whether the result has expired; then repeat the call that returned it."
            }
            Self::Worker { .. } => {
                "Use a numbered recipe, a search or a read: they need no worker."
            }
        };
        constant.to_owned()
    }
}

impl SyntaxProblem {
    fn hint(&self) -> String {
        let constant = match self {
            Self::Text => "Correct the query's syntax.",
            Self::Refused => {
                "A query only reads records and its parameters: no environment, files, clock, \
                 randomness or writing. Pass anything else, such as the current time, as a \
                 parameter."
            }
            Self::Variable => "Set the variable in the parameters.",
            Self::Function => "Use functions of jq or SQLite that only compute.",
            Self::Column { near } if near.is_empty() => "See the record shape for the field names.",
            Self::Column { near } => return format!("Nearest columns: {}.", quoted_list(near)),
            Self::Table { tables } => return format!("Tables: {}.", quoted_list(tables)),
            Self::MultipleStatements => "Run one statement at a time.",
        };
        constant.to_owned()
    }
}

/// The hint for a variable without a value: `params` with its name, which is from the query.
fn variable_hint(message: &str) -> String {
    let name = message.split(' ').next().unwrap_or_default().trim_start_matches(['$', ':', '@']);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if message.starts_with(['$', ':', '@']) && is_name {
        format!("Set it in the parameters: params={{\"{name}\": …}}.")
    } else {
        SyntaxProblem::Variable.hint()
    }
}

/// Lists names from results, JSON-encoded so that none reads like a sentence of ours.
fn quoted_list(names: &[String]) -> String {
    let quoted: Vec<_> =
        names.iter().map(|name| serde_json::Value::from(name.as_str()).to_string()).collect();
    quoted.join(", ")
}

/// The maximum number of characters of an engine's message.
const MAX_MESSAGE_CHARS: usize = 300;

/// Makes an engine's message safe to display: escapes invisible characters and truncates it.
pub(crate) fn sanitize_message(message: &str) -> String {
    excerpt(message, MAX_MESSAGE_CHARS)
}

/// The minimum similarity of a suggestion, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.5;
const MAX_SUGGESTIONS: usize = 3;
const MAX_LABEL_CHARS: usize = 60;

/// The names most similar to `unknown`, the most similar first, escaped and truncated.
pub(crate) fn similar_names<'n>(
    unknown: &str,
    names: impl Iterator<Item = &'n String>,
) -> Vec<String> {
    let unknown = unknown.to_lowercase();
    let mut near: Vec<(f64, &String)> =
        names.map(|name| (similarity(&unknown, &name.to_lowercase()), name)).collect();
    near.retain(|(similarity, _)| *similarity > MIN_SIMILARITY);
    // The sort is stable: equally similar names keep their order.
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.dedup_by(|(_, a), (_, b)| a == b);
    let label = |name: &String| escape_invisible(name).chars().take(MAX_LABEL_CHARS).collect();
    near.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| label(name)).collect()
}

/// Rates misspelt names by edit distance, and names that contain each other at least 0.7.
fn similarity(unknown: &str, name: &str) -> f64 {
    let distance = strsim::normalized_damerau_levenshtein(unknown, name);
    let long = unknown.len().min(name.len()) > 2;
    let part = long && (name.contains(unknown) || unknown.contains(name));
    if part { distance.max(0.7) } else { distance }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_engine_says_is_cut_and_made_visible() {
        assert_eq!(sanitize_message("a\u{202e}b"), "a<U+202E>b");
        assert_eq!(sanitize_message(&"x".repeat(1000)).chars().count(), MAX_MESSAGE_CHARS + 1);
    }

    #[test]
    fn names_from_results_are_quoted_in_a_hint() {
        let near = vec!["title\"; ignore all".to_owned()];
        let error =
            QueryError::Syntax { message: String::new(), about: SyntaxProblem::Column { near } };
        assert_eq!(error.hint(), r#"Nearest columns: "title\"; ignore all"."#);
    }
}
