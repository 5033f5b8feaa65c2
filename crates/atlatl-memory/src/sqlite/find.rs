//! Find: memories by their words.

use chrono::{DateTime, Utc};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::crud::id_of;
use super::list::Condition;
use super::pool::failed;
use crate::filter::Filter;
use crate::search::query::{Need, Terms};
use crate::store::{Match, Matches, StoreError};

/// A word in a title or a tag says more than one somewhere in the content.
const WEIGHTS: &str = "bm25(4.0, 1.0, 2.0)";

pub(super) fn lexical(
    db: &Connection,
    terms: &Terms,
    filter: &Filter,
    limit: usize,
    now: DateTime<Utc>,
) -> Result<Matches, StoreError> {
    if terms.is_empty() || limit == 0 {
        return Ok(Matches::default());
    }
    let condition = Condition::from_filter(filter, now);
    let mut values = vec![Value::from(expression(terms))];
    values.extend(condition.values);
    let tables = format!(
        "FROM words CROSS JOIN memory ON memory.key = words.rowid \
         WHERE words MATCH ?1 AND {}",
        condition.sql
    );
    let count = format!("SELECT count(*) {tables}");
    // The index gives its rows by rank, so that only as many are looked up as are wanted.
    let best = format!(
        "SELECT memory.id, words.rank, memory.fades {tables} AND rank MATCH '{WEIGHTS}' \
         ORDER BY rank LIMIT {limit}"
    );
    let mut ask = db.prepare_cached(&best).map_err(failed)?;
    let best = ask
        .query_map(params_from_iter(&values), |row| {
            // The engine's better is smaller.
            Ok(Match::new(id_of(row.get(0)?), -row.get::<_, f64>(1)?, row.get(2)?))
        })
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(failed)?;
    let total = if best.len() < limit {
        best.len() as u64
    } else {
        db.prepare_cached(&count)
            .and_then(|mut ask| {
                ask.query_row(params_from_iter(&values), |row| row.get::<_, i64>(0))
            })
            .map(i64::unsigned_abs)
            .map_err(failed)?
    };
    Ok(Matches::new(best, total))
}

/// The question in the index's own language: quoted strings and what joins them, nothing else.
fn expression(terms: &Terms) -> String {
    let phrases = terms.phrases.iter().map(|phrase| {
        let quoted = format!("\"{}\"", phrase.words.replace('"', "\"\"").replace('\0', " "));
        if phrase.prefix { format!("{quoted} *") } else { quoted }
    });
    let with = match terms.need {
        Need::Any => " OR ",
        Need::All => " AND ",
    };
    phrases.collect::<Vec<_>>().join(with)
}
