//! Full-text search.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::crud::{Condition, id_from_blob, read_in};
use super::error::to_store_error;
use super::statistics::{self, FrequencyCache};
use crate::listing::Filter;
use crate::search::bm25::{self, Bm25, FIELD_WEIGHTS};
use crate::search::hybrid::MAX_COUNTED;
use crate::search::query::{Need, Phrase, Terms};
use crate::store::{
    Matches, MemoryMatch, StoreError, TotalAccuracy, UNRANKED_SCORE, UNRANKED_STEP,
};

/// The maximum number of rows that the engine scores, which takes about 1 µs each.
const MAX_SCORED_ROWS: u64 = 20_000;
/// The maximum number of rows that the engine counts for the weights of common phrases.
const MAX_WEIGHED_ROWS: u64 = 500_000;
/// The number of memories, the newest ones, that are ranked if every phrase is common.
const NEWEST_RANKED: usize = 1_000;

pub(super) fn lexical(
    db: &Connection,
    frequencies: &FrequencyCache,
    terms: &Terms,
    filter: &Filter,
    limit: usize,
    now: DateTime<Utc>,
) -> Result<Matches, StoreError> {
    if terms.is_empty() || limit == 0 {
        return Ok(Matches::default());
    }
    let totals = statistics::totals(db)?;
    let phrases = terms.phrases.iter().map(|phrase| {
        let expression = phrase_expression(phrase);
        let frequency = frequencies.count(db, &expression, totals.memories)?;
        Ok(CountedPhrase { expression, frequency })
    });
    let phrases = phrases.collect::<Result<Vec<_>, StoreError>>()?;
    let idf: Vec<f64> =
        phrases.iter().map(|phrase| bm25::idf(totals.memories, phrase.frequency)).collect();
    let candidates = Candidates { db, condition: Condition::from_filter(filter, now) };
    let plan = Plan::new(terms.need, &phrases, totals.memories, MAX_SCORED_ROWS);
    let mut best = match &plan {
        Plan::Nothing => Vec::new(),
        Plan::Complete { all } => candidates.by_score(all, limit)?,
        Plan::Selective { selective, .. } => {
            let mut best = candidates.by_score(selective, limit)?;
            for one in &mut best {
                one.score /= 2.0;
            }
            best
        }
        Plan::Newest { rest } => {
            let bm25 = Bm25::new(&terms.phrases, &idf, totals.mean_len);
            candidates.newest_by_score(rest, &bm25, limit)?
        }
    };
    if let Plan::Selective { rest, .. } | Plan::Newest { rest } = &plan {
        candidates.append_newest(&mut best, rest, limit)?;
    }
    let total = match plan.whole() {
        Some(whole) if best.len() >= limit => candidates.count(whole, MAX_COUNTED + 1)?,
        _ => best.len() as u64,
    };
    let unknown = (0..phrases.len()).filter(|&n| phrases[n].frequency == 0).collect();
    let mut matches = Matches::new(best, total.min(MAX_COUNTED));
    if total > MAX_COUNTED {
        matches.accuracy = TotalAccuracy::AtLeast;
    }
    Ok(matches.with_statistics(bm25::full_score(&idf), unknown))
}

/// Counts the memories that contain each phrase, up to `cap`.
pub(super) fn frequencies(
    db: &Connection,
    phrases: &[Phrase],
    cap: u64,
) -> Result<Vec<u64>, StoreError> {
    let count = |phrase| statistics::count(db, &phrase_expression(phrase), cap);
    phrases.iter().map(count).collect()
}

/// A phrase of a query, with the number of memories that contain it.
#[derive(Debug, Clone)]
struct CountedPhrase {
    expression: String,
    frequency: u64,
}

/// How a query is answered.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// No memory matches.
    Nothing,
    /// The engine scores all matches.
    Complete { all: String },
    /// The engine scores the memories with a rare phrase, and gives them twice their score. The
    /// others follow, newest first: those that match the first expression, then the second.
    Selective { selective: String, rest: Vec<String> },
    /// Every phrase is common: the newest memories are ranked here.
    Newest { rest: Vec<String> },
}

impl Plan {
    /// Plans a query over an index of `memories`, in which the engine scores at most `max_scored`
    /// rows.
    fn new(need: Need, phrases: &[CountedPhrase], memories: u64, max_scored: u64) -> Self {
        let mut present: Vec<&CountedPhrase> =
            phrases.iter().filter(|phrase| phrase.frequency > 0).collect();
        // A phrase that more than half of all memories contain has no weight, and is not counted
        // to the end.
        let is_everywhere = |phrase: &CountedPhrase| phrase.frequency > memories / 2;
        let rows_of = |phrase: &CountedPhrase| {
            if is_everywhere(phrase) { memories } else { phrase.frequency }
        };
        let rows = present.iter().map(|phrase| rows_of(phrase)).sum::<u64>();
        let (every, any) = (join(&present, " AND "), join(&present, " OR "));
        if present.is_empty() || (need == Need::All && present.len() < phrases.len()) {
            return Self::Nothing;
        }
        if need == Need::All {
            // There are at most as many matches as the rarest phrase has.
            let most = present.iter().map(|phrase| rows_of(phrase)).min().unwrap_or(0);
            let is_cheap = most <= max_scored && rows <= MAX_WEIGHED_ROWS;
            return if is_cheap {
                Self::Complete { all: every }
            } else {
                Self::Newest { rest: vec![every] }
            };
        }
        if rows <= max_scored {
            return Self::Complete { all: any };
        }
        let rest = if present.len() > 1 { vec![every, any] } else { vec![any] };
        // The sort is stable: the order in the query breaks ties.
        present.sort_by_key(|phrase| phrase.frequency);
        present.retain(|phrase| !is_everywhere(phrase));
        let rare = affordable(&present, max_scored);
        if rare == 0 {
            return Self::Newest { rest };
        }
        let (rare, common) = present.split_at(rare);
        let common = &common[..affordable(common, MAX_WEIGHED_ROWS)];
        // A row must have a rare phrase. Every phrase occurs twice in the expression, so that the
        // engine returns twice the score: the first occurrence of the rare ones is the condition,
        // and the common ones are repeated to keep the proportion.
        let condition = join(rare, " OR ");
        let scored = [rare, common, common].concat();
        let selective = format!("({condition}) AND ({})", join(&scored, " OR "));
        Self::Selective { selective, rest }
    }

    /// Returns the expression that all matches meet.
    fn whole(&self) -> Option<&str> {
        match self {
            Self::Nothing => None,
            Self::Complete { all } => Some(all),
            Self::Selective { rest, .. } | Self::Newest { rest } => rest.last().map(String::as_str),
        }
    }
}

/// Returns how many phrases from the beginning have at most `max` rows together.
fn affordable(phrases: &[&CountedPhrase], max: u64) -> usize {
    let mut rows = 0;
    phrases
        .iter()
        .take_while(|phrase| {
            rows += phrase.frequency;
            rows <= max
        })
        .count()
}

fn join(phrases: &[&CountedPhrase], operator: &str) -> String {
    let all: Vec<&str> = phrases.iter().map(|phrase| phrase.expression.as_str()).collect();
    all.join(operator)
}

/// Builds the expression of a phrase from quoted strings and operators only.
fn phrase_expression(phrase: &Phrase) -> String {
    let forms = phrase.forms().map(|words| {
        let quoted = format!("\"{}\"", words.replace('"', "\"\"").replace('\0', " "));
        if phrase.prefix { format!("{quoted} *") } else { quoted }
    });
    let forms: Vec<String> = forms.collect();
    if forms.len() > 1 { format!("({})", forms.join(" OR ")) } else { forms.concat() }
}

/// The memories that a filter admits, in a full-text search.
struct Candidates<'a> {
    db: &'a Connection,
    condition: Condition,
}

impl Candidates<'_> {
    /// Returns the best matches of `expression` by the engine's BM25, at most `limit`.
    fn by_score(&self, expression: &str, limit: usize) -> Result<Vec<MemoryMatch>, StoreError> {
        let [title, content, tags] = FIELD_WEIGHTS;
        // The index returns rows by rank, so that only the requested rows are looked up.
        let sql = format!(
            "SELECT memory.id, words.rank, memory.fades {} \
             AND rank MATCH 'bm25({title:.1}, {content:.1}, {tags:.1})' ORDER BY rank LIMIT ?",
            self.tables()
        );
        let mut statement = self.db.prepare_cached(&sql).map_err(to_store_error)?;
        statement
            .query_map(params_from_iter(self.values(expression, limit)), |row| {
                // A smaller rank is better in the engine.
                Ok(MemoryMatch::new(id_from_blob(row.get(0)?), -row.get::<_, f64>(1)?, row.get(2)?))
            })
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(to_store_error)
    }

    /// Ranks the newest [`NEWEST_RANKED`] matches, and returns the best of them.
    fn newest_by_score(
        &self,
        expressions: &[String],
        bm25: &Bm25,
        limit: usize,
    ) -> Result<Vec<MemoryMatch>, StoreError> {
        let mut statement = self
            .db
            .prepare_cached("SELECT json FROM document WHERE key = ?1")
            .map_err(to_store_error)?;
        let mut best = self.newest(expressions, &HashSet::new(), NEWEST_RANKED)?;
        for (key, one) in &mut best {
            let mut rows = statement.query([*key]).map_err(to_store_error)?;
            if let Some(row) = rows.next().map_err(to_store_error)? {
                one.score = bm25.score(&read_in(row, 0)?);
            }
        }
        // The sort is stable: newer memories come before older ones with the same score.
        best.sort_by(|(_, a), (_, b)| b.score.total_cmp(&a.score));
        best.truncate(limit);
        Ok(best.into_iter().map(|(_, one)| one).collect())
    }

    /// Fills `best` up to `limit` with other matches, newest first.
    fn append_newest(
        &self,
        best: &mut Vec<MemoryMatch>,
        expressions: &[String],
        limit: usize,
    ) -> Result<(), StoreError> {
        if best.len() >= limit {
            return Ok(());
        }
        let skip: HashSet<u128> = best.iter().map(|one| one.id.as_u128()).collect();
        let newest = self.newest(expressions, &skip, limit - best.len())?;
        let mut score = UNRANKED_SCORE;
        for (_, mut one) in newest {
            one.score = score;
            score *= UNRANKED_STEP;
            best.push(one);
        }
        Ok(())
    }

    /// Returns the keys and matches of the first expression, newest first, then those of the next,
    /// at most `limit`, without scores.
    fn newest(
        &self,
        expressions: &[String],
        skip: &HashSet<u128>,
        limit: usize,
    ) -> Result<Vec<(i64, MemoryMatch)>, StoreError> {
        let sql = format!(
            "SELECT memory.key, memory.id, memory.fades {} ORDER BY words.rowid DESC LIMIT ?",
            self.tables()
        );
        let mut statement = self.db.prepare_cached(&sql).map_err(to_store_error)?;
        let mut newest: Vec<(i64, MemoryMatch)> = Vec::new();
        let mut seen = skip.clone();
        for expression in expressions {
            if newest.len() >= limit {
                break;
            }
            // All that were seen may come again.
            let rows = limit - newest.len() + seen.len();
            let found = statement
                .query_map(params_from_iter(self.values(expression, rows)), |row| {
                    let (key, id) = (row.get(0)?, id_from_blob(row.get(1)?));
                    Ok((key, MemoryMatch::new(id, 0.0, row.get(2)?)))
                })
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(to_store_error)?;
            let new = found.into_iter().filter(|(_, one)| seen.insert(one.id.as_u128()));
            newest.extend(new.take(limit - newest.len()));
        }
        Ok(newest)
    }

    /// Counts the matches, up to `cap`.
    fn count(&self, expression: &str, cap: u64) -> Result<u64, StoreError> {
        let sql = format!("SELECT count(*) FROM (SELECT 1 {} LIMIT ?)", self.tables());
        let cap = usize::try_from(cap).unwrap_or(usize::MAX);
        self.db
            .prepare_cached(&sql)
            .and_then(|mut statement| {
                let values = params_from_iter(self.values(expression, cap));
                statement.query_row(values, |row| row.get::<_, i64>(0))
            })
            .map(i64::unsigned_abs)
            .map_err(to_store_error)
    }

    fn tables(&self) -> String {
        format!(
            "FROM words CROSS JOIN memory ON memory.key = words.rowid WHERE words MATCH ?1 AND {}",
            self.condition.sql
        )
    }

    /// Returns the parameters of a statement over [`tables`](Self::tables) with a limit.
    fn values(&self, expression: &str, limit: usize) -> Vec<Value> {
        let mut values = vec![Value::from(expression.to_owned())];
        values.extend(self.condition.values.iter().cloned());
        values.push(i64::try_from(limit).unwrap_or(i64::MAX).into());
        values
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use testkit::corpus;

    use super::*;
    use crate::store::{MemoryStore, OnConflict};

    fn plan(need: Need, phrases: &[(&str, u64)]) -> Plan {
        let counted = |&(expression, frequency): &(&str, u64)| CountedPhrase {
            expression: expression.to_owned(),
            frequency,
        };
        Plan::new(need, &phrases.iter().map(counted).collect::<Vec<_>>(), 1_000, 100)
    }

    #[test]
    fn the_engine_scores_few_rows() {
        let rest = |some: &[&str]| some.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let complete = |all: &str| Plan::Complete { all: all.to_owned() };
        assert_eq!(plan(Need::Any, &[("a", 60), ("b", 40), ("c", 0)]), complete("a OR b"));
        assert_eq!(
            plan(Need::Any, &[("a", 200), ("b", 40), ("c", 0), ("d", 600)]),
            Plan::Selective {
                selective: "(b) AND (b OR a OR a)".to_owned(),
                rest: rest(&["a AND b AND d", "a OR b OR d"]),
            }
        );
        let newest = |some: &[&str]| Plan::Newest { rest: rest(some) };
        assert_eq!(plan(Need::Any, &[("a", 200), ("b", 300)]), newest(&["a AND b", "a OR b"]));
        assert_eq!(plan(Need::Any, &[("a", 200)]), newest(&["a"]));
        assert_eq!(plan(Need::Any, &[("a", 0)]), Plan::Nothing);
        assert_eq!(plan(Need::All, &[("a", 200), ("b", 50)]), complete("a AND b"));
        assert_eq!(plan(Need::All, &[("a", 200), ("b", 150)]), newest(&["a AND b"]));
        assert_eq!(plan(Need::All, &[("a", 50), ("b", 0)]), Plan::Nothing);
    }

    /// A new version of the engine that scores differently fails here.
    #[tokio::test]
    async fn every_way_to_score_agrees() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("memory.db");
        let store = crate::SqliteStore::open(&path).expect("a store");
        let memories = corpus::memories(200, 12);
        store.put(&memories, OnConflict::Keep).await.expect("put");
        let db = Connection::open(&path).expect("a connection");
        let totals = statistics::totals(&db).expect("totals");
        let filter = Filter { status: None, ..Filter::default() };
        let now = "2026-02-01T00:00:00Z".parse().expect("a time");
        let candidates = Candidates { db: &db, condition: Condition::from_filter(&filter, now) };
        let scores = |expression: &str| {
            let best = candidates.by_score(expression, 1_000).expect("an answer");
            best.into_iter().map(|one| (one.id.as_u128(), one.score)).collect::<HashMap<_, _>>()
        };
        let (mut selective_plans, mut compared) = (0, 0);
        for memory in memories.iter().take(40) {
            let query: Vec<&str> = memory.content.split_whitespace().take(7).collect();
            let terms = Terms::parse(&query.join(" "), Need::Any);
            let counted = |phrase: &Phrase| {
                let expression = phrase_expression(phrase);
                let frequency = statistics::count(&db, &expression, 1_000).expect("a count");
                CountedPhrase { expression, frequency }
            };
            let phrases: Vec<CountedPhrase> = terms.phrases.iter().map(counted).collect();
            let idf: Vec<f64> =
                phrases.iter().map(|one| bm25::idf(totals.memories, one.frequency)).collect();
            let exact = scores(&join(&phrases.iter().collect::<Vec<_>>(), " OR "));
            let bm25 = Bm25::new(&terms.phrases, &idf, totals.mean_len);
            for memory in &memories {
                let engine = exact.get(&memory.id.as_u128()).copied().unwrap_or(0.0);
                let ours = bm25.score(memory);
                assert!((ours - engine).abs() < 1e-9, "{query:?} {}: {ours} {engine}", memory.id);
            }
            let plan = Plan::new(Need::Any, &phrases, totals.memories, 20);
            if let Plan::Selective { selective, .. } = plan {
                selective_plans += 1;
                for (id, twice) in scores(&selective) {
                    // Phrases of more than half of the memories are left out.
                    assert!((twice / 2.0 - exact[&id]).abs() < 1e-4, "{query:?}");
                    compared += 1;
                }
            }
        }
        assert!(selective_plans > 10 && compared > 50, "{selective_plans} {compared}");
    }
}
