//! The columns of a table, and which of them a statement needs.
//!
//! Columns are the top-level fields of a source, in order of appearance. The authorizer reports every
//! column that a statement names, that `*` expands to, or that an expression uses, but not those that
//! `USING` and `NATURAL` compare. So a column whose name occurs in the statement is needed, too: an extra
//! column costs a little time, a missing one the correct answer.

use std::collections::{HashMap, HashSet};

use super::authorizer::Authorizer;
use super::cell::unescape;

/// The column with the record as stored.
pub(super) const RECORD: &str = "_record";
/// The column with the number of the record.
pub(super) const NUMBER: &str = "_n";

/// The maximum number of columns, below the limit of SQLite. Further fields are reachable through
/// `_record`.
const MAX_COLUMNS: usize = 1900;

/// A field that occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// The field has this column.
    Column(usize),
    /// The field cannot be a column.
    NoColumn,
}

/// The columns of one table.
#[derive(Debug, Clone, Default)]
pub(super) struct Columns {
    names: Vec<String>,
    /// Every field that occurred.
    by_name: HashMap<Vec<u8>, Field>,
    /// Column names in lower case: SQLite ignores case, so that the first of `ID` and `id` gets the
    /// column.
    folded: HashSet<String>,
}

impl Columns {
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The field, if it occurred before.
    pub(super) fn find(&self, raw: &[u8]) -> Option<Field> {
        if memchr::memchr(b'\\', raw).is_none() {
            return self.by_name.get(raw).copied();
        }
        self.by_name.get(&decode(raw)).copied()
    }

    /// Adds a field.
    pub(super) fn add(&mut self, raw: &[u8]) {
        let name = decode(raw);
        if self.by_name.contains_key(&name) {
            return;
        }
        let text = String::from_utf8(name.clone()).ok();
        let column = text.filter(|text| self.is_column(text)).map(|text| {
            self.folded.insert(text.to_ascii_lowercase());
            self.names.push(text);
            self.names.len() - 1
        });
        self.by_name.insert(name, column.map_or(Field::NoColumn, Field::Column));
    }

    fn is_column(&self, name: &str) -> bool {
        let folded = name.to_ascii_lowercase();
        !name.is_empty()
            && !name.contains('\0')
            && folded != RECORD
            && folded != NUMBER
            && self.names.len() < MAX_COLUMNS
            && !self.folded.contains(&folded)
    }
}

fn decode(raw: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(raw.len());
    unescape(raw, &mut name);
    name
}

/// Quotes a name for a statement.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Determines the columns that a statement needs.
pub(super) struct ColumnUsage<'a> {
    pub(super) authorizer: &'a Authorizer,
    /// In lower case.
    statement: String,
    /// Set for `NATURAL`, which compares columns without naming them.
    all: bool,
}

impl<'a> ColumnUsage<'a> {
    pub(super) fn new(statement: &str, authorizer: &'a Authorizer) -> Self {
        let statement = statement.to_ascii_lowercase();
        let all = mentions(&statement, "natural");
        Self { authorizer, statement, all }
    }

    /// Whether the statement needs a column.
    pub(super) fn column(&self, table: &str, column: &str) -> bool {
        let written = || column.to_ascii_lowercase().replace('"', "\"\"");
        self.all || self.authorizer.is_read(table, column) || mentions(&self.statement, &written())
    }

    /// Whether the statement needs the whole record.
    pub(super) fn record(&self, table: &str) -> bool {
        self.authorizer.is_read(table, RECORD) || mentions(&self.statement, RECORD)
    }
}

/// Whether `text` contains `name` as a word of its own.
fn mentions(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, matched)| {
        let before = text[..at].chars().next_back();
        let behind = text[at + matched.len()..].chars().next();
        !before.is_some_and(part) && !behind.is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_cannot_be_columns_are_known_without_one() {
        let mut columns = Columns::default();
        for raw in ["id", "ID", "", "_n", "_Record", "a\\u0000b", "caf\\u00e9", "café", "x\"y"] {
            columns.add(raw.as_bytes());
        }
        assert_eq!(columns.names(), ["id", "café", "x\"y"]);
        assert_eq!(columns.find(b"id"), Some(Field::Column(0)));
        assert_eq!(columns.find(b"caf\\u00E9"), Some(Field::Column(1)));
        assert_eq!(columns.find(b"ID"), Some(Field::NoColumn));
        assert_eq!(columns.find(b"new"), None);
        assert_eq!(quoted("x\"y"), "\"x\"\"y\"");
    }

    #[test]
    fn a_name_is_a_word_of_its_own() {
        assert!(mentions("select 1 from a join b using (id)", "id"));
        assert!(mentions("using(\"created at\")", "created at"));
        assert!(!mentions("select confidence from results", "id"));
        assert!(!mentions("select id2, _id from results", "id"));
    }
}
