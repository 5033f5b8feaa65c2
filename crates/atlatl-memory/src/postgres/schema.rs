//! Schema: the migrations, and whether a database has had those that this program knows.
//!
//! A migration only adds, so that a program that knows one less goes on working while it is
//! replaced; it is one file, and is never changed once it was published.

use std::time::Duration;

use tokio_postgres::types::Type;

use super::options::PostgresOptions;
use super::pool::Pool;
use super::session::Session;
use crate::store::StoreError;

/// All migrations; the first has number 1.
const MIGRATIONS: [(&str, &str); 1] =
    [("0001-memories", include_str!("migrations/0001-memories.sql"))];

/// The lock that one who migrates holds: `ATLM`.
const LOCK: i64 = 0x4154_4C4D;
/// A migration may take as long as it needs, and this is more.
const PATIENCE: Duration = Duration::from_hours(24);
/// No tenant: a migration is nobody's.
const NOBODY: &str = "";

/// Where a migration is written down.
const BOOK: &str = "
    CREATE SCHEMA IF NOT EXISTS atlatl;
    CREATE TABLE IF NOT EXISTS atlatl.migration (
        number integer PRIMARY KEY,
        name text NOT NULL,
        applied timestamptz NOT NULL DEFAULT now()
    );
";

/// Brings the schema up to date, as the owner that the URL names, and lets the role use it. All of it
/// in one transaction; whoever comes second waits and finds nothing to do. The names of what was
/// applied.
pub(super) fn migrate(owner: &PostgresOptions) -> Result<Vec<String>, StoreError> {
    let role = owner.role.clone();
    let own = PostgresOptions {
        role: "none".to_owned(),
        connections: 1,
        statement_timeout: PATIENCE,
        ..owner.clone()
    };
    let pool = Pool::new(&own)?;
    let wrong = |why: String| StoreError::NotAStore { place: pool.place.clone(), why };
    pool.write(NOBODY, async |db| {
        db.query("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await?;
        let exists = "SELECT 1 FROM pg_roles WHERE rolname = $1";
        if db.query(exists, &[(&role, Type::TEXT)]).await?.is_empty() {
            let quoted = quoted(&role);
            return Err(wrong(format!(
                "there is no role {quoted}: make it with CREATE ROLE {quoted} LOGIN PASSWORD '…'"
            )));
        }
        db.batch(BOOK).await?;
        let had = had(db).await?;
        check_known(had).map_err(wrong)?;
        let mut applied = Vec::new();
        for (number, (name, sql)) in (1_i32..).zip(MIGRATIONS) {
            if number > had {
                db.batch(sql).await?;
                let done = "INSERT INTO atlatl.migration (number, name) VALUES ($1, $2)";
                db.execute(done, &[(&number, Type::INT4), (&name, Type::TEXT)]).await?;
                applied.push(name.to_owned());
            }
        }
        db.batch(&grants(&role)).await?;
        Ok(applied)
    })
}

/// Whether a store can be opened: the schema is the one that is known, and the role is bound by its
/// policies.
pub(super) fn check(pool: &Pool, role: &str) -> Result<(), StoreError> {
    let wrong = |why: String| StoreError::NotAStore { place: pool.place.clone(), why };
    let no_schema = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace \
                     WHERE nspname = 'atlatl'";
    let bound = "SELECT r.rolsuper OR r.rolbypassrls OR EXISTS (SELECT 1 FROM pg_class c \
                 WHERE c.relnamespace = 'atlatl'::regnamespace AND c.relowner = r.oid) \
                 FROM pg_roles r WHERE r.rolname = current_user";
    pool.read(NOBODY, &async |db| {
        let usable: Option<bool> = db.query(no_schema, &[]).await?.first().map(|row| row.get(0));
        match usable {
            None => return Err(wrong(needs(0))),
            Some(false) => {
                return Err(wrong(format!(
                    "the role {} may not use it: run `atlatl db migrate` for this role",
                    quoted(role)
                )));
            }
            Some(true) => {}
        }
        let had = had(db).await?;
        check_known(had).map_err(wrong)?;
        if had < newest() {
            return Err(wrong(needs(had)));
        }
        let free: bool = db.query(bound, &[]).await?.first().is_none_or(|row| row.get(0));
        if free {
            return Err(wrong(format!(
                "the role {} is not bound by its policies: it must own nothing of it, be no \
                 superuser and not have BYPASSRLS",
                quoted(role)
            )));
        }
        Ok(())
    })
}

/// Where the type of pgvector is, if the extension is there and may be used.
pub(super) fn vectors(pool: &Pool) -> Result<Option<String>, StoreError> {
    let asked = "SELECT n.nspname::text FROM pg_extension e \
                 JOIN pg_namespace n ON n.oid = e.extnamespace \
                 WHERE e.extname = 'vector' AND has_schema_privilege(n.oid, 'USAGE')";
    pool.read(NOBODY, &async |db| {
        Ok(db.query(asked, &[]).await?.first().map(|row| quoted(row.get(0))))
    })
}

async fn had(db: &Session) -> Result<i32, StoreError> {
    let rows = db.query("SELECT coalesce(max(number), 0) FROM atlatl.migration", &[]).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

fn newest() -> i32 {
    i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX)
}

fn check_known(had: i32) -> Result<(), String> {
    let newest = newest();
    if had > newest {
        return Err(format!(
            "its schema has version {had}, this program knows {newest}: use the program that ran \
             `atlatl db migrate`"
        ));
    }
    Ok(())
}

fn needs(had: i32) -> String {
    let newest = newest();
    format!("its schema has version {had}, this program needs {newest}: run `atlatl db migrate`")
}

/// What the role may do: with rows, and nothing else.
fn grants(role: &str) -> String {
    let role = quoted(role);
    format!(
        "GRANT USAGE ON SCHEMA atlatl TO {role};
         GRANT SELECT ON atlatl.migration TO {role};
         GRANT USAGE ON SEQUENCE atlatl.version TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE
             ON atlatl.memory, atlatl.document, atlatl.vector, atlatl.lease, atlatl.secret
             TO {role};
         GRANT EXECUTE ON FUNCTION atlatl.found TO {role};"
    )
}

/// A name as SQL has it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
