//! Tables, data migrations and health check of a store's file.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};

use super::error::{to_open_error, to_store_error};
use super::maintenance::find_inconsistencies;
use crate::store::StoreError;

/// The application id in the file header: `ATLM`.
pub(super) const APPLICATION_ID: i64 = 0x4154_4C4D;
/// The version of the tables below.
pub(super) const SCHEMA_VERSION: i64 = 1;
/// How long to wait for another process before the store counts as busy.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// The filtered columns are in a narrow table, so that a filter over a million memories reads
/// little; the memory itself is in `document`. The full-text index is contentless, because
/// `document` has the content. To delete an entry, its text is passed again, and the index
/// overwrites it; marking the row as deleted would leave the words in the file.
const TABLES: &str = "
    CREATE TABLE memory (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        id BLOB NOT NULL UNIQUE,
        memory_type TEXT NOT NULL,
        namespace TEXT,
        status TEXT NOT NULL,
        created INTEGER NOT NULL,
        changed INTEGER NOT NULL,
        expires INTEGER,
        confidence REAL,
        fades INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX memory_created ON memory (created, id);
    CREATE INDEX memory_changed ON memory (changed, id);
    CREATE INDEX memory_namespace ON memory (namespace, created, id);
    CREATE INDEX memory_expires ON memory (expires) WHERE expires IS NOT NULL;
    CREATE TABLE document (key INTEGER PRIMARY KEY, json TEXT NOT NULL) STRICT;
    CREATE TABLE tag (tag TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (tag, key))
        STRICT, WITHOUT ROWID;
    CREATE INDEX tag_key ON tag (key);
    CREATE VIRTUAL TABLE words USING fts5(
        title, content, tags,
        content='', tokenize='porter unicode61 remove_diacritics 2'
    );
    INSERT INTO words(words, rank) VALUES ('secure-delete', 1);
    CREATE TABLE vector (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        key INTEGER NOT NULL,
        model TEXT NOT NULL,
        vector BLOB NOT NULL,
        UNIQUE (key, model)
    ) STRICT;
    CREATE TABLE embedded (model TEXT PRIMARY KEY, upto INTEGER NOT NULL) STRICT;
    CREATE TABLE lease (task TEXT PRIMARY KEY, until INTEGER NOT NULL) STRICT;
    CREATE TABLE secret (secret BLOB NOT NULL) STRICT;
    INSERT INTO secret VALUES (randomblob(32));
";

/// Data migrations, applied once to each file. They do not change the tables, so that earlier
/// versions of the program keep working with the file.
const DATA_MIGRATIONS: [(&str, &str); 1] = [
    // Version 0.1.0 stored any failure of an embedder as "no vector", and skipped memories below
    // the last vector. Both are queued again.
    ("requeue-vectors", "DELETE FROM vector WHERE length(vector) = 0; DELETE FROM embedded;"),
];

/// Applies the data migrations that a file has not had.
fn apply_data_migrations(db: &Connection) -> Result<(), StoreError> {
    db.execute_batch("CREATE TABLE IF NOT EXISTS applied (step TEXT PRIMARY KEY) STRICT;")
        .map_err(to_store_error)?;
    for (name, sql) in DATA_MIGRATIONS {
        let new = db
            .execute("INSERT OR IGNORE INTO applied (step) VALUES (?1)", [name])
            .map_err(to_store_error)?;
        if new == 1 {
            db.execute_batch(sql).map_err(to_store_error)?;
        }
    }
    Ok(())
}

/// Returns whether a file has had every data migration, without writing to it.
fn has_data_migrations(db: &Connection) -> Result<bool, StoreError> {
    let made: bool = db
        .query_row(
            "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'applied')",
            [],
            |row| row.get(0),
        )
        .map_err(to_store_error)?;
    if !made {
        return Ok(false);
    }
    let had: usize = db
        .query_row("SELECT count(*) FROM applied", [], |row| row.get::<_, i64>(0))
        .map(|had| usize::try_from(had).unwrap_or(0))
        .map_err(to_store_error)?;
    Ok(had >= DATA_MIGRATIONS.len())
}

/// Creates the tables in an empty file, and refuses a file of another program.
pub(super) fn prepare(db: &mut Connection, place: &str) -> Result<(), StoreError> {
    let invalid = |why: String| StoreError::NotAStore { place: place.to_owned(), why };
    // Two processes may open an empty file at the same time.
    let transaction =
        db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(to_store_error)?;
    let pragma = |name: &str| {
        transaction
            .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            .map_err(to_store_error)
    };
    match (pragma("application_id")?, pragma("user_version")?) {
        (APPLICATION_ID, SCHEMA_VERSION) => {
            if has_data_migrations(&transaction)? {
                return Ok(());
            }
            apply_data_migrations(&transaction)?;
            return transaction.commit().map_err(to_store_error);
        }
        (APPLICATION_ID, later) => {
            return Err(invalid(format!(
                "it has schema version {later}, this program supports {SCHEMA_VERSION}"
            )));
        }
        (0, 0) => {}
        _ => return Err(invalid("it belongs to another application".to_owned())),
    }
    let tables: i64 = transaction
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(to_store_error)?;
    if tables > 0 {
        return Err(invalid("it belongs to another application".to_owned()));
    }
    transaction.execute_batch(TABLES).map_err(to_store_error)?;
    apply_data_migrations(&transaction)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(to_store_error)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION).map_err(to_store_error)?;
    transaction.commit().map_err(to_store_error)
}

/// The health of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The number of memories.
    pub memories: u64,
    /// The damage that the engine reports, in its words.
    pub damage: Option<String>,
    /// The number of memories missing from the full-text index.
    pub missing: u64,
    /// The number of full-text index entries without a memory.
    pub orphaned: u64,
    /// The number of memories without a vector of the given model.
    pub waiting: u64,
    /// The number of memories without a vector because that model refused their texts.
    pub refused: u64,
}

pub(super) fn check(path: &Path, model: Option<&str>) -> Result<Option<Health>, StoreError> {
    let invalid = |why: String| StoreError::NotAStore { place: path.display().to_string(), why };
    match std::fs::metadata(path) {
        Ok(there) if there.is_file() => {}
        Ok(_) => return Err(invalid("not a regular file".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(invalid(error.to_string())),
    }
    // Not read-only, because the check includes whether the file is writable.
    let how = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, how).map_err(to_store_error)?;
    db.busy_timeout(BUSY_TIMEOUT).map_err(to_store_error)?;
    // The last connection to close a file moves the log into it. The check leaves that to writers.
    if log(path).metadata().is_ok_and(|log| log.len() > 0) {
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(to_store_error)?;
    }
    let transaction = db
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| to_open_error(path, error))?;
    let pragma = |name: &str| {
        let value = transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        value.map_err(|error| to_open_error(path, error))
    };
    match (pragma("application_id")?, pragma("user_version")?) {
        (APPLICATION_ID, SCHEMA_VERSION) => {}
        (APPLICATION_ID, later) => {
            return Err(invalid(format!(
                "it has schema version {later}, this program supports {SCHEMA_VERSION}"
            )));
        }
        // The file was created, but not initialized yet.
        (0, 0) if count(&transaction, "SELECT count(*) FROM sqlite_schema")? == 0 => {
            return Ok(Some(Health::default()));
        }
        _ => return Err(invalid("it belongs to another application".to_owned())),
    }
    // The long checks must not block writers.
    transaction.finish().map_err(to_store_error)?;
    let transaction = db.transaction().map_err(to_store_error)?;
    let report: String = transaction
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| to_open_error(path, error))?;
    if report != "ok" {
        // Further checks of a damaged file would be meaningless.
        return Ok(Some(Health { damage: Some(report), ..Health::default() }));
    }
    let (missing, orphaned) = find_inconsistencies(&transaction)?.words();
    let (waiting, refused) = match model {
        Some(model) => transaction
            .query_row(
                "SELECT count(*) FILTER (WHERE vector IS NULL), \
                 count(*) FILTER (WHERE length(vector) = 0) FROM memory \
                 LEFT JOIN vector ON vector.key = memory.key AND model = ?1",
                params![model],
                |row| {
                    Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, i64>(1)?.unsigned_abs()))
                },
            )
            .map_err(to_store_error)?,
        None => (0, 0),
    };
    let memories = count(&transaction, "SELECT count(*) FROM memory")?;
    Ok(Some(Health { memories, damage: None, missing, orphaned, waiting, refused }))
}

/// Returns the path of the write-ahead log.
fn log(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

fn count(db: &Connection, sql: &str) -> Result<u64, StoreError> {
    db.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs).map_err(to_store_error)
}
