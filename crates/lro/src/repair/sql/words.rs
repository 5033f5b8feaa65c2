//! The words of a statement, outside its strings.

use std::ops::Range;

use super::super::{Repair, quoted_end};

/// A statement, divided into words and the white space between them.
pub(super) struct Words<'a> {
    tokens: Vec<&'a str>,
    /// The indices of the tokens that are not white space.
    words: Vec<usize>,
}

impl<'a> Words<'a> {
    pub(super) fn new(statement: &'a str) -> Self {
        let tokens = tokens(statement);
        let words = (0..tokens.len()).filter(|at| !tokens[*at].trim().is_empty()).collect();
        Self { tokens, words }
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// The word at `at`; empty behind the last one.
    pub(super) fn get(&self, at: usize) -> &'a str {
        self.words.get(at).map_or("", |token| self.tokens[*token])
    }

    pub(super) fn is(&self, at: usize, word: &str) -> bool {
        self.get(at).eq_ignore_ascii_case(word)
    }

    pub(super) fn is_any(&self, at: usize, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(at, word))
    }

    /// The text from the word at `from` up to the word at `to`, with the white space before that.
    pub(super) fn text(&self, from: usize, to: usize) -> String {
        let end = self.words.get(to).map_or(self.tokens.len(), |token| *token);
        self.words.get(from).map_or_else(String::new, |start| self.tokens[*start..end].concat())
    }

    /// The statement with the words from `from` to `to`, without the latter, replaced by `new`.
    pub(super) fn replaced(&self, from: usize, to: usize, new: &str) -> Repair {
        let old = self.text(from, to);
        // The white space behind the last word stays.
        let space = &old[old.trim_end().len()..];
        let start = self.words.get(from).map_or(self.tokens.len(), |token| *token);
        let text =
            format!("{}{new}{space}{}", self.tokens[..start].concat(), self.text(to, self.len()));
        Repair { text, change: (old.trim_end().to_owned(), new.to_owned()) }
    }

    /// The parenthesis that closes the one at `open`.
    pub(super) fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_u32;
        for at in open..self.len() {
            match self.get(at) {
                "(" => depth += 1,
                ")" if depth == 1 => return Some(at),
                ")" => depth -= 1,
                _ => {}
            }
        }
        None
    }

    /// The words of the tables: from the one behind `FROM` up to the next clause.
    pub(super) fn tables(&self) -> Option<Range<usize>> {
        let begin = self.find(0, &["from"])? + 1;
        let clauses = ["where", "group", "order", "limit", "having", ";"];
        Some(begin..self.find(begin, &clauses).unwrap_or(self.len()))
    }

    /// Whether these words are one table: `table`, `table alias` or `table AS alias`.
    pub(super) fn is_one_table(&self, tables: &Range<usize>) -> bool {
        let text = self.text(tables.start, tables.end);
        tables.len() <= 3 && !text.contains([',', '(']) && !self.is(tables.start + 1, "join")
    }

    /// The first word of `words` from `from` on that is outside parentheses.
    pub(super) fn find(&self, from: usize, words: &[&str]) -> Option<usize> {
        let mut at = from;
        while at < self.len() {
            if self.is(at, "(") {
                at = self.closing(at)?;
            } else if self.is_any(at, words) {
                return Some(at);
            }
            at += 1;
        }
        None
    }
}

/// Divides a statement into strings, quoted names, words, white space and other characters.
pub(super) fn tokens(statement: &str) -> Vec<&str> {
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
pub(super) enum Clause {
    Replace,
    Skip,
}

/// Replaces the name `old` in `statement` wherever it is a whole word outside strings.
pub(super) fn replace_name(
    statement: &str,
    old: &str,
    new: &str,
    clause: Clause,
) -> Option<Repair> {
    let all = tokens(statement);
    let mut out = String::new();
    let mut changed = false;
    for (at, token) in all.iter().enumerate() {
        let next = all[at + 1..].iter().find(|token| !token.trim().is_empty());
        let begins_clause =
            clause == Clause::Skip && next.is_some_and(|next| next.eq_ignore_ascii_case("by"));
        if !token.starts_with('\'') && token.eq_ignore_ascii_case(old) && !begins_clause {
            changed = true;
            out.push_str(new);
        } else {
            out.push_str(token);
        }
    }
    changed.then(|| Repair { text: out, change: (old.to_owned(), new.to_owned()) })
}
