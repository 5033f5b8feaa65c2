//! Search: the nearest vectors by an index, and by comparison those that it does not have yet.
//!
//! The index only proposes: what is answered, and in which order, is decided by the vectors and the
//! memories themselves. So whatever is stale in it, a memory that is gone or changed does not come back.

use tokio_postgres::types::Type;

use super::super::list::Condition;
use super::super::session::Session;
use super::super::value::rows;
use super::super::vector_search::{Wanted, cosine, matches};
use crate::store::{Match, StoreError};

/// The most answers that an index is asked for; who wants more compares all.
const MAX_HITS: usize = 400;
/// How many noted vectors are still worth asking an index.
const BEHIND: i64 = 5000;
/// How many vectors the index looks at for every answer, if the filter turns them down. A filter that
/// turns down more has few answers, and those are found sooner without the index.
const MAX_SCANNED_PER_HIT: usize = 10;

/// Which memories have the nearest vectors; `None` where no index can say.
pub(in super::super) fn search(
    db: &Session,
    pgvector: &str,
    wanted: &Wanted<'_>,
    mut condition: Condition,
    limit: usize,
) -> Result<Option<Vec<Match>>, StoreError> {
    if limit == 0 || limit > MAX_HITS {
        return Ok(None);
    }
    let Some(relation) = index(db, wanted, &condition, limit)? else { return Ok(None) };
    let (model, vector) = wanted.values(&mut condition);
    let most = condition.value(rows(limit), Type::INT8);
    let cosine = cosine(Some(pgvector), &vector);
    let filter = &condition.sql;
    let sql = format!(
        "WITH near AS MATERIALIZED (SELECT n.key FROM atlatl.\"{relation}\" n \
             JOIN atlatl.memory m ON m.key = n.key WHERE n.tenant = $1 AND {filter} \
             AND n.key NOT IN (SELECT w.key FROM atlatl.waiting w \
                 WHERE w.tenant = $1 AND w.model = {model}) \
             ORDER BY n.embedding OPERATOR({pgvector}.<#>) {vector}::real[]::{pgvector}.vector \
             LIMIT {most}) \
         SELECT m.id, {cosine}, m.fades, (SELECT count(*) FROM near) \
         FROM (SELECT key FROM near UNION SELECT w.key FROM atlatl.waiting w \
             WHERE w.tenant = $1 AND w.model = {model}) c \
         JOIN atlatl.vector v ON v.tenant = $1 AND v.model = {model} AND v.key = c.key \
         JOIN atlatl.memory m ON m.key = c.key \
         WHERE {filter} AND cardinality(v.vector) = cardinality({vector}) \
         ORDER BY 2 DESC, m.key LIMIT {most}"
    );
    let found = db.query(&sql, &condition.values())?;
    let proposed = found.first().map_or(0, |row| row.get::<_, i64>(3));
    // It gave up before it had enough: there may be more.
    Ok((proposed >= rows(limit)).then(|| matches(&found)))
}

/// The table of the index, if it can answer; the database is then told how to use it, for this
/// transaction. What must be sorted is sorted all the same; but nothing is that comes sorted.
fn index(
    db: &Session,
    wanted: &Wanted<'_>,
    condition: &Condition,
    limit: usize,
) -> Result<Option<String>, StoreError> {
    let wide = (2 * limit).clamp(100, 1000);
    let most = MAX_SCANNED_PER_HIT * limit.max(100);
    let sql = format!(
        "SELECT n.relation, set_config('hnsw.ef_search', '{wide}', true), \
             set_config('hnsw.iterative_scan', 'relaxed_order', true), \
             set_config('hnsw.max_scan_tuples', '{most}', true), \
             set_config('enable_sort', 'off', true), set_config('jit', 'off', true) \
         FROM atlatl.near n WHERE n.tenant = $1 AND n.model = $2 AND n.dimensions = $3 \
             AND n.complete AND (SELECT count(*) FROM (SELECT 1 FROM atlatl.waiting w \
                 WHERE w.tenant = $1 AND w.model = $2 LIMIT {}) c) <= {BEHIND}",
        BEHIND + 1
    );
    let dimensions = i32::try_from(wanted.vector.len()).unwrap_or(i32::MAX);
    let values =
        [condition.tenant(), (&wanted.model as _, Type::TEXT), (&dimensions as _, Type::INT4)];
    Ok(db.query(&sql, &values)?.first().map(|row| row.get(0)))
}
