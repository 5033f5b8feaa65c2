//! Comparison of answers, and of replies with answers.

use serde_json::Value;

use super::command::{extraction_commands, is_code};
use crate::task::{Answer, Family};
use crate::transcript::CallRecord;

/// The answer to a question without a match.
const NONE: &str = "none";

/// Whether an answer is the expected one. Types are lenient, values are not: `"8"` is 8, a list may
/// be JSON in a string, and `none` may be an empty list; spaces and quotes around a text do not
/// count. A count of nothing is 0, not `none`.
pub(super) fn is_right(expected: &Answer, answer: &Answer) -> bool {
    if let Answer::Text(text) = answer
        && let Ok(parsed @ (Answer::Count(_) | Answer::List(_))) = serde_json::from_str(text.trim())
    {
        return is_right(expected, &parsed);
    }
    match (expected, answer) {
        (Answer::Count(expected), Answer::Count(answer)) => expected == answer,
        (Answer::Text(expected), Answer::Text(answer)) => {
            same_text(expected, answer) || (is_none(expected) && is_none(answer))
        }
        // A name that consists of digits.
        (Answer::Text(expected), Answer::Count(answer)) => same_text(expected, &answer.to_string()),
        (Answer::Text(expected), Answer::List(answer)) => match answer.as_slice() {
            [] => is_none(expected),
            [only] => is_right(&Answer::Text(expected.clone()), only),
            _ => false,
        },
        (Answer::List(expected), Answer::List(answer)) => {
            expected.len() == answer.len()
                && expected.iter().zip(answer).all(|(expected, answer)| is_right(expected, answer))
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

/// Whether the reply to a call determines the answer without a further call.
///
/// - A count is determined if it is the only value of the reply. The extraction tools also state a
///   total, which the output of code does not: its number of lines may be that of `head`.
/// - A text is determined if a cell of the first row is it. The sentence of a text may be a part of
///   one.
/// - A list is determined if its members are in the rows in order.
/// - `none` is determined if there are no rows. The code must have queried something.
pub(super) fn determines(call: &CallRecord, family: Family, expected: &Answer) -> bool {
    let reply = ReplyRows::parse(call);
    match expected {
        Answer::Count(count) => reply.has_count(*count),
        Answer::Text(text) if is_none(text) => {
            let is_query = !is_code(&call.tool) || !extraction_commands(call).is_empty();
            is_query && reply.is_empty()
        }
        Answer::Text(text) => reply.rows.first().is_some_and(|row| match family {
            Family::NeedleRead => has_part(row, text),
            _ => has_cell(row, text),
        }),
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
    /// The total that an extraction tool states, as in `3 of 17 rows.`
    total: Option<u64>,
    rows: Vec<Vec<Value>>,
}

impl ReplyRows {
    fn parse(call: &CallRecord) -> Self {
        if is_code(&call.tool) {
            return Self::from_output(&call.reply);
        }
        let reply = call.reply.as_str();
        let (first, rest) = reply.split_once('\n').unwrap_or((reply, ""));
        let total = stated_total(first);
        let data = if is_heading(first) { rest } else { reply };
        let is_data = |line: &&str| {
            !(line.trim().is_empty() || line.starts_with("Note: ") || line.starts_with("Hint: "))
        };
        Self { total, rows: data.lines().filter(is_data).map(cells).collect() }
    }

    /// The rows of the output of code.
    fn from_output(output: &str) -> Self {
        let lines = output.lines().filter(|line| !line.trim().is_empty());
        let row = |line: &str| counted_cells(line).unwrap_or_else(|| cells(line));
        Self { total: None, rows: lines.map(row).collect() }
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
        self.total == Some(count)
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
    line.split_once(" of ").is_some_and(|(count, _)| grouped_number(count).is_some())
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

/// The cells of a line of `uniq -c`: a number in a column, and what it counts.
fn counted_cells(line: &str) -> Option<Vec<Value>> {
    let (count, rest) = line.strip_prefix(' ')?.trim_start().split_once(' ')?;
    let count: u64 = count.parse().ok()?;
    Some(vec![Value::from(count), Value::from(rest.trim())])
}

/// Whether a cell of a row is a text.
fn has_cell(row: &[Value], text: &str) -> bool {
    row.iter().any(|cell| match cell {
        Value::String(cell) => same_text(cell, text),
        other => {
            let other = other.to_string();
            other == text
        }
    })
}

/// Whether a cell of a row contains a text.
fn has_part(row: &[Value], text: &str) -> bool {
    row.iter().any(|cell| match cell {
        Value::String(cell) => same_text(cell, text) || cell.contains(text),
        _ => false,
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
    use serde_json::json;

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

    fn call(tool: &str, arguments: Value, reply: &str) -> CallRecord {
        CallRecord {
            turn: 0,
            tool: tool.to_owned(),
            arguments,
            reply: reply.to_owned(),
            reply_tokens: 0,
            is_error: false,
            records_given: 0,
            write_micros: None,
        }
    }

    fn native(reply: &str, expected: &Answer) -> bool {
        let call = call("lro_extract", json!({"sql": "SELECT 1"}), reply);
        determines(&call, Family::GroupArgmax, expected)
    }

    fn shell(command: &str, reply: &str, expected: &Answer) -> bool {
        let call = call("bash", json!({"command": command}), reply);
        determines(&call, Family::GroupArgmax, expected)
    }

    #[test]
    fn a_count_of_nothing_is_zero() {
        assert!(is_right(&Answer::Count(0), &text("0")));
        assert!(!is_right(&Answer::Count(0), &text("none")));
        assert!(!is_right(&Answer::Count(0), &Answer::List(vec![])));
    }

    #[test]
    fn replies_with_counts() {
        for reply in ["8", "8\n", "1 of 1 rows.\n{\"count(*)\":8}", "[{\"n\": 8}]"] {
            assert!(native(reply, &Answer::Count(8)), "{reply}");
        }
        assert!(native("2 of 8 answers.\n\"a\"\n\"b\"", &Answer::Count(8)));
        assert!(native("0 of 0 rows.", &Answer::Count(0)));
        assert!(!native("7", &Answer::Count(8)));
        assert!(!native("{\"id\":\"x\",\"n\":8}", &Answer::Count(8)));
        assert!(!native("some text", &Answer::Count(1)));
        assert!(!native("1 of 1 rows.\n{\"count(*)\":8}", &Answer::Count(1)));
        assert!(!native("2 of at least 3 rows.\na\nb", &Answer::Count(3)));
    }

    #[test]
    fn the_number_of_lines_that_code_prints_is_no_count() {
        assert!(shell("grep -c x f", "5\n", &Answer::Count(5)));
        assert!(shell("jq -s '{n: length}' f", "{\"n\":5}", &Answer::Count(5)));
        assert!(!shell("head -n 5 f", "a\nb\nc\nd\ne\n", &Answer::Count(5)));
        assert!(!shell("echo 3 of 5 rows.", "3 of 5 rows.\na", &Answer::Count(5)));
        assert!(!shell("true", "", &Answer::Count(0)));
    }

    #[test]
    fn a_name_is_a_whole_cell() {
        let command = "jq -r .namespace f | sort | uniq -c | sort -rn | head -1";
        assert!(shell(command, "     12 a/b\n", &text("a/b")));
        assert!(!shell(command, "     12 a/bc\n", &text("a/b")));
        assert!(!shell("head -n 1 f", "{\"content\":\"about a/b\"}", &text("a/b")));
        assert!(!native("1 of 1 rows.\n{\"content\":\"about a/b\"}", &text("a/b")));
    }

    #[test]
    fn nothing_is_an_answer_to_a_query_only() {
        assert!(shell("grep x f", "", &text("none")));
        assert!(!shell("cd /tmp", "", &text("none")));
        assert!(!shell("grep x f", "x\n", &text("none")));
    }

    #[test]
    fn replies_with_texts() {
        let reply = "2 of 2 rows.\nNote: x\n{\"namespace\":\"a/b\",\"n\":12}\n{\"namespace\":\"c\",\"n\":3}";
        assert!(native(reply, &text("a/b")));
        assert!(!native(reply, &text("c")));
        let list = Answer::List(vec![text("a/b"), text("c")]);
        assert!(native(reply, &list));
        assert!(native("[\"a/b\",\"c\"]", &list));
        assert!(!native("c\na/b", &list));
        assert!(native("0 of 0 rows.", &text("none")));
        assert!(!native("x", &text("none")));
        let content = "1 of 1 records.\n{\"content\":\"First words. The sentence itself. More.\"}";
        let sentence = text("The sentence itself.");
        let read = call("lro_extract", json!({"sql": "SELECT content FROM results"}), content);
        assert!(determines(&read, Family::NeedleRead, &sentence));
        assert!(!determines(&read, Family::TopK, &sentence), "a title is a whole cell");
    }
}
