//! Corrects typical mistakes in SQL statements: nested fields, and fields named like keywords.
//!
//! A model that guesses a name should not need a second call. A statement is changed only outside its
//! strings and quoted names, only after SQLite refused it, and the reply says what was changed.

use lro_json::{Members, decode};
use lro_spool::{PositionedRead, SpoolError};

/// The bytes of the first records that are read for their field names.
const HEAD_BYTES: usize = 256 * 1024;
/// The depth of field names.
const MAX_DEPTH: usize = 5;
/// The number of field names.
const MAX_PATHS: usize = 2000;

/// Keywords that are usual names of fields, and begin a clause only before `BY` if at all.
const KEYWORDS: [&str; 8] =
    ["order", "group", "index", "table", "default", "check", "references", "transaction"];

/// The fields of the first records: paths of names.
pub(crate) struct FieldPaths(Vec<Vec<String>>);

/// A corrected statement, and what was changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repair {
    pub(crate) statement: String,
    /// The text before and after: both are from the query and from field names.
    pub(crate) change: (String, String),
}

impl FieldPaths {
    /// Reads the names from the first of the record lines, which begin at `begin`.
    pub(crate) fn read(records: &dyn PositionedRead, begin: u64) -> Result<Self, SpoolError> {
        let mut head = vec![0; HEAD_BYTES];
        let mut filled = 0;
        while filled < head.len() {
            match records.read_at(begin + filled as u64, &mut head[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        let mut paths = Self(Vec::new());
        // The last line may be incomplete; its first members are still good.
        for line in head[..filled].split(|byte| *byte == b'\n') {
            paths.add(line, &mut Vec::new());
        }
        Ok(paths)
    }

    fn add(&mut self, json: &[u8], path: &mut Vec<String>) {
        if path.len() == MAX_DEPTH || self.0.len() >= MAX_PATHS {
            return;
        }
        for (name, value) in Members::new(json).into_iter().flatten().map_while(Result::ok) {
            let Some(name) = decode(name) else { continue };
            path.push(name.into_owned());
            if !self.0.contains(path) {
                self.0.push(path.clone());
            }
            self.add(value, path);
            path.pop();
        }
    }

    /// The only path that ends with `names`, ignoring case; the shortest if one is a prefix of the
    /// others in length.
    fn ending_with(&self, names: &[&str]) -> Option<&[String]> {
        let mut ending: Vec<&Vec<String>> = self
            .0
            .iter()
            .filter(|path| {
                path.len() >= names.len()
                    && path[path.len() - names.len()..]
                        .iter()
                        .zip(names)
                        .all(|(name, wanted)| name.eq_ignore_ascii_case(wanted))
            })
            .collect();
        ending.sort_by_key(|path| path.len());
        match ending.as_slice() {
            [only] => Some(only),
            [first, second, ..] if first.len() < second.len() => Some(first),
            _ => None,
        }
    }

    /// Corrects `statement`, which SQLite refused with `message`.
    pub(crate) fn repair(&self, statement: &str, message: &str) -> Option<Repair> {
        if let Some(column) = message.strip_prefix("no such column: ") {
            let column = column.split(" - ").next().unwrap_or(column);
            return self.repair_column(statement, column);
        }
        let word = message.strip_prefix("near \"")?.strip_suffix("\": syntax error")?;
        // A keyword may be the first name of a nested field.
        let is_nested = |token: &&str| {
            token.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
                && token[word.len()..].starts_with('.')
        };
        let mut tokens = statement.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'));
        if let Some(nested) = tokens.find(is_nested) {
            return self.repair_column(statement, nested);
        }
        // SQLite may notice a keyword only at the next word, as in `max(order)`.
        let fields = self.0.iter().filter(|path| path.len() == 1).map(|path| &path[0]);
        let mut keywords = fields.filter(|name| {
            name.eq_ignore_ascii_case(word)
                || KEYWORDS.iter().any(|keyword| name.eq_ignore_ascii_case(keyword))
        });
        keywords.find_map(|name| replace(statement, name, &quoted(name), Clause::Skip))
    }

    /// Writes a nested field as an expression on its column.
    fn repair_column(&self, statement: &str, column: &str) -> Option<Repair> {
        let names: Vec<&str> = column.split('.').map(|name| name.trim_matches('"')).collect();
        let without_table = match names.as_slice() {
            ["results", rest @ ..] if !rest.is_empty() => rest,
            all => all,
        };
        let path = self.ending_with(without_table)?;
        let (first, inner) = path.split_first()?;
        let plain = |name: &String| {
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        let correct = if inner.is_empty() {
            quoted(first)
        } else {
            let steps: Vec<String> = inner
                .iter()
                .map(|name| if plain(name) { format!(".{name}") } else { format!(".\"{name}\"") })
                .collect();
            let steps = steps.concat().replace('\'', "''");
            format!("({} ->> '${steps}')", quoted(first))
        };
        replace(statement, column, &correct, Clause::Replace)
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// What happens to a word that begins a clause, such as `ORDER` in `ORDER BY`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clause {
    Replace,
    Skip,
}

/// Replaces `old` in `statement` wherever it is a whole name outside strings.
fn replace(statement: &str, old: &str, new: &str, clause: Clause) -> Option<Repair> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let mut out = String::new();
    let mut rest = statement;
    let mut changed = false;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '\'' => quoted_end(rest, '\''),
            '"' => {
                let end = quoted_end(rest, '"');
                // The name itself may be quoted.
                if old == &rest[..end] {
                    changed = true;
                    out.push_str(new);
                    rest = &rest[end..];
                    continue;
                }
                end
            }
            c if is_word(c) => rest.find(|c: char| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        let begins_clause = clause == Clause::Skip
            && after.trim_start().get(..2).is_some_and(|next| next.eq_ignore_ascii_case("by"));
        if token.eq_ignore_ascii_case(old) && !begins_clause {
            changed = true;
            out.push_str(new);
        } else {
            out.push_str(token);
        }
        rest = after;
    }
    changed.then(|| Repair { statement: out, change: (old.to_owned(), new.to_owned()) })
}

/// The end of a string or quoted name at the beginning of `text`.
fn quoted_end(text: &str, quote: char) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((i, c)) = chars.next() {
        if c == quote {
            if chars.peek().is_some_and(|(_, next)| *next == quote) {
                chars.next();
            } else {
                return i + c.len_utf8();
            }
        }
    }
    text.len()
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
        paths().repair(statement, message).map(|repair| repair.statement)
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
    fn an_unknown_table_is_named() {
        assert_eq!(unknown_table("no such table: Commits").as_deref(), Some("commits"));
        assert_eq!(unknown_table("no such column: x"), None);
    }
}
