//! Find: memories by their words.

use tokio_postgres::types::Type;

use super::lexemes::Asked;
use super::list::Condition;
use super::session::Session;
use super::value::{Uuid, rows};
use crate::search::query::Need;
use crate::store::{Match, Matches, StoreError};

pub(super) fn lexical(
    db: &Session,
    asked: Asked,
    need: Need,
    mut condition: Condition,
    limit: usize,
) -> Result<Matches, StoreError> {
    // Where all words must be there, all that is found has each of them, and how rare they are
    // elsewhere would have to be counted for itself.
    let weigh = need == Need::Any && asked.each.len() > 1;
    let whole = condition.value(asked.whole, Type::TEXT);
    let each = condition.value(asked.each, Type::TEXT_ARRAY);
    let unordered = condition.value(asked.unordered, Type::TEXT_ARRAY);
    let weigh = condition.value(weigh, Type::BOOL);
    let limit = condition.value(rows(limit), Type::INT8);
    let sql = format!(
        "SELECT m.id, f.score, m.fades, count(*) OVER () \
         FROM atlatl.found({whole}, {each}, {unordered}, {weigh}) f \
         JOIN atlatl.memory m ON m.key = f.key WHERE {} \
         ORDER BY f.score DESC, m.key LIMIT {limit}",
        condition.sql
    );
    let found = db.query(&sql, &condition.values())?;
    let total = found.first().map_or(0, |row| row.get::<_, i64>(3).unsigned_abs());
    let best = found
        .iter()
        .map(|row| Match::new(row.get::<_, Uuid>(0).into(), row.get(1), row.get(2)))
        .collect();
    Ok(Matches::new(best, total))
}
