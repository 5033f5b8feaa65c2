//! Columns of nested fields, as in `"user.login"`.
//!
//! Such a column does not exist in a table. After SQLite refused a statement because of one, each
//! quoted name with dots that begins with a column becomes an expression on that column. So `*` still
//! means the fields of a record, and a field whose own name has a dot comes first.

use std::fmt::Write as _;

use super::Table;
use super::columns::quoted;

/// Rewrites the nested columns in `statement`. `None` if it has none.
pub(super) fn rewrite(statement: &str, tables: &[Table]) -> Option<String> {
    let columns = tables.iter().flat_map(|table| table.columns.names());
    rewrite_names(statement, &columns.map(String::as_str).collect::<Vec<_>>())
}

fn rewrite_names(statement: &str, columns: &[&str]) -> Option<String> {
    let is_column = |name: &str| columns.iter().any(|column| column.eq_ignore_ascii_case(name));
    let mut out = String::new();
    let mut rest = statement;
    let mut changed = false;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '\'' | '"' | '`' => quoted_end(rest, first),
            '[' => rest.find(']').map_or(rest.len(), |end| end + 1),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            other => other.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        rest = after;
        let name = match first {
            '"' | '`' => unquote(token, first),
            '[' => token.strip_prefix('[').and_then(|t| t.strip_suffix(']')).map(str::to_owned),
            _ => None,
        };
        let path = name.filter(|name| !is_column(name) && !is_alias(&out));
        let nested = path.as_deref().and_then(|name| name.split_once('.'));
        match nested.filter(|(column, _)| is_column(column)) {
            Some((column, path)) => {
                // A table name before it belongs to the column.
                let table = take_qualifier(&mut out);
                let path: Vec<String> = path.split('.').map(json_step).collect();
                let path = path.concat().replace('\'', "''");
                // Writing to a String cannot fail.
                let _ = write!(out, "({table}{} ->> '${path}')", quoted(column));
                changed = true;
            }
            None => out.push_str(token),
        }
    }
    changed.then_some(out)
}

/// The name of the column that [`rewrite`] made of `"user.login"`, from the text of its expression.
pub(super) fn label(expression: &str) -> Option<String> {
    let (column, path) = expression.strip_prefix('(')?.strip_suffix("')")?.split_once(" ->> '$")?;
    let column = &column[column.find('"')?..];
    let names: Vec<&str> = path.split('.').skip(1).map(|step| step.trim_matches('"')).collect();
    let plain = column.trim_matches('"');
    let is_simple = column.len() == plain.len() + 2 && !path.contains('[') && !names.is_empty();
    is_simple.then(|| format!("{plain}.{}", names.join(".")).replace("''", "'"))
}

/// Whether the next name is an alias, which a statement may call as it likes.
fn is_alias(before: &str) -> bool {
    let before = before.trim_end();
    let start = before.len().saturating_sub(2);
    before.get(start..).is_some_and(|word| word.eq_ignore_ascii_case("as"))
        && before[..start].ends_with(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Removes `table.` from the end of `out`.
fn take_qualifier(out: &mut String) -> String {
    if !out.ends_with('.') {
        return String::new();
    }
    let name = |c: char| c.is_alphanumeric() || c == '_' || c == '"';
    let start = out[..out.len() - 1]
        .rfind(|c| !name(c))
        .map_or(0, |at| at + out[at..].chars().next().map_or(1, char::len_utf8));
    out.split_off(start)
}

fn json_step(name: &str) -> String {
    if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        format!(".{name}")
    } else {
        format!(".\"{name}\"")
    }
}

fn unquote(token: &str, quote: char) -> Option<String> {
    let inside = token.strip_prefix(quote)?.strip_suffix(quote)?;
    let quote = quote.to_string();
    Some(inside.replace(&quote.repeat(2), &quote))
}

/// The end of the string or quoted name at the beginning of `text`.
fn quoted_end(text: &str, quote: char) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return at + quote.len_utf8();
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g18_quoted_paths_become_expressions_on_their_column() {
        let columns = ["user", "a.b", "commit"];
        for (statement, expected) in [
            (
                r#"SELECT "user.login", r."commit.author.name" FROM results r"#,
                Some(
                    r#"SELECT ("user" ->> '$.login'), (r."commit" ->> '$.author.name') FROM results r"#,
                ),
            ),
            (
                "SELECT [user.login], `user.e-mail` FROM results",
                Some(r#"SELECT ("user" ->> '$.login'), ("user" ->> '$."e-mail"') FROM results"#),
            ),
            (r#"SELECT "a.b", 'user.login' FROM results -- "user.login""#, None),
            (r#"SELECT user AS "user.login" FROM results"#, None),
            (r#"SELECT "other.login" FROM results"#, None),
        ] {
            assert_eq!(rewrite_names(statement, &columns).as_deref(), expected, "{statement}");
        }
    }

    #[test]
    fn g18_the_result_has_the_name_of_the_path() {
        assert_eq!(label(r#"("user" ->> '$.login')"#).as_deref(), Some("user.login"));
        assert_eq!(label(r#"(r."commit" ->> '$.a."e-mail"')"#).as_deref(), Some("commit.a.e-mail"));
        for other in ["user", "count(*)", r#"("a" ->> '$')"#, r#"("a" ->> '$.x[0]')"#, "(1)"] {
            assert_eq!(label(other), None, "{other}");
        }
    }
}
