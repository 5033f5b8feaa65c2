//! Why a search gives no answer.

use lro_spool::SpoolError;

use crate::pattern::PatternError;

/// Why a search gives no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The pattern cannot be used on this text.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The time is up.
    #[error("the time for this search is up")]
    Time,
    /// The result could not be read.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

impl SearchError {
    /// What to do about it, where something can be done.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Pattern(error) => Some(error.hint()),
            Self::Time => Some("use a plainer pattern, or allow more time"),
            Self::Spool(_) => None,
        }
    }
}
