//! The connection pool: one writer, and readers beside it.
//!
//! Statements block, so they run on the blocking threads of the runtime. The permit of a connection
//! belongs to the work: a caller that is gone does not release it before the work has ended.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, InterruptHandle, OpenFlags, Transaction, TransactionBehavior};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

use super::error::{to_open_error, to_store_error};
use super::schema;
use crate::blocking::{join, spawn};
use crate::store::StoreError;

/// The timeout of a write: waiting for other writers of this process, and then of other processes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a reader waits for another process.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a checkpoint of the write-ahead log waits for readers.
const SCRUB_TIMEOUT: Duration = Duration::from_millis(100);
/// The maximum number of concurrent readers. Further ones wait.
const MAX_READERS: usize = 8;
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
    /// The writing connection, for one caller at a time in the order of their calls.
    writer: Arc<AsyncMutex<Connection>>,
    readers: Arc<Readers>,
}

/// The reading connections.
#[derive(Debug)]
struct Readers {
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

/// Work on a blocking thread that its caller waits for. If the caller is gone, it is not started, and
/// a statement that runs is interrupted.
struct Abandonable<T> {
    work: JoinHandle<T>,
    statement: RunningStatement,
}

/// The handle that interrupts the statement of a reader, while it has a connection.
type RunningStatement = Arc<Mutex<Option<InterruptHandle>>>;

impl<T> Drop for Abandonable<T> {
    fn drop(&mut self) {
        // Neither has an effect on work that is done.
        self.work.abort();
        if let Some(statement) = &*lock(&self.statement) {
            statement.interrupt();
        }
    }
}

impl<T> Abandonable<T> {
    async fn join(mut self) -> Result<T, StoreError> {
        join(&mut self.work).await.map_err(|shutdown| StoreError::Engine(shutdown.into()))
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
        let permits = Arc::new(Semaphore::new(MAX_READERS));
        let readers = Arc::new(Readers { idle: Mutex::default(), permits });
        Ok(Self { path: path.to_owned(), writer: Arc::new(AsyncMutex::new(writer)), readers })
    }

    /// Limits the size of the file. Nothing else may use the store yet.
    #[cfg(feature = "contract")]
    pub(super) fn limit_pages(&self, pages: i64) -> Result<(), StoreError> {
        let writer = self.writer.try_lock().map_err(|_| StoreError::Busy)?;
        writer.pragma_update(None, "max_page_count", pages).map_err(to_store_error)
    }

    /// Runs `change` in a transaction that is durable when this returns `Ok`, and rolled back
    /// otherwise. A change that has begun is completed even if the caller is gone.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_within(WRITE_TIMEOUT, change).await
    }

    async fn write_within<T: Send + 'static>(
        &self,
        timeout: Duration,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.with_writer(timeout, move |writer| {
            let transaction = writer
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(to_store_error)?;
            let done = change(&transaction)?;
            transaction.commit().map_err(to_store_error)?;
            Ok(done)
        })
        .await
    }

    /// Runs `work` with the writing connection as soon as it is free. One deadline applies to that
    /// and to waiting for other processes, so that the waits of callers do not add up.
    async fn with_writer<T: Send + 'static>(
        &self,
        timeout: Duration,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let deadline = Instant::now() + timeout;
        let acquired = timeout_at(deadline.into(), Arc::clone(&self.writer).lock_owned()).await;
        let mut writer: OwnedMutexGuard<Connection> = acquired.map_err(|_| StoreError::Busy)?;
        let work = spawn(move || {
            let left = deadline.saturating_duration_since(Instant::now());
            writer.busy_timeout(left).map_err(to_store_error)?;
            work(&mut writer)
        });
        Abandonable { work, statement: RunningStatement::default() }.join().await?
    }

    /// Truncates the write-ahead log, which may still contain deleted content. If a reader prevents
    /// that, it happens the next time, or when the last connection closes.
    pub(super) async fn scrub(&self) {
        // The deletion is already acknowledged, and the next writer waits.
        let scrubbed = self.with_writer(SCRUB_TIMEOUT, |writer| {
            let _ =
                writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
            Ok(())
        });
        let _ = scrubbed.await;
    }

    /// Runs `query` on a consistent snapshot.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.with_reader(|reader| {
            let transaction = reader.transaction().map_err(to_store_error)?;
            let answer = query(&transaction);
            transaction.finish().map_err(to_store_error)?;
            answer
        })
        .await
    }

    /// Runs `query`, a single statement, which is consistent by itself. A transaction around it
    /// would take as long as reading a memory.
    pub(super) async fn read_once<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.with_reader(|reader| query(reader)).await
    }

    async fn with_reader<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.readers.permits).acquire_owned().await.ok();
        let (readers, path) = (Arc::clone(&self.readers), self.path.clone());
        let statement = RunningStatement::default();
        let running = Arc::clone(&statement);
        let work = spawn(move || {
            let idle = lock(&readers.idle).pop();
            let mut reader = match idle {
                Some(reader) => reader,
                None => connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
            };
            *lock(&running) = Some(reader.get_interrupt_handle());
            let answer = query(&mut reader);
            // From here on an abandoned caller interrupts nothing.
            *lock(&running) = None;
            lock(&readers.idle).push(reader);
            drop(permit);
            answer
        });
        Abandonable { work, statement }.join().await?
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
    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn g39_waits_of_writers_for_another_process_do_not_add_up() {
        const TIMEOUT: Duration = Duration::from_millis(500);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.db");
        let pool = Pool::open(&path).unwrap();
        // Like another process: a connection of its own within a transaction.
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let began = Instant::now();
        for refused in join_all((0..16).map(|_| pool.write_within(TIMEOUT, |_| Ok(())))).await {
            assert!(matches!(refused, Err(StoreError::Busy)), "{refused:?}");
        }
        // Serially they would take 8 s.
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        other.execute_batch("ROLLBACK").unwrap();
        pool.write(|_| Ok(())).await.unwrap();
    }

    #[tokio::test]
    async fn g38_a_panic_while_writing_is_undone_and_gives_the_connection_back() {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::open(&dir.path().join("memory.db")).unwrap();
        let write = pool.write(|db| -> Result<(), StoreError> {
            db.execute("INSERT INTO lease VALUES ('half', 1)", []).unwrap();
            panic!("in the middle")
        });
        let panicked = std::panic::AssertUnwindSafe(write).catch_unwind().await;
        assert!(panicked.is_err());
        let count = "SELECT count(*) FROM lease";
        let left = pool.write_within(Duration::from_secs(1), |db| {
            db.query_row(count, [], |row| row.get::<_, i64>(0)).map_err(to_store_error)
        });
        assert_eq!(left.await.unwrap(), 0);
    }

    #[tokio::test]
    async fn an_abandoned_read_ends_and_releases_its_connection() {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::open(&dir.path().join("memory.db")).unwrap();
        let endless = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) \
                       SELECT count(*) FROM n";
        let query = |db: &Connection| {
            db.query_row(endless, [], |row| row.get::<_, i64>(0)).map_err(to_store_error)
        };
        let reads = join_all((0..MAX_READERS).map(|_| pool.read(query)));
        let late = tokio::time::timeout(Duration::from_millis(200), reads).await;
        assert!(late.is_err(), "the query has no end");
        let next = pool.read(|db| {
            db.query_row("SELECT 1", [], |row| row.get::<_, i64>(0)).map_err(to_store_error)
        });
        let next = tokio::time::timeout(Duration::from_secs(10), next).await;
        assert_eq!(next.expect("a free connection").unwrap(), 1);
    }
}
