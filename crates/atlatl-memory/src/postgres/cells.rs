//! Search documents: the terms of a memory as cells, sorted integers of a term and its impact.
//!
//! A cell has 28 bits of a hash of tenant and term, and a level of 4 bits: how much the term weighs
//! in this memory. An index of cells finds the memories in which a term weighs most. The hash is
//! stored, so it never changes.

use std::collections::HashMap;

use mif::Memory;

use crate::listing::{Filter, status};
use crate::search::bm25::FIELD_WEIGHTS;
use crate::search::query::is_unsegmented;
use crate::search::tokenizer::words;

/// The number of levels.
pub(super) const LEVELS: usize = 16;
/// The number of samples into which memories are divided.
pub(super) const SAMPLES: u8 = 64;
/// The mean length that is assumed before a tenant's words are counted.
pub(super) const DEFAULT_MEAN_LEN: f64 = 60.0;
/// The number of bits of a cell that are the level.
const LEVEL_BITS: u32 = 4;
/// The number of bits of a cell that are the hash.
const HASH_BITS: u32 = 28;
/// The level of a term that occurs once in a memory of mean length.
const MEAN_LEVEL: f64 = 3.0;
/// The number of levels by which a weight doubles.
const LEVELS_PER_OCTAVE: f64 = 2.0;

/// What a term is about. The numbers are part of the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TermKind {
    Word = 1,
    /// The first character of words in scripts without spaces.
    Prefix = 2,
    Type = 3,
    Status = 4,
    Namespace = 5,
    Tag = 6,
    Sample = 7,
}

/// A term of one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Term(i32);

impl Term {
    fn new(tenant: &str, kind: TermKind, text: &str) -> Self {
        // FNV-1a, and a mixer, because FNV changes the high bits little. No text contains 0xff.
        let bytes = tenant.bytes().chain([0xff, kind as u8]).chain(text.bytes());
        let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        let unsigned = i32::try_from(hash >> (64 - HASH_BITS)).unwrap_or_default();
        Self(unsigned - (1 << (HASH_BITS - 1)))
    }

    /// Returns the term of a word in the form of the index.
    pub(super) fn word(tenant: &str, word: &str) -> Self {
        Self::new(tenant, TermKind::Word, word)
    }

    /// Returns the term of all words that begin with a character of a script without spaces.
    pub(super) fn prefix(tenant: &str, first: char) -> Self {
        Self::new(tenant, TermKind::Prefix, first.encode_utf8(&mut [0; 4]))
    }

    /// Returns the term that a sixty-fourth of all memories has.
    pub(super) fn sample(tenant: &str, n: u8) -> Self {
        Self::new(tenant, TermKind::Sample, &n.to_string())
    }

    /// Creates a term from its number.
    pub(super) fn from_number(number: i32) -> Self {
        Self(number)
    }

    /// Returns the number of this term.
    pub(super) fn number(self) -> i32 {
        self.0
    }

    /// Returns the cells of this term from a level on.
    pub(super) fn cells_from(self, level: usize) -> impl Iterator<Item = i32> {
        (0..).take(LEVELS).skip(level).map(move |level| self.cell(level))
    }

    fn cell(self, level: i32) -> i32 {
        (self.0 << LEVEL_BITS) | level
    }
}

/// Returns the terms that every memory has that `filter` admits. Times and the confidence have none.
pub(super) fn filter_terms(tenant: &str, filter: &Filter) -> Vec<Term> {
    let term = |kind, text: &str| Term::new(tenant, kind, text);
    let namespace = filter.namespace.iter().map(|name| term(TermKind::Namespace, name.as_str()));
    let memory_type = filter.memory_type.iter().map(|kind| term(TermKind::Type, kind.as_str()));
    let status = filter.status.iter().map(|status| term(TermKind::Status, status.as_str()));
    let tags = filter.tags.iter().map(|tag| term(TermKind::Tag, tag));
    namespace.chain(memory_type).chain(status).chain(tags).collect()
}

/// Returns the share of BM25's limit that a term of this level has, from 0 to 2.2.
pub(super) fn weight_at(level: usize) -> f64 {
    let level = f64::from(u8::try_from(level).unwrap_or(u8::MAX));
    let x = ((level - MEAN_LEVEL + 0.5) / LEVELS_PER_OCTAVE).exp2();
    2.2 * x / (x + 1.2)
}

/// Returns the level of a term that occurs `count` times in a memory of `len` words.
fn level(count: u32, len: f64, mean_len: f64) -> i32 {
    let x = f64::from(count) / (0.25 + 0.75 * len / mean_len);
    let level = (LEVELS_PER_OCTAVE * x.log2()).floor() + MEAN_LEVEL;
    #[expect(clippy::cast_possible_truncation, reason = "clamped")]
    let level = level.clamp(0.0, 15.0) as i32;
    level
}

/// The row of a memory in `search_document`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchDocument {
    /// Sorted.
    pub(super) cells: Vec<i32>,
    /// The occurrences of each cell, weighted by field, at most 255.
    pub(super) counts: Vec<u8>,
    /// The number of words.
    pub(super) length: i32,
    /// The words in their order, each between spaces, with two spaces between fields. A field that
    /// counts twice is in it twice, so that its phrases do too.
    pub(super) sequence: String,
}

impl SearchDocument {
    /// Creates the row of a memory of a tenant whose memories have `mean_len` words. Another mean
    /// makes no score wrong: it only changes which memories are candidates.
    pub(super) fn from_memory(tenant: &str, mean_len: f64, memory: &Memory) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 or 2")]
        let [of_title, of_content, of_tags] = FIELD_WEIGHTS.map(|weight| weight as u32);
        let tags = memory.tags().join(" ");
        let fields = [
            (memory.title.as_deref().unwrap_or_default(), of_title),
            (&tags, of_tags),
            (&memory.content, of_content),
        ];
        let mut counts: HashMap<Term, u32> = HashMap::new();
        let (mut sequence, mut length) = (String::new(), 0_u32);
        for (text, weight) in fields {
            let mut field = String::from(' ');
            for word in words(text) {
                length = length.saturating_add(1);
                *counts.entry(Term::word(tenant, &word)).or_default() += weight;
                if let Some(first) = word.chars().next().filter(|&first| is_unsegmented(first)) {
                    *counts.entry(Term::prefix(tenant, first)).or_default() += weight;
                }
                field.push_str(&word);
                field.push(' ');
            }
            for _ in 0..weight {
                sequence.push_str(&field);
            }
        }
        let len = f64::from(length);
        for term in attributes(tenant, memory) {
            counts.entry(term).or_default();
        }
        let mut cells: Vec<(i32, u8)> = counts
            .into_iter()
            .map(|(term, count)| {
                let level = if count == 0 { 0 } else { level(count, len, mean_len) };
                (term.cell(level), u8::try_from(count).unwrap_or(u8::MAX))
            })
            .collect();
        cells.sort_unstable();
        let (cells, counts) = cells.into_iter().unzip();
        Self { cells, counts, length: i32::try_from(length).unwrap_or(i32::MAX), sequence }
    }
}

/// Returns the terms of a memory that are no words.
fn attributes(tenant: &str, memory: &Memory) -> Vec<Term> {
    let term = |kind, text: &str| Term::new(tenant, kind, text);
    let sample = memory.id.as_u128().wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) >> 122;
    let mut terms = vec![
        term(TermKind::Type, memory.memory_type.as_str()),
        term(TermKind::Status, status(memory).as_str()),
        Term::sample(tenant, u8::try_from(sample).unwrap_or_default()),
    ];
    terms.extend(memory.tags().iter().map(|tag| term(TermKind::Tag, tag)));
    if let Some(namespace) = &memory.namespace {
        let name = namespace.as_str();
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        terms.extend(ends.map(|end| term(TermKind::Namespace, &name[..end])));
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(json: &str) -> Memory {
        let json = format!(
            r#"{{"id":"00000000-0000-0000-0000-000000000001","memory_type":"semantic",
                "created":"2026-01-01T00:00:00Z",{json}}}"#
        );
        Memory::from_json(&json).expect("valid")
    }

    fn count(document: &SearchDocument, term: Term) -> Option<u8> {
        let place = document.cells.iter().position(|cell| cell >> LEVEL_BITS == term.0)?;
        Some(document.counts[place])
    }

    /// The hash is stored: a change would hide every memory.
    #[test]
    fn hashes_never_change() {
        let terms = [
            Term::word("a", "deploi"),
            Term::word("b", "deploi"),
            Term::word("a", "数据"),
            Term::prefix("a", '数'),
            Term::sample("a", 0),
            Term::new("a", TermKind::Tag, "deploi"),
        ];
        let hashes = [-106_884_642, -43_592_606, -68_713_125, 31_730_689, -67_016_619, 59_737_996];
        assert_eq!(terms.map(Term::number), hashes);
        assert!(terms.iter().all(|term| (-(1 << 27)..1 << 27).contains(&term.0)));
        assert_eq!(Term(-3).cells_from(14).collect::<Vec<_>>(), [-34, -33]);
        assert!(Term(-3).cells_from(0).all(|cell| cell >> LEVEL_BITS == -3));
    }

    #[test]
    fn a_document_has_words_filters_and_the_order_of_words() {
        let memory = memory(
            r#""content":"deploy on Thursday, deploy 数据库","title":"Deploys","tags":["ops team"],
               "namespace":"team/a/b""#,
        );
        let document = SearchDocument::from_memory("t", 8.0, &memory);
        let expected = " deploi  deploi  op team  op team  deploi on thursdai deploi 数据 据库 库 ";
        assert_eq!(document.sequence, expected);
        assert_eq!(document.length, 10);
        assert!(document.cells.is_sorted() && document.cells.len() == document.counts.len());
        let of = |word: &str| count(&document, Term::word("t", word));
        assert_eq!([of("deploi"), of("team"), of("on")], [Some(4), Some(2), Some(1)]);
        assert_eq!((of("ops"), of("数据库")), (None, None));
        for first in ['数', '据', '库'] {
            assert_eq!(count(&document, Term::prefix("t", first)), Some(1));
        }
        let mut filter = Filter { tags: vec!["ops team".to_owned()], ..Filter::default() };
        filter.memory_type = Some(memory.memory_type);
        for namespace in ["team", "team/a", "team/a/b"] {
            filter.namespace = namespace.parse().ok();
            let terms = filter_terms("t", &filter);
            assert_eq!(terms.len(), 4);
            assert!(terms.iter().all(|&term| count(&document, term) == Some(0)), "{namespace}");
        }
        filter.namespace = "team/b".parse().ok();
        assert_eq!(count(&document, filter_terms("t", &filter)[0]), None);
        let samples =
            (0..SAMPLES).filter(|&n| count(&document, Term::sample("t", n)).is_some()).count();
        assert_eq!(samples, 1);
        assert_eq!(count(&document, Term::word("u", "deploi")), None, "another tenant");
    }

    #[test]
    fn levels_grow_with_the_weight() {
        assert_eq!(level(1, 60.0, 60.0), 3);
        assert_eq!(level(2, 60.0, 60.0), 5);
        assert_eq!(level(1, 6.0, 60.0), 6);
        assert_eq!(level(1, 6000.0, 60.0), 0);
        assert_eq!(level(10_000, 60.0, 60.0), 15);
        assert!((0..LEVELS - 1).all(|level| weight_at(level) < weight_at(level + 1)));
        assert!((0.9..1.3).contains(&weight_at(3)) && weight_at(15) < 2.2);
    }

    #[test]
    fn samples_are_about_equal() {
        let mut counts = [0_u32; SAMPLES as usize];
        let samples: HashMap<Term, usize> =
            (0..SAMPLES).map(|n| (Term::sample("t", n), usize::from(n))).collect();
        for memory in testkit::corpus::memories(3_200, 4) {
            let sample = attributes("t", &memory).into_iter().find_map(|term| samples.get(&term));
            counts[*sample.expect("one")] += 1;
        }
        assert!(counts.iter().all(|count| (20..=90).contains(count)), "{counts:?}");
    }
}
