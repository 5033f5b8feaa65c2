//! Pool: one connection that writes, and some that read beside it.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::schema;
use crate::store::StoreError;

/// How long a writer waits for another process.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long emptying the log waits for readers.
const SCRUB: Duration = Duration::from_millis(100);
/// Readers that are kept for the next one.
const IDLE_READERS: usize = 8;
/// Statements that stay prepared, by connection.
const STATEMENTS: usize = 64;

/// How every connection is used. With `FULL` a commit waits for the disk: acknowledged is durable.
/// Deleted is overwritten: what was forgotten does not lie about in the file.
const SETTINGS: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA fullfsync = ON;
    PRAGMA secure_delete = ON;
    PRAGMA cache_size = -65536;
    PRAGMA mmap_size = 1073741824;
    PRAGMA temp_store = MEMORY;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA trusted_schema = OFF;
";

/// The connections of a store.
#[derive(Debug)]
pub(super) struct Pool {
    path: PathBuf,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let place = path.display().to_string();
        make(path).map_err(|error| StoreError::NotAStore {
            place: place.clone(),
            why: error.to_string(),
        })?;
        let mut writer = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // Before anything is changed: it may be someone else's file.
        schema::prepare(&mut writer, &place)?;
        write_ahead(&writer)?;
        Ok(Self { path: path.to_owned(), writer: Mutex::new(writer), readers: Mutex::default() })
    }

    #[cfg(feature = "contract")]
    pub(super) fn bound(&self, pages: i64) -> Result<(), StoreError> {
        lock(&self.writer).pragma_update(None, "max_page_count", pages).map_err(failed)
    }

    /// Runs `change` in a transaction that is durable when this returns `Ok`, and is undone else.
    pub(super) fn write<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut writer = lock(&self.writer);
        let transaction =
            writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let done = change(&transaction)?;
        transaction.commit().map_err(failed)?;
        Ok(done)
    }

    /// Empties the log, where what was deleted may still stand. A reader may keep it: it goes with
    /// the next time, and with the last connection.
    pub(super) fn scrub(&self) {
        let writer = lock(&self.writer);
        // Whoever deletes has been told already that it is done, and the next writer waits for us.
        let _ = writer.busy_timeout(SCRUB);
        let _ = writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        let _ = writer.busy_timeout(PATIENCE);
    }

    /// Runs `ask` on the state of one moment.
    pub(super) fn read<T>(
        &self,
        ask: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with_reader(|reader| {
            let transaction = reader.transaction().map_err(failed)?;
            let answer = ask(&transaction);
            transaction.finish().map_err(failed)?;
            answer
        })
    }

    /// Runs `ask`, which is one statement and so sees one moment by itself. A transaction around it
    /// would take as long as the look-up of a memory.
    pub(super) fn read_once<T>(
        &self,
        ask: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with_reader(|reader| ask(reader))
    }

    fn with_reader<T>(
        &self,
        ask: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = lock(&self.readers).pop();
        let mut reader = match idle {
            Some(reader) => reader,
            None => connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
        };
        let answer = ask(&mut reader);
        let mut readers = lock(&self.readers);
        if readers.len() < IDLE_READERS {
            readers.push(reader);
        }
        answer
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked left a connection whose transaction is undone.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the file before the engine does, which would let others read it.
fn make(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let new = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    match new {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

/// Readers do not wait for a writer, nor a writer for them. Two processes that begin at the same
/// time may stand in each other's way for a moment.
fn write_ahead(db: &Connection) -> Result<(), StoreError> {
    let mut tries = 0;
    loop {
        let mode = db.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
        if mode.map_err(failed)? == "wal" {
            return Ok(());
        }
        match db.pragma_update(None, "journal_mode", "WAL").map_err(failed) {
            Err(StoreError::Busy) if tries < 50 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

fn connect(path: &Path, how: OpenFlags) -> Result<Connection, StoreError> {
    let db =
        Connection::open_with_flags(path, how | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(failed)?;
    db.busy_timeout(PATIENCE).map_err(failed)?;
    db.execute_batch(SETTINGS).map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::NotAStore {
            place: path.display().to_string(),
            why: "it is no SQLite file".to_owned(),
        },
        _ => failed(error),
    })?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(db)
}

/// What the engine's error means to a caller.
pub(super) fn failed(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy,
        Some(
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied,
        ) => StoreError::Storage(error.into()),
        _ => StoreError::Engine(error.into()),
    }
}
