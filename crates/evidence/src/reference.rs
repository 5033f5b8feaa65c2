//! The reference answers, computed in two ways that share no code: by iteration over parsed records
//! and by SQLite over the serialized result.

pub mod iteration;
pub mod sqlite;

use crate::task::Answer;

/// The answer to a question without a match.
pub fn no_match() -> Answer {
    Answer::Text("none".to_owned())
}

#[cfg(test)]
mod tests;
