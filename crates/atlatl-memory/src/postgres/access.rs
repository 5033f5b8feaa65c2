//! Access: which tenants there are, and what keys they have, as a server may ask for them.

use chrono::{DateTime, Utc};
use tokio_postgres::types::Type;

use super::migrations::NOBODY;
use super::transaction_prologue::Access;
use super::{Postgres, Session};
use crate::store::StoreError;

/// Names that are fetched at once.
const PAGE: i32 = 500;

/// What a tenant may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The most memories.
    pub memories: Option<u64>,
    /// The most requests in a minute.
    pub per_minute: Option<u32>,
}

/// A tenant, as a server needs to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownTenant {
    /// What it may use.
    pub bounds: Bounds,
    /// When it was made: one that was removed and made again is another.
    pub made: i64,
}

/// A key as it is kept: without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredKey {
    /// Whose it is.
    pub tenant: String,
    /// The digest of its secret.
    pub digest: Vec<u8>,
    /// What it may be used for.
    pub scopes: Vec<String>,
    /// Until when.
    pub expires: Option<DateTime<Utc>>,
    /// Whether it was revoked.
    pub revoked: bool,
}

impl Postgres {
    /// The key called `id`.
    pub fn key(&self, id: &str) -> Result<Option<StoredKey>, StoreError> {
        let asked = "SELECT tenant, digest, scopes, expires, revoked FROM atlatl.key_of($1)";
        self.one(asked, id, |row| StoredKey {
            tenant: row.get(0),
            digest: row.get(1),
            scopes: row.get(2),
            expires: row.get::<_, Option<i64>>(3).and_then(DateTime::from_timestamp_micros),
            revoked: row.get(4),
        })
    }

    /// The tenant called `name`, if there is one.
    pub fn known(&self, name: &str) -> Result<Option<KnownTenant>, StoreError> {
        let asked = "SELECT memories, per_minute, made FROM atlatl.tenant_of($1)";
        self.one(asked, name, |row| KnownTenant {
            bounds: Bounds {
                memories: row.get::<_, Option<i64>>(0).map(i64::unsigned_abs),
                per_minute: row.get::<_, Option<i32>>(1).map(i32::unsigned_abs),
            },
            made: row.get(2),
        })
    }

    /// All tenants, in the order of their names.
    pub fn tenants(&self) -> Result<Vec<String>, StoreError> {
        let (pool, _) = self.0.checked()?;
        let asked = "SELECT name FROM atlatl.tenants_after($1, $2)";
        let mut names: Vec<String> = Vec::new();
        loop {
            let after = names.last().cloned().unwrap_or_default();
            let page = pool.read(NOBODY, Access::Keys, &|db: &Session| {
                db.query(asked, &[(&after, Type::TEXT), (&PAGE, Type::INT4)])
            })?;
            let full = i32::try_from(page.len()).is_ok_and(|found| found >= PAGE);
            names.extend(page.iter().map(|row| row.get::<_, String>(0)));
            if !full {
                return Ok(names);
            }
        }
    }

    fn one<T>(
        &self,
        asked: &str,
        name: &str,
        made: impl Fn(&tokio_postgres::Row) -> T,
    ) -> Result<Option<T>, StoreError> {
        // No text of the database's has a zero in it.
        if name.contains('\0') {
            return Ok(None);
        }
        let (pool, _) = self.0.checked()?;
        let found = pool
            .read(NOBODY, Access::Keys, &|db: &Session| db.query(asked, &[(&name, Type::TEXT)]))?;
        Ok(found.first().map(made))
    }
}
