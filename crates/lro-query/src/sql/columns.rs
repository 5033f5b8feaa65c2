//! Columns: the top-level fields of a source, in the order they were met.

use std::collections::{HashMap, HashSet};

use super::authorizer::Guard;
use super::cell::unescape;

/// The record as it is stored.
pub(super) const RECORD: &str = "_record";
/// The number of the record.
pub(super) const NUMBER: &str = "_n";

/// SQLite takes 2000; what is beyond is reached through `_record`.
const AT_MOST: usize = 1900;

/// A field that was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// It has this column.
    Column(usize),
    /// It cannot be a column.
    NoColumn,
}

/// The columns of one table.
#[derive(Debug, Clone, Default)]
pub(super) struct Columns {
    names: Vec<String>,
    /// Every field met.
    by_name: HashMap<Vec<u8>, Field>,
    /// SQLite does not tell `ID` from `id`; the first one met has the column.
    folded: HashSet<String>,
}

impl Columns {
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The field, if it was met before.
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
            && self.names.len() < AT_MOST
            && !self.folded.contains(&folded)
    }
}

fn decode(raw: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(raw.len());
    unescape(raw, &mut name);
    name
}

/// A name as it is written in a statement.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

// --- Determines the columns that a statement needs.
// ---
// --- The guard is told of every column that a statement names, a `*` stands for, or an expression
// --- uses, but not of those that `USING` and `NATURAL` compare. So a column whose name stands in the
// --- text is needed as well; to load one too many costs a little time, to miss one the right answer.

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
