//! Comparisons with a value of another type, which are never true in jq.

use super::super::{FieldPaths, Kinds, Repair};
use super::string_end;

/// Corrects the first comparison of a field with a value of another type than all values that the first
/// records have: both are compared as text, so that no match is lost.
pub(crate) fn other_type<E>(
    filter: &str,
    fields: impl FnOnce() -> Result<FieldPaths, E>,
) -> Result<Option<Repair>, E> {
    let comparisons = comparisons(filter);
    if comparisons.is_empty() {
        // Reading the fields takes time.
        return Ok(None);
    }
    let fields = fields()?;
    Ok(comparisons.iter().find_map(|comparison| comparison.repair(filter, &fields)))
}

/// `.field == value`, at a place in the filter.
struct Comparison<'a> {
    start: usize,
    end: usize,
    /// With dots, without the first one.
    path: &'a str,
    operator: &'a str,
    value: &'a str,
}

impl Comparison<'_> {
    fn repair(&self, filter: &str, fields: &FieldPaths) -> Option<Repair> {
        let kinds = fields.kinds(self.path)?;
        let has = |kind: Kinds| kinds.contains(kind);
        let is_text = has(Kinds::TEXT) || has(Kinds::NUMBER_TEXT) || has(Kinds::BOOLEAN_TEXT);
        let text = self.value.trim_matches('"');
        let is_boolean = text == "true" || text == "false";
        let is_other = match (self.value.starts_with('"'), is_boolean) {
            (true, true) => has(Kinds::BOOLEAN) && !is_text,
            (true, false) => has(Kinds::NUMBER) && !is_text,
            (false, true) => has(Kinds::BOOLEAN_TEXT) && !has(Kinds::BOOLEAN),
            (false, false) => has(Kinds::NUMBER_TEXT) && !has(Kinds::NUMBER),
        };
        if !is_other {
            return None;
        }
        let old = &filter[self.start..self.end];
        let new = format!("(.{} | tostring) {} \"{text}\"", self.path, self.operator);
        let text = format!("{}{new}{}", &filter[..self.start], &filter[self.end..]);
        Some(Repair { text, change: (old.to_owned(), new) })
    }
}

fn comparisons(filter: &str) -> Vec<Comparison<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = filter[at..].find(['"', '=', '!']) {
        at += next;
        if filter[at..].starts_with('"') {
            at += string_end(&filter[at..]);
            continue;
        }
        if let Some(comparison) = comparison(filter, at) {
            found.push(comparison);
        }
        let length = if filter[at..].starts_with("==") { 2 } else { 1 };
        at += length;
    }
    found
}

/// The comparison whose operator is at `at`.
fn comparison(filter: &str, at: usize) -> Option<Comparison<'_>> {
    let operator = filter.get(at..at + 2).filter(|operator| ["==", "!="].contains(operator))?;
    let before = filter[..at].trim_end();
    let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let start = before
        .rfind(|c| !is_path(c))
        .map_or(0, |last| last + before[last..].chars().next().map_or(1, char::len_utf8));
    let path = before[start..].strip_prefix('.').filter(|path| !path.is_empty())?;
    // `.a[0].b` and `(…).b` are not fields of the record.
    if before[..start].ends_with([']', ')', '"', '?']) {
        return None;
    }
    let behind = &filter[at + 2..];
    let lead = behind.len() - behind.trim_start().len();
    let rest = &behind[lead..];
    let length = if rest.starts_with('"') {
        string_end(rest)
    } else {
        rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-'))
            .unwrap_or(rest.len())
    };
    let value = &rest[..length];
    let text = value.trim_matches('"');
    let is_literal = text == "true" || text == "false" || serde_json::from_str::<f64>(text).is_ok();
    let end = at + 2 + lead + length;
    is_literal.then_some(Comparison { start, end, path, operator, value })
}

#[cfg(test)]
mod tests {
    use lro_query::Bytes;

    use super::*;

    #[test]
    fn g18_a_value_of_another_type_is_compared_as_text() {
        let records =
            "{\"id\":1,\"on\":true,\"code\":\"1\",\"zip\":\"01\",\"a\":{\"n\":5},\"name\":\"x\"}\n";
        let fields = || FieldPaths::read(&Bytes(records.as_bytes()), 0);
        let repaired = |filter: &str| other_type(filter, fields).unwrap().map(|repair| repair.text);
        for (filter, expected) in [
            ("select(.id == \"1\") | .on", "select((.id | tostring) == \"1\") | .on"),
            ("select(.a.n!=\"5\")", "select((.a.n | tostring) != \"5\")"),
            ("select(.on == \"true\")", "select((.on | tostring) == \"true\")"),
            (
                "select(.name == \"==\" or .code == 1)",
                "select(.name == \"==\" or (.code | tostring) == \"1\")",
            ),
        ] {
            assert_eq!(repaired(filter).as_deref(), Some(expected), "{filter}");
        }
        for filter in [
            "select(.id == 1 and .on == true and .code == \"1\" and .name == \"1\")",
            "select(.tags[0].id == \"1\")",
            "select(.id >= 1)",
            // Not a number: a zero comes first.
            "select(.zip == 1)",
            "select(.id == \"x\")",
            "\".id == \\\"1\\\"\"",
        ] {
            assert_eq!(repaired(filter), None, "{filter}");
        }
    }
}
