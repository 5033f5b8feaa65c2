//! Full-text lexemes: `tsvector` documents and `tsquery` expressions, as servers before version 6 read
//! and write them. They are written until `atlatl db migrate --finish` drops the column.
//!
//! The words are those of the [tokenizer](crate::search::tokenizer). `PostgreSQL`'s own parsers
//! treat links, files and signed numbers specially, drop what they do not recognize, and find no
//! words in scripts without spaces.

use std::collections::BTreeMap;
use std::fmt::Write;

use mif::Memory;
use tokio_postgres::types::Type;

use super::crud::{Tenant, rows};
use super::search::{Condition, matches};
use super::session::Session;
use crate::search::bm25;
use crate::search::query::{Need, Phrase, Terms};
use crate::search::tokenizer::{tokenize, words};
use crate::store::{Matches, StoreError};

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

/// The score of a phrase of weight 1 that occurs once in the content of a memory of mean length,
/// times 1 + k1: `ts_rank` of one occurrence in the content.
const SCORE_OF_ONE_OCCURRENCE: f64 = 0.6 * 0.608;
/// The maximum number of memories that are counted for the weight of a phrase.
const MAX_WEIGHED_ROWS: u64 = 100_000;

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
struct TsQuery {
    /// The whole query.
    whole: String,
    /// One expression per phrase.
    each: Vec<String>,
    /// One expression per phrase, for documents without positions.
    unordered: Vec<String>,
}

impl TsQuery {
    /// Builds the expressions. Returns `None` if the query has no words.
    fn from_terms(tenant_prefix: &str, terms: &Terms) -> Option<Self> {
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
fn phrase_expression(tenant_prefix: &str, phrase: &Phrase) -> Option<String> {
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

/// Searches by the words of servers before version 6, for a tenant with many documents that the newer
/// index lacks. Its cost grows with the number of matches.
pub(super) async fn lexical(
    db: &Session,
    tenant: &Tenant,
    terms: &Terms,
    mut condition: Condition,
    limit: usize,
) -> Result<Matches, StoreError> {
    let Some(tsquery) = TsQuery::from_terms(&tenant.tenant_prefix, terms) else {
        return Ok(Matches::default());
    };
    // If all words must match, every hit has each of them, and their frequencies would need a
    // separate count.
    let is_weighed = terms.need == Need::Any && tsquery.each.len() > 1;
    let whole = condition.value(tsquery.whole, Type::TEXT);
    let each = condition.value(tsquery.each, Type::TEXT_ARRAY);
    let unordered = condition.value(tsquery.unordered, Type::TEXT_ARRAY);
    let weigh = condition.value(is_weighed, Type::BOOL);
    let limit = condition.value(rows(limit), Type::INT8);
    let sql = format!(
        "SELECT m.id, f.score, m.fades, count(*) OVER () \
         FROM atlatl.found({whole}, {each}, {unordered}, {weigh}) f \
         JOIN atlatl.memory m ON m.key = f.key WHERE {} \
         ORDER BY f.score DESC, m.key LIMIT {limit}",
        condition.sql
    );
    let found = db.query(&sql, &condition.values()).await?;
    let total = found.first().map_or(0, |row| row.get::<_, i64>(3).unsigned_abs());
    let matches = Matches::new(matches(&found), total);
    let (weights, unknown) = if is_weighed {
        let (frequencies, memories) = (
            frequencies(db, tenant, &terms.phrases, MAX_WEIGHED_ROWS).await?,
            documents(db, tenant).await?,
        );
        let weights = frequencies.iter().map(|&frequency| bm25::idf(memories, frequency)).sum();
        (weights, zeros(&frequencies))
    } else {
        // If there are matches, no phrase is unknown.
        let unknown = match total {
            0 => zeros(&frequencies(db, tenant, &terms.phrases, 1).await?),
            _ => Vec::new(),
        };
        #[expect(clippy::cast_precision_loss, reason = "at most 128 phrases")]
        let weights = terms.phrases.len() as f64;
        (weights, unknown)
    };
    Ok(matches.with_statistics(SCORE_OF_ONE_OCCURRENCE * weights, unknown))
}

/// Returns the indexes of the phrases that no memory contains.
fn zeros(frequencies: &[u64]) -> Vec<usize> {
    (0..frequencies.len()).filter(|&n| frequencies[n] == 0).collect()
}

/// Counts the memories that contain each phrase, up to `cap`.
async fn frequencies(
    db: &Session,
    tenant: &Tenant,
    phrases: &[Phrase],
    cap: u64,
) -> Result<Vec<u64>, StoreError> {
    let mut frequencies = vec![0; phrases.len()];
    let (places, expressions): (Vec<usize>, Vec<String>) = phrases
        .iter()
        .enumerate()
        .filter_map(|(n, phrase)| Some((n, phrase_expression(&tenant.tenant_prefix, phrase)?)))
        .unzip();
    if expressions.is_empty() {
        return Ok(frequencies);
    }
    let cap = i64::try_from(cap).unwrap_or(i64::MAX);
    let sql = "SELECT f.frequency FROM atlatl.frequencies($1, $2) WITH ORDINALITY AS f (frequency, n) \
               ORDER BY f.n";
    let counted = db.query(sql, &[(&expressions, Type::TEXT_ARRAY), (&cap, Type::INT8)]).await?;
    for (place, row) in places.into_iter().zip(&counted) {
        frequencies[place] = row.get::<_, i64>(0).unsigned_abs();
    }
    Ok(frequencies)
}

/// Counts the memories of a tenant.
async fn documents(db: &Session, tenant: &Tenant) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM atlatl.document WHERE tenant = $1";
    let counted = db.query(sql, &[(&tenant.name, Type::TEXT)]).await?;
    Ok(counted.first().map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
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
