//! Check: whether a store can be used, found out without changing it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, params};

use super::maintenance::broken;
use super::schema::{APPLICATION, VERSION};
use super::pool::failed;
use crate::store::StoreError;

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
