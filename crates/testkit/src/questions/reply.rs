//! Replies of the extraction tools, and their comparison with an answer.

use serde_json::{Map, Value};

use super::battery::{Compare, Question};

/// A reply, taken apart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub(super) is_error: bool,
    /// The number of answers that there are, from the first line.
    total: Option<u64>,
    /// The text for the model before the answers, or the whole text of an error.
    pub(super) guidance: String,
    /// The answers.
    body: String,
}

impl Reply {
    /// Takes the result of `tools/call` apart.
    pub(super) fn new(result: &Value) -> Self {
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        if result["isError"] == true {
            return Self {
                is_error: true,
                total: None,
                guidance: text.to_owned(),
                body: String::new(),
            };
        }
        let (first, mut rest) = text.split_once('\n').unwrap_or((text, ""));
        let mut guidance = first.to_owned();
        while let Some((note, after)) = rest
            .split_once('\n')
            .filter(|(line, _)| line.starts_with("Note: ") || line.starts_with("Hint: "))
        {
            guidance.push('\n');
            guidance.push_str(note);
            rest = after;
        }
        Self { is_error: false, total: total(first), guidance, body: rest.to_owned() }
    }

    /// Whether the reply answers `question`. A fact that the descriptor shows may come back in any
    /// form.
    pub(super) fn answers(&self, question: &Question) -> bool {
        match question.call {
            Some(_) => self.is(question.compare, &question.answer),
            None => self.mentions(&question.answer),
        }
    }

    /// Whether the reply is the answer.
    pub(super) fn is(&self, compare: Compare, answer: &[Value]) -> bool {
        if self.is_error {
            return false;
        }
        match compare {
            Compare::Rows => same_rows(&self.rows(), answer),
            Compare::Set => {
                let answer = sorted(answer.to_vec());
                let same = |rows: Vec<Value>| same_rows(&sorted(rows), &answer);
                same(self.rows()) || same(self.members())
            }
            Compare::Count => {
                let stated = self.total.map(Value::from);
                same_rows(&self.rows(), answer)
                    || matches!((answer, stated), ([one], Some(total)) if *one == total)
            }
            Compare::Lines => {
                self.lines().iter().eq(answer.iter()) || same_rows(&self.rows(), answer)
            }
            Compare::Text => {
                let text = self.body.strip_suffix('\n').unwrap_or(&self.body);
                matches!(answer, [one] if one == text) || same_rows(&self.rows(), answer)
            }
        }
    }

    /// Whether every value of the answer occurs in the reply.
    fn mentions(&self, answer: &[Value]) -> bool {
        !self.is_error && mentions(&self.body, answer)
    }

    /// The answers as rows: a row is a value or an array of the values of its columns.
    fn rows(&self) -> Vec<Value> {
        let mut rows: Vec<Value> = Vec::new();
        for line in self.body.lines() {
            if let Some(more) = repeated(line)
                && let Some(last) = rows.last().cloned()
            {
                rows.extend(std::iter::repeat_n(last, more));
                continue;
            }
            // Text that is not JSON is itself, as `raw` returns it.
            let value = serde_json::from_str(line).unwrap_or_else(|_| line.into());
            rows.push(row(value));
        }
        // A filter over the array returns one array of all answers.
        match rows.as_mut_slice() {
            [Value::Array(all)]
                if all.iter().all(|value| value.is_array() || value.is_object()) =>
            {
                std::mem::take(all).into_iter().map(row).collect()
            }
            _ => rows,
        }
    }

    /// The members of an only answer as rows of name and value, as in `{"open": 3, "closed": 1}`.
    fn members(&self) -> Vec<Value> {
        let only: Map<String, Value> = serde_json::from_str(&self.body).unwrap_or_default();
        only.into_iter().map(|(name, value)| vec![name.into(), value].into()).collect()
    }

    /// The texts of matches, or the lines of what was read.
    fn lines(&self) -> Vec<Value> {
        let text_of = |line: &str| match serde_json::from_str::<Value>(line) {
            Ok(found) if found["text"].is_string() => found["text"].clone(),
            _ => line.into(),
        };
        self.body.lines().map(text_of).collect()
    }
}

/// Whether every value of the answer occurs in `text`.
pub(super) fn mentions(text: &str, answer: &[Value]) -> bool {
    let written = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    answer.iter().all(|value| text.contains(&written(value)))
}

/// The total in `3 of 17 rows.` or `3 of at least 17 rows.`
fn total(first_line: &str) -> Option<u64> {
    let (_, rest) = first_line.split_once(" of ")?;
    rest.split_once(' ')?.0.replace(',', "").parse().ok()
}

/// The number in `… and 12 more times the same`.
fn repeated(line: &str) -> Option<usize> {
    line.strip_prefix("\u{2026} and ")?
        .strip_suffix(" more times the same")?
        .replace(',', "")
        .parse()
        .ok()
}

/// A row without the names of its columns, which the question leaves open. One column is a value.
fn row(value: Value) -> Value {
    let values: Vec<Value> = match value {
        Value::Object(members) => members.into_iter().map(|(_, value)| value).collect(),
        Value::Array(values) => values,
        other => return other,
    };
    match <[Value; 1]>::try_from(values) {
        Ok([one]) => row(one),
        Err(values) => values.into(),
    }
}

/// Whether rows are equal, with the columns in any order that is the same for all rows.
fn same_rows(rows: &[Value], answer: &[Value]) -> bool {
    if rows.len() != answer.len() {
        // One row of many columns, or one array of values: `[["a", "b"]]` for `["a", "b"]`.
        return matches!(rows, [Value::Array(values)] if same_rows(values, answer));
    }
    let columns = answer.first().and_then(Value::as_array).map_or(1, Vec::len);
    orders(columns).iter().any(|order| {
        rows.iter().zip(answer).all(|(row, expected)| match (row, expected) {
            (Value::Array(row), Value::Array(expected)) => {
                row.len() == expected.len()
                    && order
                        .iter()
                        .zip(expected)
                        .all(|(at, value)| row.get(*at).is_some_and(|cell| same(cell, value)))
            }
            (row, expected) => same(row, expected),
        })
    })
}

/// Equal values; numbers by their value.
fn same(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => (left - right).abs() <= f64::EPSILON * left.abs(),
        _ => left == right,
    }
}

/// The orders of so many columns; only the given one if there are many.
fn orders(columns: usize) -> Vec<Vec<usize>> {
    match columns {
        2 => vec![vec![0, 1], vec![1, 0]],
        3 => vec![
            vec![0, 1, 2],
            vec![0, 2, 1],
            vec![1, 0, 2],
            vec![1, 2, 0],
            vec![2, 0, 1],
            vec![2, 1, 0],
        ],
        _ => vec![(0..columns).collect()],
    }
}

/// Rows in an order that does not depend on that of their columns.
fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_cached_key(|row| match row {
        Value::Array(cells) => {
            let mut cells: Vec<String> = cells.iter().map(Value::to_string).collect();
            cells.sort();
            cells.join(",")
        }
        other => other.to_string(),
    });
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reply(text: &str) -> Reply {
        Reply::new(&json!({"content": [{"type": "text", "text": text}]}))
    }

    fn is(text: &str, compare: Compare, answer: &Value) -> bool {
        reply(text).is(compare, answer.as_array().unwrap())
    }

    #[test]
    fn names_and_order_of_columns_do_not_matter_but_values_do() {
        let rows = "2 of 2 rows.\n{\"n\":3,\"state\":\"open\"}\n{\"n\":1,\"state\":\"closed\"}\n";
        assert!(is(rows, Compare::Rows, &json!([["open", 3], ["closed", 1]])));
        assert!(!is(rows, Compare::Rows, &json!([["closed", 1], ["open", 3]])));
        assert!(is(rows, Compare::Set, &json!([["closed", 1], ["open", 3]])));
        assert!(!is(rows, Compare::Set, &json!([["closed", 1], ["open", 4]])));
        assert!(!is(rows, Compare::Set, &json!([["closed", 1]])));
        let members = "1 of 1 values.\n{\"open\":3,\"closed\":1,\"draft\":2}\n";
        assert!(is(members, Compare::Set, &json!([["closed", 1], ["draft", 2], ["open", 3]])));
        let mixed = "2 of 2 rows.\n{\"n\":3,\"m\":4}\n{\"n\":4,\"m\":3}\n";
        assert!(!is(mixed, Compare::Rows, &json!([[3, 4], [3, 4]])), "one order for all rows");
    }

    #[test]
    fn a_count_is_a_number_or_what_the_first_line_states() {
        assert!(is("1 of 1 rows.\n{\"count(*)\":12}\n", Compare::Count, &json!([12])));
        assert!(is("2 of 12 matching lines.\n{}\n{}\n", Compare::Count, &json!([12])));
        assert!(!is("2 of 12 matching lines.\n{}\n{}\n", Compare::Rows, &json!([12])));
        assert!(!is("2 of 13 matching lines.\n12\n13\n", Compare::Count, &json!([12])));
    }

    #[test]
    fn notes_are_not_answers() {
        let noted = "1 of 1 values.\nNote: \"x\" is read as y\n5\n";
        assert!(is(noted, Compare::Rows, &json!([5])));
        assert!(reply(noted).guidance.contains("is read as"));
        assert!(!is("1 of 1 values.\nNote: 5\n6\n", Compare::Rows, &json!([5])));
    }

    #[test]
    fn lines_texts_and_arrays_are_compared_whole() {
        assert!(is("2 of 9 lines.\na b\nc\n", Compare::Lines, &json!(["a b", "c"])));
        assert!(is(
            "1 of 1 matching lines.\n{\"line\":3,\"text\":\"a b\"}\n",
            Compare::Lines,
            &json!(["a b"])
        ));
        assert!(!is(
            "1 of 1 matching lines.\n{\"line\":3,\"text\":\"a b!\"}\n",
            Compare::Lines,
            &json!(["a b"])
        ));
        assert!(is("3 of 9 characters.\nabc", Compare::Text, &json!(["abc"])));
        assert!(is(
            "1 of 1 values.\n[{\"k\":\"a\",\"n\":1},{\"k\":\"b\",\"n\":2}]\n",
            Compare::Set,
            &json!([["b", 2], ["a", 1]])
        ));
        assert!(is("1 of 1 values.\n[\"a\",\"b\"]\n", Compare::Rows, &json!(["a", "b"])));
        assert!(is(
            "6 of 6 values.\n1\n\u{2026} and 5 more times the same\n",
            Compare::Rows,
            &json!([1, 1, 1, 1, 1, 1])
        ));
    }

    #[test]
    fn an_error_is_no_answer() {
        let error =
            json!({"isError": true, "content": [{"type": "text", "text": "1 of 1 rows.\n5"}]});
        assert!(!Reply::new(&error).is(Compare::Rows, &[json!(5)]));
    }
}
