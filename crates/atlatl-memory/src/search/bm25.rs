//! BM25: weights of phrases, and the score of one memory where no engine computes it.

use mif::Memory;

use super::query::Phrase;
use super::tokenizer::{tokenize, words};

/// The weights of a match in the title, the content and the tags. A title that begins the content
/// counts in both.
pub(crate) const FIELD_WEIGHTS: [f64; 3] = [2.0, 1.0, 2.0];
/// How soon further occurrences of a word stop to count.
const K1: f64 = 1.2;
/// How much the length of a memory counts.
const B: f64 = 0.75;
/// The weight of a phrase that at least half of all memories contain.
const MIN_IDF: f64 = 1e-6;

/// Returns the inverse document frequency of a phrase that `frequency` of `memories` contain.
#[expect(clippy::cast_precision_loss, reason = "fewer memories than an `f64` counts exactly")]
pub(crate) fn idf(memories: u64, frequency: u64) -> f64 {
    let without = memories.saturating_sub(frequency) as f64;
    ((without + 0.5) / (frequency as f64 + 0.5)).ln().max(MIN_IDF)
}

/// Returns the score that a memory approaches if it consists of the phrases with these weights.
pub(crate) fn full_score(idf: &[f64]) -> f64 {
    (K1 + 1.0) * idf.iter().sum::<f64>()
}

/// A query for the score of single memories.
#[derive(Debug)]
pub(crate) struct Bm25 {
    phrases: Vec<WeightedPhrase>,
    /// The mean number of words of a memory.
    mean_len: f64,
}

#[derive(Debug)]
struct WeightedPhrase {
    /// The words of the phrase, or of each of its alternatives.
    forms: Vec<Vec<String>>,
    prefix: bool,
    idf: f64,
}

impl Bm25 {
    /// Creates a query of phrases with these inverse document frequencies.
    pub(crate) fn new(phrases: &[Phrase], idf: &[f64], mean_len: f64) -> Self {
        let weighted = |(phrase, idf): (&Phrase, &f64)| WeightedPhrase {
            forms: phrase
                .forms()
                .map(|form| tokenize(form).collect::<Vec<_>>())
                .filter(|form| !form.is_empty())
                .collect(),
            prefix: phrase.prefix,
            idf: *idf,
        };
        Self {
            phrases: phrases.iter().zip(idf).map(weighted).collect(),
            mean_len: mean_len.max(1.0),
        }
    }

    /// Returns the score of `memory`, 0 if it contains no phrase.
    #[expect(clippy::cast_precision_loss, reason = "the length of a text in memory")]
    pub(crate) fn score(&self, memory: &Memory) -> f64 {
        let tags = memory.tags().join(" ");
        let fields = [memory.title.as_deref().unwrap_or_default(), &memory.content, &tags]
            .map(|text| words(text).collect::<Vec<_>>());
        let len = fields.iter().map(Vec::len).sum::<usize>() as f64;
        let norm = K1 * (1.0 - B + B * len / self.mean_len);
        let score = |phrase: &WeightedPhrase| {
            let of_field =
                |(words, weight): (&Vec<String>, f64)| weight * phrase.occurrences(words) as f64;
            let frequency: f64 = fields.iter().zip(FIELD_WEIGHTS).map(of_field).sum();
            phrase.idf * frequency * (K1 + 1.0) / (frequency + norm)
        };
        self.phrases.iter().map(score).sum()
    }
}

impl WeightedPhrase {
    fn occurrences(&self, words: &[String]) -> usize {
        let of_form = |form: &Vec<String>| {
            let is_it = |run: &&[String]| {
                let last = form.len() - 1;
                run[..last] == form[..last]
                    && (run[last] == form[last]
                        || (self.prefix && run[last].starts_with(form[last].as_str())))
            };
            words.windows(form.len()).filter(is_it).count()
        };
        self.forms.iter().map(of_form).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::query::{Need, Terms};

    fn memory(title: &str, content: &str) -> Memory {
        let json = r#"{"id":"00000000-0000-0000-0000-000000000001","memory_type":"semantic",
            "content":"x","created":"2026-01-01T00:00:00Z"}"#;
        let mut memory = Memory::from_json(json).expect("valid");
        content.clone_into(&mut memory.content);
        memory.title = Some(title.to_owned());
        memory
    }

    fn score(query: &str, title: &str, content: &str) -> f64 {
        let terms = Terms::parse(query, Need::All);
        let idf = vec![1.0; terms.phrases.len()];
        Bm25::new(&terms.phrases, &idf, 5.0).score(&memory(title, content))
    }

    #[test]
    fn a_score_grows_with_fields_frequency_and_rarity() {
        // One occurrence in a memory of mean length has the weight of its phrase.
        assert!((score("deploys", "", "we will deploy on Thursday") - 1.0).abs() < 1e-12);
        assert!(score("deploy", "deploy", "on Thursday we rest") > 1.0);
        assert!(score("deploy", "", "deploy deploy deploy it now") > 1.0);
        assert!((score("\"blue deploy\"", "blue", "deploy blue and green")).abs() < f64::EPSILON);
        assert!(score("\"blue deploy\"", "", "a blue deploy") > 0.0);
        assert!(score("库", "", "库存数据") > 0.0, "a single character is a prefix");
        assert!(idf(100, 1) > idf(100, 2) && idf(100, 2) > idf(100, 50));
        assert!((idf(100, 90) - MIN_IDF).abs() < f64::EPSILON);
        assert!(idf(0, 0) >= MIN_IDF);
    }
}
