//! Corrects typical mistakes in SQL statements: nested fields, fields named like keywords, strings in
//! double quotes, and words of other SQL dialects.
//!
//! A statement is changed only outside its strings, only after SQLite refused it, and the reply says
//! what was changed.

use super::{FieldPaths, Repair, normalized, quoted_end};

/// Keywords that are usual names of fields, and begin a clause only before `BY` if at all.
const KEYWORDS: [&str; 8] =
    ["order", "group", "index", "table", "default", "check", "references", "transaction"];

/// Functions of other dialects, with the beginning of a call in SQLite.
const FUNCTIONS: [(&str, &str); 22] = [
    ("len", "length("),
    ("char_length", "length("),
    ("nvl", "ifnull("),
    ("isnull", "ifnull("),
    ("strpos", "instr("),
    ("lcase", "lower("),
    ("ucase", "upper("),
    ("json_value", "json_extract("),
    ("json_length", "json_array_length("),
    ("array_length", "json_array_length("),
    ("cardinality", "json_array_length("),
    ("regexp_extract", "regexp_capture("),
    ("regexp_substr", "regexp_capture("),
    ("regexp_match", "regexp_capture("),
    ("to_date", "date("),
    ("to_timestamp", "datetime("),
    ("year", "0 + strftime('%Y', "),
    ("month", "0 + strftime('%m', "),
    ("day", "0 + strftime('%d', "),
    ("hour", "0 + strftime('%H', "),
    ("listagg", "group_concat("),
    ("array_agg", "json_group_array("),
];

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
    let all = tokens(statement);
    let words: Vec<usize> = (0..all.len()).filter(|at| !all[*at].trim().is_empty()).collect();
    let null = words
        .windows(2)
        .position(|pair| all[pair[0]] == "=" && all[pair[1]].eq_ignore_ascii_case("null"))?;
    let before = null.checked_sub(1).map(|at| all[words[at]]).unwrap_or_default();
    // `!=`; `<=` and `>=` are left alone.
    let (start, new) = match before {
        "!" => (words[null - 1], "IS NOT NULL"),
        "<" | ">" | "=" => return None,
        _ => (words[null], "IS NULL"),
    };
    let end = words[null + 1] + 1;
    let text = format!("{}{new}{}", all[..start].concat(), all[end..].concat());
    Some(Repair { text, change: ("= NULL".to_owned(), new.to_owned()) })
}

/// Corrects `statement`, which SQLite refused with `message`.
pub(crate) fn repair(paths: &FieldPaths, statement: &str, message: &str) -> Option<Repair> {
    if let Some(column) = message.strip_prefix("no such column: ") {
        let column = column.split(" - ").next().unwrap_or(column);
        // In double quotes, a value is more likely than a misspelt name.
        let value = column.starts_with('"').then(|| string(statement, column)).flatten();
        return value
            .or_else(|| repair_column(paths, statement, column))
            .or_else(|| text_column(paths, statement, column))
            .or_else(|| same_column(paths, statement, column))
            .or_else(|| string(statement, column));
    }
    if let Some(table) = message.strip_prefix("no such table: results.") {
        return replace(statement, &format!("results.{table}"), table, Clause::Replace);
    }
    if let Some(name) = message.strip_prefix("no such function: ") {
        let (_, call) = FUNCTIONS.iter().find(|(other, _)| name.eq_ignore_ascii_case(other))?;
        return replace(statement, &format!("{name}("), call, Clause::Replace);
    }
    if let Some(repair) = dialect(statement) {
        return Some(repair);
    }
    let word = message.strip_prefix("near \"")?.strip_suffix("\": syntax error")?;
    // A keyword may be the first name of a nested field.
    let is_nested = |token: &&str| {
        token.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
            && token[word.len()..].starts_with('.')
    };
    let mut tokens = statement.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'));
    if let Some(nested) = tokens.find(is_nested) {
        return repair_column(paths, statement, nested);
    }
    // SQLite may notice a keyword only at the next word, as in `max(order)`.
    let mut keywords = paths.top().filter(|name| {
        name.eq_ignore_ascii_case(word)
            || KEYWORDS.iter().any(|keyword| name.eq_ignore_ascii_case(keyword))
    });
    keywords.find_map(|name| replace(statement, name, &quoted(name), Clause::Skip))
}

/// The statement with `column` replaced by a similar name.
pub(crate) fn with_column(statement: &str, message: &str, name: &str) -> Option<Repair> {
    let column = message.strip_prefix("no such column: ")?;
    let column = column.split(" - ").next().unwrap_or(column);
    let name = if is_plain(name) { name.to_owned() } else { quoted(name) };
    replace(statement, column, &name, Clause::Replace)
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
    replace(statement, column, &expression(path)?, Clause::Replace)
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
    replace(statement, column, new, Clause::Replace)
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
    replace(statement, column, &expression(path)?, Clause::Replace)
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
    replace(statement, column, &format!("'{text}'"), Clause::Replace)
}

/// Corrects words of other dialects: `TOP 10`, `FETCH FIRST 10 ROWS ONLY`, `ILIKE`, `x::type`, and a
/// reference or a keyword in place of the table.
fn dialect(statement: &str) -> Option<Repair> {
    let tokens = tokens(statement);
    let words: Vec<(usize, &str)> =
        tokens.iter().copied().enumerate().filter(|(_, token)| !token.trim().is_empty()).collect();
    let is = |at: usize, word: &str| {
        words.get(at).is_some_and(|(_, token)| token.eq_ignore_ascii_case(word))
    };
    let number = |at: usize| {
        words.get(at).map(|(_, token)| *token).filter(|t| t.bytes().all(|b| b.is_ascii_digit()))
    };
    // The text of the tokens in a range of words.
    let text = |from: usize, to: usize| {
        let end = words.get(to).map_or(tokens.len(), |(at, _)| *at);
        words.get(from).map_or(String::new(), |(at, _)| tokens[*at..end].concat())
    };
    let repair = |text: String, old: String, new: String| {
        Some(Repair { text, change: (old.trim().to_owned(), new) })
    };
    for at in 0..words.len() {
        if is(at, "top") && at > 0 && (is(at - 1, "select") || is(at - 1, "distinct")) {
            let open = usize::from(is(at + 1, "("));
            let count = number(at + 1 + open)?;
            let rest = text(at + 2 + 2 * open, words.len());
            let rest = rest.trim_end().trim_end_matches(';').to_owned();
            let corrected = format!("{}{rest} LIMIT {count}", text(0, at));
            return repair(corrected, text(at, at + 2 + 2 * open), format!("LIMIT {count}"));
        }
        if is(at, "fetch") && (is(at + 1, "first") || is(at + 1, "next")) {
            let count = number(at + 2)?;
            let corrected = format!("{}LIMIT {count}", text(0, at));
            return repair(corrected, text(at, words.len()), format!("LIMIT {count}"));
        }
        if is(at, "~") {
            return replace(statement, "~", "REGEXP", Clause::Replace);
        }
        if is(at, "ilike") {
            return replace(statement, words[at].1, "LIKE", Clause::Replace);
        }
        if is(at, ":") && is(at + 1, ":") && words.len() > at + 2 {
            let corrected = format!("{}{}", text(0, at).trim_end(), text(at + 3, words.len()));
            let separated = format!("{} {}", text(0, at).trim_end(), text(at + 3, words.len()));
            let joins = text(at + 3, words.len()).starts_with([',', ')', ';', '=', '<', '>']);
            let corrected = if joins { corrected } else { separated };
            return repair(corrected, text(at, at + 3), String::new());
        }
        let is_table = is(at, "from") || is(at, "join");
        if is_table && (is(at + 1, "lro") || is(at + 1, "table")) {
            let end = if is(at + 2, ":") { at + 4 } else { at + 2 };
            let corrected = format!("{}results {}", text(0, at + 1), text(end, words.len()));
            return repair(corrected, text(at + 1, end), "results".to_owned());
        }
    }
    None
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Divides a statement into strings, quoted names, words, white space and other characters.
fn tokens(statement: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let mut tokens = Vec::new();
    let mut rest = statement;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '\'' | '"' | '`' => quoted_end(rest, first),
            c if is_word(c) => rest.find(|c: char| !is_word(c)).unwrap_or(rest.len()),
            c if c.is_whitespace() => rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after;
    }
    tokens
}

/// What happens to a word that begins a clause, such as `ORDER` in `ORDER BY`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clause {
    Replace,
    Skip,
}

/// Replaces `old` in `statement` wherever it is a whole name outside strings. A name that ends with a
/// parenthesis is a function.
fn replace(statement: &str, old: &str, new: &str, clause: Clause) -> Option<Repair> {
    let all = tokens(statement);
    let (name, is_call) = match old.strip_suffix('(') {
        Some(name) => (name, true),
        None => (old, false),
    };
    let mut out = String::new();
    let mut changed = false;
    let mut tokens = all.iter().enumerate().peekable();
    while let Some((at, token)) = tokens.next() {
        let next = all[at + 1..].iter().find(|token| !token.trim().is_empty());
        let begins_clause =
            clause == Clause::Skip && next.is_some_and(|next| next.eq_ignore_ascii_case("by"));
        let is_string = token.starts_with('\'');
        let is_name = !is_string && token.eq_ignore_ascii_case(name) && !begins_clause;
        if !is_name || (is_call && all.get(at + 1) != Some(&"(")) {
            out.push_str(token);
            continue;
        }
        changed = true;
        out.push_str(new);
        if is_call {
            tokens.next();
        }
    }
    changed.then(|| Repair { text: out, change: (old.to_owned(), new.to_owned()) })
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
        let records = "{\"sha\":\"a\",\"commit\":{\"author\":{\"name\":\"x\",\"e-mail\":\"y\"},\"message\":\"m\"},\"order\":1,\"user\":{\"login\":\"z\"}}\n";
        FieldPaths::read(&Bytes(records.as_bytes()), 0).unwrap()
    }

    fn repaired(statement: &str, message: &str) -> Option<String> {
        repair(&paths(), statement, message).map(|repair| repair.text)
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
                "SELECT 0 + strftime('%Y', sha) FROM results",
            ),
        ] {
            assert_eq!(repaired(statement, message).as_deref(), Some(expected), "{statement}");
        }
        assert_eq!(repaired("SELECT \"open\" FROM results", quotes), None);
        let nearest =
            with_column("SELECT titel, 'titel' FROM results", "no such column: titel", "the title");
        assert_eq!(nearest.unwrap().text, "SELECT \"the title\", 'titel' FROM results");
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
