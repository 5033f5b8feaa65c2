//! Schema migrations, and the compatibility check of a database with this program.
//!
//! A migration is one file, and never changes after its release. It states the oldest schema
//! version whose programs keep working with it. A migration that only adds keeps that version, so
//! that old and new programs run side by side during a rollout. What it replaced is dropped by
//! [`finish`](super::finish) when no older program is connected any more, which raises the version.

use std::fmt::Write as _;
use std::iter;
use std::time::Duration;

use tokio::time::sleep;
use tokio_postgres::types::Type;

use super::fair_queue::QueueName;
use super::options::PostgresOptions;
use super::pool::{Pool, read_transaction, write_transaction};
use super::pooler::PreparedStatements;
use super::row_level_security;
use super::session::{Access, Session, literal, quoted};
use crate::store::StoreError;

/// The advisory lock held during a migration: `ATLM`.
const MIGRATION_LOCK_ID: i64 = 0x4154_4C4D;
/// The statement timeout of a migration, long enough for any.
pub(super) const MIGRATION_TIMEOUT: Duration = Duration::from_hours(24);
/// The tenant setting of statements that belong to no tenant.
pub(super) const NO_TENANT: &str = "";

struct Migration {
    name: &'static str,
    sql: &'static str,
    /// The oldest schema version whose programs still work.
    oldest: i32,
    /// What it replaced and only programs of older versions need.
    replaced: Option<Replaced>,
}

/// What a migration replaced.
struct Replaced {
    /// The SQL for whether it exists and can be dropped.
    is_present: &'static str,
    /// The statements that drop it.
    drop: &'static str,
}

/// The SQL for whether documents have the words of programs before version 6.
const HAS_WORDS: &str = "EXISTS (SELECT FROM pg_attribute WHERE attname = 'words' \
                         AND attrelid = 'atlatl.document'::regclass AND NOT attisdropped)";

/// All migrations. The first has number 1.
const MIGRATIONS: [Migration; 10] = [
    Migration {
        name: "0001-memories",
        sql: include_str!("migrations/0001-memories.sql"),
        oldest: 1,
        replaced: None,
    },
    Migration {
        name: "0002-near",
        sql: include_str!("migrations/0002-near.sql"),
        oldest: 1,
        replaced: None,
    },
    Migration {
        name: "0003-access",
        sql: include_str!("migrations/0003-access.sql"),
        oldest: 1,
        replaced: None,
    },
    Migration {
        name: "0004-requeue-vectors",
        sql: include_str!("migrations/0004-requeue-vectors.sql"),
        oldest: 1,
        replaced: None,
    },
    Migration {
        name: "0005-frequencies",
        sql: include_str!("migrations/0005-frequencies.sql"),
        oldest: 1,
        replaced: None,
    },
    Migration {
        name: "0006-bounded-recall",
        sql: include_str!("migrations/0006-bounded-recall.sql"),
        oldest: 1,
        replaced: Some(Replaced {
            is_present: HAS_WORDS,
            drop: include_str!("migrations/0006-finish.sql"),
        }),
    },
    Migration {
        name: "0007-embeddings",
        sql: include_str!("migrations/0007-embeddings.sql"),
        oldest: 1,
        replaced: Some(Replaced {
            // Without pgvector the table is still in use.
            is_present: "to_regclass('atlatl.embedding') IS NOT NULL \
                         AND to_regclass('atlatl.vector') IS NOT NULL",
            drop: include_str!("migrations/0007-finish.sql"),
        }),
    },
    Migration {
        name: "0008-erasure",
        sql: include_str!("migrations/0008-erasure.sql"),
        oldest: 1,
        replaced: None,
    },
    Migration {
        name: "0009-usage",
        sql: include_str!("migrations/0009-usage.sql"),
        oldest: 1,
        replaced: None,
    },
    Migration {
        name: "0010-administration",
        sql: include_str!("migrations/0010-administration.sql"),
        oldest: 1,
        replaced: None,
    },
];

/// The number of vectors that are converted per transaction.
const CONVERSION_BATCH_LEN: i32 = 5000;
/// The pause while another process is converting.
const CONVERSION_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Stops writers until the end of the transaction, before they lock anything else: each locks rows of
/// `memory` first. Otherwise a change of several tables could deadlock with them. Readers go on.
pub(super) const STOP_WRITERS: &str = "LOCK TABLE atlatl.memory IN EXCLUSIVE MODE";

/// Stops listings of tenants until the end of the transaction.
const STOP_LISTINGS: &str = "DO $$
    BEGIN
        IF to_regclass('atlatl.tenant') IS NOT NULL THEN
            LOCK TABLE atlatl.tenant IN ACCESS EXCLUSIVE MODE;
        END IF;
    END $$";

/// The privileges on a table with rows of tenants.
const ROWS: &str = "SELECT, INSERT, UPDATE, DELETE";

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

/// Returns a pool for the owner of the schema, with one connection.
pub(super) fn owner_pool(owner: &PostgresOptions) -> Result<Pool, StoreError> {
    Pool::new(&PostgresOptions {
        role: "none".to_owned(),
        connections: 1,
        // Most statements run once.
        prepared_statements: PreparedStatements::Off,
        statement_timeout: MIGRATION_TIMEOUT,
        ..owner.clone()
    })
}

/// Waits until no other process migrates the schema or finishes a migration.
pub(super) async fn lock(db: &Session) -> Result<(), StoreError> {
    let sql = "SELECT pg_advisory_xact_lock($1)";
    db.query(sql, &[(&MIGRATION_LOCK_ID, Type::INT8)]).await.map(drop)
}

/// Migrates the schema to the newest version as the owner that the URL names, restores missing
/// row-level security, and grants access to the role, all in one transaction. A concurrent
/// migration waits and finds nothing to do. Then it converts the vectors of older versions, in
/// batches. Returns the names of what was applied.
pub(super) async fn migrate(owner: &PostgresOptions) -> Result<Vec<String>, StoreError> {
    let (role, admin_role) = (owner.role.clone(), owner.admin_role.clone());
    let pool = owner_pool(owner)?;
    let wrong = |why: String| StoreError::NotAStore { place: pool.place.clone(), why };
    let applied = write_transaction!(&pool, NO_TENANT, |db| {
        lock(db).await?;
        let exists = "SELECT 1 FROM pg_roles WHERE rolname = $1";
        for role in iter::once(&role).chain(&admin_role) {
            if db.query(exists, &[(role, Type::TEXT)]).await?.is_empty() {
                let quoted = quoted(role);
                return Err(wrong(format!(
                    "role {quoted} does not exist: create it with CREATE ROLE {quoted} LOGIN \
                     PASSWORD '…'"
                )));
            }
        }
        db.batch(MIGRATION_TABLE).await?;
        let Version { current, oldest } = version(db).await?;
        check_compatible(current, oldest).map_err(wrong)?;
        if (1..newest()).contains(&current) {
            // First, since a listing of tenants may take long, and no writer waits for it then.
            db.batch(STOP_LISTINGS).await?;
            db.batch(STOP_WRITERS).await?;
        }
        let mut applied = Vec::new();
        for (number, Migration { name, sql, oldest, .. }) in (1_i32..).zip(MIGRATIONS) {
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
        if row_level_security::enable(db).await? {
            applied.push("policies".to_owned());
        }
        // Without pgvector vectors are compared more slowly, which is no reason to fail.
        db.batch("SAVEPOINT pgvector").await?;
        let made = db.batch("CREATE EXTENSION IF NOT EXISTS vector").await;
        db.batch(if made.is_ok() { "RELEASE pgvector" } else { "ROLLBACK TO pgvector" }).await?;
        db.batch("SELECT atlatl.adopt_pgvector()").await?;
        // No program of an older version uses a schema that was just created.
        if current == 0 {
            let unfinished = unfinished(db).await?;
            drop_replaced(db, &unfinished).await?;
        }
        db.batch(&grants(&role)).await?;
        if let Some(admin_role) = &admin_role {
            db.batch(&admin_grants(admin_role)).await?;
        }
        Ok(applied)
    })?;
    convert_vectors(&pool).await?;
    Ok(applied)
}

/// Converts the vectors of older versions to half precision, with those that another process is
/// converting.
pub(super) async fn convert_vectors(pool: &Pool) -> Result<(), StoreError> {
    loop {
        match convert_some_vectors(pool).await? {
            None => return Ok(()),
            Some(0) => sleep(CONVERSION_POLL_INTERVAL).await,
            Some(_) => {}
        }
    }
}

/// Converts a batch of vectors. Returns `None` if all are converted, and 0 if another process is
/// converting.
pub(super) async fn convert_some_vectors(pool: &Pool) -> Result<Option<u64>, StoreError> {
    let sql = "SELECT atlatl.convert_vectors($1)";
    let read: Option<i32> = write_transaction!(pool, NO_TENANT, |db| {
        let rows = db.query(sql, &[(&CONVERSION_BATCH_LEN, Type::INT4)]).await?;
        Ok(rows.first().and_then(|row| row.get(0)))
    })?;
    Ok(read.map(|read| u64::from(read.unsigned_abs())))
}

/// Returns the numbers of the migrations that replaced something that can be dropped, in order.
pub(super) async fn unfinished(db: &Session) -> Result<Vec<i32>, StoreError> {
    let mut numbers = Vec::new();
    for (number, migration) in (1_i32..).zip(MIGRATIONS) {
        let Some(Replaced { is_present, .. }) = migration.replaced else { continue };
        let found = db.query(&format!("SELECT {is_present}"), &[]).await?;
        if found.first().is_some_and(|row| row.get(0)) {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

/// Drops what the migrations with these numbers replaced. Programs of older versions cannot use the
/// schema afterwards.
pub(super) async fn drop_replaced(db: &Session, numbers: &[i32]) -> Result<(), StoreError> {
    for (number, migration) in (1_i32..).zip(MIGRATIONS) {
        let Some(Replaced { drop, .. }) = migration.replaced else { continue };
        if numbers.contains(&number) {
            db.batch(drop).await?;
            let sql = "UPDATE atlatl.migration SET oldest = number WHERE number = $1";
            db.execute(sql, &[(&number, Type::INT4)]).await?;
        }
    }
    Ok(())
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

/// Returns whether documents have the words of programs before version 6. The query waits in `queue`.
pub(super) async fn has_words(pool: &Pool, queue: &QueueName) -> Result<bool, StoreError> {
    let sql = format!("SELECT {HAS_WORDS}");
    read_transaction!(pool, queue, Access::Condition, |db| {
        Ok(db.query(&sql, &[]).await?.first().is_some_and(|row| row.get(0)))
    })
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

struct Version {
    current: i32,
    /// The oldest schema version whose programs may use it.
    oldest: i32,
}

async fn version(db: &Session) -> Result<Version, StoreError> {
    let sql = "SELECT coalesce(max(number), 0), coalesce(max(oldest), 0) FROM atlatl.migration";
    let rows = db.query(sql, &[]).await?;
    let of = |column| rows.first().map_or(0, |row| row.get(column));
    Ok(Version { current: of(0), oldest: of(1) })
}

/// Returns the newest version that this program has.
pub(super) fn newest() -> i32 {
    i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX)
}

fn check_compatible(current: i32, oldest: i32) -> Result<(), String> {
    let newest = newest();
    if oldest > newest {
        return Err(format!(
            "the schema has version {current}, this program supports {newest}: use the program \
             that ran `atlatl db migrate`"
        ));
    }
    Ok(())
}

fn outdated(current: i32) -> String {
    let newest = newest();
    format!(
        "the schema has version {current}, this program needs {newest}: run `atlatl db migrate`"
    )
}

/// Grants the role its privileges: row access, and nothing else. Some objects exist only until an
/// upgrade is finished, and some only with pgvector.
fn grants(role: &str) -> String {
    let (role, name) = (quoted(role), literal(role));
    format!(
        "GRANT USAGE ON SCHEMA atlatl TO {role};
         GRANT SELECT ON atlatl.migration TO {role};
         GRANT USAGE ON SEQUENCE atlatl.version TO {role};
         GRANT {ROWS} ON atlatl.memory, atlatl.document, atlatl.embedding_queue, atlatl.lease,
             atlatl.secret TO {role};
         GRANT SELECT, INSERT, DELETE ON atlatl.search_document, atlatl.search_backlog TO {role};
         GRANT SELECT ON atlatl.search_statistics, atlatl.common_term, atlatl.embedding_index
             TO {role};
         GRANT EXECUTE ON FUNCTION atlatl.count_terms, atlatl.rank_documents,
             atlatl.match_documents, atlatl.newest_documents, atlatl.term_frequencies,
             atlatl.key_of, atlatl.tenant_of, atlatl.tenants_after, atlatl.convert_vectors,
             atlatl.is_converting, atlatl.queue_existing, atlatl.claim_embeddings,
             atlatl.embedding_backlog, atlatl.build_embedding_index, atlatl.drop_retired_index,
             atlatl.drop_embedding_index, atlatl.claim_erasure, atlatl.erase_some,
             atlatl.note_erased_results, atlatl.release_erasure, atlatl.stored_usage,
             atlatl.count_usage, atlatl.fold_usage, atlatl.add_usage, atlatl.note_usage_day,
             atlatl.tenant_record TO {role};
         SELECT atlatl.admit(format('atlatl.%I', relation), '{ROWS}') FROM atlatl.embedding_index
             WHERE to_regclass('atlatl.' || relation) IS NOT NULL;
         DO $$
         DECLARE
             role text := {name};
             granted record;
         BEGIN
             FOR granted IN SELECT * FROM (VALUES
                 ('atlatl.embedding', '{ROWS}'), ('atlatl.vector', '{ROWS}'),
                 ('atlatl.near', 'SELECT, UPDATE (since, upto, complete)'),
                 ('atlatl.waiting', '{ROWS}')) AS g (name, privileges)
                 WHERE to_regclass(g.name) IS NOT NULL
             LOOP
                 EXECUTE format('GRANT %s ON %s TO %I', granted.privileges, granted.name, role);
             END LOOP;
             FOR granted IN SELECT * FROM unnest(ARRAY['atlatl.found', 'atlatl.frequencies',
                 'atlatl.make_near', 'atlatl.drop_near']) AS g (name)
                 WHERE to_regproc(g.name) IS NOT NULL
             LOOP
                 EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', granted.name, role);
             END LOOP;
             IF to_regclass('atlatl.near') IS NOT NULL THEN
                 PERFORM atlatl.admit(format('atlatl.%I', relation), '{ROWS}') FROM atlatl.near;
             END IF;
         END $$"
    )
}

/// The functions of the role that administers tenants.
const ADMIN_FUNCTIONS: &str = "atlatl.memory_count, atlatl.is_erasing, atlatl.begin_erasure, \
    atlatl.claim_erasure, atlatl.erase_some, atlatl.note_erased_results, atlatl.release_erasure";

/// Grants a role what it needs to administer tenants: their list, keys, usage and erasures. It reads no
/// memories. A policy lets it see the rows of all tenants in these tables. The role before loses its
/// privileges.
fn admin_grants(role: &str) -> String {
    let role = quoted(role);
    // The name of the role as a text, which the cast to `regrole` parses as an identifier.
    let name = literal(&role);
    let mut sql = format!(
        "SET LOCAL lock_timeout = '5s';
         DO $$
         DECLARE
             former text;
         BEGIN
             -- The policies name the role before.
             FOR former IN SELECT DISTINCT r::regrole::text FROM pg_policy p, unnest(p.polroles) AS r
                 WHERE p.polname = 'admin' AND p.polrelid = 'atlatl.erasure'::regclass
                     AND r NOT IN (0, {name}::regrole::oid)
             LOOP
                 EXECUTE format('REVOKE ALL ON atlatl.tenant, atlatl.access_key, atlatl.erasure,
                     atlatl.usage_day FROM %s', former);
                 EXECUTE format('REVOKE ALL ON FUNCTION {ADMIN_FUNCTIONS} FROM %s', former);
             END LOOP;
         END $$;
         GRANT USAGE ON SCHEMA atlatl TO {role};
         GRANT SELECT ON atlatl.migration TO {role};
         GRANT SELECT, INSERT, UPDATE ON atlatl.tenant, atlatl.access_key TO {role};
         GRANT SELECT ON atlatl.erasure, atlatl.usage_day TO {role};
         GRANT EXECUTE ON FUNCTION {ADMIN_FUNCTIONS} TO {role};"
    );
    for table in ["tenant", "access_key", "erasure", "usage_day"] {
        // A policy that is there already is left alone: changing it waits for all readers of the table.
        // Writing to a String cannot fail.
        let _ = write!(
            sql,
            "DO $$
             BEGIN
                 IF NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = 'atlatl.{table}'::regclass
                     AND p.polname = 'admin' AND p.polroles = ARRAY[{name}::regrole::oid]) THEN
                     DROP POLICY IF EXISTS admin ON atlatl.{table};
                     CREATE POLICY admin ON atlatl.{table} TO {role} USING (true) WITH CHECK (true);
                 END IF;
             END $$;"
        );
    }
    sql
}
