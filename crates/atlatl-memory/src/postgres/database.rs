//! Database: the connections, and what was seen when it was first reached.

use std::sync::OnceLock;

use super::info::DatabaseInfo;
use super::migrations;
use super::options::PostgresOptions;
use super::pool::Pool;
use crate::store::StoreError;

/// A database that is looked at before it is used, and not before it is there.
#[derive(Debug)]
pub(super) struct Database {
    pool: Pool,
    role: String,
    /// With how many vectors a tenant has an index for them.
    pub(super) index_from: usize,
    known: OnceLock<Known>,
}

#[derive(Debug)]
struct Known {
    /// pgvector, if it is there.
    pgvector: Option<Pgvector>,
}

/// The extension that compares vectors.
#[derive(Debug)]
pub(super) struct Pgvector {
    /// Where it lies, as SQL has it.
    pub(super) schema: String,
    /// Whether it has indexes that go on until a filter has enough, and we may use them.
    pub(super) indexes: bool,
}

impl Database {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        let (pool, role) = (Pool::new(options)?, options.role.clone());
        Ok(Self { pool, role, index_from: options.index_from, known: OnceLock::new() })
    }

    /// The connections, and what is known of pgvector. Nothing is asked of a database before it is known
    /// that the policies bind us there; what is in the way may be gone the next time.
    pub(super) fn checked(&self) -> Result<(&Pool, Option<&Pgvector>), StoreError> {
        let known = if let Some(known) = self.known.get() {
            known
        } else {
            migrations::check(&self.pool, &self.role)?;
            let pgvector = migrations::vectors(&self.pool)?;
            self.known.get_or_init(|| Known { pgvector })
        };
        Ok((&self.pool, known.pgvector.as_ref()))
    }

    pub(super) fn about(&self) -> Result<DatabaseInfo, StoreError> {
        self.checked()?;
        DatabaseInfo::query(&self.pool, &self.role)
    }

    /// Which database, without a password.
    pub(super) fn place(&self) -> &str {
        &self.pool.place
    }
}
