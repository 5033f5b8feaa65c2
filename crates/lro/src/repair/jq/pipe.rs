//! A pipe beside `and` or `or`: jq reads `.a and .b | test("x")` as `(.a and .b) | test("x")`.

use std::ops::Range;

use super::super::Repair;
use super::{closing, string_end};

/// Functions whose input is a text. With a text as its argument, `contains` is another.
const TEXT_FUNCTIONS: [&str; 6] =
    ["test", "match", "startswith", "endswith", "ascii_downcase", "ascii_upcase"];

/// Puts parentheses around the pipes in the first condition of `select(…)` that fails without them: what
/// `and` and `or` return has no text, and a text has no fields.
pub(crate) fn in_condition(filter: &str) -> Option<Repair> {
    let mut at = 0;
    while let Some(first) = filter[at..].chars().next() {
        let rest = &filter[at..];
        if first == '"' {
            at += string_end(rest);
            continue;
        }
        if let Some(behind) = rest.strip_prefix("select(") {
            let condition = &behind[..closing(behind)];
            if let Some(new) = with_parentheses(condition) {
                let start = at + "select(".len();
                let end = start + condition.len();
                let text = format!("{}{new}{}", &filter[..start], &filter[end..]);
                return Some(Repair { text, change: (condition.to_owned(), new) });
            }
        }
        at += first.len_utf8();
    }
    None
}

fn with_parentheses(condition: &str) -> Option<String> {
    let (operands, pipes) = operands(condition);
    if operands.len() < 2 || pipes.is_empty() {
        return None;
    }
    let mut out = String::new();
    let mut end = 0;
    for range in operands {
        let operand = &condition[range.clone()];
        out.push_str(&condition[end..range.start]);
        end = range.end;
        match pipes.iter().find(|pipe| range.contains(*pipe)) {
            Some(pipe) => {
                let is_text = is_path(condition[range.start..*pipe].trim())
                    && is_text_function(&condition[*pipe + 1..range.end]);
                if !is_text {
                    return None;
                }
                out.push('(');
                out.push_str(operand);
                out.push(')');
            }
            // A function would be meant for the text before it.
            None if !operand.starts_with(['.', '(']) => return None,
            None => out.push_str(operand),
        }
    }
    out.push_str(&condition[end..]);
    Some(out)
}

/// The operands of `and` and `or` without the white space around them, and the offsets of the pipes: both
/// outside strings and parentheses.
fn operands(condition: &str) -> (Vec<Range<usize>>, Vec<usize>) {
    let (mut operands, mut pipes) = (Vec::new(), Vec::new());
    let trimmed = |range: Range<usize>| {
        let text = &condition[range.clone()];
        let start = range.start + text.len() - text.trim_start().len();
        start..start + text.trim().len()
    };
    let (mut at, mut start, mut depth) = (0, 0, 0_i32);
    while let Some(first) = condition[at..].chars().next() {
        let rest = &condition[at..];
        match first {
            '"' => {
                at += string_end(rest);
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '|' if depth == 0 => pipes.push(at),
            ' ' if depth == 0 => {
                let operator = [" and ", " or "].into_iter().find(|word| rest.starts_with(word));
                if let Some(operator) = operator {
                    operands.push(trimmed(start..at));
                    // The space behind it may be the one before the next.
                    at += operator.len() - 1;
                    start = at;
                    continue;
                }
            }
            _ => {}
        }
        at += first.len_utf8();
    }
    operands.push(trimmed(start..condition.len()));
    (operands, pipes)
}

fn is_path(text: &str) -> bool {
    text.starts_with('.') && text.chars().all(|c| c.is_alphanumeric() || "._[]\"?".contains(c))
}

fn is_text_function(text: &str) -> bool {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    TEXT_FUNCTIONS.contains(&name) || (name == "contains" && rest.starts_with("(\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g18_a_pipe_beside_and_gets_parentheses() {
        for (filter, expected) in [
            (
                "select(.a.b >= 3 and .c | contains(\"x and y\"))",
                Some("select(.a.b >= 3 and (.c | contains(\"x and y\")))"),
            ),
            (
                "[.[] | select(.c | test(\"x\"; \"i\") and .n == 1 or .d | ascii_downcase | test(\"y\"))] | length",
                Some(
                    "[.[] | select((.c | test(\"x\"; \"i\")) and .n == 1 or (.d | ascii_downcase | test(\"y\")))] | length",
                ),
            ),
            ("\"select(.a and .b | test(1))\"", None),
            // These have a meaning.
            ("select(.a and .b | not)", None),
            ("select(.user | contains({login: \"a\"}) and .active)", None),
            ("select(.a | test(\"x\") and test(\"y\"))", None),
            ("select(.a == 1 and (.b | test(\"x\")))", None),
            ("select(.b | test(\"x\"))", None),
            ("select(.a == 1 and .b == 2)", None),
            ("select(", None),
        ] {
            let repair = in_condition(filter).map(|repair| repair.text);
            assert_eq!(repair.as_deref(), expected, "{filter}");
            // The result is not changed again.
            assert!(repair.is_none_or(|text| in_condition(&text).is_none()));
        }
    }
}
