//! Database: SQLite in memory, bounded before a statement is looked at.

use std::time::Instant;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, Statement};

use super::authorizer::Guard;
use super::columns::{NUMBER, RECORD, quoted};
use super::{Bounds, Table, clock, error, regexp};
use crate::worker::Fault;

/// The database with its empty tables.
pub(super) struct Database(Connection);

/// Virtual machine steps between two looks at the clock: well below a millisecond.
const STEPS: i32 = 10_000;

/// Longest string or row unless the data is larger.
const LENGTH: u64 = 16 << 20;
/// SQLite's own.
const LENGTH_AT_MOST: u64 = 1_000_000_000;

impl Database {
    pub(super) fn open(
        bounds: &Bounds,
        deadline: Instant,
        tables: &[Table],
        statement: &str,
        guard: &Guard,
    ) -> Result<Self, Fault> {
        Self::try_open(bounds, deadline, tables, statement, guard)
            .map_err(|error| error::running(&error))
    }

    fn try_open(
        bounds: &Bounds,
        deadline: Instant,
        tables: &[Table],
        statement: &str,
        guard: &Guard,
    ) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_MEMORY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_in_memory_with_flags(flags)?;
        // The hard limit can be set by this statement only, and can be lowered only.
        connection.execute_batch(&format!(
            "PRAGMA hard_heap_limit = {};
             PRAGMA temp_store = memory; PRAGMA journal_mode = off; PRAGMA synchronous = off;
             PRAGMA trusted_schema = off;",
            bounds.memory,
        ))?;
        for (config, on) in [
            // A misspelt "column" is an error and not a string.
            (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
            (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        ] {
            connection.set_db_config(config, on)?;
        }
        regexp::add(&connection)?;
        clock::replace(&connection)?;
        for table in tables {
            connection.execute_batch(&definition(table, statement))?;
        }
        connection.execute_batch("BEGIN")?;
        limit(&connection, tables)?;
        connection.progress_handler(STEPS, Some(move || Instant::now() >= deadline))?;
        let judge = guard.clone();
        connection.authorizer(Some(move |context: rusqlite::hooks::AuthContext<'_>| {
            judge.judge(&context)
        }))?;
        guard.close();
        Ok(Self(connection))
    }

    pub(super) fn prepare(&self, statement: &str) -> rusqlite::Result<Statement<'_>> {
        self.0.prepare(statement)
    }
}

/// Columns have no type, so that SQLite changes no value on its way in. `_n` and `_record` are there
/// where they are asked for: otherwise `*` would give each record twice, and no record of one result
/// would equal one of another.
fn definition(table: &Table, statement: &str) -> String {
    let statement = statement.to_ascii_lowercase();
    let number = statement.contains(NUMBER).then(|| format!("{NUMBER} INTEGER PRIMARY KEY"));
    let record = statement.contains(RECORD).then(|| RECORD.to_owned());
    let fields = table.columns.names().iter().map(|name| quoted(name));
    let mut columns: Vec<String> = number.into_iter().chain(fields).chain(record).collect();
    if columns.is_empty() {
        // A table has at least one.
        columns.push(RECORD.to_owned());
    }
    format!("CREATE TABLE {} ({})", quoted(table.source.alias.as_str()), columns.join(", "))
}

fn limit(connection: &Connection, tables: &[Table]) -> rusqlite::Result<()> {
    let data = tables.iter().map(|table| table.source.end).sum::<u64>();
    let length = data.clamp(LENGTH, LENGTH_AT_MOST);
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, i32::try_from(length).unwrap_or(i32::MAX)),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 100),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 2000),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, value)?;
    }
    Ok(())
}
