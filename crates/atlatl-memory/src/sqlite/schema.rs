//! Schema: the tables, and the way to them from nothing.

use rusqlite::{Connection, TransactionBehavior};

use super::pool::failed;
use crate::store::StoreError;

/// Says in the file's header that it is ours: `ATLM`.
pub(super) const APPLICATION: i64 = 0x4154_4C4D;
/// The version of the tables below.
pub(super) const VERSION: i64 = 1;

/// What is asked of a memory is in a narrow table, so that a filter over a million of them reads
/// little; the memory itself is beside it. The words are in an index without content: what it would
/// hold is there already. To take a memory out of it, its words are said again; they are overwritten
/// then, where marking the row as deleted would leave them in the file.
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

/// Changes of what is stored, applied once to each file. They leave the tables as they are, so that
/// earlier versions of the program go on working beside this one.
const STEPS: [(&str, &str); 1] = [
    // Version 0.1.0 stored any failure of an embedder as "no vector", and passed over what was below
    // the last vector: both are queued once more.
    ("requeue-vectors", "DELETE FROM vector WHERE length(vector) = 0; DELETE FROM embedded;"),
];

/// Applies the steps that a file has not had.
fn apply_steps(db: &Connection) -> Result<(), StoreError> {
    db.execute_batch("CREATE TABLE IF NOT EXISTS applied (step TEXT PRIMARY KEY) STRICT;")
        .map_err(failed)?;
    for (name, sql) in STEPS {
        let new = db
            .execute("INSERT OR IGNORE INTO applied (step) VALUES (?1)", [name])
            .map_err(failed)?;
        if new == 1 {
            db.execute_batch(sql).map_err(failed)?;
        }
    }
    Ok(())
}

/// Whether a file has had every step; to find out, nothing is written.
fn has_steps(db: &Connection) -> Result<bool, StoreError> {
    let made: bool = db
        .query_row(
            "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'applied')",
            [],
            |row| row.get(0),
        )
        .map_err(failed)?;
    if !made {
        return Ok(false);
    }
    let had: usize = db
        .query_row("SELECT count(*) FROM applied", [], |row| row.get::<_, i64>(0))
        .map(|had| usize::try_from(had).unwrap_or(0))
        .map_err(failed)?;
    Ok(had >= STEPS.len())
}

/// Makes the tables where there are none, and refuses a file that is not ours.
pub(super) fn prepare(db: &mut Connection, place: &str) -> Result<(), StoreError> {
    let wrong = |why: String| StoreError::NotAStore { place: place.to_owned(), why };
    // Two processes may open an empty file at the same time.
    let transaction =
        db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let pragma = |name: &str| {
        transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(failed)
    };
    match (pragma("application_id")?, pragma("user_version")?) {
        (APPLICATION, VERSION) => {
            if has_steps(&transaction)? {
                return Ok(());
            }
            apply_steps(&transaction)?;
            return transaction.commit().map_err(failed);
        }
        (APPLICATION, later) => {
            return Err(wrong(format!("it has version {later}, this program knows {VERSION}")));
        }
        (0, 0) => {}
        _ => return Err(wrong("it belongs to another program".to_owned())),
    }
    let tables: i64 = transaction
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(failed)?;
    if tables > 0 {
        return Err(wrong("it belongs to another program".to_owned()));
    }
    transaction.execute_batch(TABLES).map_err(failed)?;
    apply_steps(&transaction)?;
    transaction.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
    transaction.pragma_update(None, "user_version", VERSION).map_err(failed)?;
    transaction.commit().map_err(failed)
}
