//! The ranking by words of version 0.1.0, over the index of the same store.
//!
//! The statement and the parser of a recall are copies of that version and must not follow later
//! changes: they show in every run what the changes are worth.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

const RANKING: &str = "SELECT memory.id \
     FROM words CROSS JOIN memory ON memory.key = words.rowid \
     WHERE words MATCH ?1 AND memory.status = 'active' \
     AND rank MATCH 'bm25(4.0, 1.0, 2.0)' ORDER BY rank LIMIT ?2";

const MAX_PHRASES: usize = 64;

const STOP_WORDS: [&str; 68] = [
    "a", "about", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could",
    "did", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is",
    "it", "its", "me", "my", "no", "not", "of", "on", "or", "our", "should", "so", "some", "that",
    "the", "their", "them", "there", "these", "they", "this", "to", "us", "was", "we", "were",
    "what", "when", "where", "which", "who", "why", "will", "with", "would", "you", "your", "am",
    "he", "she",
];

/// A connection that ranks as version 0.1.0 did.
#[derive(Debug)]
pub(crate) struct Baseline(Connection);

impl Baseline {
    /// Opens the store at `path` for reading.
    pub(crate) fn open(path: &Path) -> Self {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Self(Connection::open_with_flags(path, flags).expect("a store that exists"))
    }

    /// Returns the best memories, at most `limit`.
    pub(crate) fn rank(&self, query: &str, limit: usize) -> Vec<u128> {
        let expression = expression(query);
        if expression.is_empty() {
            return Vec::new();
        }
        self.0
            .prepare_cached(RANKING)
            .and_then(|mut statement| {
                let limit = i64::try_from(limit).unwrap_or(i64::MAX);
                let rows = statement.query_map(params![expression, limit], |row| {
                    row.get(0).map(u128::from_be_bytes)
                })?;
                rows.collect()
            })
            .expect("a ranking by words")
    }
}

/// Writes a query in the syntax of the index: any phrase may match.
fn expression(query: &str) -> String {
    let (mut all, mut significant) = (Vec::new(), Vec::new());
    for (part, is_quoted) in query.split('"').zip([false, true].into_iter().cycle()) {
        if is_quoted {
            push(&mut significant, quoted_phrase(part));
            continue;
        }
        for word in part.split_whitespace() {
            let is_stop_word = STOP_WORDS.contains(&trim_punctuation(word).to_lowercase().as_str());
            for phrase in phrases(word) {
                if !is_stop_word {
                    push(&mut significant, phrase.clone());
                }
                push(&mut all, phrase);
            }
        }
    }
    let phrases = if significant.is_empty() { all } else { significant };
    let quoted = phrases.into_iter().map(|Phrase { words, prefix }| {
        let star = if prefix { " *" } else { "" };
        format!("\"{}\"{star}", words.replace('"', "\"\"").replace('\0', " "))
    });
    quoted.collect::<Vec<_>>().join(" OR ")
}

#[derive(Clone, PartialEq)]
struct Phrase {
    words: String,
    prefix: bool,
}

fn push(list: &mut Vec<Phrase>, phrase: Phrase) {
    let has_word = phrase.words.chars().any(char::is_alphanumeric);
    if has_word && list.len() < MAX_PHRASES && !list.contains(&phrase) {
        list.push(phrase);
    }
}

fn phrases(word: &str) -> Vec<Phrase> {
    let mut phrases = Vec::new();
    for run in runs(word) {
        match run {
            Run::Spaced(text) => {
                phrases.push(Phrase { words: trim_punctuation(text).to_owned(), prefix: false });
            }
            Run::Unsegmented(characters) => {
                let prefix = characters.len() == 1;
                let bigrams = bigrams(&characters).into_iter();
                phrases.extend(bigrams.map(|words| Phrase { words, prefix }));
            }
        }
    }
    phrases
}

fn quoted_phrase(text: &str) -> Phrase {
    let all: Vec<Run<'_>> = text.split_whitespace().flat_map(runs).collect();
    let (mut words, mut prefix) = (Vec::new(), false);
    for (n, run) in all.iter().enumerate() {
        let is_last = n + 1 == all.len();
        match run {
            Run::Spaced(text) => words.push((*text).to_owned()),
            Run::Unsegmented(characters) => {
                words.extend(bigrams(characters));
                match characters.as_slice() {
                    [_] => prefix = is_last,
                    [.., end] if !is_last => words.push(end.to_string()),
                    _ => {}
                }
            }
        }
    }
    Phrase { words: words.join(" "), prefix }
}

fn trim_punctuation(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

fn bigrams(characters: &[char]) -> Vec<String> {
    match characters {
        [alone] => vec![alone.to_string()],
        _ => characters.windows(2).map(|pair| pair.iter().collect()).collect(),
    }
}

enum Run<'a> {
    Spaced(&'a str),
    Unsegmented(Vec<char>),
}

fn runs(text: &str) -> Vec<Run<'_>> {
    let (mut runs, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let unsegmented = is_unsegmented(first);
        let end = rest.find(|c| is_unsegmented(c) != unsegmented).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        runs.push(if unsegmented {
            Run::Unsegmented(run.chars().collect())
        } else {
            Run::Spaced(run)
        });
        rest = after;
    }
    runs
}

/// Thai, Hangul, Kana and Han.
fn is_unsegmented(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0E7F
        | 0x1100..=0x11FF
        | 0x3005..=0x3007
        | 0x3040..=0x30FF
        | 0x3130..=0x318F
        | 0x31F0..=0x31FF
        | 0x3400..=0x4DBF
        | 0x4E00..=0x9FFF
        | 0xAC00..=0xD7AF
        | 0xF900..=0xFAFF
        | 0xFF66..=0xFF9F
        | 0x20000..=0x323AF
    )
}
