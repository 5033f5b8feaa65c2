//! Errors of recipes.

use lro_spool::SpoolError;

use super::RecipeParams;
use crate::pattern::PatternError;

/// The error of a recipe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// There is no recipe with this number.
    #[error("unknown recipe {number}")]
    UnknownNumber {
        /// The requested number.
        number: u64,
    },
    /// No recipe has this parameter.
    #[error("unknown parameter `{name}`")]
    UnknownParam {
        /// The name: untrusted text.
        name: String,
    },
    /// The recipe has a parameter, which is not set.
    #[error("recipe {number} needs the parameter `{name}`")]
    MissingParam {
        /// The number of the recipe.
        number: u8,
        /// The name of its parameter.
        name: &'static str,
    },
    /// The keyword is not a valid pattern.
    #[error("invalid keyword")]
    Keyword(#[from] PatternError),
    /// A record is not valid JSON.
    #[error("record {record} is not valid JSON")]
    NotJson {
        /// Its number, from 0.
        record: u64,
    },
    /// The field to order by is nested too deeply to be compared.
    #[error("record {record} cannot be compared with others: its field is nested too deeply")]
    TooDeep {
        /// Its number, from 0.
        record: u64,
    },
    /// The deadline passed.
    #[error("the recipe timed out")]
    Time,
    /// The result could not be read.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

impl RecipeError {
    /// What the caller can do about it, if anything.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownNumber { .. } => Some("recipes are numbered from 1 to 10".to_owned()),
            Self::UnknownParam { .. } => {
                Some(format!("the parameters are {}", RecipeParams::NAMES.join(", ")))
            }
            Self::MissingParam { number, name } => {
                Some(format!("Call again with recipe={number}, params={{\"{name}\": \"…\"}}"))
            }
            Self::Keyword(error) => Some(error.hint().to_owned()),
            Self::NotJson { .. } => Some("read or search the result instead".to_owned()),
            Self::TooDeep { .. } => Some("filter by jq or SQL instead".to_owned()),
            Self::Time => Some("narrow the query, or allow more time".to_owned()),
            Self::Spool(_) => None,
        }
    }
}

/// The error of one record, before its number is known.
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
    /// Adds the number of the record.
    pub(super) fn at_record(self, record: u64) -> RecipeError {
        match self {
            Self::NotJson => RecipeError::NotJson { record },
            Self::TooDeep => RecipeError::TooDeep { record },
            Self::Keyword(error) => RecipeError::Keyword(error),
        }
    }
}
