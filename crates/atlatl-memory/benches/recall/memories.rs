//! Memories of real text: a few parts of it each, with a title, tags and other attributes.

use std::ops::Range;

use atlatl_memory::Filter;
use atlatl_memory::contract::index_words;
use chrono::{DateTime, TimeDelta, Utc};
use mif::{Memory, MemoryId, MemoryType, Provenance, Status, Timestamp, UnitInterval};
use testkit::SplitMix64;

use crate::text::Text;

/// A word that no query has: an identifier, or the border of two fields.
pub(crate) const OTHER_WORD: u32 = u32::MAX;
/// The seed of the tenant that is searched.
pub(crate) const SEARCHED: u64 = 0;

/// Tags of a seventh of all memories each.
const TAGS: [&str; 7] =
    ["database", "deployment", "security", "performance", "network", "release", "testing"];
/// The number of tags that about a thousandth of all memories have each.
const NARROW_TAGS: u16 = 1009;
/// The number of projects. The first has half of all memories, the others the same share each.
const PROJECTS: u16 = 97;
/// The logarithm of the median number of tokens, and its standard deviation.
const MEDIAN_LOG: f64 = 3.62;
const DEVIATION: f64 = 0.6;
/// The limits of the number of tokens.
const MIN_TOKENS: f64 = 6.0;
const MAX_TOKENS: f64 = 300.0;
/// The number of tokens for each part of the text.
const PART_LEN: usize = 30;

/// The attributes of a memory that filters use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes {
    kind: MemoryType,
    pub(crate) status: Status,
    tag: usize,
    narrow_tag: u16,
    project: u16,
    /// In tenths.
    confidence: u16,
}

/// What a query is restricted to, beside memories that are active.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Restriction {
    None,
    Tag(usize),
    NarrowTag(u16),
    Project(u16),
    Kind(MemoryType),
    /// The memories from this number on.
    Since(usize),
    /// In tenths.
    MinConfidence(u16),
}

impl Restriction {
    /// Returns a restriction that a memory meets. `kind` selects which.
    pub(crate) fn met_by(kind: usize, n: usize, attributes: &Attributes) -> Self {
        match kind % 6 {
            0 => Self::Project(attributes.project),
            1 => Self::NarrowTag(attributes.narrow_tag),
            2 => Self::Tag(attributes.tag),
            3 => Self::Kind(attributes.kind),
            4 => Self::Since(n - n / 10),
            _ => Self::MinConfidence(attributes.confidence),
        }
    }

    pub(crate) fn filter(self) -> Filter {
        let mut filter = Filter::default();
        match self {
            Self::None => {}
            Self::Tag(tag) => filter.tags = vec![TAGS[tag].to_owned()],
            Self::NarrowTag(tag) => filter.tags = vec![narrow_tag(tag)],
            Self::Project(project) => filter.namespace = namespace(project).parse().ok(),
            Self::Kind(kind) => filter.memory_type = Some(kind),
            Self::Since(n) => filter.since = Some(created(n)),
            Self::MinConfidence(tenths) => {
                filter.min_confidence = Some(f64::from(tenths) / 10.0);
            }
        }
        filter
    }

    /// Returns whether the memory with this number is admitted, as the filter does.
    pub(crate) fn admits(self, n: usize, attributes: &Attributes) -> bool {
        attributes.status == Status::Active
            && match self {
                Self::None => true,
                Self::Tag(tag) => attributes.tag == tag,
                Self::NarrowTag(tag) => attributes.narrow_tag == tag,
                Self::Project(project) => attributes.project == project,
                Self::Kind(kind) => attributes.kind == kind,
                Self::Since(first) => n >= first,
                Self::MinConfidence(tenths) => attributes.confidence >= tenths,
            }
    }
}

/// What a memory consists of.
struct Draft {
    title: Range<usize>,
    parts: Vec<Range<usize>>,
    identifiers: Vec<String>,
    attributes: Attributes,
    id: MemoryId,
}

/// Memories by number.
pub(crate) struct Corpus {
    pub(crate) text: Text,
    tag_words: Vec<u32>,
    narrow_tag_words: Vec<u32>,
}

impl Corpus {
    pub(crate) fn new(mut text: Text) -> Self {
        let mut word = |tag: &str| {
            let mut words = index_words(tag);
            assert_eq!(words.len(), 1, "the tag {tag} is one word");
            text.intern(words.remove(0))
        };
        let tag_words = TAGS.iter().map(|tag| word(tag)).collect();
        let narrow_tag_words = (0..NARROW_TAGS).map(|tag| word(&narrow_tag(tag))).collect();
        Self { text, tag_words, narrow_tag_words }
    }

    fn draft(&self, seed: u64, n: usize) -> Draft {
        let number = u32::try_from(n).expect("fewer memories than a u32 counts");
        let mut random = SplitMix64::new((seed << 40) | u64::from(number));
        let normal = (0..12).map(|_| unit(&mut random)).sum::<f64>() - 6.0;
        let len = (MEDIAN_LOG + DEVIATION * normal).exp().clamp(MIN_TOKENS, MAX_TOKENS);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let len = len as usize;
        let parts = 1 + len / PART_LEN;
        let parts: Vec<Range<usize>> = (0..parts)
            .map(|_| {
                let start = random.below(self.text.len() - PART_LEN - 1);
                start..start + len / parts
            })
            .collect();
        let title_len = (4 + random.below(3)).min(parts[0].len());
        let title = parts[0].start..parts[0].start + title_len;
        // Every second memory has one or two identifiers that no other has.
        let identifiers = match random.below(4) {
            count @ 1..=2 => count,
            _ => 0,
        };
        let identifiers =
            (0..identifiers).map(|_| format!("x{:015x}", random.next_u64() >> 4)).collect();
        let attributes = Attributes {
            kind: *random.pick(MemoryType::ALL),
            status: if random.chance(10) { Status::Archived } else { Status::Active },
            tag: random.below(TAGS.len()),
            narrow_tag: small(&mut random, NARROW_TAGS),
            project: if random.chance(50) { 0 } else { 1 + small(&mut random, PROJECTS - 1) },
            confidence: small(&mut random, 10),
        };
        let mut bits = [0; 10];
        bits[..6].copy_from_slice(&random.next_u64().to_be_bytes()[..6]);
        bits[6..].copy_from_slice(&number.to_be_bytes());
        let milliseconds = u64::try_from(created(n).timestamp_millis()).expect("after 1970");
        let id = MemoryId::v7(milliseconds, bits);
        Draft { title, parts, identifiers, attributes, id }
    }

    /// Returns a memory.
    pub(crate) fn memory(&self, seed: u64, n: usize) -> Memory {
        let Draft { title, parts, identifiers, attributes, id } = self.draft(seed, n);
        let parts = parts.into_iter().map(|part| self.text.part(part)).chain(identifiers);
        let content = parts.collect::<Vec<_>>().join("\n");
        let mut memory =
            Memory::new(id, attributes.kind, content, Timestamp::from(created(n))).expect("valid");
        memory.title = Some(self.text.part(title));
        memory.tags =
            Some(vec![TAGS[attributes.tag].to_owned(), narrow_tag(attributes.narrow_tag)]);
        memory.namespace = namespace(attributes.project).parse().ok();
        memory.status = Some(attributes.status);
        let mut provenance = Provenance::default();
        provenance.confidence = UnitInterval::new(f64::from(attributes.confidence) / 10.0);
        memory.provenance = Some(provenance);
        memory
    }

    /// Adds the words of a memory of the searched tenant as its fields count: title and tags twice,
    /// with a border after each field. Returns the number of words without repetition.
    pub(crate) fn words(&self, n: usize, words: &mut Vec<u32>) -> (usize, Attributes) {
        let Draft { title, parts, identifiers, attributes, .. } = self.draft(SEARCHED, n);
        let tags = [
            self.tag_words[attributes.tag],
            self.narrow_tag_words[usize::from(attributes.narrow_tag)],
        ];
        let begin = words.len();
        for _ in 0..2 {
            words.extend(self.text.words(title.clone()));
            words.push(OTHER_WORD);
        }
        let title_len = (words.len() - begin) / 2 - 1;
        for _ in 0..2 {
            words.extend(tags);
            words.push(OTHER_WORD);
        }
        let begin = words.len();
        for part in parts {
            words.extend(self.text.words(part));
        }
        words.extend(identifiers.iter().map(|_| OTHER_WORD));
        let content_len = words.len() - begin;
        words.push(OTHER_WORD);
        (title_len + tags.len() + content_len, attributes)
    }

    /// Checks that the words of a memory are those that a store indexes.
    pub(crate) fn verify(&self, n: usize) {
        let memory = self.memory(SEARCHED, n);
        let fields = [
            memory.title.clone().unwrap_or_default(),
            memory.tags().join(" "),
            memory.content.clone(),
        ];
        let indexed: Vec<String> = fields.iter().flat_map(|field| index_words(field)).collect();
        let mut words = Vec::new();
        let (length, attributes) = self.words(n, &mut words);
        assert_eq!(indexed.len(), length, "memory {n} has another number of words");
        for word in words.into_iter().filter(|word| *word != OTHER_WORD) {
            let word = self.text.word(word);
            assert!(indexed.iter().any(|one| one == word), "memory {n} has no word {word}");
        }
        for kind in 0..6 {
            for other in [n, n + 1] {
                let met_by = self.draft(SEARCHED, other).attributes;
                let restriction = Restriction::met_by(kind, other, &met_by);
                let admits = restriction.filter().admits(&memory, now());
                assert_eq!(restriction.admits(n, &attributes), admits, "{n}: {restriction:?}");
            }
        }
    }
}

/// Returns the number of a memory.
pub(crate) fn number(id: &MemoryId) -> usize {
    usize::try_from(id.as_u128() & u128::from(u32::MAX)).expect("32 bits")
}

/// The time of all queries, after all memories.
pub(crate) fn now() -> DateTime<Utc> {
    "2027-06-01T00:00:00Z".parse().expect("a time")
}

fn created(n: usize) -> DateTime<Utc> {
    let start: DateTime<Utc> = "2025-01-01T00:00:00Z".parse().expect("a time");
    start + TimeDelta::minutes(i64::try_from(n).expect("fewer minutes than an i64 counts"))
}

fn narrow_tag(tag: u16) -> String {
    format!("k{tag}")
}

fn namespace(project: u16) -> String {
    format!("team/p{project}")
}

/// Returns a number from 0 to 1.
fn unit(random: &mut SplitMix64) -> f64 {
    let bits = u32::try_from(random.next_u64() >> 32).expect("32 bits");
    f64::from(bits) / f64::from(u32::MAX)
}

/// Returns a small number below `bound`.
fn small(random: &mut SplitMix64, bound: u16) -> u16 {
    u16::try_from(random.below(usize::from(bound))).expect("below a u16")
}
