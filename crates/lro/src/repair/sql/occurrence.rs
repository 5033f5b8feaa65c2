//! Counts the strings of a statement that found nothing in the text fields of all records.
//!
//! A model that compares the wrong field concludes that there is no such record.

use serde_json::{Map, Value, json};

use super::super::{FieldPaths, Kinds, Repair};
use super::expression;
use super::words::Words;

/// The strings that are counted.
const MAX_STRINGS: usize = 3;
/// The characters of a string. Shorter ones are everywhere.
const MIN_STRING_CHARS: usize = 2;
const MAX_STRING_CHARS: usize = 100;
/// The fields in which they are counted.
const MAX_FIELDS: usize = 60;
/// The fields that a note names.
const MAX_NAMED: usize = 2;

/// The strings that a statement compares fields with, and the fields that may contain them.
#[derive(Debug)]
pub(crate) struct Occurrences<'a> {
    strings: Vec<String>,
    /// The paths with their expressions.
    fields: Vec<(&'a [String], String)>,
}

impl<'a> Occurrences<'a> {
    /// `None` if there is nothing to count.
    pub(crate) fn new(statement: &str, paths: &'a FieldPaths) -> Option<Self> {
        let strings = compared_strings(statement);
        let fields: Vec<_> = paths
            .paths()
            .iter()
            .filter(|path| may_contain_text(paths, path))
            .filter_map(|path| Some((path.as_slice(), expression(path)?)))
            .take(MAX_FIELDS)
            .collect();
        (!strings.is_empty() && !fields.is_empty()).then_some(Self { strings, fields })
    }

    /// The statement that counts. Its row has two numbers for each string and field.
    pub(crate) fn statement(&self) -> String {
        let mut columns = Vec::new();
        for (s, string) in self.strings.iter().enumerate() {
            let literal = format!("'{}'", string.replace('\'', "''"));
            for (f, (_, field)) in self.fields.iter().enumerate() {
                columns.push(format!("sum({field} = {literal} COLLATE NOCASE) AS \"e{s}.{f}\""));
                columns.push(format!(
                    "sum(instr(lower({field}), lower({literal})) > 0) AS \"p{s}.{f}\""
                ));
            }
        }
        format!("SELECT {} FROM results", columns.join(", "))
    }

    /// Says where the strings are, by the row of the statement.
    pub(crate) fn notes(&self, row: &str) -> Vec<String> {
        let Ok(row) = serde_json::from_str::<Map<String, Value>>(row) else { return Vec::new() };
        let strings = self.strings.iter().enumerate();
        strings
            .filter_map(|(s, string)| {
                let (relation, named) = match self.counted(&row, &format!("e{s}")) {
                    named if named.is_empty() => ("is in", self.counted(&row, &format!("p{s}"))),
                    named => ("is a value of", named),
                };
                (!named.is_empty())
                    .then(|| format!("{} {relation} {}", json!(string), named.join(", ")))
            })
            .collect()
    }

    /// The statement with the field that has the string as a value, by the row of the statement: if there
    /// is one string and one such field.
    pub(crate) fn with_other_field(&self, statement: &str, row: &str) -> Option<Repair> {
        let row: Map<String, Value> = serde_json::from_str(row).ok()?;
        let [string] = self.strings.as_slice() else { return None };
        let mut having = (0..self.fields.len()).filter(|field| {
            row.get(&format!("e0.{field}")).and_then(Value::as_u64).unwrap_or(0) > 0
        });
        let (_, new) = having.next().map(|field| &self.fields[field])?;
        if having.next().is_some() {
            return None;
        }
        let words = Words::new(statement);
        let literal = format!("'{}'", string.replace('\'', "''"));
        let at = (2..words.len()).find(|at| words.get(*at) == literal && words.is(at - 1, "="))?;
        // `==` is one more word.
        let field = if words.is(at - 2, "=") { at.checked_sub(3)? } else { at - 2 };
        let old = words.get(field);
        let is_field = old.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '"');
        (is_field && old != new).then(|| words.replaced(field, field + 1, new))
    }

    /// The fields with the most records, by the numbers whose names begin with `prefix`.
    fn counted(&self, row: &Map<String, Value>, prefix: &str) -> Vec<String> {
        let mut counts: Vec<(u64, &[String])> = Vec::new();
        for (f, (path, _)) in self.fields.iter().enumerate() {
            let count = row.get(&format!("{prefix}.{f}")).and_then(Value::as_u64).unwrap_or(0);
            // A member of an object says more than the object.
            counts.retain(|(_, outer)| count == 0 || !path.starts_with(outer));
            if count > 0 {
                counts.push((count, path));
            }
        }
        counts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let name = |(count, path): &(u64, &[String])| {
            let records = if *count == 1 { "record" } else { "records" };
            format!("{} ({count} {records})", json!(path.join(".")))
        };
        counts.iter().take(MAX_NAMED).map(name).collect()
    }
}

/// Whether a field has texts, or is an array or object of the record.
fn may_contain_text(paths: &FieldPaths, path: &[String]) -> bool {
    let kinds = paths.kinds(&path.join(".")).unwrap_or_default();
    let is_text = [Kinds::TEXT, Kinds::NUMBER_TEXT, Kinds::BOOLEAN_TEXT]
        .iter()
        .any(|kind| kinds.contains(*kind));
    let is_nested = kinds == Kinds::default() || kinds == Kinds::ARRAY;
    is_text || (path.len() == 1 && is_nested)
}

/// The strings behind `=`, `IN` and `LIKE`, without the signs of a pattern at their ends.
fn compared_strings(statement: &str) -> Vec<String> {
    let words = Words::new(statement);
    let mut strings: Vec<String> = Vec::new();
    for at in 1..words.len() {
        let word = words.get(at);
        let Some(inner) = word.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) else {
            continue;
        };
        if !is_compared(&words, at) {
            continue;
        }
        let string = inner.replace("''", "'");
        let string = string.trim_matches('%');
        let chars = string.chars().count();
        let is_plain = string.chars().any(char::is_alphanumeric) && !string.contains('%');
        if is_plain
            && (MIN_STRING_CHARS..=MAX_STRING_CHARS).contains(&chars)
            && !strings.iter().any(|other| other == string)
        {
            strings.push(string.to_owned());
        }
    }
    strings.truncate(MAX_STRINGS);
    strings
}

/// Whether the string at `at` is what a field should equal or contain.
fn is_compared(words: &Words<'_>, at: usize) -> bool {
    let before = at - 1;
    match words.get(before) {
        "=" => before == 0 || !["!", "<", ">"].contains(&words.get(before - 1)),
        "(" => before > 0 && words.is(before - 1, "in"),
        // Another element of the list.
        "," => (1..before)
            .rev()
            .find(|at| words.get(*at) == "(")
            .is_some_and(|open| words.is(open - 1, "in")),
        _ => words.is_any(before, &["like", "ilike"]),
    }
}

#[cfg(test)]
mod tests {
    use lro_query::Bytes;

    use super::*;

    const RECORDS: &str = concat!(
        r#"{"_key":"svc-1","n":1,"on":true,"tags":["bug"],"user":{"login":"ada","id":2},"code":"7"}"#,
        "\n"
    );

    fn paths() -> FieldPaths {
        FieldPaths::read(&Bytes(RECORDS.as_bytes()), 0).unwrap()
    }

    #[test]
    fn strings_that_fields_are_compared_with_are_counted() {
        for (statement, expected) in [
            ("SELECT 1 FROM results WHERE name = 'svc-1'", &["svc-1"][..]),
            ("SELECT 1 FROM results WHERE name == 'it''s'", &["it's"]),
            (
                "SELECT 1 FROM results WHERE a LIKE '%bug%' OR b in ('xy', 'ab')",
                &["bug", "xy", "ab"],
            ),
            ("SELECT 1 WHERE a != 'svc-1' OR a <= 'xy' OR a >= 'xy' OR a <> 'xy'", &[]),
            ("SELECT user ->> '$.login', strftime('%Y', at) FROM results WHERE a = 'x'", &[]),
            ("SELECT 1 WHERE a LIKE 'a%b' OR a = '--' OR coalesce(a, 'xy') = 1", &[]),
            (
                "SELECT 1 WHERE a = 'ab' OR b = 'ab' OR c = 'cd' OR d = 'ef' OR e = 'gh'",
                &["ab", "cd", "ef"],
            ),
            ("= 'ab'", &["ab"]),
        ] {
            assert_eq!(compared_strings(statement), expected, "{statement}");
        }
    }

    #[test]
    fn numbers_and_booleans_contain_no_text() {
        let paths = paths();
        let counted = Occurrences::new("SELECT 1 WHERE x = 'ab'", &paths).unwrap();
        let names: Vec<String> = counted.fields.iter().map(|(path, _)| path.join(".")).collect();
        assert_eq!(names, ["_key", "tags", "user", "user.login", "code"]);
        assert!(Occurrences::new("SELECT 1 WHERE x = 1", &paths).is_none());
        let statement = Occurrences::new("SELECT 1 WHERE x = 'a''b'", &paths).unwrap().statement();
        assert!(
            statement.starts_with(
                "SELECT sum(\"_key\" = 'a''b' COLLATE NOCASE) AS \"e0.0\", \
                 sum(instr(lower(\"_key\"), lower('a''b')) > 0) AS \"p0.0\", sum(\"tags\" = "
            ),
            "{statement}"
        );
    }

    #[test]
    fn g18_a_statement_that_compares_the_wrong_field_gets_the_right_one() {
        let paths = paths();
        let corrected = |statement: &str, row: Value| {
            let counted = Occurrences::new(statement, &paths).unwrap();
            counted.with_other_field(statement, &row.to_string()).map(|repair| repair.text)
        };
        assert_eq!(
            corrected("SELECT n FROM results WHERE name = 'svc-1' AND n > 0", json!({"e0.0": 1})),
            Some("SELECT n FROM results WHERE \"_key\" = 'svc-1' AND n > 0".to_owned())
        );
        assert_eq!(
            corrected("SELECT n WHERE \"a b\" == 'ada'", json!({"e0.3": 2, "p0.2": 2})),
            Some("SELECT n WHERE (\"user\" ->> '$.login') == 'ada'".to_owned())
        );
        for (statement, row) in [
            ("SELECT n WHERE a = 'ab'", json!({"e0.0": 1, "e0.3": 1})),
            ("SELECT n WHERE a = 'ab'", json!({"p0.0": 1})),
            ("SELECT n WHERE a = 'ab' AND b = 'cd'", json!({"e0.0": 1})),
            ("SELECT n WHERE a LIKE 'ab'", json!({"e0.0": 1})),
            ("SELECT n WHERE lower(a) = 'ab'", json!({"e0.0": 1})),
        ] {
            assert_eq!(corrected(statement, row), None, "{statement}");
        }
    }

    #[test]
    fn a_note_names_the_fields_with_the_most_records() {
        let paths = paths();
        let counted = Occurrences::new("SELECT 1 WHERE x = 'ada' OR y = 'bug'", &paths).unwrap();
        let notes = |row: Value| counted.notes(&row.to_string());
        assert_eq!(
            notes(json!({"e0.3": 2, "p0.2": 2, "p0.3": 2, "p1.1": 1})),
            [
                "\"ada\" is a value of \"user.login\" (2 records)",
                "\"bug\" is in \"tags\" (1 record)"
            ]
        );
        // A member says more than its object.
        assert_eq!(
            notes(json!({"p0.2": 5, "p0.3": 5})),
            ["\"ada\" is in \"user.login\" (5 records)"]
        );
        assert_eq!(
            notes(json!({"p0.0": 1, "p0.1": 3, "p0.4": 2})),
            ["\"ada\" is in \"tags\" (3 records), \"code\" (2 records)"]
        );
        assert!(notes(json!({"e0.0": 0, "p0.0": null})).is_empty());
        assert!(counted.notes("no object").is_empty());
    }
}
