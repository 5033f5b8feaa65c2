//! Splits text into the pieces that the o200k encoding treats one by one.
//!
//! The encoding prescribes the split as a regular expression. At each position the first of these
//! alternatives that matches is a piece:
//!
//! 1. `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
//! 2. `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
//! 3. `\p{N}{1,3}`
//! 4. ` ?[^\s\p{L}\p{N}]+[\r\n/]*`
//! 5. `\s*[\r\n]+`
//! 6. `\s+(?!\S)`
//! 7. `\s+`
//!
//! Written out by hand it takes no automaton, which would be built at run time and kept.

/// Characters by what the expression makes of them; `build/classes.rs` has the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// None of the following.
    Other,
    /// `\p{Lu}` and `\p{Lt}`.
    Upper,
    /// `\p{Ll}`.
    Lower,
    /// `\p{Lm}` and `\p{Lo}`.
    Letter,
    /// `\p{M}`.
    Mark,
    /// `\p{N}`.
    Number,
    /// `\s` without line breaks.
    Space,
    /// `[\r\n]`.
    LineBreak,
}

impl Class {
    /// By their number.
    const ALL: [Self; 8] = [
        Self::Other,
        Self::Upper,
        Self::Lower,
        Self::Letter,
        Self::Mark,
        Self::Number,
        Self::Space,
        Self::LineBreak,
    ];

    fn from_char(character: char) -> Self {
        const BLOCK: usize = 128;
        static INDEX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classes.index"));
        static BLOCKS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classes.blocks"));
        let code = character as usize;
        let block = usize::from(INDEX[code / BLOCK]);
        Self::ALL[usize::from(BLOCKS[block * BLOCK + code % BLOCK])]
    }

    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
    fn starts_word(self) -> bool {
        matches!(self, Self::Upper | Self::Letter | Self::Mark)
    }

    /// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
    fn continues_word(self) -> bool {
        matches!(self, Self::Lower | Self::Letter | Self::Mark)
    }

    /// `[^\r\n\p{L}\p{N}]`
    fn precedes_word(self) -> bool {
        matches!(self, Self::Other | Self::Mark | Self::Space)
    }

    /// `[^\s\p{L}\p{N}]`
    fn is_symbol(self) -> bool {
        matches!(self, Self::Other | Self::Mark)
    }

    /// `\s`
    fn is_space(self) -> bool {
        matches!(self, Self::Space | Self::LineBreak)
    }
}

/// The pieces of a text, in order and without gaps.
#[derive(Debug)]
pub(super) struct Pieces<'t> {
    rest: &'t str,
}

impl<'t> Pieces<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { rest: text }
    }
}

impl<'t> Iterator for Pieces<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let text = self.rest;
        let first = text.chars().next()?;
        let (piece, rest) = text.split_at(piece_len(text, first));
        self.rest = rest;
        Some(piece)
    }
}

/// The length of the piece that `text` begins with.
fn piece_len(text: &str, first: char) -> usize {
    let class = Class::from_char(first);
    let after = first.len_utf8();
    let prefix = class.precedes_word().then_some(after);
    // Alternatives 1 and 2, each with the optional character before the word, then without.
    let word = prefix.and_then(|at| word_end(text, at));
    let word = word.or_else(|| word_end(text, 0));
    let upper = || prefix.and_then(|at| upper_end(text, at)).or_else(|| upper_end(text, 0));
    if let Some(end) = word.or_else(upper) {
        return end + contraction_len(&text[end..]);
    }
    if class == Class::Number {
        return text
            .char_indices()
            .take(3)
            .take_while(|(_, c)| Class::from_char(*c) == Class::Number)
            .fold(0, |_, (at, c)| at + c.len_utf8());
    }
    let symbols = if first == ' ' { after } else { 0 };
    let end = run_end(text, symbols, Class::is_symbol);
    if end > symbols {
        return end + text[end..].bytes().take_while(|byte| b"\r\n/".contains(byte)).count();
    }
    space_len(text)
}

/// Alternative 1 from `at` on, without the contraction.
fn word_end(text: &str, at: usize) -> Option<usize> {
    // Greedy and backtracking: the characters of both sets that the first set took are given back
    // one by one until the second set has one.
    let mut given_back = None;
    for (offset, character) in text[at..].char_indices() {
        let class = Class::from_char(character);
        if !class.starts_word() {
            if class.continues_word() {
                return Some(run_end(text, at + offset, Class::continues_word));
            }
            break;
        }
        if class.continues_word() {
            given_back = Some(at + offset + character.len_utf8());
        }
    }
    given_back
}

/// Alternative 2 from `at` on, without the contraction, where alternative 1 does not match.
fn upper_end(text: &str, at: usize) -> Option<usize> {
    Some(run_end(text, at, Class::starts_word)).filter(|end| *end > at)
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
fn contraction_len(text: &str) -> usize {
    let Some(rest) = text.strip_prefix('\'') else { return 0 };
    let mut letters = rest.chars();
    match (letters.next(), letters.next()) {
        (Some('s' | 'S' | 't' | 'T' | 'm' | 'M' | 'd' | 'D'), _) => 2,
        // U+017F is a lower case of S.
        (Some('\u{17f}'), _) => 1 + '\u{17f}'.len_utf8(),
        (Some('r' | 'R' | 'v' | 'V'), Some('e' | 'E')) | (Some('l' | 'L'), Some('l' | 'L')) => 3,
        _ => 0,
    }
}

/// Alternatives 5 to 7.
fn space_len(text: &str) -> usize {
    let end = run_end(text, 0, Class::is_space);
    let run = &text[..end];
    if let Some(line_break) = run.rfind(['\r', '\n']) {
        return line_break + 1;
    }
    let last = run.chars().next_back().map_or(0, char::len_utf8);
    // The last of several spaces belongs to what follows.
    if end == text.len() || end == last { end } else { end - last }
}

/// Where the run of characters from `at` on ends that all satisfy `belongs`.
fn run_end(text: &str, at: usize, belongs: impl Fn(Class) -> bool) -> usize {
    let run =
        text[at..].char_indices().find(|(_, character)| !belongs(Class::from_char(*character)));
    run.map_or(text.len(), |(offset, _)| at + offset)
}
