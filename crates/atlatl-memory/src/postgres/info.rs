//! Information about the database server and its schema, for administrators.

use super::migrations;
use super::pool::Pool;
use super::transaction_prologue::Access;
use crate::store::StoreError;

/// What a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseInfo {
    /// Which, without a password.
    pub place: String,
    /// The version of the server.
    pub server: String,
    /// The role that every statement runs as.
    pub role: String,
    /// The version of the schema.
    pub schema: i32,
    /// The newest version that this program knows.
    pub known: i32,
    /// The version of pgvector, if it may be used.
    pub pgvector: Option<String>,
    /// The most connections that the server takes.
    pub connections: u32,
}

impl DatabaseInfo {
    pub(super) fn query(pool: &Pool, role: &str) -> Result<Self, StoreError> {
        let asked = "SELECT current_setting('server_version'), \
                     current_setting('max_connections'), \
                     (SELECT max(number) FROM atlatl.migration), \
                     (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'vector' \
                      AND has_schema_privilege(e.extnamespace, 'USAGE'))";
        pool.read(migrations::NOBODY, Access::Condition, &|db| {
            let rows = db.query(asked, &[])?;
            let row = rows.first().ok_or_else(|| StoreError::Engine("no answer".into()))?;
            Ok(Self {
                place: pool.place.clone(),
                server: row.get(0),
                role: role.to_owned(),
                schema: row.get(2),
                known: migrations::newest(),
                pgvector: row.get(3),
                connections: row.get::<_, &str>(1).parse().unwrap_or_default(),
            })
        })
    }
}
