//! Pattern: what is searched for, case ignored.

use regex::bytes::{Regex, RegexBuilder};

use crate::rows::{Content, MAX_LINE_LEN};
use crate::text::unescape;

/// The largest automaton that is built for what a person typed.
const MOST_BYTES: usize = 1 << 20;

/// A regular expression, or plain text where it is none.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) typed: String,
    regex: Regex,
}

impl Pattern {
    /// What was typed; nothing where even as plain text it is too long.
    pub(crate) fn new(typed: &str) -> Option<Self> {
        let build = |pattern: &str| {
            RegexBuilder::new(pattern)
                .case_insensitive(true)
                .size_limit(MOST_BYTES)
                .dfa_size_limit(MOST_BYTES)
                .build()
                .ok()
        };
        let regex = build(typed).or_else(|| build(&regex::escape(typed)))?;
        Some(Self { typed: typed.to_owned(), regex })
    }

    /// Whether it stands in a line: as it is written, or as its escapes are read.
    pub(crate) fn is_in(&self, line: &[u8], content: Content) -> bool {
        self.regex.is_match(line)
            || (content == Content::Records
                && memchr::memchr(b'\\', line).is_some()
                && self.regex.is_match(unescape(line, MAX_LINE_LEN).as_bytes()))
    }

    /// Where it stands in a text that is shown.
    pub(crate) fn places<'a>(
        &'a self,
        text: &'a str,
    ) -> impl Iterator<Item = std::ops::Range<usize>> + 'a {
        let whole = |place: &std::ops::Range<usize>| {
            !place.is_empty()
                && text.is_char_boundary(place.start)
                && text.is_char_boundary(place.end)
        };
        self.regex.find_iter(text.as_bytes()).map(|found| found.range()).filter(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_regular_expression_or_plain_text_without_case() {
        let found = |typed: &str, line: &str| {
            Pattern::new(typed).unwrap().is_in(line.as_bytes(), Content::Records)
        };
        assert!(found("t.o", r#"{"a":"TWO"}"#) && !found("t.o", "to"));
        assert!(found("a(b", "xA(By") && found("[", "["));
        assert!(found("é", r#"{"a":"\u00c9"}"#) && found("say \"hi\"", r#"{"a":"say \"hi\""}"#));
        assert!(Pattern::new("(a{1000}){1000}").is_some_and(|p| p.typed.len() == 15));
    }
}
