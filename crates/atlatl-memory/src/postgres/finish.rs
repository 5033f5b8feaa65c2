//! The end of an upgrade: drops what servers of older schema versions need.
//!
//! A migration only adds, so that old and new servers run side by side. When no old server is
//! connected any more, the tables, columns, indexes and functions that only they use cost space and
//! time for nothing. Servers say which schema version they know in their `application_name`.

use std::time::Duration;

use tokio::time::sleep;
use tokio_postgres::types::Type;

use super::crud::Tenant;
use super::migrations::{
    NO_TENANT, STOP_WRITERS, check_version, convert_vectors, drop_replaced, lock, owner_pool,
    unfinished,
};
use super::options::{APPLICATION, PostgresOptions};
use super::pool::{Pool, read_transaction, write_transaction};
use super::search_index::{advance, fill_all};
use super::session::{Access, Session};
use crate::store::StoreError;

/// The delay before documents are indexed that were written meanwhile.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The outcome of finishing an upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// What older servers need was dropped.
    Dropped {
        /// The number of memories that were indexed before.
        indexed: u64,
    },
    /// It was dropped before.
    Nothing,
    /// Nothing was dropped: these sessions are, or may be, of older servers.
    Connected(Vec<String>),
}

/// Indexes and converts what is left, and drops what older servers need unless one is connected.
pub(super) async fn finish(owner: &PostgresOptions) -> Result<Finish, StoreError> {
    let pool = owner_pool(owner)?;
    check_version(&pool).await?;
    let refusal = read_transaction!(&pool, NO_TENANT, Access::Condition, |db| {
        let unfinished = unfinished(db).await?;
        refusal(db, &owner.role, &unfinished).await
    })?;
    if let Some(refusal) = refusal {
        return Ok(refusal);
    }
    let mut indexed = 0;
    loop {
        indexed += index_backlog(&pool).await?;
        convert_vectors(&pool).await?;
        let outcome =
            write_transaction!(&pool, NO_TENANT, |db| drop_previous(db, &owner.role).await)?;
        match outcome {
            Some(Finish::Dropped { .. }) => return Ok(Finish::Dropped { indexed }),
            Some(other) => return Ok(other),
            // A server wrote meanwhile.
            None => sleep(RETRY_DELAY).await,
        }
    }
}

/// Indexes the documents of all tenants that the index lacks. Returns how many.
async fn index_backlog(pool: &Pool) -> Result<u64, StoreError> {
    let sql = "SELECT DISTINCT tenant FROM atlatl.search_backlog ORDER BY tenant";
    let names = read_transaction!(pool, NO_TENANT, Access::Condition, |db| {
        let found = db.query(sql, &[]).await?;
        Ok(found.iter().map(|row| row.get(0)).collect::<Vec<String>>())
    })?;
    let mut indexed = 0;
    for tenant in names.iter().map(|name| Tenant::new(name)) {
        indexed += fill_all(pool, &tenant).await?;
        write_transaction!(pool, &tenant.name, |db| advance(db, &tenant, 0).await)?;
    }
    Ok(indexed)
}

/// Drops what older servers need. Returns `None` if documents or vectors have to be converted.
async fn drop_previous(db: &Session, role: &str) -> Result<Option<Finish>, StoreError> {
    lock(db).await?;
    let unfinished = unfinished(db).await?;
    // Requests wait no longer than this if a transaction does not end.
    db.batch("SET LOCAL lock_timeout = '5s'").await?;
    db.batch(STOP_WRITERS).await?;
    let waits = "SELECT EXISTS (SELECT FROM atlatl.search_backlog) OR atlatl.is_converting()";
    if db.query(waits, &[]).await?.first().is_some_and(|row| row.get(0)) {
        return Ok(None);
    }
    let refusal = refusal(db, role, &unfinished).await?;
    if refusal.is_some() {
        return Ok(refusal);
    }
    drop_replaced(db, &unfinished).await?;
    Ok(Some(Finish::Dropped { indexed: 0 }))
}

/// Returns the outcome if nothing can be dropped. `unfinished` has the numbers of the migrations
/// whose replaced objects would be.
async fn refusal(
    db: &Session,
    role: &str,
    unfinished: &[i32],
) -> Result<Option<Finish>, StoreError> {
    let Some(&version) = unfinished.last() else { return Ok(Some(Finish::Nothing)) };
    let old = old_sessions(db, role, version).await?;
    Ok(if old.is_empty() { None } else { Some(Finish::Connected(old)) })
}

/// Describes the sessions of this database that may be of older servers: they may use `role`, and
/// do not say that they know the schema `version`.
async fn old_sessions(db: &Session, role: &str, version: i32) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT format('process %s, user %s, application \"%s\"', a.pid, a.usename, \
                   a.application_name) \
               FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid \
               WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() \
                   AND NOT r.rolsuper AND pg_has_role(r.oid, $1::name, 'MEMBER') \
                   AND coalesce(substring(a.application_name FROM $2)::integer, 0) < $3 \
               ORDER BY a.pid";
    let pattern = format!("^{APPLICATION}/([0-9]{{1,4}})");
    let values =
        [(&role as _, Type::TEXT), (&pattern as _, Type::TEXT), (&version as _, Type::INT4)];
    let found = db.query(sql, &values).await?;
    Ok(found.iter().map(|row| row.get(0)).collect())
}
