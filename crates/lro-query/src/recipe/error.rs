//! Why a recipe gives no answer.

use lro_spool::SpoolError;

use super::Params;
use crate::pattern::PatternError;

/// Why a recipe gives no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// There is no such recipe.
    #[error("there is no recipe {number}")]
    UnknownNumber {
        /// What was asked for.
        number: u64,
    },
    /// No recipe has this parameter.
    #[error("there is no parameter `{name}`")]
    UnknownParam {
        /// What was given: text from outside, not to be trusted.
        name: String,
    },
    /// The keyword is no pattern that can be searched for.
    #[error("the keyword cannot be used as a pattern")]
    Keyword(#[from] PatternError),
    /// A line is no JSON.
    #[error("record {record} is no JSON")]
    NotJson {
        /// Its number, from 0.
        record: u64,
    },
    /// What the records shall be ordered by is nested too deeply to be compared.
    #[error("record {record} cannot be compared with others: its field is nested too deeply")]
    TooDeep {
        /// Its number, from 0.
        record: u64,
    },
    /// The time is up.
    #[error("the time for this recipe is up")]
    Time,
    /// The result could not be read.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

impl RecipeError {
    /// What to do about it, where something can be done.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownNumber { .. } => Some("recipes are numbered from 1 to 10".to_owned()),
            Self::UnknownParam { .. } => {
                Some(format!("the parameters are {}", Params::NAMES.join(", ")))
            }
            Self::Keyword(error) => Some(error.hint().to_owned()),
            Self::NotJson { .. } => Some("read or search the result instead".to_owned()),
            Self::TooDeep { .. } => Some("filter by jq or SQL instead".to_owned()),
            Self::Time => Some("ask a narrower question, or allow more time".to_owned()),
            Self::Spool(_) => None,
        }
    }
}

/// What went wrong with one record; which one it was is known where the records are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flaw {
    NotJson,
    TooDeep,
    Keyword(PatternError),
}

impl From<PatternError> for Flaw {
    fn from(error: PatternError) -> Self {
        Self::Keyword(error)
    }
}

impl Flaw {
    pub(super) fn of_record(self, record: u64) -> RecipeError {
        match self {
            Self::NotJson => RecipeError::NotJson { record },
            Self::TooDeep => RecipeError::TooDeep { record },
            Self::Keyword(error) => RecipeError::Keyword(error),
        }
    }
}
