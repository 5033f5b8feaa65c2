//! Pretty printing that keeps every lexeme as it is.
//!
//! Reading a value and writing it again would round numbers and drop duplicate members.

use std::fmt;

use crate::lexeme::Lexemes;

/// The most levels of indentation; deeper ones would make the text quadratic in its depth.
const MAX_LEVELS: usize = 64;

/// A lexeme and the line breaks around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrettyToken<'a> {
    /// Whether a new line begins before the text.
    pub break_before: bool,
    /// The lexeme. A container that has nothing between its brackets is one token, and a colon has
    /// a space behind it.
    pub text: &'a str,
    /// Whether a new line begins after the text.
    pub break_after: bool,
    /// The nesting depth of the new line.
    pub depth: usize,
}

/// The tokens of pretty-printed JSON.
///
/// Text that is no JSON, or is cut short, loses nothing but white space outside of strings.
#[derive(Debug)]
pub struct PrettyTokens<'a> {
    json: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> PrettyTokens<'a> {
    /// The tokens of `json`.
    pub fn new(json: &'a str) -> Self {
        Self { json, at: 0, depth: 0 }
    }
}

impl<'a> Iterator for PrettyTokens<'a> {
    type Item = PrettyToken<'a>;

    fn next(&mut self) -> Option<PrettyToken<'a>> {
        let mut lexemes = Lexemes(&self.json.as_bytes()[self.at..]);
        let lexeme = lexemes.next()?;
        let mut end = self.json.len() - lexemes.0.len();
        let start = end - lexeme.len();
        let (mut break_before, mut break_after) = (false, false);
        match lexeme[0] {
            b'{' | b'[' if matches!(lexemes.0.first(), Some(b'}' | b']')) => end += 1,
            b'{' | b'[' => {
                self.depth += 1;
                break_after = true;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                break_before = true;
            }
            b',' => break_after = true,
            _ => {}
        }
        self.at = end;
        // Lexemes begin and end at ASCII bytes or at the ends of the text.
        let text = if lexeme == b":" { ": " } else { &self.json[start..end] };
        Some(PrettyToken { break_before, text, break_after, depth: self.depth })
    }
}

/// Writes `json` over several lines, indented by two spaces a level, up to a depth.
pub fn write_pretty(json: &str, out: &mut impl fmt::Write) -> fmt::Result {
    for token in PrettyTokens::new(json) {
        if token.break_before {
            write_line_break(token.depth, out)?;
        }
        out.write_str(token.text)?;
        if token.break_after {
            write_line_break(token.depth, out)?;
        }
    }
    Ok(())
}

fn write_line_break(depth: usize, out: &mut impl fmt::Write) -> fmt::Result {
    out.write_char('\n')?;
    std::iter::repeat_n("  ", depth.min(MAX_LEVELS)).try_for_each(|level| out.write_str(level))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pretty(json: &str) -> String {
        let mut out = String::new();
        write_pretty(json, &mut out).unwrap();
        out
    }

    #[test]
    fn every_lexeme_stays() {
        let json = r#"{"a":[149.90, 1e400 ,{}],"b":{"a\"}":"x, \\ é","a":[]},"c":[[]]}"#;
        let expected = r#"{
  "a": [
    149.90,
    1e400,
    {}
  ],
  "b": {
    "a\"}": "x, \\ é",
    "a": []
  },
  "c": [
    []
  ]
}"#;
        assert_eq!(pretty(json), expected);
    }

    #[test]
    fn a_deep_document_stays_small() {
        let depth = 100_000;
        let json = "[".repeat(depth) + &"]".repeat(depth);
        assert!(pretty(&json).len() < json.len() * (2 * MAX_LEVELS + 2));
    }

    #[test]
    fn text_cut_short_keeps_its_strings() {
        assert_eq!(pretty(r#"["say \"a, b"#), "[\n  \"say \\\"a, b");
        assert_eq!(pretty("]] x"), "\n]\n]x");
        assert_eq!(pretty("[ ]"), "[\n  \n]");
    }

    proptest! {
        #[test]
        fn nothing_but_white_space_changes(text in "[\\[{\"\\\\a:, \n字\\]}]{0,30}") {
            let plain = |text: &str| text.replace([' ', '\n'], "");
            prop_assert_eq!(plain(&pretty(&text)), plain(&text));
        }
    }
}
