//! The in-memory SQLite database: limits, custom functions and bound parameters.
//!
//! All limits apply before a statement is prepared. `date('now')` would make an answer depend on the
//! time of the query (Spec N6), so the date functions are replaced by ones that reject the current time
//! and the local time zone, and otherwise call SQLite's own.

use std::cell::OnceCell;
use std::time::Instant;

use regex::bytes::{Regex, RegexBuilder};
use rusqlite::config::DbConfig;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Error, OpenFlags, Result, Statement};

use super::authorizer::Authorizer;
use super::cell::{Kinds, cell};
use super::columns::{NUMBER, RECORD, quoted};
use super::{EngineLimits, Table};
use crate::engine::Fault;
use crate::error::SyntaxProblem;
use crate::query::QueryParams;

/// A database with an empty table per source.
pub(super) struct Database(Connection);

/// The number of virtual machine steps between two checks of the deadline: well below a millisecond.
const PROGRESS_STEPS: i32 = 10_000;

/// The minimum of the limit on strings and rows, which grows with the data, in bytes.
const MIN_LENGTH_LIMIT: u64 = 16 << 20;
/// The maximum of this limit, which SQLite sets.
const MAX_LENGTH_LIMIT: u64 = 1_000_000_000;

impl Database {
    pub(super) fn open(
        limits: &EngineLimits,
        deadline: Instant,
        tables: &[Table],
        statement: &str,
        authorizer: &Authorizer,
    ) -> Result<Self, Fault> {
        Self::try_open(limits, deadline, tables, statement, authorizer)
            .map_err(|error| super::run_fault(&error))
    }

    fn try_open(
        limits: &EngineLimits,
        deadline: Instant,
        tables: &[Table],
        statement: &str,
        authorizer: &Authorizer,
    ) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_MEMORY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_in_memory_with_flags(flags)?;
        // Only this pragma sets the hard limit, and it can only lower it.
        connection.execute_batch(&format!(
            "PRAGMA hard_heap_limit = {};
             PRAGMA temp_store = memory; PRAGMA journal_mode = off; PRAGMA synchronous = off;
             PRAGMA trusted_schema = off;",
            limits.memory,
        ))?;
        for (option, on) in [
            // A misspelt "column" is an error instead of a string.
            (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
            (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        ] {
            connection.set_db_config(option, on)?;
        }
        add_regexp(&connection)?;
        replace_clock(&connection)?;
        for table in tables {
            connection.execute_batch(&definition(table, statement))?;
        }
        connection.execute_batch("BEGIN")?;
        limit(&connection, tables)?;
        connection.progress_handler(PROGRESS_STEPS, Some(move || Instant::now() >= deadline))?;
        let authorize = authorizer.clone();
        connection.authorizer(Some(move |context: rusqlite::hooks::AuthContext<'_>| {
            authorize.authorize(&context)
        }))?;
        authorizer.restrict_to_reads();
        Ok(Self(connection))
    }

    pub(super) fn prepare(&self, statement: &str) -> Result<Statement<'_>> {
        self.0.prepare(statement)
    }
}

/// The `CREATE TABLE` statement of a table. Columns have no type, so that SQLite converts no value.
/// `_n` and `_record` exist only if the statement names them: otherwise `*` would return each record
/// twice, and no record of one result would equal a record of another.
fn definition(table: &Table, statement: &str) -> String {
    let statement = statement.to_ascii_lowercase();
    let number = statement.contains(NUMBER).then(|| format!("{NUMBER} INTEGER PRIMARY KEY"));
    let record = statement.contains(RECORD).then(|| RECORD.to_owned());
    let fields = table.columns.names().iter().map(|name| quoted(name));
    let mut columns: Vec<String> = number.into_iter().chain(fields).chain(record).collect();
    if columns.is_empty() {
        // A table needs at least one column.
        columns.push(RECORD.to_owned());
    }
    format!("CREATE TABLE {} ({})", quoted(table.source.alias.as_str()), columns.join(", "))
}

fn limit(connection: &Connection, tables: &[Table]) -> Result<()> {
    let data = tables.iter().map(|table| table.source.end).sum::<u64>();
    let length = data.clamp(MIN_LENGTH_LIMIT, MAX_LENGTH_LIMIT);
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

/// The date functions, with the number of arguments before the time.
const TIME_FUNCTIONS: &[(&str, usize)] = &[
    ("date", 0),
    ("time", 0),
    ("datetime", 0),
    ("julianday", 0),
    ("unixepoch", 0),
    ("strftime", 1),
    ("timediff", 0),
];

const CLOCK_MESSAGE: &str = "the current time is not available: pass it as a parameter";

pub(super) fn replace_clock(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    for &(name, before) in TIME_FUNCTIONS {
        // A second database with SQLite's own functions, opened on first use.
        let computing = OnceCell::new();
        connection.create_scalar_function(name, -1, flags, move |context| {
            reject_current_time(context, before)?;
            if computing.get().is_none() {
                // The cell is empty: it is set only here.
                let _ = computing.set(Connection::open_in_memory()?);
            }
            computing.get().map_or(Ok(Value::Null), |open| compute(open, name, context))
        })?;
    }
    Ok(())
}

fn reject_current_time(context: &Context<'_>, before: usize) -> Result<()> {
    let refused = || Error::UserFunctionError(CLOCK_MESSAGE.into());
    if context.len() <= before {
        return Err(refused());
    }
    for i in before..context.len() {
        let ValueRef::Text(text) = context.get_raw(i) else { continue };
        let text = text.trim_ascii().to_ascii_lowercase();
        // In place of a time, `subsec` means the current time, too.
        let as_time = i == before && text.starts_with(b"subsec");
        if as_time || [&b"now"[..], b"localtime", b"utc"].contains(&&text[..]) {
            return Err(refused());
        }
    }
    Ok(())
}

fn compute(computing: &Connection, name: &str, context: &Context<'_>) -> Result<Value> {
    let marks: Vec<_> = (1..=context.len()).map(|n| format!("?{n}")).collect();
    let mut statement = computing.prepare_cached(&format!("SELECT {name}({})", marks.join(",")))?;
    let values = (0..context.len()).map(|i| Value::try_from(context.get_raw(i)));
    let values = values.collect::<std::result::Result<Vec<_>, _>>()?;
    statement.query_row(rusqlite::params_from_iter(values), |row| row.get(0))
}

/// The maximum size of a compiled regular expression in bytes.
const MAX_COMPILED_BYTES: usize = 4 << 20;

pub(super) fn add_regexp(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("regexp", 2, flags, matches)?;
    connection.create_scalar_function("regexp_capture", 2, flags, capture)?;
    connection.create_scalar_function("regexp_capture", 3, flags, capture)
}

/// Implements `X REGEXP Y`, which SQLite calls as `regexp(Y, X)`. A constant pattern is compiled once.
fn matches(context: &Context<'_>) -> Result<Option<bool>> {
    if context.get_raw(0) == ValueRef::Null {
        return Ok(None);
    }
    let regex = context.get_or_create_aux(0, |pattern| {
        let pattern = pattern.as_str().map_err(|_| "a pattern must be text".to_owned())?;
        compile(pattern).map_err(|error| error.to_string())
    })?;
    Ok(match context.get_raw(1) {
        ValueRef::Null => None,
        ValueRef::Text(text) | ValueRef::Blob(text) => Some(regex.is_match(text)),
        ValueRef::Integer(int) => Some(regex.is_match(int.to_string().as_bytes())),
        ValueRef::Real(real) => Some(regex.is_match(format!("{real:?}").as_bytes())),
    })
}

/// Implements `regexp_capture(text, pattern, n)`: the text of group `n` in the first match, 0 for the
/// whole match, or NULL. Without `n`, it is the first group, or the whole match if there is none.
fn capture(context: &Context<'_>) -> Result<Option<String>> {
    if (0..context.len()).any(|i| context.get_raw(i) == ValueRef::Null) {
        return Ok(None);
    }
    let regex = context.get_or_create_aux(1, |pattern| {
        let pattern = pattern.as_str().map_err(|_| "a pattern must be text".to_owned())?;
        compile(pattern).map_err(|error| error.to_string())
    })?;
    let groups = regex.captures_len() - 1;
    let number = match context.len() {
        2 => groups.min(1),
        _ => usize::try_from(context.get::<i64>(2)?).unwrap_or(usize::MAX),
    };
    if number > groups {
        let message = format!("no capture group {number}: the pattern has {groups}");
        return Err(Error::UserFunctionError(message.into()));
    }
    let number_text;
    let text = match context.get_raw(0) {
        ValueRef::Null => return Ok(None),
        ValueRef::Text(text) | ValueRef::Blob(text) => text,
        ValueRef::Integer(int) => {
            number_text = int.to_string();
            number_text.as_bytes()
        }
        ValueRef::Real(real) => {
            number_text = format!("{real:?}");
            number_text.as_bytes()
        }
    };
    let captured = regex.captures(text).and_then(|captures| captures.get(number));
    Ok(captured.map(|group| String::from_utf8_lossy(group.as_bytes()).into_owned()))
}

fn compile(pattern: &str) -> std::result::Result<Regex, Error> {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES);
    builder.build().map_err(|error| Error::UserFunctionError(error.into()))
}

/// Checks a statement as a whole; the authorizer has checked its parts.
pub(super) fn check_statement(statement: &Statement<'_>) -> Result<(), Fault> {
    // A query plan shows memory addresses, which differ from run to run.
    if statement.is_explain() != 0 {
        return Err(Fault::syntax("EXPLAIN is not supported", SyntaxProblem::Refused));
    }
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(Fault::syntax("only read-only statements are allowed", SyntaxProblem::Refused));
    }
    Ok(())
}

/// Binds every parameter that the statement names (Spec N3).
pub(super) fn bind_params(
    statement: &mut Statement<'_>,
    params: &QueryParams,
) -> Result<(), Fault> {
    for i in 1..=statement.parameter_count() {
        let Some(name) = statement.parameter_name(i) else {
            let message = "parameters must be named, as in :namespace";
            return Err(Fault::syntax(message, SyntaxProblem::Variable));
        };
        let param = params.iter().find(|(param, _)| *param == &name[1..]);
        let Some((_, json)) = param else {
            return Err(Fault::syntax(format!("{name} is not defined"), SyntaxProblem::Variable));
        };
        let json = json.as_bytes().trim_ascii();
        let (mut decoded, mut kinds) = (Vec::new(), Kinds::default());
        let cell = cell(json, 0..json.len(), &mut decoded, &mut kinds);
        let value: ValueRef<'_> = cell.value(json, &decoded);
        let bound = statement.raw_bind_parameter(i, ToSqlOutput::Borrowed(value));
        bound.map_err(|error| super::run_fault(&error))?;
    }
    Ok(())
}
