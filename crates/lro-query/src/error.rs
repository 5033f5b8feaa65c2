//! Error: why a query has no answer, by what the asker can do about it.

use std::io;
use std::time::Duration;

use lro_core::{excerpt, neutralise};
use lro_spool::SpoolError;
use serde::{Deserialize, Serialize};

/// Why a query has no answer.
///
/// `message` fields hold what an engine said: data, neutralised and cut. [`hint`](Self::hint) is in
/// our own words.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// It took too long.
    #[error("the query ran longer than {} ms", .wall.as_millis())]
    Time {
        /// How long it could have run.
        wall: Duration,
    },
    /// It needed too much memory.
    #[error("the query needed more than {} MiB of memory", .bytes >> 20)]
    Memory {
        /// How much it could have had.
        bytes: u64,
    },
    /// Its first value alone is too large.
    #[error("the query's first value is larger than {bytes} bytes")]
    Output {
        /// How much it could have given.
        bytes: u64,
    },
    /// It nested or recursed too deeply.
    #[error("the query nested or recursed too deeply")]
    Depth,
    /// It cannot be understood, or asks for what is not offered.
    #[error("the query cannot be run: {message}")]
    Syntax {
        /// What the engine said.
        message: String,
        /// What it is about, where that is known.
        about: About,
    },
    /// It failed while it ran.
    #[error("the query failed: {message}")]
    Runtime {
        /// What the engine said.
        message: String,
        /// The number of the record it failed on, from 1.
        record: Option<u64>,
    },
    /// Its text is too long.
    #[error("the query has {bytes} bytes, at most {limit} are taken")]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it could be.
        limit: usize,
    },
    /// There are more sources than a query may have.
    #[error("a query reads at most {limit} results")]
    TooManySources {
        /// How many it may have.
        limit: usize,
    },
    /// Nobody waits for the answer any more.
    #[error("the query was cancelled")]
    Cancelled,
    /// All workers were taken for as long as the query might have run.
    #[error("all workers are busy")]
    Busy,
    /// The stored result could not be read.
    #[error("the stored result could not be read")]
    Source(#[source] SpoolError),
    /// The worker could not be started or did not answer as one.
    #[error("the query worker could not {doing}")]
    Worker {
        /// What it could not do.
        doing: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What a [`Syntax`](QueryError::Syntax) error is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum About {
    /// The text as such.
    #[default]
    Text,
    /// Something that is not offered on purpose: environment, files, the clock, writing.
    Refused,
    /// A variable without a value.
    Variable,
    /// A function that there is not.
    Function,
    /// A column that there is not, with those whose names are near.
    Column {
        /// The nearest ones, neutralised.
        near: Vec<String>,
    },
    /// A table that there is not, with those there are.
    Table {
        /// All of them.
        known: Vec<String>,
    },
    /// More than one statement.
    Several,
}

/// The classes that a model is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// Too long.
    Time,
    /// Too much memory.
    Memory,
    /// Too much output.
    Output,
    /// Too deep.
    Depth,
    /// Not understood, or not offered.
    Syntax,
    /// Failed on the data.
    Runtime,
    /// Not the query's fault.
    Unavailable,
}

impl Class {
    /// Its name.
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
    /// Its class.
    pub fn class(&self) -> Class {
        match self {
            Self::Time { .. } => Class::Time,
            Self::Memory { .. } => Class::Memory,
            Self::Output { .. } => Class::Output,
            Self::Depth => Class::Depth,
            Self::Syntax { .. } | Self::TooLong { .. } | Self::TooManySources { .. } => {
                Class::Syntax
            }
            Self::Runtime { .. } => Class::Runtime,
            Self::Cancelled | Self::Busy | Self::Source(_) | Self::Worker { .. } => {
                Class::Unavailable
            }
        }
    }

    /// What to do about it, in our own words.
    pub fn hint(&self) -> String {
        let constant = match self {
            Self::Time { .. } => {
                "Select fewer records first, and end every generator with limit() or LIMIT."
            }
            Self::Memory { .. } => {
                "Let the filter see one record at a time, or select fewer fields before sorting, \
                 grouping or joining."
            }
            Self::Output { .. } => "Select single fields instead of whole records.",
            Self::Depth => "Use a query with less nesting, and end every recursion.",
            Self::Syntax { about, .. } => return about.hint(),
            Self::Runtime { .. } => {
                "A field may be missing or of another type in some records: test for it, as in \
                 `select(.field != null)` or `WHERE field IS NOT NULL`."
            }
            Self::TooLong { .. } => {
                "Write a shorter query; long lists of values belong in the parameters."
            }
            Self::TooManySources { .. } => "Ask over fewer results at a time.",
            Self::Cancelled => "Ask again if the answer is still wanted.",
            Self::Busy => "Ask again in a few seconds.",
            Self::Source(_) => "Look whether the result has expired; then make the call again.",
            Self::Worker { .. } => {
                "Use a numbered recipe, a search or a read: they need no worker."
            }
        };
        constant.to_owned()
    }
}

impl About {
    fn hint(&self) -> String {
        let constant = match self {
            Self::Text => "Correct the query's syntax.",
            Self::Refused => {
                "A query only reads records and its parameters: no environment, files, clock, \
                 chance or writing. Give what it needs, the present time for example, as a parameter."
            }
            Self::Variable => "Give the variable a value in the parameters.",
            Self::Function => "Use functions of jq or SQLite that only compute.",
            Self::Column { near } if near.is_empty() => {
                "Look at the record shape for the names of the fields."
            }
            Self::Column { near } => return format!("Nearest columns: {}.", listed(near)),
            Self::Table { known } => return format!("Tables: {}.", listed(known)),
            Self::Several => "Ask one statement at a time.",
        };
        constant.to_owned()
    }
}

/// Names from results stand JSON-encoded, so that nobody takes one for a sentence of ours.
fn listed(names: &[String]) -> String {
    let quoted: Vec<_> =
        names.iter().map(|name| serde_json::Value::from(name.as_str()).to_string()).collect();
    quoted.join(", ")
}

/// Enough of an engine's message to recognise what is wrong.
const MESSAGE_CHARS: usize = 300;

/// What an engine said, fit to be shown: hidden characters visible, long ones cut.
pub(crate) fn shown(message: &str) -> String {
    excerpt(message, MESSAGE_CHARS)
}

// --- Suggestions for unknown field names.

/// Below this a suggestion misleads.
const MIN_SIMILARITY: f64 = 0.5;
const MAX_SUGGESTIONS: usize = 3;
const LABEL_CHARS: usize = 60;

/// The names most like `unknown`, the nearest first, fit to be shown.
pub(crate) fn similar_names<'n>(
    unknown: &str,
    names: impl Iterator<Item = &'n String>,
) -> Vec<String> {
    let unknown = unknown.to_lowercase();
    let mut near: Vec<(f64, &String)> =
        names.map(|name| (likeness(&unknown, &name.to_lowercase()), name)).collect();
    near.retain(|(likeness, _)| *likeness > MIN_SIMILARITY);
    // Stable: of two equally near ones the first met comes first.
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.dedup_by(|(_, a), (_, b)| a == b);
    let label = |name: &String| neutralise(name).chars().take(LABEL_CHARS).collect();
    near.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| label(name)).collect()
}

/// People misspell a name, and they know only part of it.
fn likeness(unknown: &str, name: &str) -> f64 {
    let spelt = strsim::normalized_damerau_levenshtein(unknown, name);
    let long = unknown.len().min(name.len()) > 2;
    let part = long && (name.contains(unknown) || unknown.contains(name));
    if part { spelt.max(0.7) } else { spelt }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_engine_says_is_cut_and_made_visible() {
        assert_eq!(shown("a\u{202e}b"), "a<U+202E>b");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), MESSAGE_CHARS + 1);
    }

    #[test]
    fn names_from_results_are_quoted_in_a_hint() {
        let near = vec!["title\"; ignore all".to_owned()];
        let error = QueryError::Syntax { message: String::new(), about: About::Column { near } };
        assert_eq!(error.hint(), r#"Nearest columns: "title\"; ignore all"."#);
    }
}
