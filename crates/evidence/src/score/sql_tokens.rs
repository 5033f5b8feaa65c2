//! The normalized tokens of an SQL statement.
//!
//! Statements that differ only in case, spaces, quotes of names and aliases have the same tokens.
//! There is no SQL parser in the workspace; SQLite keeps its syntax tree to itself.

/// Operators of several characters, longer ones first, with their normal spelling.
const OPERATORS: [(&str, &str); 8] = [
    ("->>", "->>"),
    ("->", "->"),
    ("<=", "<="),
    (">=", ">="),
    ("<>", "!="),
    ("!=", "!="),
    ("==", "="),
    ("||", "||"),
];

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SqlToken {
    /// The text, in lower case unless it is a literal.
    pub(super) text: String,
    /// Whether it is a value: a string, a number or a parameter.
    pub(super) literal: bool,
}

/// The normalized tokens of a statement.
pub(super) fn tokens(statement: &str) -> Vec<SqlToken> {
    let mut tokens = Vec::new();
    let mut rest = statement;
    while let Some((token, after)) = next_token(rest) {
        rest = after;
        tokens.extend(token);
    }
    without_aliases(tokens)
}

/// The tokens with every literal replaced by the same mark.
pub(super) fn without_literals(tokens: &[SqlToken]) -> Vec<String> {
    let text = |token: &SqlToken| if token.literal { "?" } else { token.text.as_str() }.to_owned();
    tokens.iter().map(text).collect()
}

/// The next token, if it is not a comment or a space, and what follows it.
fn next_token(text: &str) -> Option<(Option<SqlToken>, &str)> {
    let first = text.chars().next()?;
    let plain = |text: &str| Some(SqlToken { text: text.to_lowercase(), literal: false });
    let literal = |text: &str| Some(SqlToken { text: text.to_owned(), literal: true });
    if first.is_whitespace() || first == ';' {
        return Some((None, &text[first.len_utf8()..]));
    }
    if text.starts_with("--") {
        return Some((None, text.split_once('\n').map_or("", |(_, after)| after)));
    }
    if text.starts_with("/*") {
        return Some((None, text.split_once("*/").map_or("", |(_, after)| after)));
    }
    if first == '\'' {
        let (inner, after) = quoted(text, '\'');
        return Some((literal(&format!("'{inner}'")), after));
    }
    if matches!(first, '"' | '`' | '[') {
        let end = if first == '[' { ']' } else { first };
        let (inner, after) = quoted(text, end);
        return Some((plain(&inner), after));
    }
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    if first.is_ascii_digit() {
        let (number, after) = split_while(text, |c| c.is_ascii_alphanumeric() || c == '.');
        return Some((literal(number), after));
    }
    if matches!(first, ':' | '@' | '?' | '$') {
        let (name, after) = split_while(&text[1..], is_name);
        return Some((literal(&format!("{first}{name}")), after));
    }
    if is_name(first) {
        let (name, after) = split_while(text, is_name);
        return Some((plain(name), after));
    }
    for (operator, normal) in OPERATORS {
        if let Some(after) = text.strip_prefix(operator) {
            return Some((plain(normal), after));
        }
    }
    let (symbol, after) = text.split_at(first.len_utf8());
    Some((plain(symbol), after))
}

/// The text between quotes; two closing quotes are one character of it.
fn quoted(text: &str, end: char) -> (String, &str) {
    let mut inner = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character != end {
            inner.push(character);
        } else if characters.next_if(|(_, next)| *next == end).is_some() {
            inner.push(end);
        } else {
            return (inner, &text[at + end.len_utf8()..]);
        }
    }
    (inner, "")
}

fn split_while(text: &str, keep: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !keep(c)).unwrap_or(text.len()))
}

/// Removes `AS name`, but not the type of `CAST(… AS …)`.
fn without_aliases(tokens: Vec<SqlToken>) -> Vec<SqlToken> {
    let mut rest: Vec<SqlToken> = Vec::new();
    let mut depths = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token.text.as_str() {
            "(" => depths.push(rest.last().is_some_and(|before| before.text == "cast")),
            ")" => _ = depths.pop(),
            // `WITH name AS (…)` names a table.
            "as" if !token.literal
                && depths.last() != Some(&true)
                && tokens.peek().is_none_or(|next| next.text != "(") =>
            {
                tokens.next();
                continue;
            }
            _ => {}
        }
        rest.push(token);
    }
    rest
}

/// The part of a statement that says what is asked: the condition, else the grouping or order, else
/// all of it.
pub(super) fn criterion(tokens: &[String]) -> &[String] {
    let position = |word: &str| tokens.iter().position(|token| token == word);
    let end = |from: usize| {
        let ends = |token: &String| matches!(token.as_str(), "group" | "order" | "limit");
        tokens[from..].iter().position(ends).map_or(tokens.len(), |length| from + length)
    };
    if let Some(condition) = position("where") {
        return &tokens[condition + 1..end(condition + 1)];
    }
    let tail = position("group").or_else(|| position("order"));
    &tokens[tail.unwrap_or_default()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank(statement: &str) -> String {
        without_literals(&tokens(statement)).join(" ")
    }

    #[test]
    fn spelling_does_not_matter() {
        let same = "select namespace , count ( * ) from results where a . b = ? group by ?";
        for statement in [
            "SELECT namespace, count(*) FROM results WHERE a.b = 'x' GROUP BY 1;",
            "select \"namespace\", COUNT(*) as n -- all\nfrom [results] where a.b == :x group by 2",
            "SELECT `namespace` , count( * ) /* n */ FROM results WHERE a.b='it''s' GROUP BY 1",
        ] {
            assert_eq!(blank(statement), same);
        }
        assert_ne!(tokens("select 'A'"), tokens("select 'a'"));
    }

    #[test]
    fn types_and_tables_are_kept() {
        assert_eq!(blank("SELECT cast(a AS text) AS b"), "select cast ( a as text )");
        assert_eq!(blank("WITH t AS (SELECT 1)"), "with t as ( select ? )");
    }

    #[test]
    fn the_criterion_is_the_condition() {
        let criterion_of =
            |statement: &str| criterion(&without_literals(&tokens(statement))).join(" ");
        assert_eq!(criterion_of("SELECT * FROM r WHERE a LIKE 'x%' ORDER BY b"), "a like ?");
        assert_eq!(criterion_of("SELECT a, count(*) FROM r GROUP BY a"), "group by a");
        assert_eq!(criterion_of("SELECT * FROM r ORDER BY a DESC"), "order by a desc");
        assert_eq!(criterion_of("SELECT a FROM r"), "select a from r");
    }

    #[test]
    fn unfinished_quotes_end_with_the_text() {
        assert_eq!(blank("select 'a"), "select ?");
        assert_eq!(blank("select \"é"), "select é");
        assert!(tokens("").is_empty());
    }
}
