//! Recalls through the store, beside the statement of 0.1.0 and beside an exact ranking.

use std::time::Duration;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    Matches, MemoryStore, PostgresStore, RecordedStatement, StoreError, record_statements,
};
use serde_json::{Value, json};
use testkit::SplitMix64;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use crate::client::connect;
use crate::database::Database;
use crate::exact::{ExactAnswer, ExactIndex};
use crate::measurement::{BackendCpu, Figures, spread};
use crate::memories::now;
use crate::previous::Previous;
use crate::progress;
use crate::queries::{Class, Queries, Query, RANDOM_LENGTHS};
use crate::text::Text;

/// The number of memories that a recall reads.
const READ: usize = 50;
/// A random query out of so many is repeated for the number of its candidates, and each that takes
/// half as long as the slowest so far.
const REPEATED_OF: usize = 16;
/// The seed of the queries.
const SEED: u64 = 2026;

/// The searched tenant at one size.
pub(crate) struct Searches<'a> {
    pub(crate) database: &'a Database,
    pub(crate) store: &'a PostgresStore,
    pub(crate) text: &'a Text,
    pub(crate) index: &'a ExactIndex,
}

impl Searches<'_> {
    /// Measures every class with `count` queries. `previous` has the statement of 0.1.0, and for how
    /// many of the queries it is measured too.
    pub(crate) fn classes(
        &self,
        count: usize,
        previous: Option<(&Previous<'_>, usize)>,
    ) -> Vec<Value> {
        let candidates = Candidates::new(self.database, self.store.name());
        let mut queries = Queries::new(self.text, self.index, SEED);
        let row = |class: Class| {
            progress(&format!("{} memories: {}", self.index.len(), class.name()));
            let drawn: Vec<Query> = (0..count).map(|_| queries.draw(class)).collect();
            let postings = self.index.postings(&drawn);
            let exact: Vec<ExactAnswer> =
                drawn.iter().map(|query| self.index.best(query, &postings)).collect();
            drop(postings);
            self.class(class, &candidates, &drawn, &exact, previous)
        };
        Class::ALL.into_iter().map(row).collect()
    }

    fn class(
        &self,
        class: Class,
        candidates: &Candidates,
        queries: &[Query],
        exact: &[ExactAnswer],
        previous: Option<(&Previous<'_>, usize)>,
    ) -> Value {
        // Every query runs once before it is measured, so that all are warm.
        let recorded = queries.iter().map(|query| self.recorded(query).1);
        let recorded: Vec<Vec<RecordedStatement>> = recorded.collect();
        let mut read: Vec<i64> =
            recorded.iter().map(|statements| candidates.count(statements)).collect();
        read.sort_unstable();
        // The pool may have opened connections since the last class.
        let cpu = self.backends();
        let (mut ours, mut theirs) = (Figures::default(), Figures::default());
        for (n, (query, exact)) in queries.iter().zip(exact).enumerate() {
            let (times, found) = cpu.time(|| self.recall(query));
            ours.add(times, found.ok().map(|found| exact.overlap(&found.best)));
            if let Some((previous, _)) = previous.filter(|(_, count)| n < *count) {
                let statement = previous.prepare(query);
                let (times, found) = previous.cpu.time(|| previous.recall(&statement));
                theirs.add(times, found.ok().map(|found| exact.overlap(&found)));
            }
        }
        let mut row = ours.json();
        row["class"] = json!(class.name());
        row["candidates"] = json!({"p50": read[read.len() / 2], "max": read.last()});
        row["statements"] = json!(recorded.iter().map(Vec::len).max());
        row["expected"] = json!(exact.iter().map(|answer| answer.expected).min());
        row["previous"] = previous.map_or(Value::Null, |_| theirs.json());
        row
    }

    fn recall(&self, query: &Query) -> Result<Matches, StoreError> {
        let filter = query.restriction.filter();
        let found = self.store.lexical_and_read(&query.terms, &filter, query.limit, READ, now());
        found.wait().map(|(matches, _)| matches)
    }

    fn recorded(&self, query: &Query) -> (Result<(), StoreError>, Vec<RecordedStatement>) {
        let filter = query.restriction.filter();
        let found = self.store.lexical_and_read(&query.terms, &filter, query.limit, READ, now());
        let (found, statements) = record_statements(found).wait();
        (found.map(drop), statements)
    }

    /// The processes of the store's connections.
    fn backends(&self) -> BackendCpu {
        let sql = "SELECT pid FROM pg_stat_activity \
                   WHERE datname = current_database() AND application_name LIKE 'atlatl/%'";
        let pids = self.database.sql(sql);
        BackendCpu::new(pids.lines().filter_map(|pid| pid.trim().parse().ok()))
    }

    /// Runs random queries, and reports whether a statement exceeds its bound.
    pub(crate) fn random(&self, count: usize, seed: u64) -> Value {
        let candidates = Candidates::new(self.database, self.store.name());
        let mut queries = Queries::new(self.text, self.index, seed);
        let mut random = SplitMix64::new(seed);
        let bound = PostgresStore::recall_timeout();
        let mut by_words: Vec<RandomFigures> =
            RANDOM_LENGTHS.iter().map(|_| RandomFigures::default()).collect();
        let mut errors: Vec<String> = Vec::new();
        let mut slowest = Duration::ZERO;
        for n in 0..count {
            if n > 0 && n.is_multiple_of((count / 20).max(1)) {
                progress(&format!(
                    "{n} of {count} random queries, at most {slowest:?} a statement"
                ));
            }
            let (words, query) = queries.random();
            let (answered, statements) = self.recorded(&query);
            let place = RANDOM_LENGTHS.iter().position(|length| *length == words);
            let figures = &mut by_words[place.expect("one of the lengths")];
            let longest = statements.iter().map(|statement| statement.elapsed).max();
            let longest = longest.unwrap_or_default();
            figures.longest.push(longest);
            figures.recalls.push(statements.iter().map(|statement| statement.elapsed).sum());
            figures.statements += statements.len();
            figures.over_bound +=
                statements.iter().filter(|statement| statement.elapsed > bound).count();
            if let Err(error) = answered {
                figures.refused += 1;
                errors.push(error.to_string());
            }
            if longest * 2 > slowest || random.below(REPEATED_OF) == 0 {
                figures.repeated += 1;
                figures.candidates = figures.candidates.max(candidates.count(&statements));
            }
            slowest = slowest.max(longest);
        }
        errors.sort_unstable();
        errors.dedup();
        errors.truncate(10);
        let rows = RANDOM_LENGTHS.iter().zip(&by_words);
        let rows: Vec<Value> = rows.map(|(words, figures)| figures.json(*words)).collect();
        json!({
            "bound_milliseconds": bound.as_secs_f64() * 1e3,
            "queries": count,
            "rows": rows,
            "errors": errors,
        })
    }
}

/// The figures of random queries with the same number of words.
#[derive(Debug, Default)]
struct RandomFigures {
    /// The longest statement of each query.
    longest: Vec<Duration>,
    /// The sum of the statements of each query.
    recalls: Vec<Duration>,
    statements: usize,
    over_bound: usize,
    refused: usize,
    /// The number of queries that were repeated for the number of candidates, and the maximum.
    repeated: usize,
    candidates: i64,
}

impl RandomFigures {
    fn json(&self, words: usize) -> Value {
        json!({
            "words": words,
            "times": self.recalls.len(),
            "recall": spread(&self.recalls),
            "statement": spread(&self.longest),
            "statements": self.statements,
            "over_bound": self.over_bound,
            "refused": self.refused,
            "repeated": self.repeated,
            "candidates": self.candidates,
        })
    }
}

/// Repeats the ranking statements of recalls for the number of candidates, which the store does not
/// report.
struct Candidates(Client);

impl Candidates {
    fn new(database: &Database, tenant: &str) -> Self {
        Self(connect(&database.superuser(), &format!("SET atlatl.tenant = '{tenant}'")))
    }

    /// Returns the largest number of candidates of the statements, 0 if none ranks.
    fn count(&self, statements: &[RecordedStatement]) -> i64 {
        let ranking = statements.iter().filter(|one| one.sql.contains("atlatl.rank_documents("));
        ranking.map(|statement| self.repeat(statement)).max().unwrap_or_default()
    }

    fn repeat(&self, recorded: &RecordedStatement) -> i64 {
        let repeated = async {
            let statement = self.0.prepare_typed(&recorded.sql, &recorded.types).await?;
            let values = recorded.values.iter().map(|value| value as &(dyn ToSql + Sync));
            self.0.query(&statement, &values.collect::<Vec<_>>()).await
        };
        let rows = repeated.wait().expect("candidates");
        rows.first().map_or(0, |row| row.get("candidates"))
    }
}
