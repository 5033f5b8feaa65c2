//! A column beside an aggregate without `GROUP BY`: SQLite takes it from any of the rows.

use super::super::Repair;
use super::words::Words;

/// Aggregates beside which a column is from any row. Beside `min` and `max` it is from the row with that
/// value.
const AGGREGATES: [&str; 7] =
    ["count", "sum", "avg", "total", "group_concat", "json_group_array", "string_agg"];

/// Adds `GROUP BY` with the columns of a statement that selects columns and aggregates.
pub(crate) fn group_by(statement: &str) -> Option<Repair> {
    let words = Words::new(statement);
    if !words.is(0, "select") {
        return None;
    }
    let from = words.find(1, &["from"])?;
    let behind = words.find(from, &["group", "union", "intersect", "except", "window"]);
    if behind.is_some() || (1..from).any(|at| words.is_any(at, &["over", "min", "max"])) {
        return None;
    }
    let mut columns = Vec::new();
    let mut has_aggregate = false;
    let mut at = 1;
    while at < from {
        let end = words.find(at, &[",", "from"])?;
        if let Some(column) = column(&words, at, end) {
            columns.push(column);
        } else if words.is_any(at, &AGGREGATES) && words.is(at + 1, "(") {
            has_aggregate = true;
        } else {
            return None;
        }
        at = end + 1;
    }
    if columns.is_empty() || !has_aggregate {
        return None;
    }
    let clause = format!("GROUP BY {}", columns.join(", "));
    let end = words.find(from, &["having", "order", "limit", ";"]).unwrap_or(words.len());
    let before = words.text(0, end);
    let rest = words.text(end, words.len());
    let text = format!("{} {clause} {rest}", before.trim_end());
    Some(Repair { text: text.trim_end().to_owned(), change: (String::new(), clause) })
}

/// The column of `column`, `column alias` or `column AS alias`.
fn column<'a>(words: &Words<'a>, at: usize, end: usize) -> Option<&'a str> {
    let name = words.get(at);
    let is_name = |word: &str| {
        word.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '"' || c == '`')
    };
    let has_alias = match end - at {
        1 => true,
        2 => is_name(words.get(at + 1)),
        3 => words.is(at + 1, "as") && is_name(words.get(at + 2)),
        _ => false,
    };
    (has_alias && is_name(name) && !words.is_any(at, &["distinct", "all"])).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g18_columns_beside_an_aggregate_are_grouped() {
        for (statement, expected) in [
            (
                "SELECT type, COUNT(*) FROM events",
                "SELECT type, COUNT(*) FROM events GROUP BY type",
            ),
            (
                "SELECT \"a.b\" AS x, c, sum(n) s FROM results WHERE n > 1 ORDER BY s DESC LIMIT 3;",
                "SELECT \"a.b\" AS x, c, sum(n) s FROM results WHERE n > 1 GROUP BY \"a.b\", c ORDER BY s DESC LIMIT 3;",
            ),
        ] {
            let text = group_by(statement).map(|repair| repair.text);
            assert_eq!(text.as_deref(), Some(expected));
        }
    }

    #[test]
    fn g18_other_statements_are_left_alone() {
        for statement in [
            "SELECT type, COUNT(*) FROM events GROUP BY type",
            "SELECT COUNT(*) FROM events",
            "SELECT type FROM events",
            "SELECT id, max(n) FROM events",
            "SELECT id, count(*) OVER () FROM events",
            "SELECT DISTINCT type, count(*) FROM events",
            "SELECT lower(type), COUNT(*) FROM events",
            "SELECT (SELECT count(*) FROM b), a FROM events",
            "WITH x AS (SELECT a, count(*) FROM b) SELECT * FROM x",
        ] {
            assert_eq!(group_by(statement), None, "{statement}");
        }
    }
}
