//! Loads records into tables, only the columns that the statement reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::Statement;
use rusqlite::types::ToSqlOutput;

use super::Table;
use super::authorizer::Guard;
use super::cell::{Cell, Kinds, cell};
use super::columns::{Columns, Field, RECORD, Reads, quoted};
use super::database::Database;
use super::fields::{Malformed, fields};
use crate::query::Form;
use crate::sql;
use crate::worker::{Crew, Fault, InOrder, OpenSource, lines};

/// What came of it.
pub(super) enum Loaded {
    All(Facts),
    /// There are fields that nobody knew of; the tables now do.
    MoreColumns,
}

/// What was learnt on the way.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) records: u64,
    kinds: BTreeMap<(String, String), Kinds>,
}

impl Facts {
    /// What the values of a column were in JSON.
    pub(super) fn kinds(&self, table: &str, column: &str) -> Kinds {
        let key = (table.to_owned(), column.to_owned());
        self.kinds.get(&key).copied().unwrap_or_default()
    }

    /// The columns with numbers that had to stay text.
    pub(super) fn kept_as_text(&self) -> Vec<String> {
        let long = self.kinds.iter().filter(|(_, kinds)| kinds.long_numbers);
        long.map(|((_, column), _)| column.clone()).collect()
    }
}

pub(super) fn load_tables(
    database: &Database,
    tables: &mut [Table],
    statement: &str,
    guard: &Guard,
    crew: &Crew,
) -> Result<Loaded, Fault> {
    let reads = Reads::new(statement, guard);
    let mut facts = Facts::default();
    let mut more = false;
    for table in tables {
        more |= load(database, table, &reads, crew, &mut facts)?;
    }
    Ok(if more { Loaded::MoreColumns } else { Loaded::All(facts) })
}

/// Loads one table; whether there are columns that nobody knew of.
fn load(
    database: &Database,
    table: &mut Table,
    reads: &Reads<'_>,
    crew: &Crew,
    facts: &mut Facts,
) -> Result<bool, Fault> {
    let alias = table.source.alias.as_str().to_owned();
    let (wanted, names) = wanted(table, reads);
    let insert = insert(&alias, &names);
    let insert = reads.guard.let_ours_through(|| database.prepare(&insert));
    let mut insert = insert.map_err(|error| sql::run_fault(&error))?;

    let wanted = Arc::new(wanted);
    let form = table.source.form;
    let mut kinds = vec![Kinds::default(); wanted.width];
    let mut batches = InOrder::new(crew);
    let mut chunks = table.source.chunks();
    let mut more = false;
    loop {
        while !batches.is_full()
            && let Some(chunk) = chunks.next()
        {
            let chunk = chunk.map_err(|error| Fault::reading(&error))?;
            let wanted = Arc::clone(&wanted);
            batches.give(move || batch(&wanted, chunk, form));
        }
        let Some(batch) = batches.take() else { break };
        let batch = batch?;
        for name in &batch.strangers {
            table.columns.add(name);
            more = true;
        }
        for (all, seen) in kinds.iter_mut().zip(&batch.kinds) {
            all.and(*seen);
        }
        facts.records += batch.rows;
        // Once it is clear that all is done again, the rest is only looked at for its fields.
        if !more {
            insert_rows(&mut insert, &batch, wanted.width)?;
        }
    }
    table.complete = true;
    if let Some(place) = wanted.record {
        kinds[place].nested = true;
    }
    let named = names.into_iter().map(|name| (alias.clone(), name));
    facts.kinds.extend(named.zip(kinds));
    Ok(more)
}

fn wanted(table: &Table, reads: &Reads<'_>) -> (Wanted, Vec<String>) {
    let alias = table.source.alias.as_str();
    let mut names = Vec::new();
    let mut place = |name: &str| {
        names.push(name.to_owned());
        names.len() - 1
    };
    let columns = table.columns.names().iter();
    let places = columns.map(|name| reads.column(alias, name).then(|| place(name))).collect();
    let record = reads.record(alias).then(|| place(RECORD));
    let width = names.len();
    (Wanted { columns: table.columns.clone(), places, record, width }, names)
}

/// Without a value for it, the next number is the record's.
fn insert(alias: &str, names: &[String]) -> String {
    if names.is_empty() {
        return format!("INSERT INTO {} DEFAULT VALUES", quoted(alias));
    }
    let columns: Vec<_> = names.iter().map(|name| quoted(name)).collect();
    let marks: Vec<_> = (1..=names.len()).map(|n| format!("?{n}")).collect();
    format!("INSERT INTO {} ({}) VALUES ({})", quoted(alias), columns.join(","), marks.join(","))
}

fn insert_rows(insert: &mut Statement<'_>, batch: &Batch, width: usize) -> Result<(), Fault> {
    let failed = |error: rusqlite::Error| sql::run_fault(&error);
    if width == 0 {
        for _ in 0..batch.rows {
            insert.raw_execute().map_err(failed)?;
        }
        return Ok(());
    }
    for row in batch.cells.chunks_exact(width) {
        for (i, cell) in row.iter().enumerate() {
            let value = ToSqlOutput::Borrowed(cell.value(&batch.text, &batch.decoded));
            insert.raw_bind_parameter(i + 1, value).map_err(failed)?;
        }
        insert.raw_execute().map_err(failed)?;
    }
    Ok(())
}

// --- Scan: from a chunk of records to the cells that a statement reads.

/// What is wanted of each record.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) columns: Columns,
    /// By column: the place of its cell in a row, if it is wanted.
    pub(super) places: Vec<Option<usize>>,
    /// The place of the record as it is stored, if that is wanted.
    pub(super) record: Option<usize>,
    /// The number of cells in a row.
    pub(super) width: usize,
}

/// The cells of one chunk.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) text: Vec<u8>,
    pub(super) decoded: Vec<u8>,
    /// Row by row.
    pub(super) cells: Vec<Cell>,
    pub(super) rows: u64,
    /// By place.
    pub(super) kinds: Vec<Kinds>,
    /// Fields that were not met before, as they are written.
    pub(super) strangers: Vec<Vec<u8>>,
}

/// The first chunk's fields, and whether there is no further one.
pub(super) fn sniff(source: &OpenSource) -> Result<(Columns, bool), Fault> {
    let mut chunks = source.chunks();
    let mut columns = Columns::default();
    if let Some(chunk) = chunks.next() {
        let chunk = chunk.map_err(|error| Fault::reading(&error))?;
        for name in strangers(&Columns::default(), &chunk, source.form)? {
            columns.add(&name);
        }
    }
    Ok((columns, chunks.is_at_end()))
}

/// Looks at every record for its fields.
pub(super) fn complete(tables: &mut [Table], crew: &Crew) -> Result<(), Fault> {
    for table in tables.iter_mut().filter(|table| !table.complete) {
        let known = Arc::new(table.columns.clone());
        let form = table.source.form;
        let mut found = InOrder::new(crew);
        let mut chunks = table.source.chunks();
        loop {
            while !found.is_full()
                && let Some(chunk) = chunks.next()
            {
                let chunk = chunk.map_err(|error| Fault::reading(&error))?;
                let known = Arc::clone(&known);
                found.give(move || strangers(&known, &chunk, form));
            }
            let Some(names) = found.take() else { break };
            for name in names? {
                table.columns.add(&name);
            }
        }
        table.complete = true;
    }
    Ok(())
}

fn strangers(known: &Columns, chunk: &[u8], form: Form) -> Result<Vec<Vec<u8>>, Fault> {
    let mut seen = known.clone();
    let mut found = Vec::new();
    for line in lines(chunk, form) {
        fields(line, |name, _| {
            if seen.find(name).is_none() {
                seen.add(name);
                found.push(name.to_vec());
            }
        })
        .map_err(malformed)?;
    }
    Ok(found)
}

fn malformed(_: Malformed) -> Fault {
    Fault::runtime("a record is no JSON value")
}

/// Scans a chunk.
pub(super) fn batch(wanted: &Wanted, text: Vec<u8>, form: Form) -> Result<Batch, Fault> {
    if let Err(error) = std::str::from_utf8(&text) {
        return Err(Fault::runtime(format!("the records are not UTF-8: {error}")));
    }
    let mut batch = Batch { kinds: vec![Kinds::default(); wanted.width], ..Batch::default() };
    let base = text.as_ptr() as usize;
    let mut guesses = Guesses::default();
    let mut stranger_names = Columns::default();
    for line in lines(&text, form) {
        let row = batch.cells.len();
        batch.cells.resize(row + wanted.width, Cell::Null);
        if let Some(place) = wanted.record {
            let start = line.as_ptr() as usize - base;
            batch.cells[row + place] = Cell::Text(start..start + line.len());
        }
        let mut nth = 0;
        fields(line, |name, value| {
            let column = guesses.find(nth, name, &wanted.columns);
            nth += 1;
            match column {
                Some(Field::Column(column)) => {
                    if let Some(place) = wanted.places[column] {
                        let start = value.as_ptr() as usize - base;
                        let range = start..start + value.len();
                        let kinds = &mut batch.kinds[place];
                        batch.cells[row + place] = cell(&text, range, &mut batch.decoded, kinds);
                    }
                }
                None if stranger_names.find(name).is_none() => {
                    stranger_names.add(name);
                    batch.strangers.push(name.to_vec());
                }
                Some(Field::NoColumn) | None => {}
            }
        })
        .map_err(malformed)?;
        batch.rows += 1;
    }
    batch.text = text;
    Ok(batch)
}

/// Records mostly have the same fields in the same order: the last one's are tried first.
#[derive(Default)]
struct Guesses(Vec<usize>);

impl Guesses {
    fn find(&mut self, nth: usize, name: &[u8], columns: &Columns) -> Option<Field> {
        if let Some(guess) = self.0.get(nth)
            && columns.names()[*guess].as_bytes() == name
        {
            return Some(Field::Column(*guess));
        }
        let found = columns.find(name);
        if let Some(Field::Column(column)) = found {
            // A gap before it is filled with a guess as good as any.
            self.0.resize(self.0.len().max(nth + 1), column);
            self.0[nth] = column;
        }
        found
    }
}
