//! Maintain: what is done to a store when nobody asks it anything.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use mif::MemoryId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params};

use super::crud::{id_of, index, read, remove};
use super::pool::failed;
use crate::listing::microseconds;
use crate::store::{Repaired, StoreError};

pub(super) fn expire(
    db: &Connection,
    now: DateTime<Utc>,
    limit: usize,
) -> Result<Vec<MemoryId>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let gone = db
        .prepare_cached(
            "SELECT key, id, json FROM memory JOIN document USING (key) \
             WHERE expires <= ?1 ORDER BY expires LIMIT ?2",
        )
        .and_then(|mut ask| {
            ask.query_map(params![microseconds(now), limit], |row| {
                Ok((row.get::<_, i64>(0)?, id_of(row.get(1)?), row.get::<_, String>(2)?))
            })?
            .collect::<Result<Vec<_>, _>>()
        })
        .map_err(failed)?;
    gone.into_iter().map(|(key, id, json)| remove(db, key, &json).map(|()| id)).collect()
}

/// What is not in step, by key.
pub(super) struct Broken {
    missing: Vec<i64>,
    orphaned: Vec<i64>,
    loose: Vec<i64>,
    /// Models whose vectors have a gap, and where it begins.
    gaps: Vec<(String, i64)>,
}

impl Broken {
    /// How many memories cannot be found by their words, and how many words are of none.
    pub(super) fn words(&self) -> (u64, u64) {
        (self.missing.len() as u64, self.orphaned.len() as u64)
    }

    pub(super) fn is_empty(&self) -> bool {
        let Self { missing, orphaned, loose, gaps } = self;
        missing.is_empty() && orphaned.is_empty() && loose.is_empty() && gaps.is_empty()
    }
}

/// Looks for what is not in step.
pub(super) fn broken(db: &Connection) -> Result<Broken, StoreError> {
    let keys = |sql: &str| {
        db.prepare(sql)
            .and_then(|mut ask| ask.query_map([], |row| row.get(0))?.collect())
            .map_err(failed)
    };
    let gaps = db
        .prepare(
            "SELECT model, (SELECT min(key) FROM memory WHERE key <= upto AND NOT EXISTS \
             (SELECT 1 FROM vector WHERE vector.key = memory.key AND vector.model = embedded.model)) \
             AS first FROM embedded WHERE first IS NOT NULL",
        )
        .and_then(|mut ask| {
            ask.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
        .map_err(failed)?;
    Ok(Broken {
        missing: keys("SELECT key FROM memory WHERE key NOT IN (SELECT id FROM words_docsize)")?,
        orphaned: keys("SELECT id FROM words_docsize WHERE id NOT IN (SELECT key FROM memory)")?,
        loose: keys("SELECT key FROM vector WHERE key NOT IN (SELECT key FROM memory)")?,
        gaps,
    })
}

/// Mends it. A memory that went meanwhile is passed over.
pub(super) fn mend(db: &Connection, broken: &Broken) -> Result<Repaired, StoreError> {
    let missing = if broken.orphaned.is_empty() {
        index_again(db, broken.missing.iter().copied())?
    } else {
        // Nobody knows the words of what is gone: the index is made anew.
        db.execute("INSERT INTO words (words) VALUES ('delete-all')", []).map_err(failed)?;
        let keys = db
            .prepare("SELECT key FROM memory ORDER BY key")
            .and_then(|mut ask| ask.query_map([], |row| row.get(0))?.collect::<Result<Vec<_>, _>>())
            .map_err(failed)?;
        index_again(db, keys.into_iter())?;
        broken.missing.len() as u64
    };
    for key in &broken.loose {
        db.execute("DELETE FROM vector WHERE key = ?1", [key]).map_err(failed)?;
    }
    for (model, first) in &broken.gaps {
        db.execute(
            "UPDATE embedded SET upto = min(upto, ?2) WHERE model = ?1",
            params![model, first - 1],
        )
        .map_err(failed)?;
    }
    Ok(Repaired::new(missing, (broken.orphaned.len() + broken.loose.len()) as u64))
}

/// Puts the words of these versions into the index; of how many.
fn index_again(db: &Connection, keys: impl Iterator<Item = i64>) -> Result<u64, StoreError> {
    let mut indexed = 0;
    for key in keys {
        let json: Option<String> = db
            .prepare_cached("SELECT json FROM document WHERE key = ?1")
            .and_then(|mut ask| ask.query_row([key], |row| row.get(0)).optional())
            .map_err(failed)?;
        if let Some(json) = json {
            index(db, key, &read(&json)?)?;
            indexed += 1;
        }
    }
    Ok(indexed)
}

pub(super) fn lease(
    db: &Connection,
    task: &str,
    now: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<bool, StoreError> {
    // A lease that ends later than ours would was taken by a clock that was wrong.
    let taken = db
        .execute(
            "INSERT INTO lease (task, until) VALUES (?1, ?3) \
             ON CONFLICT (task) DO UPDATE SET until = ?3 WHERE until <= ?2 OR until > ?3",
            params![task, microseconds(now), microseconds(until)],
        )
        .map_err(failed)?;
    Ok(taken == 1)
}

pub(super) fn secret(db: &Connection) -> Result<[u8; 32], StoreError> {
    db.query_row("SELECT secret FROM secret", [], |row| row.get(0)).map_err(failed)
}

// --- Check: whether a store can be used, found out without changing it.

/// How long another process may write before that is called busy.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// What a store is like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// How many memories it holds.
    pub memories: u64,
    /// What the engine finds wrong with the file, in its words.
    pub damage: Option<String>,
    /// Memories that cannot be found by their words.
    pub missing: u64,
    /// Words in the index that are of no memory.
    pub orphaned: u64,
    /// Memories that have no vector of the model that was asked about.
    pub waiting: u64,
    /// Memories without a vector of that model because it refused their texts.
    pub refused: u64,
}

pub(super) fn check(path: &Path, model: Option<&str>) -> Result<Option<Health>, StoreError> {
    let wrong = |why: String| StoreError::NotAStore { place: path.display().to_string(), why };
    match std::fs::metadata(path) {
        Ok(there) if there.is_file() => {}
        Ok(_) => return Err(wrong("it is no file".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
    }
    // Not to be read only: whether it can be written to is part of the question.
    let how = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, how).map_err(failed)?;
    db.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    // Whoever closes a file last moves what the log holds into it; that is left to those who write.
    if log(path).metadata().is_ok_and(|log| log.len() > 0) {
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
    }
    let transaction = db
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| refused(path, error))?;
    let pragma = |name: &str| {
        let value = transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        value.map_err(|error| refused(path, error))
    };
    match (pragma("application_id")?, pragma("user_version")?) {
        (APPLICATION, VERSION) => {}
        (APPLICATION, later) => {
            return Err(wrong(format!("it has version {later}, this program knows {VERSION}")));
        }
        // Made, and not begun yet.
        (0, 0) if count(&transaction, "SELECT count(*) FROM sqlite_schema")? == 0 => {
            return Ok(Some(Health::default()));
        }
        _ => return Err(wrong("it belongs to another program".to_owned())),
    }
    // What takes long must not keep writers waiting.
    transaction.finish().map_err(failed)?;
    let transaction = db.transaction().map_err(failed)?;
    let said: String = transaction
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| refused(path, error))?;
    if said != "ok" {
        // What else it would say of itself is worth nothing.
        return Ok(Some(Health { damage: Some(said), ..Health::default() }));
    }
    let (missing, orphaned) = broken(&transaction)?.words();
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
            .map_err(failed)?,
        None => (0, 0),
    };
    let memories = count(&transaction, "SELECT count(*) FROM memory")?;
    Ok(Some(Health { memories, damage: None, missing, orphaned, waiting, refused }))
}

/// The log beside a file.
fn log(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

fn count(db: &Connection, sql: &str) -> Result<u64, StoreError> {
    db.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs).map_err(failed)
}

fn refused(path: &Path, error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::NotAStore {
            place: path.display().to_string(),
            why: "it is no SQLite file".to_owned(),
        },
        _ => failed(error),
    }
}

// --- Schema: the tables, and the way to them from nothing.

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
