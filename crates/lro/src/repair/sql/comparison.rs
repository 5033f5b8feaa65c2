//! Comparisons with a value of another type, which SQLite accepts and which are never true, or always.
//!
//! An array is such a value for every text: `labels = 'bug'` is a question about its elements.

use super::super::{FieldPaths, Kinds, Repair};
use super::words::Words;

/// Corrects the first comparison of a field with a value of another type than all values that the first
/// records have.
///
/// Equality becomes `IN` with both values, so that no match is lost.
pub(crate) fn other_type<E>(
    statement: &str,
    fields: impl FnOnce() -> Result<FieldPaths, E>,
) -> Result<Option<Repair>, E> {
    let words = Words::new(statement);
    let comparisons: Vec<Comparison<'_>> =
        (1..words.len()).filter_map(|at| Comparison::at(&words, at)).collect();
    if comparisons.is_empty() {
        // Reading the fields takes time.
        return Ok(None);
    }
    let fields = fields()?;
    Ok(comparisons.iter().find_map(|comparison| comparison.repair(&words, &fields)))
}

/// `field operator value`.
struct Comparison<'a> {
    /// The word of the field.
    at: usize,
    /// The word behind the value.
    end: usize,
    operator: &'static str,
    value: Value<'a>,
}

enum Value<'a> {
    /// A number in quotes.
    NumberText(&'a str),
    /// A boolean in quotes.
    BooleanText(&'a str),
    /// Any other text, in its quotes.
    Text(&'a str),
    Number(&'a str),
    Boolean(&'a str),
}

impl<'a> Comparison<'a> {
    /// The comparison whose operator is at `at`.
    fn at(words: &Words<'a>, at: usize) -> Option<Self> {
        let (operator, length) = match (words.get(at), words.get(at + 1)) {
            ("=", "=") => ("=", 2),
            ("!", "=") | ("<", ">") => ("!=", 2),
            ("<", "=") => ("<=", 2),
            (">", "=") => (">=", 2),
            ("=", _) if !["=", "!", "<", ">"].contains(&words.get(at - 1)) => ("=", 1),
            ("<", _) => ("<", 1),
            (">", _) if !["<", "-", ">"].contains(&words.get(at - 1)) => (">", 1),
            _ if words.is_any(at, &["like", "glob", "regexp", "ilike", "~"]) => ("like", 1),
            _ => return None,
        };
        let value = Value::parse(words.get(at + length))?;
        let is_matched = operator == "like";
        let is_text = matches!(value, Value::Text(_));
        if is_matched && !is_text || is_text && !["like", "=", "!="].contains(&operator) {
            return None;
        }
        Some(Self { at: at - 1, end: at + length + 1, operator, value })
    }

    fn repair(&self, words: &Words<'_>, fields: &FieldPaths) -> Option<Repair> {
        let field = words.get(self.at);
        let name = field.trim_matches('"');
        let kinds = fields.kinds(name)?;
        let has = |kind: Kinds| kinds.contains(kind);
        let is_text = || has(Kinds::TEXT) || has(Kinds::NUMBER_TEXT) || has(Kinds::BOOLEAN_TEXT);
        let (value, other) = match self.value {
            Value::Text(text) if kinds == Kinds::ARRAY && self.operator != "like" => {
                let not = if self.operator == "=" { "" } else { "NOT " };
                // Later records may have a plain text, which is no JSON.
                let json = format!("iif(json_valid({field}), {field}, json_quote({field}))");
                let new =
                    format!("{not}EXISTS (SELECT 1 FROM json_tree({json}) WHERE atom = {text})");
                return Some(words.replaced(self.at, self.end, &new));
            }
            Value::Text(_)
                if self.operator == "like"
                    && name.eq_ignore_ascii_case("line")
                    && fields.are_lines() =>
            {
                return Some(words.replaced(self.at, self.at + 1, "text"));
            }
            Value::NumberText(number) if has(Kinds::NUMBER) && !is_text() => {
                (format!("'{number}'"), number.to_owned())
            }
            Value::BooleanText(word) if has(Kinds::BOOLEAN) && !is_text() => {
                (format!("'{word}'"), word.to_ascii_lowercase())
            }
            Value::Number(number) if has(Kinds::NUMBER_TEXT) && !has(Kinds::NUMBER) => {
                (number.to_owned(), format!("'{number}'"))
            }
            Value::Boolean(word) if has(Kinds::BOOLEAN_TEXT) && !has(Kinds::BOOLEAN) => {
                (word.to_owned(), format!("'{}'", word.to_ascii_lowercase()))
            }
            _ => return None,
        };
        let new = match (self.operator, &self.value) {
            ("=", _) => format!("{field} IN ({value}, {other})"),
            ("!=", _) => format!("{field} NOT IN ({value}, {other})"),
            (operator, Value::NumberText(_)) => format!("{field} {operator} {other}"),
            (operator, Value::Number(_)) if !has(Kinds::TEXT) => {
                format!("CAST({field} AS REAL) {operator} {value}")
            }
            _ => return None,
        };
        Some(words.replaced(self.at, self.end, &new))
    }
}

impl<'a> Value<'a> {
    fn parse(word: &'a str) -> Option<Self> {
        if let Some(text) = word.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
            return Some(match text {
                text if is_number(text) => Self::NumberText(text),
                text if is_boolean(text) => Self::BooleanText(text),
                // A number may match a pattern of digits.
                text if text.contains(char::is_alphabetic) => Self::Text(word),
                _ => return None,
            });
        }
        match word {
            word if is_number(word) => Some(Self::Number(word)),
            word if is_boolean(word) => Some(Self::Boolean(word)),
            _ => None,
        }
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite)
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b'-')
}

fn is_boolean(text: &str) -> bool {
    text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")
}

#[cfg(test)]
mod tests {
    use lro_query::Bytes;

    use super::*;

    fn repaired(statement: &str) -> Option<String> {
        let records = concat!(
            r#"{"id":1,"active":true,"code":"1234","flag":"true","name":"x","n":{"a":1},"tags":[]}"#,
            "\n",
            r#"{"id":2,"active":null,"code":"9","flag":"false","name":"12","n":{"a":2}}"#,
            "\n"
        );
        let fields = || FieldPaths::read(&Bytes(records.as_bytes()), 0);
        other_type(statement, fields).unwrap().map(|repair| repair.text)
    }

    #[test]
    fn g18_a_value_of_another_type_matches_both() {
        for (statement, expected) in [
            ("SELECT * FROM r WHERE id = '2'", "SELECT * FROM r WHERE id IN ('2', 2)"),
            ("… WHERE id <> '2' AND x", "… WHERE id NOT IN ('2', 2) AND x"),
            ("… WHERE id == '2'", "… WHERE id IN ('2', 2)"),
            ("… WHERE \"n.a\" >= '2'", "… WHERE \"n.a\" >= 2"),
            ("… WHERE active = 'False'", "… WHERE active IN ('False', false)"),
            ("… WHERE flag = true", "… WHERE flag IN (true, 'true')"),
            ("… WHERE code = 9", "… WHERE code IN (9, '9')"),
            ("… WHERE name = 12", "… WHERE name IN (12, '12')"),
            (
                "… WHERE tags = 'it''s' AND x",
                "… WHERE EXISTS (SELECT 1 FROM json_tree(iif(json_valid(tags), tags, json_quote(tags))) WHERE atom = 'it''s') AND x",
            ),
            (
                "… WHERE r.tags <> 'bug'",
                "… WHERE NOT EXISTS (SELECT 1 FROM json_tree(iif(json_valid(r.tags), r.tags, json_quote(r.tags))) WHERE atom = 'bug')",
            ),
            ("… WHERE code > 100 LIMIT 1", "… WHERE CAST(code AS REAL) > 100 LIMIT 1"),
        ] {
            assert_eq!(repaired(statement).as_deref(), Some(expected), "{statement}");
        }
    }

    #[test]
    fn g18_comparisons_that_may_be_true_are_left_alone() {
        for statement in [
            "… WHERE id = 2 AND active = true AND code = '9' AND flag = 'true'",
            "… WHERE name > 12",
            "… WHERE name = 'bug' AND tags LIKE '%bug%' AND n = 'bug' AND tags > 'bug'",
            "… WHERE other = '2'",
            "… WHERE id LIKE '2%'",
            "… WHERE code -> 9",
            "… WHERE name = 'id = ''2'''",
        ] {
            assert_eq!(repaired(statement), None, "{statement}");
        }
    }

    #[test]
    fn g18_a_pattern_for_the_line_is_about_its_text() {
        let records = "{\"line\":0,\"text\":\"a\"}\n{\"line\":1,\"text\":\"b\"}\n";
        let fields = || FieldPaths::read(&Bytes(records.as_bytes()), 0);
        let repaired =
            |statement: &str| other_type(statement, fields).unwrap().map(|repair| repair.text);
        assert_eq!(
            repaired("… WHERE line LIKE '%timeout%'").as_deref(),
            Some("… WHERE text LIKE '%timeout%'")
        );
        assert_eq!(repaired("… WHERE line LIKE '1%'"), None);
        assert_eq!(repaired("… WHERE text LIKE '%x%' AND line > 5"), None);
    }
}
