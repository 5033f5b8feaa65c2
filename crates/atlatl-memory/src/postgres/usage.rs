//! What tenants use: stored memories and bytes, and requests and database time by day.
//!
//! A trigger writes the change of each statement as a row, and servers add these rows to the counts. So
//! the counts are exact, and writers do not wait for each other.

use chrono::{DateTime, NaiveDate, Utc};
use mif::MemoryId;
use tokio_postgres::types::Type;

use super::crud::{Tenant, Uuid, delete, rows};
use super::migrations::NO_TENANT;
use super::pool::{Pool, read_transaction, write_transaction};
use super::registry::Registry;
use super::session::{Access, Session, Value};
use super::{Postgres, PostgresStore};
use crate::listing::microseconds;
use crate::store::StoreError;

/// The number of changes that are added to counts in one transaction.
const FOLD_BATCH_LEN: i32 = 5000;
/// How often a count is tried: the first call announces it, and another process may be counting.
const COUNT_ATTEMPTS: u32 = 2;

/// What a tenant used since it was reported last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantUse {
    /// The tenant.
    pub tenant: String,
    /// The number of requests.
    pub requests: u64,
    /// The time for which its transactions had a connection, in milliseconds.
    pub database_ms: u64,
}

/// What a tenant used on a day.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DailyUsage {
    /// The tenant.
    pub tenant: String,
    /// The day, in UTC.
    pub day: NaiveDate,
    /// The number of requests.
    pub requests: u64,
    /// The time for which its transactions had a connection, in milliseconds.
    pub database_ms: u64,
    /// The number of memories when it was measured last, if it was.
    pub memories: Option<u64>,
    /// The bytes of these memories.
    pub bytes: Option<u64>,
}

impl Postgres {
    /// Adds to what tenants used today.
    pub async fn add_usage(&self, used: &[TenantUse]) -> Result<(), StoreError> {
        if used.is_empty() {
            return Ok(());
        }
        let (pool, _) = self.0.verified(NO_TENANT).await?;
        let sql = "SELECT atlatl.add_usage($1, $2, $3)";
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let tenants: Vec<&str> = used.iter().map(|one| one.tenant.as_str()).collect();
        let requests: Vec<i64> = used.iter().map(|one| number(one.requests)).collect();
        let milliseconds: Vec<i64> = used.iter().map(|one| number(one.database_ms)).collect();
        write_transaction!(pool, NO_TENANT, |db| {
            let values: [Value<'_>; 3] = [
                (&tenants, Type::TEXT_ARRAY),
                (&requests, Type::INT8_ARRAY),
                (&milliseconds, Type::INT8_ARRAY),
            ];
            db.query(sql, &values).await.map(drop)
        })
    }

    /// Adds changes of all tenants to their counts. Returns how many, 0 if there is none or another
    /// process does.
    pub async fn fold_usage(&self) -> Result<u64, StoreError> {
        let (pool, _) = self.0.verified(NO_TENANT).await?;
        let sql = "SELECT atlatl.fold_usage($1)";
        let folded = write_transaction!(pool, NO_TENANT, |db| db
            .query(sql, &[(&FOLD_BATCH_LEN, Type::INT4)])
            .await)?;
        let folded: i32 = folded.first().map_or(0, |row| row.get(0));
        Ok(u64::from(folded.unsigned_abs()))
    }

    /// Counts the memories of a tenant unless they are counted, which may take long.
    pub async fn count_missing_usage(&self, tenant: &str) -> Result<(), StoreError> {
        let store = self.tenant(tenant)?;
        if store.count_bytes().await?.is_none() {
            store.count_usage().await?;
        }
        Ok(())
    }

    /// Notes what a tenant has today, after counting its memories once.
    pub async fn measure_usage(&self, tenant: &str) -> Result<(), StoreError> {
        self.count_missing_usage(tenant).await?;
        let store = self.tenant(tenant)?;
        let sql = "SELECT atlatl.note_usage_day()";
        write_transaction!(store.pool().await?, &store.tenant.name, |db| {
            db.query(sql, &[]).await.map(drop)
        })
    }
}

impl Registry {
    /// Returns what all tenants or one used on the last days, by tenant and day.
    pub async fn usage(
        &self,
        tenant: Option<&str>,
        days: u16,
    ) -> Result<Vec<DailyUsage>, StoreError> {
        // The dialect of dates needs no feature of the client: days since 1970.
        let sql = "SELECT d.tenant, d.day - DATE '1970-01-01', d.requests, d.database_ms, \
                   d.memories, d.bytes FROM atlatl.usage_day d \
                   WHERE ($1::text IS NULL OR d.tenant = $1) \
                   AND d.day > (now() AT TIME ZONE 'UTC')::date - $2::integer \
                   ORDER BY d.tenant, d.day";
        let days = i32::from(days);
        read_transaction!(self.pool(), NO_TENANT, Access::Condition, |db| {
            let values: [Value<'_>; 2] = [(&tenant, Type::TEXT), (&days, Type::INT4)];
            let found = db.query(sql, &values).await?;
            let count = |n: i64| n.unsigned_abs();
            Ok(found
                .iter()
                .map(|row| DailyUsage {
                    tenant: row.get(0),
                    day: day(row.get(1)),
                    requests: count(row.get(2)),
                    database_ms: count(row.get(3)),
                    memories: row.get::<_, Option<i64>>(4).map(count),
                    bytes: row.get::<_, Option<i64>>(5).map(count),
                })
                .collect())
        })
    }
}

/// The date that is this many days after 1970-01-01.
fn day(since_1970: i32) -> NaiveDate {
    let at = DateTime::from_timestamp(i64::from(since_1970) * 86_400, 0);
    at.unwrap_or_default().date_naive()
}

impl PostgresStore {
    /// Returns the bytes of all memories; `None` before [`Postgres::count_missing_usage`] counted
    /// them. No
    /// request counts them: that reads all memories of the tenant.
    pub(super) async fn count_bytes(&self) -> Result<Option<u64>, StoreError> {
        let (pool, sql): (&Pool, _) =
            (self.pool().await?, "SELECT bytes FROM atlatl.stored_usage()");
        let found = read_transaction!(pool, &self.tenant.name, Access::Keys, |db| {
            db.query(sql, &[]).await
        })?;
        Ok(found.first().map(|row| row.get::<_, i64>(0).unsigned_abs()))
    }

    async fn count_usage(&self) -> Result<(), StoreError> {
        let sql = "SELECT atlatl.count_usage()";
        let long = self.pool().await?.for_long_statements()?;
        for _ in 0..COUNT_ATTEMPTS {
            let counted =
                write_transaction!(&long, &self.tenant.name, |db| db.query(sql, &[]).await)?;
            if counted.first().is_none_or(|row| row.get(0)) {
                break;
            }
        }
        Ok(())
    }
}

/// Deletes memories that were not changed since a time, and returns their ids.
pub(super) async fn retire(
    db: &Session,
    tenant: &Tenant,
    before: DateTime<Utc>,
    limit: usize,
) -> Result<Vec<MemoryId>, StoreError> {
    // A memory that is being updated is changed now.
    let sql = "SELECT id FROM atlatl.memory WHERE tenant = $1 AND changed < $2 \
               ORDER BY changed LIMIT $3 FOR UPDATE SKIP LOCKED";
    let (before, limit) = (microseconds(before), rows(limit));
    let values: [Value<'_>; 3] =
        [(&tenant.name, Type::TEXT), (&before, Type::INT8), (&limit, Type::INT8)];
    let over = db.query(sql, &values).await?;
    let ids: Vec<Uuid> = over.iter().map(|row| row.get(0)).collect();
    let gone = delete(db, tenant, &ids).await?;
    Ok(gone.into_iter().map(MemoryId::from).collect())
}
