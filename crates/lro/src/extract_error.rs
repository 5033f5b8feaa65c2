//! Why a question has no answer, and what the asker can do about it.

use lro_core::ResultId;
use lro_query::recipe::RecipeError;
use lro_query::search::SearchError;
#[cfg(any(feature = "jq", feature = "sql"))]
use lro_query::{NotAName, QueryError};
use lro_spool::SpoolError;

/// Why a question has no answer.
///
/// What an engine or a server said stands in messages as data; [`hint`](Self::hint) is in our own
/// words.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// The result cannot be had.
    #[error("{}", told(.0))]
    Stored(#[source] SpoolError),
    /// A recipe has no answer.
    #[error(transparent)]
    Recipe(RecipeError),
    /// A search has no answer.
    #[error(transparent)]
    Search(SearchError),
    /// A filter or statement has no answer.
    #[cfg(any(feature = "jq", feature = "sql"))]
    #[error(transparent)]
    Query(QueryError),
    /// A name cannot be used.
    #[cfg(any(feature = "jq", feature = "sql"))]
    #[error(transparent)]
    Name(#[from] NotAName),
    /// Recipes are for memories.
    #[error("recipes are for memories, and this result has none")]
    NoMemories,
    /// Filters and statements are for records and JSON.
    #[error("this result is text, neither records nor JSON")]
    NoRecords,
    /// The parameter of a recipe is no text.
    #[error("a recipe's parameters are texts")]
    ParamIsNoText,
    /// The result has fewer further texts.
    #[error("there is no part {number}")]
    NoPart {
        /// The number that was asked for.
        number: u64,
        /// How many further texts there are; the last has this number.
        further: usize,
    },
    /// There is no engine for it here.
    #[error("{way} queries are not offered here")]
    NotOffered {
        /// The way of asking.
        way: &'static str,
    },
}

impl ExtractError {
    /// Its class, in one word.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Stored(SpoolError::Expired { .. }) => "expired",
            Self::Stored(SpoolError::NotFound { .. } | SpoolError::NotOurs { .. })
            | Self::NoPart { .. } => "not_found",
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

    /// What to do about it, in our own words.
    pub fn hint(&self) -> String {
        match self {
            Self::Stored(SpoolError::Expired { .. }) => {
                "This is final: asking again will not help. Make the call that returned it again."
                    .to_owned()
            }
            Self::Stored(SpoolError::NotFound { asked }) => not_found(asked),
            Self::Stored(SpoolError::NotOurs { .. }) => {
                "Use the reference (lro:…) from the descriptor.".to_owned()
            }
            Self::Stored(SpoolError::Damaged { .. }) => {
                "This is final: asking again will not help. Make the call that returned it again."
                    .to_owned()
            }
            Self::Stored(_) => "Try once more, then make the call again.".to_owned(),
            Self::Recipe(error) => error.hint().unwrap_or_default(),
            Self::Search(error) => error.hint().unwrap_or_default().to_owned(),
            #[cfg(any(feature = "jq", feature = "sql"))]
            Self::Query(error) => error.hint(),
            #[cfg(any(feature = "jq", feature = "sql"))]
            Self::Name(_) => "Choose another name.".to_owned(),
            Self::NoMemories => "Use query or sql with the fields of the descriptor.".to_owned(),
            Self::NoRecords => "Use search_large_output or read_large_output.".to_owned(),
            Self::ParamIsNoText => "Put the value in quotes.".to_owned(),
            Self::NoPart { further: 0, .. } => {
                "The result has no further texts: leave part out.".to_owned()
            }
            Self::NoPart { further, .. } => {
                format!("part=0 is the data, further texts are 1 to {further}.")
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

/// A reference tells when its result was made, also when nothing else is left of it.
fn not_found(asked: &str) -> String {
    let id = asked.trim_start_matches("lro:").parse::<ResultId>().ok();
    let made = id.and_then(|id| i64::try_from(id.unix_ms()).ok());
    match made.and_then(chrono::DateTime::from_timestamp_millis) {
        Some(made) => format!(
            "It was made at {} and has expired, or was stored in another directory or scope. Make \
             the call that returned it again, once. If the new reference is not found either, stop: \
             these tools do not read what that server stores, and the user has to run \
             `atlatl doctor`.",
            made.format("%Y-%m-%dT%H:%M:%SZ")
        ),
        None => "Use the reference (lro:…) from the descriptor.".to_owned(),
    }
}

/// What is said of a result that cannot be had. Where object storage lies, and what it calls things, is
/// nobody's business.
fn told(error: &SpoolError) -> String {
    match error {
        SpoolError::Remote { .. } => "the storage of the result does not answer".to_owned(),
        other => with_causes(other),
    }
}

pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
