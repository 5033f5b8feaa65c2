//! Question: what is asked of a stored result.

use std::collections::BTreeMap;

use lro_query::{Page, read, search};
use lro_spool::Address;
use serde_json::value::RawValue;

/// A question to a stored result.
#[derive(Debug, Clone)]
pub struct Question {
    /// Which result.
    pub address: Address,
    /// What is wanted of it.
    pub wanted: Wanted,
    /// Which of the answers; ignored by searches and reads, which have bounds of their own.
    pub page: Page,
}

/// Values by name, as they were written: data, never program text (Spec N3).
pub type Values = BTreeMap<String, Box<RawValue>>;

/// What is wanted of a result.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Wanted {
    /// The answers of a recipe.
    Recipe {
        /// Its number, from 1 to 10.
        number: u64,
        /// Its parameters.
        params: Values,
    },
    /// What a jq filter makes of the records.
    Jq {
        /// The filter.
        filter: String,
        /// Whether it sees all records at once instead of one after the other.
        whole: bool,
        /// Its variables.
        params: Values,
    },
    /// The rows of an SQL statement.
    Sql {
        /// The statement.
        statement: String,
        /// Further results, by the names it calls them.
        with: BTreeMap<String, Address>,
        /// What it binds.
        params: Values,
    },
    /// Lines that match a regular expression.
    Search {
        /// The expression.
        pattern: String,
        /// Whether case matters.
        case: search::Case,
        /// How many lines at most.
        most: usize,
        /// How many lines around each.
        context: usize,
    },
    /// A range.
    Read {
        /// What it is counted in.
        unit: read::Unit,
        /// The first.
        start: u64,
        /// The one before which it ends.
        end: Option<u64>,
        /// Of which text: 0 is the data, from 1 on the further texts of the same tool result.
        part: u64,
    },
    /// A link to all of it.
    Link,
}

impl Wanted {
    /// The way of asking, in one word.
    pub fn way(&self) -> &'static str {
        match self {
            Self::Recipe { .. } => "recipe",
            Self::Jq { .. } => "jq",
            Self::Sql { .. } => "sql",
            Self::Search { .. } => "search",
            Self::Read { .. } => "read",
            Self::Link => "link",
        }
    }
}
