//! Schema migrations, and the compatibility check of a database with this program.
//!
//! A migration is one file, and never changes after its release. It states the oldest schema
//! version whose programs keep working with it. A migration that only adds keeps that version, so
//! that old and new programs run side by side during a rollout. Objects that are no longer used are
//! dropped by a later migration, which raises it.

use std::time::Duration;

use tokio_postgres::types::Type;

use super::fair_queue::QueueName;
use super::options::PostgresOptions;
use super::pool::{Pool, read_transaction, write_transaction};
use super::pooler::PreparedStatements;
use super::row_level_security;
use super::session::{Access, Session, quoted};
use crate::store::StoreError;

/// The advisory lock held during a migration: `ATLM`.
pub(super) const MIGRATION_LOCK_ID: i64 = 0x4154_4C4D;
/// The statement timeout of a migration, long enough for any.
pub(super) const MIGRATION_TIMEOUT: Duration = Duration::from_hours(24);
/// The tenant setting of statements that belong to no tenant.
pub(super) const NO_TENANT: &str = "";

struct Migration {
    name: &'static str,
    sql: &'static str,
    /// The oldest schema version whose programs still work.
    oldest: i32,
}

/// All migrations. The first has number 1.
const MIGRATIONS: [Migration; 6] = [
    Migration {
        name: "0001-memories",
        sql: include_str!("migrations/0001-memories.sql"),
        oldest: 1,
    },
    Migration { name: "0002-near", sql: include_str!("migrations/0002-near.sql"), oldest: 1 },
    Migration { name: "0003-access", sql: include_str!("migrations/0003-access.sql"), oldest: 1 },
    Migration {
        name: "0004-requeue-vectors",
        sql: include_str!("migrations/0004-requeue-vectors.sql"),
        oldest: 1,
    },
    Migration {
        name: "0005-frequencies",
        sql: include_str!("migrations/0005-frequencies.sql"),
        oldest: 1,
    },
    Migration {
        name: "0006-bounded-recall",
        sql: include_str!("migrations/0006-bounded-recall.sql"),
        oldest: 1,
    },
];

/// Drops what programs before version 6 need.
pub(super) const FINISH: &str = include_str!("finish.sql");
/// The functions that only programs before version 6 need.
const PREVIOUS_FUNCTIONS: &str = "atlatl.found, atlatl.frequencies,";

/// The table of applied migrations.
const MIGRATION_TABLE: &str = "
    CREATE SCHEMA IF NOT EXISTS atlatl;
    CREATE TABLE IF NOT EXISTS atlatl.migration (
        number integer PRIMARY KEY,
        name text NOT NULL,
        oldest integer NOT NULL,
        applied timestamptz NOT NULL DEFAULT now()
    );
";

/// Migrates the schema to the newest version as the owner that the URL names, restores missing
/// row-level security, and grants access to the role, all in one transaction. A concurrent
/// migration waits and finds nothing to do. Returns the names of what was applied.
pub(super) async fn migrate(owner: &PostgresOptions) -> Result<Vec<String>, StoreError> {
    let role = owner.role.clone();
    let own = PostgresOptions {
        role: "none".to_owned(),
        connections: 1,
        // Each statement runs once.
        prepared_statements: PreparedStatements::Off,
        statement_timeout: MIGRATION_TIMEOUT,
        ..owner.clone()
    };
    let pool = Pool::new(&own)?;
    let wrong = |why: String| StoreError::NotAStore { place: pool.place.clone(), why };
    write_transaction!(&pool, NO_TENANT, |db| {
        db.query("SELECT pg_advisory_xact_lock($1)", &[(&MIGRATION_LOCK_ID, Type::INT8)]).await?;
        let exists = "SELECT 1 FROM pg_roles WHERE rolname = $1";
        if db.query(exists, &[(&role, Type::TEXT)]).await?.is_empty() {
            let quoted = quoted(&role);
            return Err(wrong(format!(
                "role {quoted} does not exist: create it with CREATE ROLE {quoted} LOGIN PASSWORD \
                 '…'"
            )));
        }
        db.batch(MIGRATION_TABLE).await?;
        let Version { current, oldest } = version(db).await?;
        check_compatible(current, oldest).map_err(wrong)?;
        let mut applied = Vec::new();
        for (number, Migration { name, sql, oldest }) in (1_i32..).zip(MIGRATIONS) {
            if number > current {
                db.batch(sql).await?;
                let done =
                    "INSERT INTO atlatl.migration (number, name, oldest) VALUES ($1, $2, $3)";
                let values = [
                    (&number as _, Type::INT4),
                    (&name as _, Type::TEXT),
                    (&oldest as _, Type::INT4),
                ];
                db.execute(done, &values).await?;
                applied.push(name.to_owned());
            }
        }
        // No server of an older version uses a schema that was just created.
        if current == 0 {
            db.batch(FINISH).await?;
        }
        if row_level_security::enable(db).await? {
            applied.push("policies".to_owned());
        }
        let previous = if has_words(db).await? { PREVIOUS_FUNCTIONS } else { "" };
        db.batch(&grants(&role, previous)).await?;
        // Without pgvector vectors are compared more slowly, which is no reason to fail.
        db.batch("SAVEPOINT pgvector").await?;
        let made = db.batch("CREATE EXTENSION IF NOT EXISTS vector").await;
        db.batch(if made.is_ok() { "RELEASE pgvector" } else { "ROLLBACK TO pgvector" }).await?;
        Ok(applied)
    })
}

/// Checks that a store can be opened: the schema version is compatible, the policies exist, and
/// they apply to the role. The check waits in `queue`.
pub(super) async fn check(pool: &Pool, queue: &QueueName, role: &str) -> Result<(), StoreError> {
    let wrong = |why: String| StoreError::NotAStore { place: pool.place.clone(), why };
    let no_schema = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace \
                     WHERE nspname = 'atlatl'";
    // The owner's policy applies to all members of the owner role.
    let bound = "SELECT r.rolsuper OR r.rolbypassrls OR EXISTS (SELECT 1 FROM pg_class c \
                 WHERE c.relnamespace = 'atlatl'::regnamespace \
                 AND pg_has_role(r.oid, c.relowner, 'USAGE')) \
                 FROM pg_roles r WHERE r.rolname = current_user";
    read_transaction!(pool, queue, Access::Condition, |db| {
        let usable: Option<bool> = db.query(no_schema, &[]).await?.first().map(|row| row.get(0));
        match usable {
            None => return Err(wrong(outdated(0))),
            Some(false) => {
                return Err(wrong(format!(
                    "role {} has no access to the schema: run `atlatl db migrate` for this role",
                    quoted(role)
                )));
            }
            Some(true) => {}
        }
        let Version { current, oldest } = version(db).await?;
        check_compatible(current, oldest).map_err(wrong)?;
        if current < newest() {
            return Err(wrong(outdated(current)));
        }
        let free: bool = db.query(bound, &[]).await?.first().is_none_or(|row| row.get(0));
        if free {
            return Err(wrong(format!(
                "role {} is not subject to row-level security: it must not own the schema, be a \
                 superuser or have BYPASSRLS",
                quoted(role)
            )));
        }
        row_level_security::check(db).await?.map_or(Ok(()), |why| Err(wrong(why)))
    })
}

/// Returns whether what programs before version 6 need was dropped.
pub(super) async fn is_finished(pool: &Pool, queue: &QueueName) -> Result<bool, StoreError> {
    read_transaction!(pool, queue, Access::Condition, |db| has_words(db).await.map(|has| !has))
}

/// Returns whether documents have the words of programs before version 6.
pub(super) async fn has_words(db: &Session) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM pg_attribute WHERE attname = 'words' \
               AND attrelid = 'atlatl.document'::regclass AND NOT attisdropped)";
    Ok(db.query(sql, &[]).await?.first().is_some_and(|row| row.get(0)))
}

/// Checks for the owner that the schema version is compatible and the policies exist.
pub(super) async fn check_version(pool: &Pool) -> Result<(), StoreError> {
    let wrong = |why: String| StoreError::NotAStore { place: pool.place.clone(), why };
    let there = "SELECT to_regclass('atlatl.migration') IS NOT NULL";
    read_transaction!(pool, NO_TENANT, Access::Condition, |db| {
        let there = db.query(there, &[]).await?.first().is_some_and(|row| row.get(0));
        let Version { current, oldest } =
            if there { version(db).await? } else { Version { current: 0, oldest: 0 } };
        check_compatible(current, oldest).map_err(wrong)?;
        if current < newest() {
            return Err(wrong(outdated(current)));
        }
        row_level_security::check(db).await?.map_or(Ok(()), |why| Err(wrong(why)))
    })
}

pub(super) struct Version {
    pub(super) current: i32,
    /// The oldest schema version whose programs may use it.
    pub(super) oldest: i32,
}

pub(super) async fn version(db: &Session) -> Result<Version, StoreError> {
    let sql = "SELECT coalesce(max(number), 0), coalesce(max(oldest), 0) FROM atlatl.migration";
    let rows = db.query(sql, &[]).await?;
    let of = |column| rows.first().map_or(0, |row| row.get(column));
    Ok(Version { current: of(0), oldest: of(1) })
}

/// Returns the newest version that this program has.
pub(super) fn newest() -> i32 {
    i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX)
}

pub(super) fn check_compatible(current: i32, oldest: i32) -> Result<(), String> {
    let newest = newest();
    if oldest > newest {
        return Err(format!(
            "the schema has version {current}, this program supports {newest}: use the program \
             that ran `atlatl db migrate`"
        ));
    }
    Ok(())
}

pub(super) fn outdated(current: i32) -> String {
    let newest = newest();
    format!(
        "the schema has version {current}, this program needs {newest}: run `atlatl db migrate`"
    )
}

/// The privileges of the role: row access, and nothing else.
fn grants(role: &str, previous: &str) -> String {
    let role = quoted(role);
    format!(
        "GRANT USAGE ON SCHEMA atlatl TO {role};
         GRANT SELECT ON atlatl.migration TO {role};
         GRANT USAGE ON SEQUENCE atlatl.version TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE
             ON atlatl.memory, atlatl.document, atlatl.vector, atlatl.lease, atlatl.secret
             TO {role};
         GRANT SELECT, INSERT, DELETE ON atlatl.search_document, atlatl.search_backlog TO {role};
         GRANT SELECT ON atlatl.search_statistics, atlatl.common_term TO {role};
         GRANT EXECUTE ON FUNCTION {previous} atlatl.count_terms, atlatl.rank_documents,
             atlatl.match_documents, atlatl.newest_documents, atlatl.term_frequencies,
             atlatl.make_near, atlatl.drop_near,
             atlatl.key_of, atlatl.tenant_of, atlatl.tenants_after TO {role};
         GRANT SELECT, UPDATE (since, upto, complete) ON atlatl.near TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON atlatl.waiting TO {role};
         SELECT atlatl.admit(format('atlatl.%I', relation), 'SELECT, INSERT, UPDATE, DELETE')
             FROM atlatl.near;"
    )
}
