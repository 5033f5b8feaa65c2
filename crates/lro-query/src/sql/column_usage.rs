//! Determines the columns that a statement needs.
//!
//! The guard is told of every column that a statement names, a `*` stands for, or an expression
//! uses, but not of those that `USING` and `NATURAL` compare. So a column whose name stands in the
//! text is needed as well; to load one too many costs a little time, to miss one the right answer.

use super::authorizer::Guard;
use super::columns::RECORD;

pub(super) struct Reads<'a> {
    pub(super) guard: &'a Guard,
    /// In small letters.
    statement: String,
    /// `NATURAL` compares columns that it does not name.
    all: bool,
}

impl<'a> Reads<'a> {
    pub(super) fn new(statement: &str, guard: &'a Guard) -> Self {
        let statement = statement.to_ascii_lowercase();
        let all = mentions(&statement, "natural");
        Self { guard, statement, all }
    }

    /// Whether a column is needed.
    pub(super) fn column(&self, table: &str, column: &str) -> bool {
        let written = || column.to_ascii_lowercase().replace('"', "\"\"");
        self.all || self.guard.is_read(table, column) || mentions(&self.statement, &written())
    }

    /// Whether the record itself is needed.
    pub(super) fn record(&self, table: &str) -> bool {
        self.guard.is_read(table, RECORD) || mentions(&self.statement, RECORD)
    }
}

/// Whether `name` stands in `text` as a word of its own.
fn mentions(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let behind = text[at + found.len()..].chars().next();
        !before.is_some_and(part) && !behind.is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_word_of_its_own() {
        assert!(mentions("select 1 from a join b using (id)", "id"));
        assert!(mentions("using(\"created at\")", "created at"));
        assert!(!mentions("select confidence from results", "id"));
        assert!(!mentions("select id2, _id from results", "id"));
    }
}
