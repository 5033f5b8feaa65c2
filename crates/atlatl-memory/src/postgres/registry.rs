//! The registry of tenants and API keys: administration by the schema owner or a role for it, and
//! lookups by servers.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio_postgres::types::Type;

use super::fair_queue::QueueName;
use super::migrations::NO_TENANT;
use super::options::PostgresOptions;
use super::pool::{Pool, read_transaction, write_transaction};
use super::pooler::PreparedStatements;
use super::session::Access;
use super::{Postgres, check_name, migrations};
use crate::store::StoreError;

/// The number of tenant names per query.
const TENANT_PAGE_LEN: i32 = 500;

/// Administration of tenants and keys by the owner of the schema, or by a role that may do only this.
#[derive(Debug)]
pub struct Registry(Arc<Pool>);

/// A tenant in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenantSummary {
    /// The name.
    pub name: String,
    /// The creation time.
    pub made: DateTime<Utc>,
    /// The limits of the tenant.
    pub bounds: TenantLimits,
    /// The number of memories.
    pub memories: u64,
    /// The number of usable keys.
    pub keys: u64,
    /// Whether the tenant is being erased. Then its keys are revoked, and memories decrease.
    pub is_erasing: bool,
}

/// A key to store.
#[derive(Debug, Clone)]
pub struct NewKey<'a> {
    /// The id.
    pub id: &'a str,
    /// The tenant it belongs to.
    pub tenant: &'a str,
    /// The digest of its secret.
    pub digest: &'a [u8],
    /// Its scopes.
    pub scopes: &'a [&'a str],
    /// A display name.
    pub name: &'a str,
    /// The expiry time.
    pub expires: Option<DateTime<Utc>>,
}

/// A key in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeySummary {
    /// The id.
    pub id: String,
    /// The tenant it belongs to.
    pub tenant: String,
    /// The display name.
    pub name: String,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// The creation time.
    pub made: DateTime<Utc>,
    /// The expiry time.
    pub expires: Option<DateTime<Utc>>,
    /// The time of revocation.
    pub revoked: Option<DateTime<Utc>>,
}

impl Registry {
    /// Opens the registry. The URL names the owner of the schema, or a role that a migration lets
    /// administer tenants.
    pub async fn open(owner: &PostgresOptions) -> Result<Self, StoreError> {
        let own = PostgresOptions {
            role: "none".to_owned(),
            connections: 1,
            // Each statement runs once.
            prepared_statements: PreparedStatements::Off,
            ..owner.clone()
        };
        let pool = Pool::new(&own)?;
        migrations::check_version(&pool).await?;
        Ok(Self(Arc::new(pool)))
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.0
    }

    pub(super) fn shared_pool(&self) -> &Arc<Pool> {
        &self.0
    }

    /// Returns the URL of the database without the password.
    pub(super) fn place(&self) -> &str {
        &self.0.place
    }

    /// Creates a tenant, or updates the limits of an existing one. Returns whether it was created. A
    /// tenant that is being erased is refused.
    pub async fn put_tenant(&self, name: &str, bounds: TenantLimits) -> Result<bool, StoreError> {
        check_name(name, &self.0.place)?;
        // No erasure begins meanwhile.
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 8))";
        let sql = "INSERT INTO atlatl.tenant AS t \
                       (name, memories, per_minute, bytes, retention_days) \
                   SELECT $1, $2, $3, $4, $5 WHERE NOT atlatl.is_erasing($1) \
                   ON CONFLICT (name) DO UPDATE SET memories = $2, per_minute = $3, bytes = $4, \
                       retention_days = $5 \
                   RETURNING t.xmax = 0";
        let memories = bounds.memories.map(|most| i64::try_from(most).unwrap_or(i64::MAX));
        let per_minute = bounds.per_minute.map(|most| i32::try_from(most).unwrap_or(i32::MAX));
        let bytes = bounds.bytes.map(|most| i64::try_from(most).unwrap_or(i64::MAX));
        let retention_days = bounds.retention_days.map(i32::from);
        write_transaction!(&self.0, NO_TENANT, |db| {
            let values = [
                (&name as _, Type::TEXT),
                (&memories as _, Type::INT8),
                (&per_minute as _, Type::INT4),
                (&bytes as _, Type::INT8),
                (&retention_days as _, Type::INT4),
            ];
            db.query(lock, &[(&name, Type::TEXT)]).await?;
            let stored = db.query(sql, &values).await?;
            let erasing = || StoreError::NotAStore {
                place: self.place().to_owned(),
                why: "the tenant is being erased: create it again when that is complete".to_owned(),
            };
            stored.first().map(|row| row.get::<_, bool>(0)).ok_or_else(erasing)
        })
    }

    /// Returns all tenants.
    pub async fn tenants(&self) -> Result<Vec<TenantSummary>, StoreError> {
        let sql = "SELECT t.name, micros(t.made), t.memories, t.per_minute, \
                   atlatl.memory_count(t.name), \
                   (SELECT count(*) FROM atlatl.access_key k WHERE k.tenant = t.name \
                    AND k.revoked IS NULL AND (k.expires IS NULL OR k.expires > now())), \
                   atlatl.is_erasing(t.name), t.bytes, t.retention_days \
                   FROM atlatl.tenant t ORDER BY t.name";
        let sql = sql.replace("micros(t.made)", &micros("t.made"));
        read_transaction!(&self.0, NO_TENANT, Access::Condition, |db| {
            let rows = db.query(&sql, &[]).await?;
            Ok(rows
                .iter()
                .map(|row| TenantSummary {
                    name: row.get(0),
                    made: time(row.get(1)).unwrap_or_default(),
                    bounds: TenantLimits {
                        memories: row.get::<_, Option<i64>>(2).map(i64::unsigned_abs),
                        per_minute: row.get::<_, Option<i32>>(3).map(i32::unsigned_abs),
                        bytes: row.get::<_, Option<i64>>(7).map(i64::unsigned_abs),
                        retention_days: days(row.get(8)),
                    },
                    memories: row.get::<_, i64>(4).unsigned_abs(),
                    keys: row.get::<_, i64>(5).unsigned_abs(),
                    is_erasing: row.get(6),
                })
                .collect())
        })
    }

    /// Stores a key. Returns whether the tenant exists and is not being erased.
    pub async fn put_key(&self, key: &NewKey<'_>) -> Result<bool, StoreError> {
        let sql = "INSERT INTO atlatl.access_key (id, tenant, digest, scopes, name, expires) \
                   SELECT $1, t.name, $3, $4, $5, to_timestamp($6::float8 / 1000000) \
                   FROM atlatl.tenant t WHERE t.name = $2 AND NOT atlatl.is_erasing(t.name)";
        let expires = key.expires.map(|at| at.timestamp_micros());
        #[expect(clippy::cast_precision_loss, reason = "to the microsecond for 285 years")]
        let expires = expires.map(|micros| micros as f64);
        write_transaction!(&self.0, NO_TENANT, |db| {
            let values = [
                (&key.id as _, Type::TEXT),
                (&key.tenant as _, Type::TEXT),
                (&key.digest as _, Type::BYTEA),
                (&key.scopes as _, Type::TEXT_ARRAY),
                (&key.name as _, Type::TEXT),
                (&expires as _, Type::FLOAT8),
            ];
            Ok(db.execute(sql, &values).await? == 1)
        })
    }

    /// Returns the keys of all tenants, or of one.
    pub async fn keys(&self, tenant: Option<&str>) -> Result<Vec<KeySummary>, StoreError> {
        let sql = format!(
            "SELECT id, tenant, name, scopes, {}, {}, {} FROM atlatl.access_key \
             WHERE $1::text IS NULL OR tenant = $1 ORDER BY tenant, made, id",
            micros("made"),
            micros("expires"),
            micros("revoked")
        );
        read_transaction!(&self.0, NO_TENANT, Access::Condition, |db| {
            let rows = db.query(&sql, &[(&tenant, Type::TEXT)]).await?;
            Ok(rows
                .iter()
                .map(|row| KeySummary {
                    id: row.get(0),
                    tenant: row.get(1),
                    name: row.get(2),
                    scopes: row.get(3),
                    made: time(row.get(4)).unwrap_or_default(),
                    expires: time(row.get(5)),
                    revoked: time(row.get(6)),
                })
                .collect())
        })
    }

    /// Revokes a key. Returns `false` if it does not exist or is revoked already.
    pub async fn revoke_key(&self, id: &str) -> Result<bool, StoreError> {
        let sql = "UPDATE atlatl.access_key SET revoked = now() WHERE id = $1 AND revoked IS NULL";
        write_transaction!(&self.0, NO_TENANT, |db| Ok(db
            .execute(sql, &[(&id, Type::TEXT)])
            .await?
            == 1))
    }
}

/// The SQL for a timestamp in microseconds.
pub(super) fn micros(column: &str) -> String {
    format!("floor(extract(epoch FROM {column}) * 1000000)::bigint")
}

pub(super) fn time(micros: Option<i64>) -> Option<DateTime<Utc>> {
    micros.and_then(DateTime::from_timestamp_micros)
}

/// A number of days. More than fit are as good as for ever.
fn days(stored: Option<i32>) -> Option<u16> {
    stored.and_then(|days| u16::try_from(days).ok())
}

/// The limits of a tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// The maximum number of memories.
    pub memories: Option<u64>,
    /// The maximum number of requests per minute.
    pub per_minute: Option<u32>,
    /// The maximum number of bytes of all memories as JSON.
    pub bytes: Option<u64>,
    /// The number of days for which a memory is kept after its last change.
    pub retention_days: Option<u16>,
}

/// A tenant, as a server looks it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenantRecord {
    /// The limits of the tenant.
    pub bounds: TenantLimits,
    /// The creation time, which distinguishes a tenant from a later one of the same name.
    pub made: i64,
}

/// A stored key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredKey {
    /// The tenant it belongs to.
    pub tenant: String,
    /// The digest of its secret.
    pub digest: Vec<u8>,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// The expiry time.
    pub expires: Option<DateTime<Utc>>,
    /// Whether it was revoked.
    pub revoked: bool,
}

impl Postgres {
    /// Returns the key with this id.
    pub async fn key(&self, id: &str) -> Result<Option<StoredKey>, StoreError> {
        let sql = "SELECT tenant, digest, scopes, expires, revoked FROM atlatl.key_of($1)";
        self.query_one(sql, id, |row| StoredKey {
            tenant: row.get(0),
            digest: row.get(1),
            scopes: row.get(2),
            expires: row.get::<_, Option<i64>>(3).and_then(DateTime::from_timestamp_micros),
            revoked: row.get(4),
        })
        .await
    }

    /// Returns the tenant with this name.
    pub async fn find_tenant(&self, name: &str) -> Result<Option<TenantRecord>, StoreError> {
        let sql = "SELECT memories, per_minute, made, bytes, retention_days \
                   FROM atlatl.tenant_record($1)";
        self.query_one(sql, name, |row| TenantRecord {
            bounds: TenantLimits {
                memories: row.get::<_, Option<i64>>(0).map(i64::unsigned_abs),
                per_minute: row.get::<_, Option<i32>>(1).map(i32::unsigned_abs),
                bytes: row.get::<_, Option<i64>>(3).map(i64::unsigned_abs),
                retention_days: days(row.get(4)),
            },
            made: row.get(2),
        })
        .await
    }

    /// Returns the names of all tenants in order.
    pub async fn tenants(&self) -> Result<Vec<String>, StoreError> {
        let (pool, _) = self.0.verified(NO_TENANT).await?;
        let sql = "SELECT name FROM atlatl.tenants_after($1, $2)";
        let mut names: Vec<String> = Vec::new();
        loop {
            let after = names.last().cloned().unwrap_or_default();
            let page = read_transaction!(pool, NO_TENANT, Access::Keys, |db| {
                db.query(sql, &[(&after, Type::TEXT), (&TENANT_PAGE_LEN, Type::INT4)]).await
            })?;
            let full = i32::try_from(page.len()).is_ok_and(|found| found >= TENANT_PAGE_LEN);
            names.extend(page.iter().map(|row| row.get::<_, String>(0)));
            if !full {
                return Ok(names);
            }
        }
    }

    /// Looks up a row for authentication, on the connection that is reserved for this.
    async fn query_one<T>(
        &self,
        sql: &str,
        name: &str,
        made: impl Fn(&tokio_postgres::Row) -> T,
    ) -> Result<Option<T>, StoreError> {
        // `PostgreSQL` does not accept NUL in text.
        if name.contains('\0') {
            return Ok(None);
        }
        let queue = &QueueName::Authentication;
        let (pool, _) = self.0.verified(queue.clone()).await?;
        let found = read_transaction!(pool, queue, Access::Keys, |db| db
            .query(sql, &[(&name, Type::TEXT)])
            .await)?;
        Ok(found.first().map(made))
    }
}
