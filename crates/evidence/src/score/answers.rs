//! Comparison of answers, and of replies with answers.

use serde_json::Value;

use crate::task::Answer;

/// The answer to a question without a match.
const NONE: &str = "none";

/// Whether the given answer is the expected one. Types are lenient, values are not: `"8"` is 8, a list
/// may be JSON in a string, and `none` may be an empty list; spaces and quotes around a text do not count.
pub(super) fn is_right(expected: &Answer, given: &Answer) -> bool {
    if let Answer::Text(text) = given
        && let Ok(parsed @ (Answer::Count(_) | Answer::List(_))) = serde_json::from_str(text.trim())
    {
        return is_right(expected, &parsed);
    }
    match (expected, given) {
        (Answer::Count(expected), Answer::Count(given)) => expected == given,
        (Answer::Count(expected), Answer::Text(given)) => *expected == 0 && is_none(given),
        (Answer::Text(expected), Answer::Text(given)) => {
            same_text(expected, given) || (is_none(expected) && is_none(given))
        }
        // A name that consists of digits.
        (Answer::Text(expected), Answer::Count(given)) => same_text(expected, &given.to_string()),
        (Answer::Text(expected), Answer::List(given)) => match given.as_slice() {
            [] => is_none(expected),
            [only] => is_right(&Answer::Text(expected.clone()), only),
            _ => false,
        },
        (Answer::List(expected), Answer::List(given)) => {
            expected.len() == given.len()
                && expected.iter().zip(given).all(|(expected, given)| is_right(expected, given))
        }
        _ => false,
    }
}

fn is_none(text: &str) -> bool {
    bare(text).eq_ignore_ascii_case(NONE)
}

fn same_text(left: &str, right: &str) -> bool {
    bare(left).split_whitespace().eq(bare(right).split_whitespace())
}

fn bare(text: &str) -> &str {
    text.trim().trim_matches(['"', '\'', '`']).trim()
}

/// Whether a reply of a tool determines the answer without a further call.
///
/// A count is determined if it is the total that the reply states, its only value, or the number of its
/// lines. A text is determined if a cell of the first row is it or contains it, a list if its members are
/// in the rows in order, and `none` if there are no rows.
pub(super) fn determines(reply: &str, expected: &Answer) -> bool {
    let reply = ReplyRows::parse(reply);
    match expected {
        Answer::Count(count) => reply.has_count(*count),
        Answer::Text(text) if is_none(text) => reply.is_empty(),
        Answer::Text(text) => reply.rows.first().is_some_and(|row| has_cell(row, text)),
        Answer::List(members) => {
            let rows = reply.rows_of_one_array();
            members.len() <= rows.len()
                && members.iter().zip(rows).all(|(member, row)| match member {
                    Answer::Text(text) => has_cell(row, text),
                    Answer::Count(count) => row.iter().any(|cell| number(cell) == Some(*count)),
                    Answer::List(_) => false,
                })
        }
    }
}

/// The rows of a reply; a row is the values of a line.
#[derive(Debug)]
struct ReplyRows {
    /// The total that the first line states, as in `3 of 17 rows.`
    total: Option<u64>,
    rows: Vec<Vec<Value>>,
}

impl ReplyRows {
    fn parse(reply: &str) -> Self {
        let (first, rest) = reply.split_once('\n').unwrap_or((reply, ""));
        let total = stated_total(first);
        let data = if is_heading(first) { rest } else { reply };
        let is_data = |line: &&str| {
            !(line.trim().is_empty() || line.starts_with("Note: ") || line.starts_with("Hint: "))
        };
        Self { total, rows: data.lines().filter(is_data).map(cells).collect() }
    }

    fn is_empty(&self) -> bool {
        self.total.is_none_or(|total| total == 0) && self.rows_of_one_array().is_empty()
    }

    fn has_count(&self, count: u64) -> bool {
        // An aggregate.
        if let [row] = self.rows.as_slice()
            && let [cell] = row.as_slice()
            && let Some(number) = number(cell)
        {
            return number == count;
        }
        match self.total {
            Some(total) => total == count,
            None if count == 0 => self.is_empty(),
            // One line could be anything.
            None => count > 1 && self.rows.len() as u64 == count,
        }
    }

    /// The rows, or the members of the array that is the only row.
    fn rows_of_one_array(&self) -> Vec<&[Value]> {
        match self.rows.as_slice() {
            [only] if only.len() != 1 => only.iter().map(std::slice::from_ref).collect(),
            rows => rows.iter().map(Vec::as_slice).collect(),
        }
    }
}

/// Whether a line is the first one of a reply of the extraction tools: `3 of 17 rows.`
fn is_heading(line: &str) -> bool {
    line.split_once(" of ").is_some_and(|(shown, _)| grouped_number(shown).is_some())
}

/// The total in `3 of 17 rows.`; `None` if it is only a lower bound.
fn stated_total(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(" of ").filter(|_| is_heading(line))?;
    grouped_number(rest.split(' ').next()?.trim_end_matches('.'))
}

fn grouped_number(text: &str) -> Option<u64> {
    text.replace(',', "").parse().ok()
}

/// The values of a line: the members of an object or array, the columns of text, or one value.
fn cells(line: &str) -> Vec<Value> {
    match serde_json::from_str(line) {
        Ok(Value::Object(members)) => members.into_iter().map(|(_, value)| value).collect(),
        Ok(Value::Array(values)) => values,
        Ok(value) => vec![value],
        Err(_) => line.split('\t').map(|cell| Value::from(cell.trim())).collect(),
    }
}

fn has_cell(row: &[Value], text: &str) -> bool {
    row.iter().any(|cell| match cell {
        Value::String(cell) => same_text(cell, text) || cell.contains(text),
        other => {
            let other = other.to_string();
            other == text
        }
    })
}

fn number(cell: &Value) -> Option<u64> {
    match cell {
        Value::Number(value) => value.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        // `[{"count(*)": 8}]`
        Value::Object(members) if members.len() == 1 => members.values().find_map(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Answer {
        Answer::Text(text.to_owned())
    }

    #[test]
    fn types_are_lenient_and_values_are_not() {
        assert!(is_right(&Answer::Count(8), &Answer::Count(8)));
        assert!(is_right(&Answer::Count(8), &text(" 8 ")));
        assert!(!is_right(&Answer::Count(8), &text("8 ids")));
        assert!(!is_right(&Answer::Count(8), &Answer::Count(9)));
        assert!(is_right(&Answer::Count(0), &text("None")));
        assert!(is_right(&text("a  b"), &text("\"a b\"")));
        assert!(!is_right(&text("a b"), &text("A b")));
        assert!(is_right(&text("none"), &text("NONE")));
        assert!(is_right(&text("none"), &Answer::List(vec![])));
        assert!(is_right(&text("a"), &Answer::List(vec![text("a")])));
        assert!(is_right(&text("2024"), &Answer::Count(2024)));
    }

    #[test]
    fn lists_are_in_order() {
        let list = |texts: &[&str]| Answer::List(texts.iter().map(|word| text(word)).collect());
        assert!(is_right(&list(&["a", "b"]), &list(&["a", "b"])));
        assert!(is_right(&list(&["a", "b"]), &text("[\"a\", \"b\"]")));
        assert!(!is_right(&list(&["a", "b"]), &list(&["b", "a"])));
        assert!(!is_right(&list(&["a", "b"]), &list(&["a"])));
    }

    #[test]
    fn replies_with_counts() {
        for reply in ["8", "8\n", "1 of 1 rows.\n{\"count(*)\":8}", "[{\"n\": 8}]"] {
            assert!(determines(reply, &Answer::Count(8)), "{reply}");
        }
        assert!(determines("2 of 8 answers.\n\"a\"\n\"b\"", &Answer::Count(8)));
        assert!(determines("a\nb\nc", &Answer::Count(3)));
        assert!(determines("0 of 0 rows.", &Answer::Count(0)));
        assert!(!determines("7", &Answer::Count(8)));
        assert!(!determines("{\"id\":\"x\",\"n\":8}", &Answer::Count(8)));
        assert!(!determines("some text", &Answer::Count(1)));
        assert!(!determines("1 of 1 rows.\n{\"count(*)\":8}", &Answer::Count(1)));
        assert!(!determines("2 of at least 3 rows.\na\nb", &Answer::Count(3)));
    }

    #[test]
    fn replies_with_texts() {
        let reply = "2 of 2 rows.\nNote: x\n{\"namespace\":\"a/b\",\"n\":12}\n{\"namespace\":\"c\",\"n\":3}";
        assert!(determines(reply, &text("a/b")));
        assert!(!determines(reply, &text("c")));
        let list = Answer::List(vec![text("a/b"), text("c")]);
        assert!(determines(reply, &list));
        assert!(determines("[\"a/b\",\"c\"]", &list));
        assert!(!determines("c\na/b", &list));
        assert!(determines("0 of 0 rows.", &text("none")));
        assert!(determines("", &text("none")));
        assert!(!determines("x", &text("none")));
        assert!(determines(
            "first words. The sentence itself. More.",
            &text("The sentence itself.")
        ));
    }
}
