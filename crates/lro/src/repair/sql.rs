//! Corrects typical mistakes in SQL statements: nested fields, fields named like keywords, strings in
//! double quotes, and words of other SQL dialects.
//!
//! A statement is changed only outside its strings, only after SQLite refused it, and the reply says
//! what was changed.

mod comparison;
mod dialect;
mod elements;
mod grouping;
mod join;
mod lines;
mod occurrence;
mod words;

use super::{FieldPaths, Repair, normalized};
pub(crate) use comparison::other_type;
pub(crate) use grouping::group_by;
pub(crate) use join::{JoinTable, join};
pub(crate) use lines::{FORMAT_LINES, LineFormat, line_column};
pub(crate) use occurrence::Occurrences;
use words::{Clause, Words, replace_name, tokens};

/// Keywords that are usual names of fields, and begin a clause only before `BY` if at all.
const KEYWORDS: [&str; 8] =
    ["order", "group", "index", "table", "default", "check", "references", "transaction"];

/// Other names for the key of a map.
const KEY_NAMES: [&str; 4] = ["key", "id", "_id", "name"];
/// Other names for the columns of a text.
const TEXT_NAMES: [&str; 9] =
    ["content", "message", "msg", "log", "body", "value", "raw", "entry", "line_text"];
const LINE_NAMES: [&str; 5] = ["line_number", "line_no", "lineno", "number", "row"];

/// Corrects mistakes that SQLite accepts: a comparison with NULL, which is never true. Removes a code
/// fence.
pub(crate) fn before_run(statement: &str) -> Option<Repair> {
    let trimmed = statement.trim();
    if let Some(inside) = trimmed.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) {
        let inside = inside.strip_prefix("sql").unwrap_or(inside).trim().to_owned();
        return Some(Repair { text: inside, change: ("```".to_owned(), String::new()) });
    }
    let words = Words::new(statement);
    let null = (1..words.len()).find(|at| words.is(*at, "=") && words.is(at + 1, "null"))?;
    // `!=`; `<=` and `>=` are left alone.
    let (start, new) = match words.get(null - 1) {
        "!" => (null - 1, "IS NOT NULL"),
        "<" | ">" | "=" => return None,
        _ => (null, "IS NULL"),
    };
    let mut repair = words.replaced(start, null + 2, new);
    "= NULL".clone_into(&mut repair.change.0);
    Some(repair)
}

/// Corrects `statement`, which SQLite refused with `message`.
pub(crate) fn repair(paths: &FieldPaths, statement: &str, message: &str) -> Option<Repair> {
    if let Some(column) = unknown_column(message) {
        // In double quotes, a value is more likely than a misspelt name.
        let value = column.starts_with('"').then(|| string(statement, column)).flatten();
        return value
            .or_else(|| key_column(paths, statement, column))
            .or_else(|| repair_column(paths, statement, column))
            .or_else(|| elements::repair(paths, statement, column))
            .or_else(|| text_column(paths, statement, column))
            .or_else(|| same_column(paths, statement, column))
            .or_else(|| string(statement, column));
    }
    if let Some(table) = message.strip_prefix("no such table: results.") {
        return replace_name(statement, &format!("results.{table}"), table, Clause::Replace);
    }
    if let Some(name) = message.strip_prefix("no such function: ") {
        return dialect::function(statement, name);
    }
    if let Some(repair) = dialect::dialect(statement) {
        return Some(repair);
    }
    let word = syntax_error_word(message)?;
    if let Some(nested) = keyword_path(statement, word) {
        return repair_column(paths, statement, nested);
    }
    // SQLite may notice a keyword only at the next word, as in `max(order)`.
    let mut keywords = paths.top().filter(|name| {
        name.eq_ignore_ascii_case(word)
            || KEYWORDS.iter().any(|keyword| name.eq_ignore_ascii_case(keyword))
    });
    keywords.find_map(|name| replace_name(statement, name, &quoted(name), Clause::Skip))
}

/// The word at which SQLite notices a syntax error.
fn syntax_error_word(message: &str) -> Option<&str> {
    message.strip_prefix("near \"")?.strip_suffix("\": syntax error")
}

/// The nested field with a keyword as its first name, at which SQLite notices a syntax error. In a call,
/// SQLite notices it at the dot.
fn keyword_path<'a>(statement: &'a str, word: &str) -> Option<&'a str> {
    tokens(statement).into_iter().find(|token| {
        let first = token.split_once('.').map(|(first, _)| first);
        first.is_some_and(|first| {
            first.eq_ignore_ascii_case(word)
                || (word == "." && KEYWORDS.iter().any(|key| first.eq_ignore_ascii_case(key)))
        })
    })
}

/// The statement with an unknown column replaced by a similar one: one of several nested fields with
/// this name, also with names left out between, one with a word of the name, or the first of `near`.
pub(crate) fn with_similar_column(
    paths: &FieldPaths,
    statement: &str,
    message: &str,
    near: &[String],
) -> Option<Repair> {
    let nested = |name: &str| {
        let path = paths.first_ending_with(name).or_else(|| paths.first_around(name));
        path.and_then(expression)
    };
    if let Some(word) = syntax_error_word(message) {
        let name = keyword_path(statement, word)?;
        return replace_name(statement, name, &nested(name)?, Clause::Replace);
    }
    let column = unknown_column(message)?;
    let name = column.trim_matches('"');
    let with_word = || {
        let used = tokens(statement);
        let is_used = |field: &str| used.iter().any(|token| token.eq_ignore_ascii_case(field));
        paths.with_word_of(name, is_used).and_then(expression)
    };
    let first_near = || near.first().map(|name| plain_or_quoted(name));
    let new = nested(name).or_else(with_word).or_else(first_near)?;
    replace_name(statement, column, &new, Clause::Replace)
}

/// The column that SQLite does not know, by its `message`.
pub(crate) fn unknown_column(message: &str) -> Option<&str> {
    let column = message.strip_prefix("no such column: ")?;
    Some(column.split(" - ").next().unwrap_or(column))
}

fn plain_or_quoted(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { quoted(name) }
}

/// The key of a map has few other names.
fn key_column(paths: &FieldPaths, statement: &str, column: &str) -> Option<Repair> {
    let is_key = KEY_NAMES.iter().any(|name| column.trim_matches('"').eq_ignore_ascii_case(name));
    let has_key = paths.top().any(|name| name == "_key");
    if is_key && has_key {
        return replace_name(statement, column, "_key", Clause::Replace);
    }
    None
}

/// Writes a nested field as an expression on its column.
fn repair_column(paths: &FieldPaths, statement: &str, column: &str) -> Option<Repair> {
    let names: Vec<&str> = column.split('.').map(|name| name.trim_matches('"')).collect();
    // The first name may be a table or its alias.
    let path = match names.as_slice() {
        ["results", rest @ ..] if !rest.is_empty() => paths.ending_with(rest),
        all => paths.ending_with(all).or_else(|| match all {
            [_, rest @ ..] if !rest.is_empty() => paths.ending_with(rest),
            _ => None,
        }),
    }?;
    replace_name(statement, column, &expression(path)?, Clause::Replace)
}

/// A field as an expression on its column.
fn expression(path: &[String]) -> Option<String> {
    let (first, inner) = path.split_first()?;
    Some(if inner.is_empty() {
        quoted(first)
    } else {
        let steps: Vec<String> = inner
            .iter()
            .map(|name| if is_plain(name) { format!(".{name}") } else { format!(".\"{name}\"") })
            .collect();
        let steps = steps.concat().replace('\'', "''");
        format!("({} ->> '${steps}')", quoted(first))
    })
}

/// The columns of a text have few other names.
fn text_column(paths: &FieldPaths, statement: &str, column: &str) -> Option<Repair> {
    let fields: Vec<&str> = paths.top().map(String::as_str).collect();
    if fields != ["line", "text"] {
        return None;
    }
    let name = column.trim_matches('"').to_ascii_lowercase();
    let new = if TEXT_NAMES.contains(&name.as_str()) {
        "text"
    } else if LINE_NAMES.contains(&name.as_str()) {
        "line"
    } else {
        return None;
    };
    replace_name(statement, column, new, Clause::Replace)
}

/// A field whose name differs in case and underscores only, also as the path of a nested field, or the
/// only one that begins with the name.
fn same_column(paths: &FieldPaths, statement: &str, column: &str) -> Option<Repair> {
    let name = normalized(column.trim_matches('"'));
    if name.len() < 3 {
        return None;
    }
    let all = || paths.paths().iter();
    let path = all().find(|path| normalized(&path.concat()) == name).or_else(|| {
        let mut longer =
            all().filter(|path| path.len() == 1 && normalized(&path[0]).starts_with(&name));
        longer.next().filter(|_| longer.next().is_none())
    })?;
    replace_name(statement, column, &expression(path)?, Clause::Replace)
}

/// An unknown name that is compared with something is a string without its quotes.
fn string(statement: &str, column: &str) -> Option<Repair> {
    let tokens = tokens(statement);
    let at = tokens.iter().position(|token| *token == column)?;
    let mut before = tokens[..at].iter().rev().filter(|token| !token.trim().is_empty());
    let is_operator = |token: &str| {
        ["=", "<", ">", "like", "glob", "regexp", "ilike", "then", "else", "||"]
            .iter()
            .any(|operator| token.eq_ignore_ascii_case(operator))
    };
    let is_compared = before.next().is_some_and(|last| match *last {
        // An element of a list.
        "(" => before.next().is_some_and(|word| word.eq_ignore_ascii_case("in")),
        "," => before.any(|token| token.eq_ignore_ascii_case("in")),
        other => is_operator(other),
    });
    if !is_compared || column.contains('.') {
        return None;
    }
    let text = column.trim_matches('"').replace("\"\"", "\"").replace('\'', "''");
    replace_name(statement, column, &format!("'{text}'"), Clause::Replace)
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The unknown table name in SQLite's `message`, if it can be an alias.
pub(crate) fn unknown_table(message: &str) -> Option<String> {
    let name = message.strip_prefix("no such table: ")?;
    Some(name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use lro_query::Bytes;

    use super::*;

    fn paths() -> FieldPaths {
        let records = concat!(
            r#"{"sha":"a","commit":{"author":{"name":"x","e-mail":"y","date":"d"},"#,
            r#""message":"m","committer":{"date":"d"}},"order":{"total":1},"user":{"login":"z"}}"#,
            "\n"
        );
        FieldPaths::read(&Bytes(records.as_bytes()), 0).unwrap()
    }

    fn repaired(statement: &str, message: &str) -> Option<String> {
        repair(&paths(), statement, message).map(|repair| repair.text)
    }

    #[test]
    fn g18_names_left_out_of_a_nested_field_are_guessed() {
        for (column, message, guess) in [
            ("commit.date", "near \"commit\": syntax error", "$.author.date"),
            ("commit.name", "near \"commit\": syntax error", "$.author.name"),
            ("commit.committer_date", "near \"commit\": syntax error", ""),
        ] {
            let statement = format!("SELECT count(*) FROM results WHERE {column} LIKE '2026-06%'");
            let guessed = with_similar_column(&paths(), &statement, message, &[]);
            let expected = (!guess.is_empty()).then(|| {
                format!(
                    "SELECT count(*) FROM results WHERE (\"commit\" ->> '{guess}') LIKE '2026-06%'"
                )
            });
            assert_eq!(guessed.map(|guess| guess.text), expected, "{column}");
        }
    }

    #[test]
    fn g18_a_nested_field_becomes_an_expression() {
        assert_eq!(
            repaired(
                "SELECT author.name, count(*) FROM results WHERE author.name <> 'author.name' GROUP BY 1",
                "no such column: author.name"
            )
            .unwrap(),
            "SELECT (\"commit\" ->> '$.author.name'), count(*) FROM results WHERE (\"commit\" ->> '$.author.name') <> 'author.name' GROUP BY 1"
        );
        assert_eq!(
            repaired("SELECT user.login FROM results", "no such column: user.login").unwrap(),
            "SELECT (\"user\" ->> '$.login') FROM results"
        );
        assert_eq!(
            repaired("SELECT message FROM results", "no such column: message").unwrap(),
            "SELECT (\"commit\" ->> '$.message') FROM results"
        );
        assert_eq!(repaired("SELECT nothing FROM results", "no such column: nothing"), None);
    }

    #[test]
    fn g18_a_field_named_like_a_keyword_is_quoted() {
        assert_eq!(
            repaired("SELECT order FROM results ORDER BY order", "near \"order\": syntax error")
                .unwrap(),
            "SELECT \"order\" FROM results ORDER BY \"order\""
        );
        assert_eq!(
            repaired("SELECT max(order) FROM results", "near \")\": syntax error").unwrap(),
            "SELECT max(\"order\") FROM results"
        );
        assert_eq!(repaired("SELECT FROM results", "near \"FROM\": syntax error"), None);
    }

    #[test]
    fn g18_strings_in_double_quotes_and_other_dialects_are_understood() {
        let quotes = "no such column: \"open\" - should this be a string literal in single-quotes?";
        for (statement, message, expected) in [
            (
                "SELECT 1 FROM results WHERE sha = \"open\"",
                quotes,
                "SELECT 1 FROM results WHERE sha = 'open'",
            ),
            (
                "SELECT 1 FROM results WHERE sha IN (\"x\", \"open\")",
                quotes,
                "SELECT 1 FROM results WHERE sha IN (\"x\", 'open')",
            ),
            (
                "SELECT 1 FROM results WHERE author = \"SHA\"",
                "no such column: \"SHA\" - should this be a string literal in single-quotes?",
                "SELECT 1 FROM results WHERE author = 'SHA'",
            ),
            (
                "SELECT sha FROM results WHERE sha = open",
                "no such column: open",
                "SELECT sha FROM results WHERE sha = 'open'",
            ),
            (
                "SELECT TOP 10 sha FROM results;",
                "near \"10\": syntax error",
                "SELECT sha FROM results LIMIT 10",
            ),
            (
                "SELECT TOP (3) sha FROM results",
                "near \"sha\": syntax error",
                "SELECT sha FROM results LIMIT 3",
            ),
            (
                "SELECT sha FROM results FETCH FIRST 5 ROWS ONLY",
                "near \"FIRST\": syntax error",
                "SELECT sha FROM results LIMIT 5",
            ),
            (
                "SELECT sha FROM results WHERE sha ILIKE '%ILIKE%'",
                "near \"ILIKE\": syntax error",
                "SELECT sha FROM results WHERE sha LIKE '%ILIKE%'",
            ),
            (
                "SELECT sha::text FROM results",
                "unrecognized token: \":\"",
                "SELECT sha FROM results",
            ),
            (
                "SELECT count(*) FROM lro:01KA2Z3T WHERE 1",
                "unrecognized token: \":\"",
                "SELECT count(*) FROM results WHERE 1",
            ),
            (
                "SELECT LEN(sha), len FROM results",
                "no such function: LEN",
                "SELECT length(sha), len FROM results",
            ),
            (
                "SELECT year(sha) FROM results",
                "no such function: year",
                "SELECT CAST(strftime('%Y', sha) AS INTEGER) FROM results",
            ),
            (
                "SELECT 2 * INT(sha) FROM results",
                "no such function: INT",
                "SELECT 2 * CAST(sha AS INTEGER) FROM results",
            ),
            (
                "SELECT 1 FROM results WHERE array_length(sha, 1) > 1",
                "no such function: array_length",
                "SELECT 1 FROM results WHERE json_array_length(sha) > 1",
            ),
            (
                "SELECT substring(sha from 'a(b)') AS x FROM results",
                "near \"from\": syntax error",
                "SELECT regexp_capture(sha, 'a(b)', 1) AS x FROM results",
            ),
            (
                "SELECT substring(sha from 2 for 3) FROM results",
                "near \"from\": syntax error",
                "SELECT substr(sha, 2, 3) FROM results",
            ),
            (
                "SELECT SUM(order.total) FROM results",
                "near \".\": syntax error",
                "SELECT SUM((\"order\" ->> '$.total')) FROM results",
            ),
        ] {
            assert_eq!(repaired(statement, message).as_deref(), Some(expected), "{statement}");
        }
        assert_eq!(repaired("SELECT \"open\" FROM results", quotes), None);
    }

    #[test]
    fn g18_a_similar_column_is_suggested() {
        let similar = |statement: &str, column: &str, near: &[String]| {
            let message = format!("no such column: {column}");
            with_similar_column(&paths(), statement, &message, near).map(|repair| repair.text)
        };
        let near = ["the title".to_owned()];
        assert_eq!(
            similar("SELECT titel, 'titel' FROM results", "titel", &near).as_deref(),
            Some("SELECT \"the title\", 'titel' FROM results")
        );
        // One of several nested fields.
        assert_eq!(
            similar("SELECT date FROM results", "date", &near).as_deref(),
            Some("SELECT (\"commit\" ->> '$.author.date') FROM results")
        );
        assert_eq!(
            similar("SELECT sha_sum FROM results", "sha_sum", &[]).as_deref(),
            Some("SELECT \"sha\" FROM results")
        );
        assert_eq!(similar("SELECT xyz FROM results", "xyz", &[]), None);
    }

    #[test]
    fn g18_the_key_of_a_map_has_other_names() {
        let paths =
            FieldPaths::read(&Bytes(b"{\"_key\":\"a\",\"owner\":{\"id\":1}}\n"), 0).unwrap();
        let repaired = repair(&paths, "SELECT id FROM results", "no such column: id").unwrap();
        assert_eq!(repaired.text, "SELECT _key FROM results");
    }

    #[test]
    fn g18_names_that_differ_in_case_underscores_or_length_are_understood() {
        for (statement, column, expected) in [
            (
                "SELECT userLogin FROM results",
                "userLogin",
                "SELECT (\"user\" ->> '$.login') FROM results",
            ),
            ("SELECT SH_A FROM results", "SH_A", "SELECT \"sha\" FROM results"),
            ("SELECT comm FROM results", "comm", "SELECT \"commit\" FROM results"),
        ] {
            let message = format!("no such column: {column}");
            assert_eq!(repaired(statement, &message).as_deref(), Some(expected), "{statement}");
        }
        let text = |statement: &str| before_run(statement).map(|repair| repair.text);
        assert_eq!(
            text("SELECT 1 WHERE a = NULL AND b").as_deref(),
            Some("SELECT 1 WHERE a IS NULL AND b")
        );
        assert_eq!(
            text("SELECT 1 WHERE a != null").as_deref(),
            Some("SELECT 1 WHERE a IS NOT NULL")
        );
        assert_eq!(text("```sql\nSELECT 1;\n```").as_deref(), Some("SELECT 1;"));
        assert_eq!(text("SELECT 1 WHERE a = '= NULL'"), None);
        let prefixed = repaired("SELECT 1 FROM results.users", "no such table: results.users");
        assert_eq!(prefixed.as_deref(), Some("SELECT 1 FROM users"));
    }

    #[test]
    fn an_unknown_table_is_named() {
        assert_eq!(unknown_table("no such table: Commits").as_deref(), Some("commits"));
        assert_eq!(unknown_table("no such column: x"), None);
    }
}
