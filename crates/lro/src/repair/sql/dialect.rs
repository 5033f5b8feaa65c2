//! Words and functions of other SQL dialects.

use super::super::Repair;
use super::words::Words;

/// Functions of other dialects with the same arguments as one of SQLite.
const FUNCTIONS: [(&str, &str); 16] = [
    ("len", "length"),
    ("char_length", "length"),
    ("nvl", "ifnull"),
    ("isnull", "ifnull"),
    ("strpos", "instr"),
    ("lcase", "lower"),
    ("ucase", "upper"),
    ("json_value", "json_extract"),
    ("json_length", "json_array_length"),
    ("regexp_extract", "regexp_capture"),
    ("regexp_substr", "regexp_capture"),
    ("regexp_match", "regexp_capture"),
    ("to_date", "date"),
    ("to_timestamp", "datetime"),
    ("listagg", "group_concat"),
    ("array_agg", "json_group_array"),
];

/// Functions of other dialects whose first argument is put into an expression.
const EXPRESSIONS: [(&str, &str, &str); 16] = [
    ("array_length", "json_array_length(", ")"),
    ("cardinality", "json_array_length(", ")"),
    ("year", "CAST(strftime('%Y', ", ") AS INTEGER)"),
    ("month", "CAST(strftime('%m', ", ") AS INTEGER)"),
    ("day", "CAST(strftime('%d', ", ") AS INTEGER)"),
    ("hour", "CAST(strftime('%H', ", ") AS INTEGER)"),
    ("int", "CAST(", " AS INTEGER)"),
    ("integer", "CAST(", " AS INTEGER)"),
    ("bigint", "CAST(", " AS INTEGER)"),
    ("toint", "CAST(", " AS INTEGER)"),
    ("to_number", "CAST(", " AS REAL)"),
    ("tonumber", "CAST(", " AS REAL)"),
    ("float", "CAST(", " AS REAL)"),
    ("double", "CAST(", " AS REAL)"),
    ("to_char", "CAST(", " AS TEXT)"),
    ("str", "CAST(", " AS TEXT)"),
];

/// Replaces the first call of the unknown function `name`.
pub(super) fn function(statement: &str, name: &str) -> Option<Repair> {
    let words = Words::new(statement);
    let at = (0..words.len()).find(|at| words.is(*at, name) && words.is(at + 1, "("))?;
    let is_name = |other: &str| name.eq_ignore_ascii_case(other);
    if let Some((_, new)) = FUNCTIONS.iter().find(|(other, _)| is_name(other)) {
        return Some(words.replaced(at, at + 1, new));
    }
    let (_, before, after) = EXPRESSIONS.iter().find(|(other, ..)| is_name(other))?;
    let end = words.closing(at + 1)?;
    let first_end = words.find(at + 2, &[",", ")"]).filter(|comma| *comma < end).unwrap_or(end);
    let argument = words.text(at + 2, first_end);
    Some(words.replaced(at, end + 1, &format!("{before}{}{after}", argument.trim_end())))
}

/// Corrects words of other dialects: `TOP 10`, `FETCH FIRST 10 ROWS ONLY`, `ILIKE`, `x::type`,
/// `substring(x from y)`, and a reference or a keyword in place of the table.
pub(super) fn dialect(statement: &str) -> Option<Repair> {
    let words = Words::new(statement);
    let number = |at: usize| {
        Some(words.get(at))
            .filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let repair = |text: String, old: String, new: String| {
        Some(Repair { text, change: (old.trim().to_owned(), new) })
    };
    for at in 0..words.len() {
        if words.is(at, "top") && at > 0 && words.is_any(at - 1, &["select", "distinct"]) {
            let open = usize::from(words.is(at + 1, "("));
            let count = number(at + 1 + open)?;
            let rest = words.text(at + 2 + 2 * open, words.len());
            let rest = rest.trim_end().trim_end_matches(';').to_owned();
            let corrected = format!("{}{rest} LIMIT {count}", words.text(0, at));
            return repair(corrected, words.text(at, at + 2 + 2 * open), format!("LIMIT {count}"));
        }
        if words.is(at, "fetch") && words.is_any(at + 1, &["first", "next"]) {
            let count = number(at + 2)?;
            return Some(words.replaced(at, words.len(), &format!("LIMIT {count}")));
        }
        if words.is(at, "~") {
            return Some(words.replaced(at, at + 1, "REGEXP"));
        }
        if words.is(at, "ilike") {
            return Some(words.replaced(at, at + 1, "LIKE"));
        }
        if words.is(at, ":") && words.is(at + 1, ":") && words.len() > at + 2 {
            let rest = words.text(at + 3, words.len());
            let joins = rest.starts_with([',', ')', ';', '=', '<', '>']);
            let space = if joins { "" } else { " " };
            let corrected = format!("{}{space}{rest}", words.text(0, at).trim_end());
            return repair(corrected, words.text(at, at + 3), String::new());
        }
        if words.is_any(at, &["substring", "substr"])
            && words.is(at + 1, "(")
            && let Some(repair) = substring(&words, at)
        {
            return Some(repair);
        }
        if words.is_any(at, &["from", "join"]) && words.is_any(at + 1, &["lro", "table"]) {
            let end = if words.is(at + 2, ":") { at + 4 } else { at + 2 };
            let corrected =
                format!("{}results {}", words.text(0, at + 1), words.text(end, words.len()));
            return repair(corrected, words.text(at + 1, end), "results".to_owned());
        }
    }
    None
}

/// `substring(x from 'pattern')` and `substring(x from 2 for 3)`.
fn substring(words: &Words<'_>, at: usize) -> Option<Repair> {
    let end = words.closing(at + 1)?;
    let from = words.find(at + 2, &["from"]).filter(|from| *from < end)?;
    let text = words.text(at + 2, from);
    let length = words.find(from, &["for"]).filter(|length| *length < end);
    let start = words.text(from + 1, length.unwrap_or(end));
    let (text, start) = (text.trim_end(), start.trim_end());
    let new = match length {
        Some(length) => {
            format!("substr({text}, {start}, {})", words.text(length + 1, end).trim_end())
        }
        None if start.starts_with('\'') => {
            // With a group, PostgreSQL returns the group.
            let group = i32::from(has_group(start));
            format!("regexp_capture({text}, {start}, {group})")
        }
        None => format!("substr({text}, {start})"),
    };
    Some(words.replaced(at, end + 1, &new))
}

fn has_group(pattern: &str) -> bool {
    let mut escaped = false;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' if chars.peek() != Some(&'?') => return true,
            _ => {}
        }
    }
    false
}
