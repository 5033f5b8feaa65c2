//! Queries of several classes, from words of one memory each.

use atlatl_memory::contract::index_words;
use atlatl_memory::{MAX_HITS, Need, Phrase, Terms};
use mif::Status;
use testkit::SplitMix64;

use crate::exact::ExactIndex;
use crate::memories::{OTHER_WORD, Restriction};
use crate::text::Text;

/// The number of matches that a recall of fifty memories asks a store for.
pub(crate) const LIMIT: usize = 200;
/// The number of attempts to find a memory with the words of a class.
const MAX_ATTEMPTS: usize = 1_000_000;
/// A word that is not in the text, to tell stop words from others.
const UNKNOWN_WORD: &str = "zzyzxq";
/// The numbers of words of random queries.
pub(crate) const RANDOM_LENGTHS: [usize; 7] = [1, 2, 3, 5, 8, 16, 32];

/// A class of queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Rare,
    RareAndCommon,
    Common,
    Mixed,
    StopWords,
    Filtered,
    Phrase,
    AllWords,
}

impl Class {
    pub(crate) const ALL: [Self; 8] = [
        Self::Rare,
        Self::RareAndCommon,
        Self::Common,
        Self::Mixed,
        Self::StopWords,
        Self::Filtered,
        Self::Phrase,
        Self::AllWords,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rare => "two rare words",
            Self::RareAndCommon => "a rare and a common word",
            Self::Common => "two common words",
            Self::Mixed => "five mixed words",
            Self::StopWords => "two stop words",
            Self::Filtered => "filtered",
            Self::Phrase => "a phrase of two words",
            Self::AllWords => "all of three words",
        }
    }
}

/// How many memories contain a word.
#[derive(Debug, Clone, Copy)]
enum Frequency {
    /// At most a two thousandth of all, between 20 and 500.
    Rare,
    /// A five hundredth to a fiftieth.
    Middle,
    /// More than a twentieth.
    Common,
}

/// A query.
pub(crate) struct Query {
    pub(crate) terms: Terms,
    pub(crate) restriction: Restriction,
    pub(crate) limit: usize,
    /// The words of each phrase, by number. Empty for random queries.
    pub(crate) units: Vec<Vec<u32>>,
}

/// Draws queries.
pub(crate) struct Queries<'a> {
    text: &'a Text,
    index: &'a ExactIndex,
    random: SplitMix64,
}

impl<'a> Queries<'a> {
    pub(crate) fn new(text: &'a Text, index: &'a ExactIndex, seed: u64) -> Self {
        Self { text, index, random: SplitMix64::new(seed) }
    }

    /// Draws a query that matches at least one memory.
    pub(crate) fn draw(&mut self, class: Class) -> Query {
        for _ in 0..MAX_ATTEMPTS {
            let n = self.random.below(self.index.len());
            if self.index.attributes[n].status != Status::Active {
                continue;
            }
            if let Some(query) = self.draw_from(class, n) {
                return query;
            }
        }
        panic!("no memory has the words for a query of the class \"{}\"", class.name());
    }

    fn draw_from(&mut self, class: Class, n: usize) -> Option<Query> {
        use Frequency::{Common, Middle, Rare};
        let words = match class {
            Class::Rare => self.words(n, &[Rare, Rare])?,
            Class::RareAndCommon => self.words(n, &[Rare, Common])?,
            Class::Common => self.words(n, &[Common, Common])?,
            Class::Mixed => self.words(n, &[Rare, Middle, Middle, Common, Common])?,
            Class::Filtered => self.words(n, &[Middle, Common])?,
            Class::AllWords => self.words(n, &[Middle, Common, Common])?,
            Class::StopWords => self.stop_words(n)?,
            Class::Phrase => self.phrase(n)?,
        };
        let need = if class == Class::AllWords { Need::All } else { Need::Any };
        let text = match class {
            Class::Phrase => format!("\"{}\"", words.join(" ")),
            _ => words.join(" "),
        };
        let restriction = match class {
            Class::Filtered => {
                Restriction::met_by(self.random.below(6), n, &self.index.attributes[n])
            }
            _ => Restriction::None,
        };
        let terms = Terms::parse(&text, need);
        let expected = if class == Class::Phrase { 1 } else { words.len() };
        if terms.phrases.len() != expected {
            return None;
        }
        let unit = |phrase: &Phrase| -> Option<Vec<u32>> {
            index_words(&phrase.words).iter().map(|word| self.text.number(word)).collect()
        };
        let units = terms.phrases.iter().map(unit).collect::<Option<Vec<_>>>()?;
        Some(Query { terms, restriction, limit: LIMIT, units })
    }

    /// Returns the different words of a memory for which there is a plain token.
    fn plain_words(&self, n: usize) -> Vec<u32> {
        let mut words: Vec<u32> = self.index.words(n).to_vec();
        words.sort_unstable();
        words.dedup();
        words.retain(|&word| self.plain(word).is_some());
        words
    }

    fn plain(&self, word: u32) -> Option<&'a str> {
        if word == OTHER_WORD { None } else { self.text.plain(word) }
    }

    /// Returns words of a memory with these frequencies, none of which is a stop word.
    fn words(&mut self, n: usize, frequencies: &[Frequency]) -> Option<Vec<&'a str>> {
        let mut left = self.plain_words(n);
        let mut chosen = Vec::new();
        for &frequency in frequencies {
            let fits = |word: &u32| {
                self.has_frequency(*word, frequency)
                    && self.plain(*word).is_some_and(|word| !is_stop_word(word))
            };
            let fitting: Vec<u32> = left.iter().copied().filter(fits).collect();
            if fitting.is_empty() {
                return None;
            }
            let word = *self.random.pick(&fitting);
            left.retain(|other| *other != word);
            chosen.push(self.plain(word)?);
        }
        Some(chosen)
    }

    fn has_frequency(&self, word: u32, frequency: Frequency) -> bool {
        let (memories, of_word) = (self.index.len(), self.index.frequency(word));
        match frequency {
            Frequency::Rare => (2..=(memories / 2000).clamp(20, 500)).contains(&of_word),
            Frequency::Middle => (memories / 500..=memories / 50).contains(&of_word),
            Frequency::Common => of_word > memories / 20,
        }
    }

    fn stop_words(&mut self, n: usize) -> Option<Vec<&'a str>> {
        let words = self.plain_words(n).into_iter().filter_map(|word| self.plain(word));
        let mut words: Vec<&str> = words.filter(|word| is_stop_word(word)).collect();
        if words.len() < 2 {
            return None;
        }
        let first = words.swap_remove(self.random.below(words.len()));
        Some(vec![first, *self.random.pick(&words)])
    }

    /// Returns two adjacent words of a memory that a two hundredth of all memories contain each, and
    /// that are not both stop words.
    fn phrase(&mut self, n: usize) -> Option<Vec<&'a str>> {
        let often = self.index.len() / 200;
        let pairs = self.index.words(n).windows(2).filter_map(|pair| {
            let is_common = pair.iter().all(|&word| self.index.frequency(word) > often);
            let (first, second) = (self.plain(pair[0])?, self.plain(pair[1])?);
            let is_significant = !is_stop_word(first) || !is_stop_word(second);
            (is_common && is_significant && first != second).then(|| vec![first, second])
        });
        let pairs: Vec<Vec<&str>> = pairs.collect();
        if pairs.is_empty() {
            return None;
        }
        Some(self.random.pick(&pairs).clone())
    }

    /// Draws any query, and returns it with its number of words.
    pub(crate) fn random(&mut self) -> (usize, Query) {
        let wanted = *self.random.pick(&RANDOM_LENGTHS);
        let n = self.random.below(self.index.len());
        let mut words = Vec::new();
        for _ in 0..wanted {
            // Most queries are about one memory; some words are of others.
            let other =
                if self.random.chance(20) { self.random.below(self.index.len()) } else { n };
            let of_memory = self.plain_words(other);
            if !of_memory.is_empty() {
                let word = *self.random.pick(&of_memory);
                words.extend(self.plain(word));
            }
        }
        if words.is_empty() || self.random.chance(2) {
            words.push(UNKNOWN_WORD);
        }
        let need = if self.random.chance(30) { Need::All } else { Need::Any };
        let quoted = self.random.chance(10).then(|| self.phrase(n)).flatten();
        let quoted = quoted.map(|phrase| format!(" \"{}\"", phrase.join(" ")));
        let text = words.join(" ") + &quoted.unwrap_or_default();
        let restriction = if self.random.chance(50) {
            Restriction::met_by(self.random.below(6), n, &self.index.attributes[n])
        } else {
            Restriction::None
        };
        // A recall without a limit.
        let limit = if self.random.chance(2) { MAX_HITS } else { LIMIT };
        let query =
            Query { terms: Terms::parse(&text, need), restriction, limit, units: Vec::new() };
        (wanted, query)
    }
}

/// Returns whether a word is left out of a query that has others.
fn is_stop_word(word: &str) -> bool {
    Terms::parse(&format!("{word} {UNKNOWN_WORD}"), Need::Any).phrases.len() == 1
}
