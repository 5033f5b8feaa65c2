//! Errors of queries, with a class and a hint.

use lro_core::ResultId;
use lro_query::recipe::RecipeError;
use lro_query::search::SearchError;
#[cfg(any(feature = "jq", feature = "sql"))]
use lro_query::{InvalidParamName, QueryError};
use lro_spool::SpoolError;

/// A query failed.
///
/// Messages may contain text from an engine or a server; a [`hint`](Self::hint) never does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// The result cannot be opened.
    #[error("{}", spool_message(.0))]
    Stored(#[source] SpoolError),
    /// A recipe failed.
    #[error(transparent)]
    Recipe(RecipeError),
    /// A search failed.
    #[error(transparent)]
    Search(SearchError),
    /// A filter or statement failed.
    #[cfg(any(feature = "jq", feature = "sql"))]
    #[error(transparent)]
    Query(QueryError),
    /// A parameter or alias has an invalid name.
    #[cfg(any(feature = "jq", feature = "sql"))]
    #[error(transparent)]
    Name(#[from] InvalidParamName),
    /// Recipes work on memories only.
    #[error("recipes work only on memories, and this result has none")]
    NoMemories,
    /// Filters and statements work on records and JSON only.
    #[error("this result is text, neither records nor JSON")]
    NoRecords,
    /// The parameter of a recipe is an array or an object.
    #[error("recipe parameters must be strings")]
    ParamIsNoText,
    /// The original form of the payload is unknown, or too large to be restored in memory.
    #[error("the original of this result is not available")]
    NoOriginal,
    /// The original payload is no JSON document.
    #[error("the original of this result is text, not a JSON document")]
    OriginalIsText,
    /// The text is too large for a filter or a statement.
    #[error("the text has {bytes} bytes; jq and SQL read up to {limit}")]
    TooLarge {
        /// Its size in bytes.
        bytes: u64,
        /// The maximum size in bytes.
        limit: u64,
    },
    /// A query with a typical mistake, and arguments without it.
    #[error("{error}")]
    Corrected {
        /// The error.
        error: Box<Self>,
        /// Arguments that work, with values as JSON.
        arguments: String,
    },
    /// The result has fewer further texts.
    #[error("no part {number}")]
    NoPart {
        /// The requested number.
        number: u64,
        /// The number of further texts, which is the number of the last one.
        further: usize,
    },
    /// The engine is not available.
    #[error("{way} queries are not available here")]
    NotOffered {
        /// The kind of query.
        way: &'static str,
    },
}

impl ExtractError {
    /// The same error, with arguments that work.
    pub(crate) fn corrected(self, arguments: String) -> Self {
        Self::Corrected { error: Box::new(self), arguments }
    }

    /// The error without arguments that work.
    pub fn uncorrected(&self) -> &Self {
        match self {
            Self::Corrected { error, .. } => error.uncorrected(),
            other => other,
        }
    }

    /// The error class, one word.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Corrected { error, .. } => error.class(),
            Self::Stored(SpoolError::Expired { .. }) => "expired",
            Self::Stored(SpoolError::NotFound { .. } | SpoolError::NotOurs { .. })
            | Self::NoPart { .. }
            | Self::NoOriginal => "not_found",
            Self::Recipe(RecipeError::Time) | Self::Search(SearchError::Time) => "time",
            Self::Recipe(RecipeError::Spool(_))
            | Self::Search(SearchError::Spool(_))
            | Self::Stored(_)
            | Self::NotOffered { .. } => "unavailable",
            #[cfg(any(feature = "jq", feature = "sql"))]
            Self::Query(error) => error.class().as_str(),
            _ => "syntax",
        }
    }

    /// What the caller can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Stored(SpoolError::Expired { .. }) => {
                "Retrying does not help. Repeat the call that returned the result.".to_owned()
            }
            Self::Stored(SpoolError::NotFound { asked }) => not_found(asked),
            Self::Stored(SpoolError::NotOurs { .. }) => {
                "Use the reference (lro:…) from the descriptor.".to_owned()
            }
            Self::Stored(SpoolError::Damaged { .. }) => {
                "Retrying does not help. Repeat the call that returned the result.".to_owned()
            }
            Self::Stored(_) => "Retry once, then repeat the call that returned it.".to_owned(),
            Self::Recipe(error) => error.hint().unwrap_or_default(),
            Self::Search(error) => error.hint().unwrap_or_default().to_owned(),
            #[cfg(any(feature = "jq", feature = "sql"))]
            Self::Query(error) => error.hint(),
            #[cfg(any(feature = "jq", feature = "sql"))]
            Self::Name(_) => "Choose another name.".to_owned(),
            Self::NoMemories => "Use query or sql with the fields of the descriptor.".to_owned(),
            Self::NoRecords => "Use search_large_output or read_large_output.".to_owned(),
            Self::ParamIsNoText => "Put the value in quotes.".to_owned(),
            Self::NoOriginal => "Omit target: the records are stored.".to_owned(),
            Self::OriginalIsText => {
                "Omit target to query its records, or use sql (table results(line, text)), \
                 search_large_output or read_large_output with target=\"original\"."
                    .to_owned()
            }
            Self::TooLarge { .. } => {
                "Use search_large_output (group_by counts) or read_large_output.".to_owned()
            }
            Self::Corrected { error, arguments } => {
                let hint = error.hint();
                let end = if hint.ends_with('.') { "" } else { "." };
                format!("{hint}{end} Call again with {arguments}")
            }
            Self::NoPart { further: 0, .. } => {
                "The result has no text parts: omit part. Call again with part=0".to_owned()
            }
            Self::NoPart { further, .. } => {
                format!("part=0 is the data; text parts are 1 to {further}.")
            }
            Self::NotOffered { .. } => {
                "Use a recipe, search_large_output or read_large_output.".to_owned()
            }
        }
    }
}

impl From<SpoolError> for ExtractError {
    fn from(error: SpoolError) -> Self {
        Self::Stored(error)
    }
}

impl From<RecipeError> for ExtractError {
    fn from(error: RecipeError) -> Self {
        match error {
            RecipeError::Spool(error) => Self::Stored(error),
            other => Self::Recipe(other),
        }
    }
}

impl From<SearchError> for ExtractError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Spool(error) => Self::Stored(error),
            other => Self::Search(other),
        }
    }
}

#[cfg(any(feature = "jq", feature = "sql"))]
impl From<QueryError> for ExtractError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Source(error) => Self::Stored(error),
            other => Self::Query(other),
        }
    }
}

/// The hint for a result that was not found. Its reference still contains the creation time.
fn not_found(reference: &str) -> String {
    let id = reference.trim_start_matches("lro:").parse::<ResultId>().ok();
    let made = id.and_then(|id| i64::try_from(id.unix_ms()).ok());
    match made.and_then(chrono::DateTime::from_timestamp_millis) {
        Some(made) => format!(
            "It was created at {} and has expired, or was stored in another directory or scope. \
             Repeat the call that returned it, once. If the new reference is not found either, \
             stop: these tools cannot read what that server stores; ask the user to run `atlatl \
             doctor`.",
            made.format("%Y-%m-%dT%H:%M:%SZ")
        ),
        None => "Use the reference (lro:…) from the descriptor.".to_owned(),
    }
}

/// The message for a result that cannot be opened, without the address of object storage and the
/// names in it.
fn spool_message(error: &SpoolError) -> String {
    match error {
        SpoolError::Remote { .. } => "the storage of the result is unavailable".to_owned(),
        other => error_chain(other),
    }
}

/// The message of an error with all its sources.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
