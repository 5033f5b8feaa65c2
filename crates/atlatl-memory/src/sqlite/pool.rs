//! The connection pool: one writer, and readers beside it.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::error::{to_open_error, to_store_error};
use super::schema;
use crate::store::StoreError;

/// The timeout of a write: waiting for other writers of this process, and then of other processes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a reader waits for another process.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a checkpoint of the write-ahead log waits for readers.
const SCRUB_TIMEOUT: Duration = Duration::from_millis(100);
/// The maximum number of idle readers.
const MAX_IDLE_READERS: usize = 8;
/// The maximum number of prepared statements per connection.
const MAX_PREPARED_STATEMENTS: usize = 64;

/// The settings of every connection. With `synchronous = FULL` a commit waits for the disk, so that
/// acknowledged writes are durable. With `secure_delete` deleted content is overwritten in the
/// file.
const PRAGMAS: &str = "
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
    writer: Writer,
    readers: Mutex<Vec<Connection>>,
}

/// The writing connection, for one caller at a time. Unlike a mutex it has a deadline, so that the
/// callers' waits for other processes do not add up.
#[derive(Debug)]
struct Writer {
    /// `None` while it is in use.
    idle: Mutex<Option<Connection>>,
    freed: Condvar,
}

/// The writing connection in use. It is returned when this is dropped, also after a panic: an
/// uncommitted transaction has been rolled back by then.
struct WriteGuard<'a> {
    writer: &'a Writer,
    /// Taken only by `drop`.
    connection: Option<Connection>,
}

impl Writer {
    fn new(connection: Connection) -> Self {
        Self { idle: Mutex::new(Some(connection)), freed: Condvar::new() }
    }

    /// Acquires the connection as soon as it is free. The same deadline then applies to waiting for
    /// other processes.
    fn take(&self, timeout: Duration) -> Result<WriteGuard<'_>, StoreError> {
        let deadline = Instant::now() + timeout;
        let mut idle = lock(&self.idle);
        loop {
            if let Some(connection) = idle.take() {
                drop(idle);
                let writing = WriteGuard { writer: self, connection: Some(connection) };
                let left = deadline.saturating_duration_since(Instant::now());
                writing.get()?.busy_timeout(left).map_err(to_store_error)?;
                return Ok(writing);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreError::Busy);
            }
            idle = self.freed.wait_timeout(idle, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl WriteGuard<'_> {
    fn get(&self) -> Result<&Connection, StoreError> {
        self.connection.as_ref().ok_or(StoreError::Busy)
    }

    fn get_mut(&mut self) -> Result<&mut Connection, StoreError> {
        self.connection.as_mut().ok_or(StoreError::Busy)
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        *lock(&self.writer.idle) = self.connection.take();
        self.writer.freed.notify_one();
    }
}

impl Pool {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let place = path.display().to_string();
        create_private_file(path).map_err(|error| StoreError::NotAStore {
            place: place.clone(),
            why: error.to_string(),
        })?;
        let mut writer = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // Before any change, since the file may belong to another program.
        schema::prepare(&mut writer, &place)?;
        enable_wal(&writer)?;
        let writer = Writer::new(writer);
        Ok(Self { path: path.to_owned(), writer, readers: Mutex::default() })
    }

    #[cfg(feature = "contract")]
    pub(super) fn limit_pages(&self, pages: i64) -> Result<(), StoreError> {
        let writing = self.writer.take(WRITE_TIMEOUT)?;
        writing.get()?.pragma_update(None, "max_page_count", pages).map_err(to_store_error)
    }

    /// Runs `change` in a transaction that is durable when this returns `Ok`, and rolled back
    /// otherwise.
    pub(super) fn write<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.write_within(WRITE_TIMEOUT, change)
    }

    fn write_within<T>(
        &self,
        timeout: Duration,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut writing = self.writer.take(timeout)?;
        let transaction = writing
            .get_mut()?
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(to_store_error)?;
        let done = change(&transaction)?;
        transaction.commit().map_err(to_store_error)?;
        Ok(done)
    }

    /// Truncates the write-ahead log, which may still contain deleted content. If a reader prevents
    /// that, it happens the next time, or when the last connection closes.
    pub(super) fn scrub(&self) {
        // The deletion is already acknowledged, and the next writer waits.
        let Ok(writing) = self.writer.take(SCRUB_TIMEOUT) else { return };
        let Ok(writer) = writing.get() else { return };
        let _ = writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    }

    /// Runs `query` on a consistent snapshot.
    pub(super) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with_reader(|reader| {
            let transaction = reader.transaction().map_err(to_store_error)?;
            let answer = query(&transaction);
            transaction.finish().map_err(to_store_error)?;
            answer
        })
    }

    /// Runs `query`, a single statement, which is consistent by itself. A transaction around it
    /// would take as long as reading a memory.
    pub(super) fn read_once<T>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with_reader(|reader| query(reader))
    }

    fn with_reader<T>(
        &self,
        query: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = lock(&self.readers).pop();
        let mut reader = match idle {
            Some(reader) => reader,
            None => connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
        };
        let answer = query(&mut reader);
        let mut readers = lock(&self.readers);
        if readers.len() < MAX_IDLE_READERS {
            readers.push(reader);
        }
        answer
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // After a panic the transaction of the connection has been rolled back.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates the file before the engine does, which would make it readable by others.
fn create_private_file(path: &Path) -> io::Result<()> {
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

/// Enables write-ahead logging: readers do not wait for a writer, nor a writer for readers. Two
/// processes that start at the same time may block each other for a moment.
fn enable_wal(db: &Connection) -> Result<(), StoreError> {
    let mut tries = 0;
    loop {
        let mode = db.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
        if mode.map_err(to_store_error)? == "wal" {
            return Ok(());
        }
        match db.pragma_update(None, "journal_mode", "WAL").map_err(to_store_error) {
            Err(StoreError::Busy) if tries < 50 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

fn connect(path: &Path, how: OpenFlags) -> Result<Connection, StoreError> {
    let db = Connection::open_with_flags(path, how | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(to_store_error)?;
    db.busy_timeout(READ_TIMEOUT).map_err(to_store_error)?;
    db.execute_batch(PRAGMAS).map_err(|error| to_open_error(path, error))?;
    db.set_prepared_statement_cache_capacity(MAX_PREPARED_STATEMENTS);
    Ok(db)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn g39_waits_of_writers_for_another_process_do_not_add_up() {
        const TIMEOUT: Duration = Duration::from_millis(500);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.db");
        let pool = Pool::open(&path).unwrap();
        // Like another process: a connection of its own within a transaction.
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let began = Instant::now();
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let refused = pool.write_within(TIMEOUT, |_| Ok(()));
                    assert!(matches!(refused, Err(StoreError::Busy)), "{refused:?}");
                });
            }
        });
        // Serially they would take 8 s.
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        other.execute_batch("ROLLBACK").unwrap();
        pool.write(|_| Ok(())).unwrap();
    }

    #[test]
    fn g38_a_panic_while_writing_is_undone_and_gives_the_connection_back() {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::open(&dir.path().join("memory.db")).unwrap();
        let panicked = thread::scope(|scope| {
            let write = || {
                pool.write(|db| -> Result<(), StoreError> {
                    db.execute("INSERT INTO lease VALUES ('half', 1)", []).unwrap();
                    panic!("in the middle")
                })
            };
            scope.spawn(write).join()
        });
        assert!(panicked.is_err());
        let count = "SELECT count(*) FROM lease";
        let left = pool.write_within(Duration::from_secs(1), |db| {
            db.query_row(count, [], |row| row.get::<_, i64>(0)).map_err(to_store_error)
        });
        assert_eq!(left.unwrap(), 0);
    }
}
