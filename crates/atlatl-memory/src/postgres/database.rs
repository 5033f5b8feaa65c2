//! Database: the connections, and what was seen when it was first reached.

use std::sync::OnceLock;

use super::about::About;
use super::options::PostgresOptions;
use super::pool::Pool;
use super::schema;
use crate::store::StoreError;

/// A database that is looked at before it is used, and not before it is there.
#[derive(Debug)]
pub(super) struct Database {
    pool: Pool,
    role: String,
    known: OnceLock<Known>,
}

#[derive(Debug)]
struct Known {
    /// Where pgvector lies, if it is there.
    pgvector: Option<String>,
}

impl Database {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        let (pool, role) = (Pool::new(options)?, options.role.clone());
        Ok(Self { pool, role, known: OnceLock::new() })
    }

    /// The connections, and where pgvector lies. Nothing is asked of a database before it is known
    /// that the policies bind us there; what is in the way may be gone the next time.
    pub(super) fn checked(&self) -> Result<(&Pool, Option<&str>), StoreError> {
        let known = if let Some(known) = self.known.get() {
            known
        } else {
            schema::check(&self.pool, &self.role)?;
            let pgvector = schema::vectors(&self.pool)?;
            self.known.get_or_init(|| Known { pgvector })
        };
        Ok((&self.pool, known.pgvector.as_deref()))
    }

    pub(super) fn about(&self) -> Result<About, StoreError> {
        self.checked()?;
        About::of(&self.pool, &self.role)
    }

    /// Which database, without a password.
    pub(super) fn place(&self) -> &str {
        &self.pool.place
    }
}
