//! How many memories contain words and phrases.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::Type;

use super::cells::Term;
use super::crud::Tenant;
use super::filter_values::FilterValues;
use super::newest_matches::MatchConditions;
use super::session::{Session, Value};
use super::units::Unit;
use crate::search::query::{Need, Phrase};
use crate::store::StoreError;

/// The maximum number of memories that are read for the frequencies of words.
const MAX_FREQUENCY_ROWS: i64 = 20_000;

/// Counts the memories that contain each phrase, up to `cap`.
pub(super) async fn frequencies(
    db: &Session,
    tenant: &Tenant,
    phrases: &[Phrase],
    cap: u64,
) -> Result<Vec<u64>, StoreError> {
    let counts = count_phrases(db, tenant, phrases, cap).await?;
    Ok(counts.into_iter().map(|count| count.memories).collect())
}

/// How many memories contain a phrase.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PhraseCount {
    pub(super) memories: u64,
    /// Whether not all memories with its words were read, so that more may contain it.
    pub(super) is_truncated: bool,
}

/// Counts the memories that contain each phrase, up to `cap`. Single words are counted together,
/// because most of them are guesses that no memory contains.
pub(super) async fn count_phrases(
    db: &Session,
    tenant: &Tenant,
    phrases: &[Phrase],
    cap: u64,
) -> Result<Vec<PhraseCount>, StoreError> {
    let mut counts = vec![PhraseCount::default(); phrases.len()];
    let units = phrases.iter().enumerate();
    let units: Vec<Unit> =
        units.filter_map(|(n, phrase)| Unit::from_phrase(&tenant.name, n, phrase)).collect();
    let words: Vec<(usize, Word<'_>)> =
        units.iter().filter_map(|unit| Some((unit.phrase, unit.single_word()?))).collect();
    let distinct = words.iter().map(|(_, word)| *word).collect();
    let frequencies = word_frequencies(db, tenant, distinct).await?;
    for (n, word) in words {
        counts[n].memories = frequencies.get(&word).map_or(0, |frequency| (*frequency).min(cap));
    }
    let most = usize::try_from(cap).unwrap_or(usize::MAX);
    for unit in units.iter().filter(|unit| unit.single_word().is_none()) {
        let conditions = MatchConditions::new(std::slice::from_ref(unit), Need::All);
        let found = conditions.newest(db, &FilterValues::everything(), most).await?;
        let memories = found.matches.len() as u64;
        counts[unit.phrase] = PhraseCount { memories, is_truncated: found.is_truncated };
    }
    Ok(counts)
}

/// The term of a word, and its text in the sequence of words.
type Word<'a> = (Term, &'a str);

/// Counts the memories of each word that is in the index. Common words have their last count.
async fn word_frequencies<'a>(
    db: &Session,
    tenant: &Tenant,
    words: HashSet<Word<'a>>,
) -> Result<HashMap<Word<'a>, u64>, StoreError> {
    if words.is_empty() {
        return Ok(HashMap::new());
    }
    let terms: Vec<i32> = words.iter().map(|(term, _)| term.number()).collect();
    let known = "SELECT term, frequency::bigint FROM atlatl.common_term \
                 WHERE tenant = $1 AND term = ANY ($2)";
    let values: [Value<'_>; 2] = [(&tenant.name, Type::TEXT), (&terms, Type::INT4_ARRAY)];
    let known = db.query(known, &values).await?;
    let common: HashMap<i32, u64> =
        known.iter().map(|row| (row.get(0), row.get::<_, i64>(1).unsigned_abs())).collect();
    let frequency = |word: &Word<'a>| Some((*word, *common.get(&word.0.number())?));
    let mut frequencies: HashMap<Word<'a>, u64> = words.iter().filter_map(frequency).collect();
    let rare: Vec<Word<'_>> =
        words.into_iter().filter(|word| !frequencies.contains_key(word)).collect();
    if !rare.is_empty() {
        let (terms, texts): (Vec<i32>, Vec<&str>) =
            rare.iter().map(|(term, text)| (term.number(), *text)).unzip();
        let sql = "SELECT place, frequency FROM atlatl.term_frequencies($1, $2, $3)";
        let values: [Value<'_>; 3] = [
            (&terms, Type::INT4_ARRAY),
            (&texts, Type::TEXT_ARRAY),
            (&MAX_FREQUENCY_ROWS, Type::INT8),
        ];
        for row in &db.query(sql, &values).await? {
            let place = usize::try_from(row.get::<_, i64>(0)).unwrap_or_default();
            if let Some(word) = place.checked_sub(1).and_then(|place| rare.get(place)) {
                frequencies.insert(*word, row.get::<_, i64>(1).unsigned_abs());
            }
        }
    }
    Ok(frequencies)
}
