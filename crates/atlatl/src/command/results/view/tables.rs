//! The tables that pages show, which stay open between two requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use atlatl_browse::{Deadline, ResultTable, RowContent};
use chrono::{DateTime, Utc};
use lro::{Extractor, Spools};
use lro_core::ResultId;
use lro_core::config::Config;
use lro_query::Cancel;
use lro_spool::{Address, Sidecar};

use crate::command::results::stored_rows::{select_rows, source, sql_extractor};
use crate::error::with_causes;
use crate::output::grouped;

/// The tables that stay open.
const MAX_OPEN: usize = 4;
/// How long a table stays open after its last request. An open result cannot be removed.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// The output limit of a statement. Its rows are kept in memory, for clients over HTTP as well.
const MAX_SQL_BYTES: u64 = 8 << 20;
/// The interval at which a request looks whether the one before it has finished.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A table with what its page says about it.
pub(super) struct OpenTable {
    pub(super) table: ResultTable,
    pub(super) reference: String,
    pub(super) sql: Option<String>,
    /// The server and the tool: untrusted text.
    pub(super) title: String,
    pub(super) notes: Vec<String>,
}

/// What identifies a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableKey {
    pub(super) id: ResultId,
    pub(super) sql: Option<String>,
}

/// Opens tables, and keeps them open.
pub(super) struct TableCache {
    spools: Spools,
    /// Runs the statements of all tables, so that they share the limit of workers.
    extractor: Extractor,
    time_limit: Duration,
    tables: Arc<OpenTables>,
}

impl TableCache {
    pub(super) fn new(spools: Spools, config: &Config) -> Self {
        let mut config = config.clone();
        // A limit that the operator set stays.
        if config.query.output_bytes == Config::default().query.output_bytes {
            config.query.output_bytes = config.query.output_bytes.max(MAX_SQL_BYTES);
        }
        Self {
            extractor: sql_extractor(spools.clone(), &config),
            spools,
            time_limit: Duration::from_millis(config.query.wall_ms),
            tables: Arc::new(OpenTables::new(IDLE_TIMEOUT)),
        }
    }

    /// When a request that begins now must end: as early as a query.
    pub(super) fn deadline(&self, cancel: &Cancel) -> Deadline {
        let end = Instant::now() + self.time_limit;
        let cancel = cancel.clone();
        Deadline::new(move || cancel.is_cancelled() || Instant::now() >= end)
    }

    /// The table of a result, or of the rows that a statement selects from it. The error is a text for a
    /// person.
    pub(super) fn open(
        &self,
        address: &Address,
        sql: Option<&str>,
        now: DateTime<Utc>,
        cancel: &Cancel,
    ) -> Result<Arc<Mutex<OpenTable>>, String> {
        // Also if the table is open: the result may have expired.
        let stored = self.spools.open(address, now).map_err(|error| with_causes(&error))?;
        let id = stored.listed().id();
        let key = TableKey { id, sql: sql.map(str::to_owned) };
        if let Some(table) = self.tables.find(&key) {
            return Ok(table);
        }
        let (title, mut notes) = (title(&stored.listed().sidecar), Vec::new());
        let (source, begin, content) = match sql {
            None => source(stored).map_err(|error| error.message())?,
            Some(statement) => {
                let rows = select_rows(&self.extractor, id.into(), statement.to_owned(), cancel)?;
                if let Some(all) = rows.more {
                    let shown = rows.lines.split(|byte| *byte == b'\n').count().saturating_sub(1);
                    let shown = grouped(shown as u64);
                    notes.push(format!("the first {shown} of {all} rows"));
                }
                (Box::new(rows.lines) as _, 0, RowContent::Records)
            }
        };
        let table = ResultTable::open(source, begin, content, &self.deadline(cancel))
            .map_err(|error| with_causes(&error))?;
        if table.is_cut() {
            let shown = grouped(table.total());
            notes.push(format!("the first {shown} rows: a table cannot have more"));
        }
        let (reference, sql) = (id.reference().to_string(), key.sql.clone());
        Ok(self.tables.insert(key, OpenTable { table, reference, sql, title, notes }))
    }
}

/// Waits until no other request reads the table, as long as the deadline allows.
pub(super) fn lock<'a>(
    table: &'a Mutex<OpenTable>,
    deadline: &Deadline,
) -> Result<MutexGuard<'a, OpenTable>, String> {
    loop {
        match table.try_lock() {
            Ok(open) => return Ok(open),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if deadline.has_passed() => {
                return Err("another request of this table takes too long: try again".to_owned());
            }
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_POLL_INTERVAL),
        }
    }
}

/// The open tables. A thread closes those that are idle; it ends when none is open.
struct OpenTables {
    idle_timeout: Duration,
    state: Mutex<TablesState>,
}

#[derive(Default)]
struct TablesState {
    /// The last used one first.
    entries: VecDeque<Entry>,
    /// Whether the thread runs.
    has_closer: bool,
}

/// A table with the time of its last request.
struct Entry {
    key: TableKey,
    table: Arc<Mutex<OpenTable>>,
    used: Instant,
}

impl OpenTables {
    fn new(idle_timeout: Duration) -> Self {
        Self { idle_timeout, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, TablesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, key: &TableKey) -> Option<Arc<Mutex<OpenTable>>> {
        self.state().find(key)
    }

    /// Keeps a table open, unless another request opened the same one meanwhile.
    fn insert(self: &Arc<Self>, key: TableKey, open: OpenTable) -> Arc<Mutex<OpenTable>> {
        let mut state = self.state();
        if let Some(table) = state.find(&key) {
            return table;
        }
        let table = Arc::new(Mutex::new(open));
        let entry = Entry { key, table: Arc::clone(&table), used: Instant::now() };
        state.entries.push_front(entry);
        state.entries.truncate(MAX_OPEN);
        if !state.has_closer {
            let tables = Arc::downgrade(self);
            let closer = thread::Builder::new().name("idle_tables".to_owned());
            // Without the thread, the next table that is opened starts it.
            state.has_closer = closer.spawn(move || close_idle_tables(&tables)).is_ok();
        }
        table
    }

    /// Closes idle tables. Returns the time until the next one is idle; `None` if no table is open.
    fn close_idle(&self) -> Option<Duration> {
        let (mut state, now) = (self.state(), Instant::now());
        let left = |entry: &Entry| (entry.used + self.idle_timeout).saturating_duration_since(now);
        state.entries.retain(|entry| !left(entry).is_zero());
        let next = state.entries.iter().map(left).min();
        state.has_closer = next.is_some();
        next
    }
}

/// Closes tables in time. Holds no reference while it waits: tables do not outlive their view.
fn close_idle_tables(tables: &Weak<OpenTables>) {
    while let Some(next) = tables.upgrade().and_then(|tables| tables.close_idle()) {
        thread::sleep(next);
    }
}

impl TablesState {
    /// An open table, which is in use again.
    fn find(&mut self, key: &TableKey) -> Option<Arc<Mutex<OpenTable>>> {
        let at = self.entries.iter().position(|entry| entry.key == *key)?;
        let mut entry = self.entries.remove(at)?;
        entry.used = Instant::now();
        let table = Arc::clone(&entry.table);
        self.entries.push_front(entry);
        Some(table)
    }
}

/// The server, without the hash that distinguishes servers of the same name, and the tool.
fn title(sidecar: &Sidecar) -> String {
    let server = sidecar.server.as_deref().unwrap_or_default();
    let server = server.split(':').next().unwrap_or_default();
    let parts = [server, sidecar.tool.as_str()].into_iter().filter(|part| !part.is_empty());
    lro_core::escape_invisible(&parts.collect::<Vec<_>>().join(", ")).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};

    use atlatl_browse::RowSource;

    use super::*;

    /// Says when it is closed.
    struct Source(Arc<AtomicBool>);

    impl RowSource for Source {
        fn len(&self) -> u64 {
            0
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
    }

    impl Drop for Source {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    fn key(sql: &str) -> TableKey {
        let address: Address = "lro:01K9ZQ4M7X2VBT8HW5RDN3FCEJ".parse().unwrap();
        TableKey { id: address.id(), sql: Some(sql.to_owned()) }
    }

    /// A table, and whether it is closed.
    fn open_table() -> (OpenTable, Arc<AtomicBool>) {
        let closed = Arc::new(AtomicBool::new(false));
        let source = Box::new(Source(Arc::clone(&closed)));
        let table = ResultTable::open(source, 0, RowContent::Text, &Deadline::never()).unwrap();
        let (reference, title) = (String::new(), String::new());
        (OpenTable { table, reference, sql: None, title, notes: Vec::new() }, closed)
    }

    fn wait_until(is_so: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(Instant::now() < end, "it does not happen");
            thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn idle_tables_are_closed_without_another_request() {
        let tables = Arc::new(OpenTables::new(Duration::from_millis(30)));
        // The thread ends with the last table, and the next table starts it again.
        for sql in ["one", "two"] {
            let (open, closed) = open_table();
            drop(tables.insert(key(sql), open));
            wait_until(|| closed.load(Ordering::Acquire));
            assert!(tables.find(&key(sql)).is_none());
            wait_until(|| !tables.state().has_closer);
        }
    }

    #[test]
    fn tables_are_open_as_long_as_they_are_used_and_their_view_exists() {
        let tables = Arc::new(OpenTables::new(Duration::from_hours(1)));
        let ((open, closed), (same, is_same_closed)) = (open_table(), open_table());
        drop(tables.insert(key("one"), open));
        // What two requests opened at the same time is open once.
        let first = tables.insert(key("one"), same);
        assert!(is_same_closed.load(Ordering::Acquire));
        for sql in ["two", "three", "four", "five"] {
            assert!(tables.find(&key("one")).is_some(), "{sql}");
            drop(tables.insert(key(sql), open_table().0));
        }
        assert!(tables.find(&key("two")).is_none() && tables.close_idle().is_some());
        drop(first);
        assert!(!closed.load(Ordering::Acquire));
        drop(tables);
        // The thread may have a reference for a moment.
        wait_until(|| closed.load(Ordering::Acquire));
    }

    #[test]
    fn a_request_waits_for_another_one_only_until_its_deadline() {
        let table = Mutex::new(open_table().0);
        let first = lock(&table, &Deadline::never()).unwrap();
        let began = Instant::now();
        let deadline = Deadline::new(move || began.elapsed() > Duration::from_millis(50));
        let message = lock(&table, &deadline).err().unwrap();
        assert!(message.contains("takes too long"), "{message}");
        drop(first);
        // It is free: the deadline matters to the work only.
        assert!(lock(&table, &deadline).is_ok());
    }
}
