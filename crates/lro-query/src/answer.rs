//! Answer: what a query gave, and how much of it.

use serde::{Deserialize, Serialize};

/// What a query gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// One JSON value per line.
    pub lines: Vec<u8>,
    /// The number of values in `lines`.
    pub given: u64,
    /// The number of values that the query makes in all; `None` where it makes so many more than
    /// may be given that counting was given up.
    pub total: Option<u64>,
    /// The number of records that were read.
    pub records_read: u64,
    /// The records on which a filter failed; it went on behind them.
    pub failed: Option<Failed>,
    /// The columns with numbers that neither a 64-bit integer nor a double can hold. Statements see
    /// those numbers as text.
    pub kept_as_text: Vec<String>,
    /// The fields that a filter reads and no record has, where it gave nothing, or nothing but null.
    pub unknown_fields: Vec<UnknownField>,
}

impl Answer {
    /// Whether there are values in the window that did not fit.
    pub fn is_cut(&self, window: Window) -> bool {
        let wanted = match self.total {
            None => return true,
            Some(total) => total.saturating_sub(window.offset),
        };
        self.given < window.limit.map_or(wanted, |limit| limit.min(wanted))
    }

    /// The lines as text; what is not UTF-8 is replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.lines)
    }
}

/// Records on which a filter failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failed {
    /// How many.
    pub records: u64,
    /// The number of the first, from 1.
    pub first: u64,
    /// What the engine said about it: data, not guidance.
    pub message: String,
}

/// A field that a filter reads and no record has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnknownField {
    /// As the filter writes it.
    pub name: String,
    /// The fields that it probably means, the nearest first: data.
    pub near: Vec<String>,
}

/// Which of the values are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// How many to leave out.
    pub offset: u64,
    /// How many to give at most.
    pub limit: Option<u64>,
}
