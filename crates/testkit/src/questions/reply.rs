//! Replies of the extraction tools, and their comparison with an answer.

use serde_json::{Map, Value};

use super::battery::{Compare, Question};
use super::rows::{Row, RowOrder, same_rows};
use super::statement::states;

/// The most columns of a row that is a count.
const MAX_COUNT_COLUMNS: usize = 3;

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
            None => !self.is_error && states(&self.body, &question.answer),
        }
    }

    /// Whether the reply is the answer.
    pub(super) fn is(&self, compare: Compare, answer: &[Value]) -> bool {
        if self.is_error {
            return false;
        }
        match compare {
            Compare::Rows => same_rows(&self.rows(), answer, RowOrder::Given),
            Compare::Set => [self.rows(), self.members()]
                .iter()
                .any(|rows| same_rows(rows, answer, RowOrder::Any)),
            Compare::Count => self.states_count(answer),
            Compare::Lines => {
                self.lines().iter().eq(answer.iter())
                    || same_rows(&self.rows(), answer, RowOrder::Given)
            }
            Compare::Text => {
                let text = self.body.strip_suffix('\n').unwrap_or(&self.body);
                matches!(answer, [one] if one == text)
                    || same_rows(&self.rows(), answer, RowOrder::Given)
            }
        }
    }

    /// Whether the reply is a count, or states it as its total. A count may come with what it is
    /// grouped by; a whole record is no count, whatever numbers it contains.
    fn states_count(&self, answer: &[Value]) -> bool {
        let stated = self.total.map(Value::from);
        if matches!((answer, stated), ([one], Some(total)) if *one == total) {
            return true;
        }
        let rows = self.rows();
        rows.iter().all(|row| row.cells.len() <= MAX_COUNT_COLUMNS)
            && same_rows(&rows, answer, RowOrder::Given)
    }

    /// The answers as rows.
    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for line in self.body.lines() {
            if let Some(more) = repeated(line)
                && let Some(last) = rows.last().cloned()
            {
                rows.extend(std::iter::repeat_n(last, more));
                continue;
            }
            // Text that is not JSON is itself, as `raw` returns it.
            let value = serde_json::from_str(line).unwrap_or_else(|_| line.into());
            rows.push(Row::new(value));
        }
        // A filter over the array returns one array of all answers.
        match rows.as_mut_slice() {
            [all] if all.cells.iter().all(|value| value.is_array() || value.is_object()) => {
                std::mem::take(&mut all.cells).into_iter().map(Row::new).collect()
            }
            _ => rows,
        }
    }

    /// The members of an only answer as rows of name and value, as in `{"open": 3, "closed": 1}`.
    fn members(&self) -> Vec<Row> {
        let only: Map<String, Value> = serde_json::from_str(&self.body).unwrap_or_default();
        let rows = only.into_iter().map(|(name, value)| vec![name.into(), value]);
        rows.map(|cells| Row::new(Value::Array(cells))).collect()
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
    fn a_count_may_be_grouped_but_is_no_record() {
        let grouped = "1 of 1 rows.\n{\"state\":\"open\",\"n\":16}\n";
        assert!(is(grouped, Compare::Count, &json!([16])));
        let record = "1 of 1 rows.\n{\"id\":3,\"state\":\"open\",\"by\":\"x\",\"comments\":16}\n";
        assert!(!is(record, Compare::Count, &json!([16])));
        assert!(is(record, Compare::Rows, &json!(["x"])));
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
