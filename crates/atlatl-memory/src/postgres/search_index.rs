//! Maintenance of the full-text index: documents of servers of a previous version, counts of words,
//! and repair.
//!
//! A server writes the row of the index together with the memory. A trigger notes documents without
//! one in a backlog: those of servers that do not know of the index, and those that were there before
//! it. Counts of words are taken from a sample, because counters that every writer updates would make
//! writers wait for each other.

use mif::Memory;
use tokio_postgres::types::Type;

use super::cells::{DEFAULT_MEAN_LEN, SAMPLES, Term};
use super::crud::{
    IndexFormat, IndexedMemory, Rows, Tenant, WordsColumn, insert_search_documents, read,
};
use super::pool::{Pool, write_transaction};
use super::recall::{SMALL_TENANT, STALE_AFTER, STALE_AFTER_TRUNCATION, is_outdated};
use super::session::{Session, Value};
use super::units::join_lists;
use crate::store::StoreError;

/// The number of documents that are indexed in one transaction.
pub(super) const FILL_BATCH_LEN: i64 = 500;
/// The number of memories whose words are counted.
const COUNTED_MEMORIES: i64 = 10_000;
/// Distinguishes the lock on a tenant's index from other advisory locks.
const LOCK_SEED: i64 = 6;

/// Returns the mean number of words of the tenant's memories.
pub(super) async fn mean_len(db: &Session, tenant: &Tenant) -> Result<f64, StoreError> {
    let sql = "SELECT words::float8 / nullif(documents, 0) FROM atlatl.search_statistics \
               WHERE tenant = $1";
    let found = db.query(sql, &[(&tenant.name, Type::TEXT)]).await?;
    let mean: Option<f64> = found.first().and_then(|row| row.get(0));
    Ok(mean.filter(|mean| *mean >= 1.0).unwrap_or(DEFAULT_MEAN_LEN))
}

/// Returns whether [`advance`] has work to do.
pub(super) async fn is_behind(db: &Session, tenant: &Tenant) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM atlatl.search_backlog WHERE tenant = $1)";
    let waits = db.query(sql, &[(&tenant.name, Type::TEXT)]).await?;
    if waits.first().is_some_and(|row| row.get(0)) {
        return Ok(true);
    }
    Ok(Census::take(db, tenant).await?.is_outdated(STALE_AFTER))
}

/// Indexes at most `limit` documents of the backlog, and counts words if the tenant changed much.
/// Returns the number of documents and counts.
pub(super) async fn advance(db: &Session, tenant: &Tenant, limit: i64) -> Result<u64, StoreError> {
    let filled = fill(db, tenant, limit).await?;
    Ok(filled + count_if_outdated(db, tenant, STALE_AFTER).await?)
}

/// Counts words again for a query that found a frequent word without a count, if the tenant changed
/// a little since the last time. Returns the number of counts.
pub(super) async fn recount(db: &Session, tenant: &Tenant) -> Result<u64, StoreError> {
    count_if_outdated(db, tenant, STALE_AFTER_TRUNCATION).await
}

/// Indexes at most `limit` documents of the backlog. Returns how many.
async fn fill(db: &Session, tenant: &Tenant, limit: i64) -> Result<u64, StoreError> {
    lock(db, tenant).await?;
    // A transaction that changes or deletes a memory locks its row first, and then finds the row of the index.
    let waiting = "SELECT m.key, d.json FROM (SELECT key FROM atlatl.search_backlog \
                       WHERE tenant = $1 ORDER BY key LIMIT $2) b \
                   JOIN atlatl.memory m ON m.tenant = $1 AND m.key = b.key \
                   JOIN atlatl.document d ON d.tenant = $1 AND d.key = b.key \
                   FOR NO KEY UPDATE OF m SKIP LOCKED";
    let values: [Value<'_>; 2] = [(&tenant.name, Type::TEXT), (&limit, Type::INT8)];
    let waiting = db.query(waiting, &values).await?;
    if waiting.is_empty() {
        // Without a memory and its document there is nothing to index.
        let sql = "DELETE FROM atlatl.search_backlog b WHERE b.tenant = $1 AND (NOT EXISTS \
                       (SELECT FROM atlatl.memory m WHERE m.tenant = $1 AND m.key = b.key) \
                   OR NOT EXISTS \
                       (SELECT FROM atlatl.document d WHERE d.tenant = $1 AND d.key = b.key))";
        return db.execute(sql, &[(&tenant.name, Type::TEXT)]).await;
    }
    let format = IndexFormat { mean_len: mean_len(db, tenant).await?, words: WordsColumn::Dropped };
    let keys: Vec<i64> = waiting.iter().map(|row| row.get(0)).collect();
    // A memory that cannot be parsed has no words. It is reported when it is read.
    let memories: Vec<(i64, Memory)> =
        waiting.iter().filter_map(|row| Some((row.get(0), read(row.get(1)).ok()?))).collect();
    let indexed: Vec<_> =
        memories.iter().map(|(_, memory)| IndexedMemory::new(tenant, &format, memory)).collect();
    let rows = Rows::from_memories(memories.iter().map(|(_, memory)| memory).zip(&indexed));
    let indexed_keys: Vec<i64> = memories.iter().map(|(key, _)| *key).collect();
    insert_search_documents(db, &rows, &indexed_keys).await?;
    let done = "DELETE FROM atlatl.search_backlog WHERE tenant = $1 AND key = ANY ($2)";
    db.execute(done, &[(&tenant.name, Type::TEXT), (&keys, Type::INT8_ARRAY)]).await
}

/// Indexes the backlog in short transactions, so that no writer waits long for the rows that they
/// lock. Documents that a writer has locked remain. Returns the number of indexed documents.
pub(super) async fn fill_all(pool: &Pool, tenant: &Tenant) -> Result<u64, StoreError> {
    let mut indexed = 0;
    loop {
        let filled =
            write_transaction!(pool, &tenant.name, |db| fill(db, tenant, FILL_BATCH_LEN).await)?;
        if filled == 0 {
            return Ok(indexed);
        }
        indexed += filled;
    }
}

/// Waits for other maintenance of this tenant's index. Two at once would index documents twice.
async fn lock(db: &Session, tenant: &Tenant) -> Result<(), StoreError> {
    let sql = "SELECT pg_advisory_xact_lock(hashtextextended($1, $2))";
    db.query(sql, &[(&tenant.name, Type::TEXT), (&LOCK_SEED, Type::INT8)]).await.map(drop)
}

/// How many memories a tenant has, and had when its words were counted.
struct Census {
    counted: Option<i64>,
    /// Exact for small tenants, otherwise estimated from a sample.
    memories: i64,
}

impl Census {
    async fn take(db: &Session, tenant: &Tenant) -> Result<Self, StoreError> {
        let sql = "SELECT (SELECT documents FROM atlatl.search_statistics WHERE tenant = $1), \
                   (SELECT count(*) FROM (SELECT FROM atlatl.memory WHERE tenant = $1 LIMIT $2) m)";
        let most = SMALL_TENANT + 1;
        let values: [Value<'_>; 2] = [(&tenant.name, Type::TEXT), (&most, Type::INT8)];
        let found = db.query(sql, &values).await?;
        let first = found.first().ok_or_else(|| StoreError::Engine("no answer".into()))?;
        let (counted, memories): (Option<i64>, i64) = (first.get(0), first.get(1));
        if memories <= SMALL_TENANT {
            return Ok(Self { counted, memories });
        }
        let sample: Vec<i32> = Term::sample(&tenant.name, 0).cells_from(0).collect();
        let sample = vec![join_lists(std::iter::once(sample))];
        let sampled = "SELECT count(id) FROM atlatl.match_documents( \
                       $1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, $2, $3, false, $4, $4)";
        let no_texts = vec![""];
        let values: [Value<'_>; 4] = [
            (&i64::MIN, Type::INT8),
            (&sample, Type::TEXT_ARRAY),
            (&no_texts, Type::TEXT_ARRAY),
            (&i64::MAX, Type::INT8),
        ];
        let found = db.query(sampled, &values).await?;
        let sampled: i64 = found.first().map_or(0, |row| row.get(0));
        Ok(Self { counted, memories: memories.max(sampled * i64::from(SAMPLES)) })
    }

    fn is_outdated(&self, part: i64) -> bool {
        match self.counted {
            None => self.memories > 0,
            Some(counted) => is_outdated(counted, self.memories, part),
        }
    }
}

/// Counts words if more than one memory in `part` was added or deleted since the last time. Returns
/// the number of counts.
async fn count_if_outdated(db: &Session, tenant: &Tenant, part: i64) -> Result<u64, StoreError> {
    // Another process may have counted meanwhile.
    lock(db, tenant).await?;
    let census = Census::take(db, tenant).await?;
    if !census.is_outdated(part) {
        return Ok(0);
    }
    let all = i64::from(SAMPLES);
    let samples = (COUNTED_MEMORIES * all / census.memories.max(1) + 1).min(all);
    let samples = u8::try_from(samples).unwrap_or(SAMPLES);
    let cells: Vec<i32> =
        (0..samples).flat_map(|n| Term::sample(&tenant.name, n).cells_from(0)).collect();
    let factor = f64::from(SAMPLES) / f64::from(samples);
    let values: [Value<'_>; 2] = [(&cells, Type::INT4_ARRAY), (&factor, Type::FLOAT8)];
    db.query("SELECT atlatl.count_terms($1, $2)", &values).await?;
    Ok(1)
}

/// Deletes rows of the index without a document and duplicates, and notes documents without a row in
/// the backlog, which [`fill_all`] indexes. Returns the number of deleted rows.
pub(super) async fn repair(db: &Session, tenant: &Tenant) -> Result<u64, StoreError> {
    lock(db, tenant).await?;
    let tenant_value: [Value<'_>; 1] = [(&tenant.name, Type::TEXT)];
    let orphans = "DELETE FROM atlatl.search_document x WHERE x.tenant = $1 AND (NOT EXISTS \
                       (SELECT FROM atlatl.document d WHERE d.tenant = $1 AND d.key = x.key) \
                   OR x.ctid <> (SELECT min(y.ctid) FROM atlatl.search_document y \
                       WHERE y.tenant = $1 AND y.key = x.key))";
    let orphaned = db.execute(orphans, &tenant_value).await?;
    let missing = "INSERT INTO atlatl.search_backlog (key) SELECT d.key FROM atlatl.document d \
                   WHERE d.tenant = $1 AND NOT EXISTS (SELECT FROM atlatl.search_document x \
                       WHERE x.tenant = $1 AND x.key = d.key OFFSET 0) ON CONFLICT DO NOTHING";
    db.execute(missing, &tenant_value).await?;
    Ok(orphaned)
}
