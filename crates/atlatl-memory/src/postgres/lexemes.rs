//! Lexemes: words in the form that the index takes, and questions in its language.

use std::collections::BTreeMap;
use std::fmt::Write;

use mif::Memory;

use super::tsquery::{cut, words};
use crate::search::query::{Need, Phrase, Terms};

/// The last place that a word can have in the index.
const PLACES: u16 = 16_383;
/// As many places as one word can have.
const MOST_PLACES: usize = 255;
/// Bytes that the index takes of one memory.
const MOST_BYTES: usize = (1 << 20) - 1;
/// What the words of a memory begin with that has too many for their places, where others have the
/// tenant's mark. It is as short as what stood between two words in the text: so they all fit.
const UNORDERED: &str = "~";

/// The words of a memory.
#[derive(Debug)]
pub(super) struct Indexed {
    /// What the index takes.
    pub(super) words: String,
    /// How many words.
    pub(super) length: i32,
}

/// What every word of a tenant begins with, so that the index is by tenant without an extension. Two
/// tenants may have the same mark; the rows say whose they are.
pub(super) fn mark(tenant: &str) -> String {
    let hash = tenant
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let letters = b"0123456789abcdefghijklmnopqrstuv";
    [0, 5, 10, 15].map(|shift| char::from(letters[(hash >> shift & 31) as usize])).iter().collect()
}

/// Puts the words of `memory` in order. Of one with very many words only is known which they are.
pub(super) fn index(mark: &str, memory: &Memory) -> Indexed {
    let mut places: BTreeMap<String, Vec<(u16, char)>> = BTreeMap::new();
    let (mut place, mut length, mut long) = (0_u16, 0_i32, false);
    let tags = memory.tags().join(" ");
    let fields =
        [(memory.title.as_deref().unwrap_or(""), 'A'), (&tags, 'B'), (&memory.content, 'D')];
    for (text, weight) in fields {
        for word in words(text) {
            place = (place + 1).min(PLACES);
            length = length.saturating_add(1);
            let of_word = places.entry(word).or_default();
            long |= place == PLACES || of_word.len() == MOST_PLACES;
            if !long {
                of_word.push((place, weight));
            }
        }
        // No phrase goes from one field into the next.
        place = (place + 1).min(PLACES);
    }
    // Their number and a byte to even things out are kept before the places, two bytes each.
    let bytes = places.iter().map(|(word, places)| mark.len() + word.len() + 3 + 2 * places.len());
    long |= bytes.sum::<usize>() > MOST_BYTES;
    let mut words = String::new();
    let mut left = MOST_BYTES;
    for (word, places) in &places {
        let (mark, places) = if long { (UNORDERED, &[][..]) } else { (mark, &places[..]) };
        // Only scripts without spaces can be more, with half a million different pairs.
        let Some(rest) = left.checked_sub(mark.len() + word.len()) else { continue };
        left = rest;
        push_lexeme(&mut words, mark, word);
        for (n, (place, weight)) in places.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(words, "{}{place}{weight}", if n == 0 { ':' } else { ',' });
        }
        words.push(' ');
    }
    Indexed { words, length }
}

fn push_lexeme(out: &mut String, mark: &str, word: &str) {
    out.push('\'');
    out.push_str(mark);
    for letter in word.chars() {
        // A word has neither, as it is cut; if it ever had, it would be quoted here.
        if matches!(letter, '\\' | '\'') {
            out.push(letter);
        }
        out.push(letter);
    }
    out.push('\'');
}

fn lexeme(mark: &str, word: &str) -> String {
    let mut lexeme = String::new();
    push_lexeme(&mut lexeme, mark, word);
    lexeme
}

/// A question in the language of the index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// All of it.
    pub(super) whole: String,
    /// Each phrase.
    pub(super) each: Vec<String>,
    /// Each phrase, for memories of which the order of words is not known.
    pub(super) unordered: Vec<String>,
}

impl Asked {
    /// The question, unless it has no words.
    pub(super) fn from_terms(mark: &str, terms: &Terms) -> Option<Self> {
        let phrases = |mark: &str, with: &str| -> Vec<String> {
            terms.phrases.iter().filter_map(|phrase| expression(mark, phrase, with)).collect()
        };
        let (each, unordered) = (phrases(mark, " <-> "), phrases(UNORDERED, " & "));
        let between = match terms.need {
            Need::Any => " | ",
            Need::All => " & ",
        };
        // A memory has all its words in the one form or in the other.
        let whole = format!("({}) | ({})", each.join(between), unordered.join(between));
        (!each.is_empty()).then_some(Self { whole, each, unordered })
    }
}

fn expression(mark: &str, phrase: &Phrase, with: &str) -> Option<String> {
    // They are in pairs already.
    let words: Vec<String> = cut(&phrase.words).collect();
    let last = words.len().checked_sub(1)?;
    let quoted = words.iter().enumerate().map(|(n, word)| {
        let open = if phrase.prefix && n == last { ":*" } else { "" };
        lexeme(mark, word) + open
    });
    Some(format!("({})", quoted.collect::<Vec<_>>().join(with)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(content: &str) -> Memory {
        let json = r#"{"id":"00000000-0000-0000-0000-000000000001","memory_type":"semantic",
            "content":"x","title":"Two words","tags":["one","two"],"created":"2026-01-01T00:00:00Z"}"#;
        let mut memory = Memory::from_json(json).expect("valid");
        content.clone_into(&mut memory.content);
        memory
    }

    #[test]
    fn fields_have_weights_and_a_gap_between_them() {
        let Indexed { words, length } = index("m", &memory("two it's"));
        assert_eq!(words, "'mit':8D 'mon':4B 'ms':9D 'mtwo':1A,5B,7D 'mword':2A ");
        assert_eq!(length, 7);
    }

    #[test]
    fn whatever_is_long_fits_into_the_index() {
        let many: Vec<String> = (0..150_000).map(|n| format!("{n}")).collect();
        let many = index("m", &memory(&many.join(" "))).words;
        assert!(many.contains("'~149999' "), "no word is lost");
        assert!(many.contains("'~two' "), "nor those of the title");
        let same = index("m", &memory(&"same ".repeat(100_000)));
        assert_eq!((same.words.as_str(), same.length), ("'~on' '~same' '~two' '~word' ", 100_004));
        let wide: Vec<String> = (0..10_000).map(|n| format!("{n:0103}")).collect();
        assert!(index("m", &memory(&wide.join(" "))).words.contains('~'));
        let han: String = (0..340_000_u32)
            .filter_map(|n| char::from_u32(0x4e00 + n.wrapping_mul(2_654_435_761) % 20_000))
            .collect();
        let quotes =
            |words: &str| words.bytes().filter(|byte| matches!(byte, b'\'' | b' ')).count();
        let words = index("m", &memory(&han)).words;
        assert!(words.len() - quotes(&words) <= MOST_BYTES);
    }

    #[test]
    fn questions_are_quoted_words_and_what_joins_them() {
        let asked = |text, need| Asked::from_terms("m", &Terms::parse(text, need));
        let all = asked("o'neil deployed", Need::All).expect("words");
        assert_eq!(all.each, ["('mo' <-> 'mneil')", "('mdeploi')"]);
        assert_eq!(all.unordered, ["('~o' & '~neil')", "('~deploi')"]);
        let whole = "(('mo' <-> 'mneil') & ('mdeploi')) | (('~o' & '~neil') & ('~deploi'))";
        assert_eq!(all.whole, whole);
        assert_eq!(asked("库", Need::Any).expect("words").whole, "(('m库':*)) | (('~库':*))");
        assert_eq!(asked("& | !", Need::Any), None);
    }

    #[test]
    fn tenants_have_marks() {
        assert_ne!(mark("a"), mark("b"));
        assert_eq!(mark("a").len(), 4);
    }
}
