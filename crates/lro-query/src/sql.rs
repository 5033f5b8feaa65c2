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
mod bind;
mod cell;
mod clock;
mod column_usage;
mod columns;
mod database;
mod error;
mod fields;
mod ingest;
mod output;
mod regexp;
mod scan;

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use self::authorizer::Guard;
use self::columns::Columns;
use self::database::Database;
use self::ingest::Loaded;
use crate::params::{NotAName, ParamName, Params};
use crate::worker::{Crew, Done, Emit, Fault, Opened, Outcome};

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
    source: Opened,
    columns: Columns,
    /// Whether every record was looked at for its fields.
    complete: bool,
}

/// Answers in the worker.
pub(crate) fn answer(
    query: &Query,
    sources: Vec<Opened>,
    bounds: Bounds,
    crew: &Crew,
    emit: &mut Emit,
) -> Outcome {
    let deadline = Instant::now() + bounds.wall;
    let mut tables = Vec::new();
    for source in sources {
        let (columns, complete) = scan::sniff(&source)?;
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
                let unknown = error::missing_column(&error).is_some();
                if unknown && !tables.iter().all(|table| table.complete) {
                    scan::complete(&mut tables, crew)?;
                    continue;
                }
                return Err(error::preparing(&error, &guard, &tables));
            }
        };
        bind::check(&statement)?;
        bind::params(&mut statement, &query.params)?;
        match ingest::all(&database, &mut tables, &query.statement, &guard, crew)? {
            Loaded::All(loaded) => {
                let bytes = tables.iter().map(|table| table.source.end - table.source.begin);
                emit.read(loaded.records, bytes.sum());
                let counted = output::emit(&mut statement, &loaded, emit)?;
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
