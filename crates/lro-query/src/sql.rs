//! sql: statements over records, by SQLite in memory, in the worker.
//!
//! Each source is a table with a column per top-level field: `results`, and further ones under
//! their aliases. Nested values are JSON text (`tags ->> '$[0]'`, `json_each(tags)`); the whole
//! record is `_record` and its number, from 1, is `_n`; both exist only in statements that name
//! them, so that `*` means the fields and `EXCEPT` compares records. Parameters are bound:
//! `:namespace`.
//!
//! Values: strings are text, booleans 1 and 0, null is NULL. A number that neither a 64-bit integer
//! nor a double holds exactly stays as it is written, as text; [`Answer::kept_as_text`] names the
//! columns. A column that is given out as it is comes out as it came in: nested values as JSON, a
//! column of booleans as booleans, a long number as a number.
//!
//! Only columns that a statement reads are loaded. Without `ORDER BY` rows come in the order that
//! SQLite's plan gives, which for one table is that of the records; the same file and statement
//! give the same bytes, and what would change them (the clock, chance) is not offered.
//!
//! [`Answer::kept_as_text`]: crate::Answer::kept_as_text

mod authorizer;
mod cell;
mod columns;
mod database;
mod fields;
mod ingest;

use std::collections::HashSet;
use std::io::Write as _;
use std::time::{Duration, Instant};

use rusqlite::types::ValueRef;
use rusqlite::{Error, ErrorCode, Statement};
use serde::{Deserialize, Serialize};

use self::authorizer::Guard;
use self::cell::Kinds;
use self::columns::Columns;
use self::database::Database;
use self::ingest::{Facts, Loaded};
use super::error;
use super::error::About;
use super::query::{NotAName, ParamName, Params};
use super::worker::{Crew, Done, Emit, Fault, OpenSource, Outcome};

/// A statement with its parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Query {
    /// The statement.
    pub statement: String,
    /// What it binds.
    pub params: Params,
}

impl Query {
    /// A statement.
    pub fn new(statement: impl Into<String>) -> Self {
        Self { statement: statement.into(), params: Params::default() }
    }

    /// Gives a parameter its value.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Result<Self, NotAName> {
        let name: ParamName = name.parse()?;
        self.params.insert(name, &value)?;
        Ok(self)
    }

    /// Has these parameters.
    pub fn params(mut self, params: Params) -> Self {
        self.params = params;
        self
    }
}

/// What the engine is told to keep to; the process has bounds of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) memory: u64,
    pub(crate) wall: Duration,
}

/// A source with the columns known so far.
struct Table {
    source: OpenSource,
    columns: Columns,
    /// Whether every record was looked at for its fields.
    complete: bool,
}

/// Answers in the worker.
pub(crate) fn answer(
    query: &Query,
    sources: Vec<OpenSource>,
    bounds: Bounds,
    crew: &Crew,
    emit: &mut Emit,
) -> Outcome {
    let deadline = Instant::now() + bounds.wall;
    let mut tables = Vec::new();
    for source in sources {
        let (columns, complete) = ingest::sniff(&source)?;
        tables.push(Table { source, columns, complete });
    }
    // Records are mostly alike, so the first megabyte tells the fields. Where it does not, a second
    // attempt knows them all; the answer is the same either way.
    for attempt in 0.. {
        let guard = Guard::new(&tables);
        let database = Database::open(&bounds, deadline, &tables, &query.statement, &guard)?;
        let mut statement = match database.prepare(&query.statement) {
            Ok(statement) => statement,
            Err(error) => {
                let unknown = missing_column(&error).is_some();
                if unknown && !tables.iter().all(|table| table.complete) {
                    ingest::complete(&mut tables, crew)?;
                    continue;
                }
                return Err(prepare_fault(&error, &guard, &tables));
            }
        };
        database::check_statement(&statement)?;
        database::bind_params(&mut statement, &query.params)?;
        match ingest::load_tables(&database, &mut tables, &query.statement, &guard, crew)? {
            Loaded::All(loaded) => {
                let bytes = tables.iter().map(|table| table.source.end - table.source.begin);
                emit.read(loaded.records, bytes.sum());
                let counted = write_rows(&mut statement, &loaded, emit)?;
                let done = Done {
                    records_read: loaded.records,
                    kept_as_text: loaded.kept_as_text(),
                    ..Done::default()
                };
                return Ok((done, counted));
            }
            Loaded::MoreColumns if attempt < tables.len() + 1 => {}
            Loaded::MoreColumns => break,
        }
    }
    Err(Fault::runtime("the records changed while they were read"))
}

// --- Maps SQLite's errors to query errors.

/// The statement could not be prepared.
fn prepare_fault(error: &Error, guard: &Guard, tables: &[Table]) -> Fault {
    if matches!(error, Error::MultipleStatement) {
        return Fault::syntax("there is more than one statement", About::Several);
    }
    if let Some(denied) = guard.denied() {
        return Fault::syntax(denied, About::Refused);
    }
    if let Some(fault) = beyond_bounds(error) {
        return fault;
    }
    let message = message(error);
    let about = if let Some(column) = missing_column(error) {
        let names = tables.iter().flat_map(|table| table.columns.names());
        About::Column { near: error::similar_names(column, names) }
    } else if message.starts_with("no such table: ") {
        let known = tables.iter().map(|table| table.source.alias.as_str().to_owned());
        About::Table { known: known.collect() }
    } else if message.starts_with("no such function: ") {
        About::Function
    } else {
        About::Text
    };
    Fault::syntax(message, about)
}

/// The statement failed on the data.
fn run_fault(error: &Error) -> Fault {
    beyond_bounds(error).unwrap_or_else(|| Fault::runtime(message(error)))
}

/// The column that there is not. SQLite says so in words only.
fn missing_column(error: &Error) -> Option<&str> {
    let Error::SqlInputError { msg, .. } = error else { return None };
    let column = msg.strip_prefix("no such column: ")?;
    // `table.column`; with a quoted name SQLite adds why it is not taken for a string.
    let column = column.split(" - ").next().unwrap_or(column);
    Some(column.rsplit('.').next().unwrap_or(column).trim_matches('"'))
}

fn beyond_bounds(error: &Error) -> Option<Fault> {
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

// --- Writes a result row as one line of JSON.

/// A column of the answer.
struct OutputColumn {
    /// `"name":`
    label: Vec<u8>,
    /// What its values were, where it is a column of a table as it is.
    kinds: Kinds,
}

/// Emits every row; whether all were counted.
fn write_rows(
    statement: &mut Statement<'_>,
    facts: &Facts,
    emit: &mut Emit,
) -> Result<bool, Fault> {
    let columns = output_columns(statement, facts);
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
        if emit.value(&line).map_err(|error| Fault::reading(&error))?.is_break() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn output_columns(statement: &Statement<'_>, facts: &Facts) -> Vec<OutputColumn> {
    let mut taken = HashSet::new();
    let described = statement.columns_with_metadata();
    let columns = described.map(|column| {
        // An object with a name twice loses a value: the second `id` is `id_2`.
        let mut name = column.name().to_owned();
        let mut n = 1;
        while !taken.insert(name.clone()) {
            n += 1;
            name = format!("{}_{n}", column.name());
        }
        let mut label = Vec::new();
        write_string(&mut label, name.as_bytes());
        label.push(b':');
        let origin = column.table_name().zip(column.origin_name());
        let kinds = origin.map(|(table, field)| facts.kinds(table, field));
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
        // Infinity, as SQLite's own JSON has it.
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

/// A document may have line breaks between its lexemes; within strings they are escaped.
fn one_line(json: &[u8]) -> Vec<u8> {
    json.iter().map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { *b }).collect()
}

fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    // A string has a JSON form, and memory takes it.
    let _ = serde_json::to_writer(out, text.as_ref());
}
