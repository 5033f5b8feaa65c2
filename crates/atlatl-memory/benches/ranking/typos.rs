//! Misspelt words: queries with one wrong letter, compared with their right spelling.

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{Filter, Need, Terms};
use serde_json::{Value, json};
use testkit::SplitMix64;

use crate::figures::Query;
use crate::ways::{Corpus, Way, now};

const SEED: u64 = 20_261_117;
const CASES: usize = 200;
/// Shorter words are not misspelt: one edit makes another word of them.
const MIN_LETTERS: usize = 4;

/// A query, and the same with an edit of one letter in its rarest word.
struct Case {
    right: Query,
    misspelt: Query,
    word_right: Query,
    word_misspelt: Query,
}

/// Measures the rankings of queries in which the rarest word is misspelt, and of that word alone.
pub(crate) fn results(corpus: &Corpus, queries: &[Query], ways: &[Way<'_>]) -> Value {
    let cases = cases(corpus, queries);
    let rows: Vec<Value> = ways
        .iter()
        .map(|way| {
            let figures = |take: fn(&Case) -> &Query| {
                let queries: Vec<Query> = cases.iter().map(|case| take(case).clone()).collect();
                let mut row = way.row(&[(corpus, &queries)]);
                row["figures"]["all"].take()
            };
            let mut row = way.json();
            row["query"] = pair(&figures(|case| &case.right), &figures(|case| &case.misspelt));
            row["word"] =
                pair(&figures(|case| &case.word_right), &figures(|case| &case.word_misspelt));
            row
        })
        .collect();
    json!({"cases": cases.len(), "seed": SEED, "rows": rows})
}

fn pair(right: &Value, misspelt: &Value) -> Value {
    let recall = |figures: &Value| figures["recall_10"].as_f64().unwrap_or(f64::NAN);
    json!({"right": right, "misspelt": misspelt, "ratio": recall(misspelt) / recall(right)})
}

fn cases(corpus: &Corpus, queries: &[Query]) -> Vec<Case> {
    let usable: Vec<(&Query, &str)> = queries
        .iter()
        .filter(|query| query.kind != "paraphrase" && !query.is_cjk())
        .filter_map(|query| Some((query, rarest_word(corpus, &query.text)?)))
        .collect();
    let mut random = SplitMix64::new(SEED);
    (0..CASES)
        .map(|_| {
            let (query, word) = *random.pick(&usable);
            let wrong = misspell(&word.to_lowercase(), &mut random);
            let with = |text: String| Query { text, ..query.clone() };
            Case {
                right: query.clone(),
                misspelt: with(query.text.replacen(word, &wrong, 1)),
                word_right: with(word.to_owned()),
                word_misspelt: with(wrong),
            }
        })
        .collect()
}

/// Returns the word of a query that the fewest memories contain. It has letters only, is no stop
/// word, and occurs in some memory.
fn rarest_word<'a>(corpus: &Corpus, query: &'a str) -> Option<&'a str> {
    let terms = Terms::parse(query, Need::Any);
    let is_term = |word: &str| terms.phrases.iter().any(|phrase| phrase.words == word);
    query
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| word.len() >= MIN_LETTERS && word.bytes().all(|b| b.is_ascii_alphabetic()))
        .filter(|word| is_term(word))
        .map(|word| (frequency(corpus, word), word))
        .filter(|(frequency, _)| *frequency > 0)
        .min_by_key(|(frequency, _)| *frequency)
        .map(|(_, word)| word)
}

fn frequency(corpus: &Corpus, word: &str) -> u64 {
    let terms = Terms::parse(word, Need::Any);
    corpus.store.lexical(&terms, &Filter::default(), 1, now()).wait().expect("an answer").total
}

/// Swaps two letters, deletes one, inserts one or replaces one.
fn misspell(word: &str, random: &mut SplitMix64) -> String {
    loop {
        let mut letters: Vec<u8> = word.bytes().collect();
        let at = random.below(letters.len());
        let other = b"abcdefghijklmnopqrstuvwxyz"[random.below(26)];
        match random.below(4) {
            0 if at + 1 < letters.len() => letters.swap(at, at + 1),
            1 => drop(letters.remove(at)),
            2 => letters.insert(at, other),
            3 => letters[at] = other,
            _ => continue,
        }
        let wrong = String::from_utf8(letters).expect("ASCII letters");
        if wrong != word {
            return wrong;
        }
    }
}
