//! Words: a text cut as both stores cut it. Letters and digits make a word; case and the accents of
//! Latin letters do not count, nor do English endings.
//!
//! `PostgreSQL` could cut text itself, but its parsers know of links, files and numbers with signs,
//! lose what they do not know, and find no words where none are written.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::porter::stem;
use crate::search::query::indexed;

/// A longer word is known by its beginning: the index takes 2046 bytes.
const MAX_WORD_LEN: usize = 255;

/// The words of a text, scripts without spaces in pairs.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    // Collected, since the text in pairs is made here.
    let cut: Vec<String> = cut(&indexed(text)).collect();
    cut.into_iter()
}

/// The words of a text that is in pairs already.
pub(super) fn cut(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric() && !is_combining_mark(c))
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .map(|word| stem(shortened(plain(word))))
        .filter(|word| !word.is_empty())
}

/// Without case and accents. Marks on other letters stay: there they make another letter.
fn plain(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    let mut on_latin = false;
    let is_bare = |c: &char| {
        let accent = matches!(c, '\u{300}'..='\u{36f}');
        on_latin = if accent { on_latin } else { c.is_ascii_alphabetic() };
        !(accent && on_latin)
    };
    word.nfd().filter(is_bare).nfc().flat_map(char::to_lowercase).collect()
}

fn shortened(mut word: String) -> String {
    if word.len() > MAX_WORD_LEN {
        let end = (0..=MAX_WORD_LEN).rev().find(|&end| word.is_char_boundary(end)).unwrap_or(0);
        word.truncate(end);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_are_no_accents_stay() {
        assert_eq!(words("हिन्दी CAFÉ").collect::<Vec<_>>(), ["हिन्दी", "cafe"]);
        let thai: Vec<String> = words("ข้อ").collect();
        assert_eq!(thai[0], "ข้");
    }

    #[test]
    fn a_word_without_an_end_is_cut_between_characters() {
        let long: Vec<String> = words(&"é".repeat(5000)).collect();
        assert_eq!(long, ["e".repeat(255)]);
        let long: Vec<String> = words(&"ж".repeat(5000)).collect();
        assert_eq!(long, ["ж".repeat(127)]);
    }
}
