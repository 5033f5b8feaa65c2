//! Full-text lexemes: `tsvector` documents and `tsquery` expressions.
//!
//! The words are those of the [tokenizer](crate::search::tokenizer). `PostgreSQL`'s own parsers
//! treat links, files and signed numbers specially, drop what they do not recognize, and find no
//! words in scripts without spaces.

use std::collections::BTreeMap;
use std::fmt::Write;

use mif::Memory;

use crate::search::query::{Need, Phrase, Terms};
use crate::search::tokenizer::{tokenize, words};

/// The last position that a `tsvector` can hold.
const MAX_POSITION: u16 = 16_383;
/// The maximum number of positions of one lexeme.
const MAX_POSITIONS_PER_WORD: usize = 255;
/// The maximum size of a `tsvector`.
const MAX_TSVECTOR_BYTES: usize = (1 << 20) - 1;
/// The prefix of the lexemes of a memory with too many words for positions, in place of the
/// tenant's prefix. It is as short as the separator between two words in the text, so that all of
/// them fit.
const UNORDERED_PREFIX: &str = "~";

/// The full-text document of a memory.
#[derive(Debug)]
pub(super) struct TsVector {
    /// The `tsvector` literal.
    pub(super) words: String,
    /// The number of words.
    pub(super) length: i32,
}

/// Returns the prefix of all lexemes of a tenant, which partitions the index by tenant without an
/// extension. Two tenants may share a prefix; the rows have the tenant.
pub(super) fn tenant_prefix(tenant: &str) -> String {
    let hash = tenant
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let letters = b"0123456789abcdefghijklmnopqrstuv";
    [0, 5, 10, 15].map(|shift| char::from(letters[(hash >> shift & 31) as usize])).iter().collect()
}

/// Builds the full-text document of `memory`. A document with very many words has no positions.
pub(super) fn index(tenant_prefix: &str, memory: &Memory) -> TsVector {
    let mut places: BTreeMap<String, Vec<(u16, char)>> = BTreeMap::new();
    let (mut place, mut length, mut long) = (0_u16, 0_i32, false);
    let tags = memory.tags().join(" ");
    let fields =
        [(memory.title.as_deref().unwrap_or(""), 'A'), (&tags, 'B'), (&memory.content, 'D')];
    for (text, weight) in fields {
        for word in words(text) {
            place = (place + 1).min(MAX_POSITION);
            length = length.saturating_add(1);
            let of_word = places.entry(word).or_default();
            long |= place == MAX_POSITION || of_word.len() == MAX_POSITIONS_PER_WORD;
            if !long {
                of_word.push((place, weight));
            }
        }
        // No phrase spans two fields.
        place = (place + 1).min(MAX_POSITION);
    }
    // Each lexeme has a count and an alignment byte before its positions of two bytes each.
    let bytes =
        places.iter().map(|(word, places)| tenant_prefix.len() + word.len() + 3 + 2 * places.len());
    long |= bytes.sum::<usize>() > MAX_TSVECTOR_BYTES;
    let mut words = String::new();
    let mut left = MAX_TSVECTOR_BYTES;
    for (word, places) in &places {
        let (tenant_prefix, places) =
            if long { (UNORDERED_PREFIX, &[][..]) } else { (tenant_prefix, &places[..]) };
        // Only scripts without spaces can exceed the limit, with half a million distinct bigrams.
        let Some(rest) = left.checked_sub(tenant_prefix.len() + word.len()) else { continue };
        left = rest;
        push_lexeme(&mut words, tenant_prefix, word);
        for (n, (place, weight)) in places.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(words, "{}{place}{weight}", if n == 0 { ':' } else { ',' });
        }
        words.push(' ');
    }
    TsVector { words, length }
}

fn push_lexeme(out: &mut String, tenant_prefix: &str, word: &str) {
    out.push('\'');
    out.push_str(tenant_prefix);
    for letter in word.chars() {
        // The tokenizer produces neither character. They are escaped in case that changes.
        if matches!(letter, '\\' | '\'') {
            out.push(letter);
        }
        out.push(letter);
    }
    out.push('\'');
}

fn lexeme(tenant_prefix: &str, word: &str) -> String {
    let mut lexeme = String::new();
    push_lexeme(&mut lexeme, tenant_prefix, word);
    lexeme
}

/// A parsed query as `tsquery` expressions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TsQuery {
    /// The whole query.
    pub(super) whole: String,
    /// One expression per phrase.
    pub(super) each: Vec<String>,
    /// One expression per phrase, for documents without positions.
    pub(super) unordered: Vec<String>,
}

impl TsQuery {
    /// Builds the expressions. Returns `None` if the query has no words.
    pub(super) fn from_terms(tenant_prefix: &str, terms: &Terms) -> Option<Self> {
        let phrases = |tenant_prefix: &str, with: &str| -> Vec<String> {
            terms
                .phrases
                .iter()
                .filter_map(|phrase| expression(tenant_prefix, phrase, with))
                .collect()
        };
        let (each, unordered) = (phrases(tenant_prefix, " <-> "), phrases(UNORDERED_PREFIX, " & "));
        let between = match terms.need {
            Need::Any => " | ",
            Need::All => " & ",
        };
        // A document has all its lexemes either with positions or without.
        let whole = format!("({}) | ({})", each.join(between), unordered.join(between));
        (!each.is_empty()).then_some(Self { whole, each, unordered })
    }
}

/// Builds the expression of one phrase, for documents with and without positions. Returns `None` if
/// it has no words.
pub(super) fn phrase_expression(tenant_prefix: &str, phrase: &Phrase) -> Option<String> {
    let ordered = expression(tenant_prefix, phrase, " <-> ")?;
    let unordered = expression(UNORDERED_PREFIX, phrase, " & ")?;
    Some(format!("{ordered} | {unordered}"))
}

fn expression(tenant_prefix: &str, phrase: &Phrase, with: &str) -> Option<String> {
    let form = |form: &str| {
        // The phrase is segmented into bigrams already.
        let words: Vec<String> = tokenize(form).collect();
        let last = words.len().checked_sub(1)?;
        let quoted = words.iter().enumerate().map(|(n, word)| {
            let open = if phrase.prefix && n == last { ":*" } else { "" };
            lexeme(tenant_prefix, word) + open
        });
        Some(format!("({})", quoted.collect::<Vec<_>>().join(with)))
    };
    let forms: Vec<String> = phrase.forms().filter_map(form).collect();
    match forms.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("({})", several.join(" | "))),
    }
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
        let TsVector { words, length } = index("m", &memory("two it's"));
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
        assert!(words.len() - quotes(&words) <= MAX_TSVECTOR_BYTES);
    }

    #[test]
    fn questions_are_quoted_words_and_what_joins_them() {
        let tsquery = |text, need| TsQuery::from_terms("m", &Terms::parse(text, need));
        let all = tsquery("o'neil deployed", Need::All).expect("words");
        assert_eq!(all.each, ["('mo' <-> 'mneil')", "('mdeploi')"]);
        assert_eq!(all.unordered, ["('~o' & '~neil')", "('~deploi')"]);
        let whole = "(('mo' <-> 'mneil') & ('mdeploi')) | (('~o' & '~neil') & ('~deploi'))";
        assert_eq!(all.whole, whole);
        assert_eq!(tsquery("库", Need::Any).expect("words").whole, "(('m库':*)) | (('~库':*))");
        assert_eq!(tsquery("& | !", Need::Any), None);
        let mut misspelt = Phrase::new("deplyo", false);
        assert_eq!(phrase_expression("m", &misspelt).expect("words"), "('mdeplyo') | ('~deplyo')");
        misspelt.alternatives = vec!["deploy".to_owned(), "employ".to_owned()];
        let both = "(('mdeploi') | ('memploi')) | (('~deploi') | ('~emploi'))";
        assert_eq!(phrase_expression("m", &misspelt).expect("words"), both);
    }

    #[test]
    fn tenants_have_marks() {
        assert_ne!(tenant_prefix("a"), tenant_prefix("b"));
        assert_eq!(tenant_prefix("a").len(), 4);
    }
}
