//! SQL statements over records, executed by SQLite in memory in the worker.
//!
//! Each source is a table with a column per top-level field: `results`, and further sources under
//! their aliases. Nested values are JSON text (`tags ->> '$[0]'`, `json_each(tags)`), and
//! `"user.login"` is a nested field. `regexp_capture(text, pattern, n)` is a capture group. `_record` is the
//! whole record and `_n` its number, from 1; both exist only in statements that name them, so that `*`
//! means the fields and `EXCEPT` compares records. Parameters are bound: `:namespace`.
//!
//! Strings are text, booleans are 1 and 0, null is NULL. A number that neither a 64-bit integer nor a
//! double holds exactly is text; [`Answer::kept_as_text`] names these columns. A column that a
//! statement returns unchanged keeps its JSON type: nested values are JSON, a column of booleans is
//! booleans, a long number is a number.
//!
//! Only columns that a statement reads are loaded. Without `ORDER BY`, the rows have the order of
//! SQLite's query plan, which for one table is the order of the records. The same file and statement
//! give the same bytes; the clock and randomness, which would change them, are not offered.
//!
//! [`Answer::kept_as_text`]: crate::Answer::kept_as_text

mod authorizer;
mod cell;
mod columns;
mod database;
mod fields;
mod ingest;
mod nested;

use std::collections::HashSet;
use std::io::Write as _;
use std::time::{Duration, Instant};

use rusqlite::types::ValueRef;
use rusqlite::{Error, ErrorCode, Statement};
use serde::{Deserialize, Serialize};

use self::authorizer::Authorizer;
use self::cell::Kinds;
use self::columns::Columns;
use self::database::Database;
use self::ingest::{LoadOutcome, LoadSummary};
use crate::engine::{Completion, EngineResult, Fault, OpenSource, OutputWriter, ThreadPool};
use crate::error::{SyntaxProblem, similar_names};
use crate::query::{InvalidParamName, ParamName, QueryParams};

/// A statement with its parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SqlQuery {
    /// The statement.
    pub statement: String,
    /// The parameters to bind.
    pub params: QueryParams,
}

impl SqlQuery {
    /// Creates a query.
    pub fn new(statement: impl Into<String>) -> Self {
        Self { statement: statement.into(), params: QueryParams::default() }
    }

    /// Sets a parameter.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Result<Self, InvalidParamName> {
        let name: ParamName = name.parse()?;
        self.params.insert(name, &value)?;
        Ok(self)
    }

    /// Sets all parameters.
    pub fn params(mut self, params: QueryParams) -> Self {
        self.params = params;
        self
    }
}

/// The limits that SQLite itself enforces, in addition to those of the process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EngineLimits {
    pub(crate) memory: u64,
    pub(crate) wall: Duration,
}

/// A source with the columns found so far.
struct Table {
    source: OpenSource,
    columns: Columns,
    /// Whether every record was scanned for its fields.
    complete: bool,
}

/// Runs a query in the worker.
pub(crate) fn answer(
    query: &SqlQuery,
    sources: Vec<OpenSource>,
    limits: EngineLimits,
    pool: &ThreadPool,
    output: &mut OutputWriter,
) -> EngineResult {
    let deadline = Instant::now() + limits.wall;
    let mut tables = Vec::new();
    for source in sources {
        let (columns, complete) = ingest::first_chunk_columns(&source)?;
        tables.push(Table { source, columns, complete });
    }
    let mut text = query.statement.clone();
    let mut rewritten = false;
    // Most records have the same fields, so the first chunk usually has all columns. If not, a second
    // attempt has them; the answer is the same either way.
    for attempt in 0.. {
        let authorizer = Authorizer::new(&tables);
        let database = Database::open(&limits, deadline, &tables, &text, &authorizer)?;
        let mut statement = match database.prepare(&text) {
            Ok(statement) => statement,
            Err(error) => {
                let unknown = missing_column(&error).is_some();
                if unknown && !tables.iter().all(|table| table.complete) {
                    ingest::scan_all_columns(&mut tables, pool)?;
                    continue;
                }
                if unknown
                    && !rewritten
                    && let Some(nested) = nested::rewrite(&text, &tables)
                {
                    (text, rewritten) = (nested, true);
                    continue;
                }
                return Err(prepare_fault(&error, &authorizer, &tables));
            }
        };
        database::check_statement(&statement)?;
        database::bind_params(&mut statement, &query.params)?;
        match ingest::load_tables(&database, &mut tables, &text, &authorizer, pool)? {
            LoadOutcome::Complete(summary) => {
                let bytes = tables.iter().map(|table| table.source.end - table.source.begin);
                output.record_input(summary.records, bytes.sum());
                let counted = write_rows(&mut statement, &summary, output)?;
                let completion = Completion {
                    records_read: summary.records,
                    kept_as_text: summary.text_columns(),
                    ..Completion::default()
                };
                return Ok((completion, counted));
            }
            LoadOutcome::MoreColumns if attempt < tables.len() + 2 => {}
            LoadOutcome::MoreColumns => break,
        }
    }
    Err(Fault::runtime("the records changed while they were read"))
}

/// Maps an error of preparing a statement.
fn prepare_fault(error: &Error, authorizer: &Authorizer, tables: &[Table]) -> Fault {
    if matches!(error, Error::MultipleStatement) {
        return Fault::syntax("more than one statement", SyntaxProblem::MultipleStatements);
    }
    if let Some(denial) = authorizer.denial() {
        return Fault::syntax(denial, SyntaxProblem::Refused);
    }
    if let Some(fault) = limit_fault(error) {
        return fault;
    }
    let message = message(error);
    let about = if let Some(column) = missing_column(error) {
        let names = tables.iter().flat_map(|table| table.columns.names());
        SyntaxProblem::Column { near: similar_names(column, names) }
    } else if message.starts_with("no such table: ") {
        let names = tables.iter().map(|table| table.source.alias.as_str().to_owned());
        SyntaxProblem::Table { tables: names.collect() }
    } else if message.starts_with("no such function: ") {
        SyntaxProblem::Function
    } else {
        SyntaxProblem::Text
    };
    Fault::syntax(message, about)
}

/// Maps an error of running a statement.
fn run_fault(error: &Error) -> Fault {
    limit_fault(error).unwrap_or_else(|| Fault::runtime(message(error)))
}

/// The name of the missing column, which SQLite reports only in its message.
fn missing_column(error: &Error) -> Option<&str> {
    let Error::SqlInputError { msg, .. } = error else { return None };
    let column = msg.strip_prefix("no such column: ")?;
    // The name may be `table.column`. For a quoted name, SQLite adds an explanation.
    let column = column.split(" - ").next().unwrap_or(column);
    Some(column.rsplit('.').next().unwrap_or(column).trim_matches('"'))
}

fn limit_fault(error: &Error) -> Option<Fault> {
    match error.sqlite_error_code()? {
        ErrorCode::OperationInterrupted => Some(Fault::Time),
        ErrorCode::OutOfMemory | ErrorCode::TooBig => Some(Fault::Memory),
        _ => None,
    }
}

fn message(error: &Error) -> String {
    match error {
        Error::SqlInputError { msg, .. } | Error::SqliteFailure(_, Some(msg)) => msg.clone(),
        other => other.to_string(),
    }
}

/// A column of the result.
struct OutputColumn {
    /// `"name":` as JSON.
    label: Vec<u8>,
    /// The JSON types of its values, if it is an unchanged column of a table.
    kinds: Kinds,
}

/// Writes every row as one line of JSON. Returns whether all rows were counted.
fn write_rows(
    statement: &mut Statement<'_>,
    summary: &LoadSummary,
    output: &mut OutputWriter,
) -> Result<bool, Fault> {
    let columns = output_columns(statement, summary);
    let mut rows = statement.raw_query();
    let mut line = Vec::new();
    while let Some(row) = rows.next().map_err(|error| run_fault(&error))? {
        line.clear();
        line.push(b'{');
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                line.push(b',');
            }
            line.extend_from_slice(&column.label);
            let value = row.get_ref(i).map_err(|error| run_fault(&error))?;
            write_value(&mut line, value, column.kinds);
        }
        line.push(b'}');
        if output.write_value(&line).map_err(|error| Fault::read_failed(&error))?.is_break() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn output_columns(statement: &Statement<'_>, summary: &LoadSummary) -> Vec<OutputColumn> {
    let mut names = HashSet::new();
    let columns = statement.columns_with_metadata();
    let columns = columns.map(|column| {
        // Names must be unique in an object: the second `id` becomes `id_2`.
        let label = nested::label(column.name()).unwrap_or_else(|| column.name().to_owned());
        let mut name = label.clone();
        let mut n = 1;
        while !names.insert(name.clone()) {
            n += 1;
            name = format!("{label}_{n}");
        }
        let mut label = Vec::new();
        write_string(&mut label, name.as_bytes());
        label.push(b':');
        let origin = column.table_name().zip(column.origin_name());
        let kinds = origin.map(|(table, field)| summary.kinds(table, field));
        OutputColumn { label, kinds: kinds.unwrap_or_default() }
    });
    columns.collect()
}

fn write_value(out: &mut Vec<u8>, value: ValueRef<'_>, kinds: Kinds) {
    // Writing to memory cannot fail.
    let _ = match value {
        ValueRef::Null => out.write_all(b"null"),
        ValueRef::Integer(int) if kinds.integers_are_booleans() => write!(out, "{}", int != 0),
        ValueRef::Integer(int) => write!(out, "{int}"),
        // Infinity as in SQLite's own JSON functions.
        ValueRef::Real(real) if real.is_infinite() => {
            write!(out, "{}9e999", if real < 0.0 { "-" } else { "" })
        }
        ValueRef::Real(real) => write!(out, "{real:?}"),
        ValueRef::Text(text) if kinds.text_is_json() => out.write_all(&one_line(text)),
        ValueRef::Text(text) => {
            write_string(out, text);
            Ok(())
        }
        ValueRef::Blob(bytes) => {
            out.push(b'"');
            let written = bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"));
            out.push(b'"');
            written
        }
    };
}

/// Replaces line breaks between lexemes; within strings they are escaped.
fn one_line(json: &[u8]) -> Vec<u8> {
    json.iter().map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { *b }).collect()
}

fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    // Serialising a string to memory cannot fail.
    let _ = serde_json::to_writer(out, text.as_ref());
}
