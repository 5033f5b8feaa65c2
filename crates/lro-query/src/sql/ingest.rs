//! Loads the records of each source into its table, with only the columns that the statement needs.
//!
//! Threads scan chunks of records into batches of cells; the main thread inserts the batches in order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use rusqlite::Statement;
use rusqlite::types::ToSqlOutput;

use super::Table;
use super::authorizer::Authorizer;
use super::cell::{Cell, Kinds, cell};
use super::columns::{ColumnUsage, Columns, Field, RECORD, quoted};
use super::database::Database;
use super::fields::{Malformed, fields};
use crate::engine::{Fault, OpenSource, ThreadPool, lines};
use crate::query::RecordLayout;

/// The outcome of loading.
pub(super) enum LoadOutcome {
    Complete(LoadSummary),
    /// The records have further columns, which were added to the tables.
    MoreColumns,
}

/// What was found out about the records while loading.
#[derive(Default)]
pub(super) struct LoadSummary {
    pub(super) records: u64,
    kinds: BTreeMap<(String, String), Kinds>,
}

impl LoadSummary {
    /// The JSON types of the values of a column.
    pub(super) fn kinds(&self, table: &str, column: &str) -> Kinds {
        let key = (table.to_owned(), column.to_owned());
        self.kinds.get(&key).copied().unwrap_or_default()
    }

    /// The columns with numbers that are text, because SQLite cannot hold them exactly.
    pub(super) fn text_columns(&self) -> Vec<String> {
        let long = self.kinds.iter().filter(|(_, kinds)| kinds.long_numbers);
        long.map(|((_, column), _)| column.clone()).collect()
    }
}

/// Loads all tables.
pub(super) fn load_tables(
    database: &Database,
    tables: &mut [Table],
    statement: &str,
    authorizer: &Authorizer,
    pool: &ThreadPool,
) -> Result<LoadOutcome, Fault> {
    let usage = ColumnUsage::new(statement, authorizer);
    let mut summary = LoadSummary::default();
    let mut more = false;
    for table in tables {
        more |= load(database, table, &usage, pool, &mut summary)?;
    }
    Ok(if more { LoadOutcome::MoreColumns } else { LoadOutcome::Complete(summary) })
}

/// Loads one table. Returns whether the records have further columns.
fn load(
    database: &Database,
    table: &mut Table,
    usage: &ColumnUsage<'_>,
    pool: &ThreadPool,
    summary: &mut LoadSummary,
) -> Result<bool, Fault> {
    let alias = table.source.alias.as_str().to_owned();
    let (plan, names) = plan(table, usage);
    let insert = insert(&alias, &names);
    let insert = usage.authorizer.with_full_access(|| database.prepare(&insert));
    let mut insert = insert.map_err(|error| super::run_fault(&error))?;

    let plan = Arc::new(plan);
    let layout = table.source.layout;
    let mut kinds = vec![Kinds::default(); plan.width];
    let mut more = false;
    let scan_plan = Arc::clone(&plan);
    let scan = move |chunk| scan_chunk(&scan_plan, chunk, layout);
    let _ = pool.map_chunks(&table.source, scan, |batch| {
        let batch = batch?;
        for name in &batch.new_fields {
            table.columns.add(name);
            more = true;
        }
        for (all, chunk) in kinds.iter_mut().zip(&batch.kinds) {
            all.and(*chunk);
        }
        summary.records += batch.rows;
        // With further columns, loading starts again, and the rest is only scanned for its fields.
        if !more {
            insert_rows(&mut insert, &batch, plan.width)?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    table.complete = true;
    if let Some(index) = plan.record {
        kinds[index].nested = true;
    }
    let named = names.into_iter().map(|name| (alias.clone(), name));
    summary.kinds.extend(named.zip(kinds));
    Ok(more)
}

fn plan(table: &Table, usage: &ColumnUsage<'_>) -> (CellPlan, Vec<String>) {
    let alias = table.source.alias.as_str();
    let mut names = Vec::new();
    let mut index = |name: &str| {
        names.push(name.to_owned());
        names.len() - 1
    };
    let columns = table.columns.names().iter();
    let cell_indexes = columns.map(|name| usage.column(alias, name).then(|| index(name))).collect();
    let record = usage.record(alias).then(|| index(RECORD));
    let width = names.len();
    (CellPlan { columns: table.columns.clone(), cell_indexes, record, width }, names)
}

/// The `INSERT` statement. It omits `_n`, which SQLite then numbers.
fn insert(alias: &str, names: &[String]) -> String {
    if names.is_empty() {
        return format!("INSERT INTO {} DEFAULT VALUES", quoted(alias));
    }
    let columns: Vec<_> = names.iter().map(|name| quoted(name)).collect();
    let marks: Vec<_> = (1..=names.len()).map(|n| format!("?{n}")).collect();
    format!("INSERT INTO {} ({}) VALUES ({})", quoted(alias), columns.join(","), marks.join(","))
}

fn insert_rows(insert: &mut Statement<'_>, batch: &Batch, width: usize) -> Result<(), Fault> {
    let failed = |error: rusqlite::Error| super::run_fault(&error);
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

/// The cells to extract from each record.
#[derive(Debug)]
pub(super) struct CellPlan {
    pub(super) columns: Columns,
    /// By column: the index of its cell in a row, if it is needed.
    pub(super) cell_indexes: Vec<Option<usize>>,
    /// The index of the cell for the whole record, if it is needed.
    pub(super) record: Option<usize>,
    /// The number of cells in a row.
    pub(super) width: usize,
}

/// The cells of one chunk.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) text: Vec<u8>,
    pub(super) decoded: Vec<u8>,
    /// The cells, row by row.
    pub(super) cells: Vec<Cell>,
    pub(super) rows: u64,
    /// The JSON types by index of the cell.
    pub(super) kinds: Vec<Kinds>,
    /// New fields, as spelled in the records.
    pub(super) new_fields: Vec<Vec<u8>>,
}

/// The columns of the first chunk, and whether it is the only chunk.
pub(super) fn first_chunk_columns(source: &OpenSource) -> Result<(Columns, bool), Fault> {
    let mut chunks = source.chunks();
    let mut columns = Columns::default();
    if let Some(chunk) = chunks.next() {
        let chunk = chunk.map_err(|error| Fault::read_failed(&error))?;
        for name in new_fields(&Columns::default(), &chunk, source.layout)? {
            columns.add(&name);
        }
    }
    Ok((columns, chunks.is_at_end()))
}

/// Scans every record for columns.
pub(super) fn scan_all_columns(tables: &mut [Table], pool: &ThreadPool) -> Result<(), Fault> {
    for table in tables.iter_mut().filter(|table| !table.complete) {
        let (columns, layout) = (Arc::new(table.columns.clone()), table.source.layout);
        let scan = move |chunk: Vec<u8>| new_fields(&columns, &chunk, layout);
        let _ = pool.map_chunks(&table.source, scan, |names| {
            for name in names? {
                table.columns.add(&name);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        table.complete = true;
    }
    Ok(())
}

fn new_fields(
    columns: &Columns,
    chunk: &[u8],
    layout: RecordLayout,
) -> Result<Vec<Vec<u8>>, Fault> {
    let mut all = columns.clone();
    let mut guesses = ColumnGuesses::default();
    let mut names = Vec::new();
    for line in lines(chunk, layout) {
        let mut nth = 0;
        fields(line, |name, _| {
            let known = guesses.find(nth, name, &all);
            nth += 1;
            if known.is_none() {
                all.add(name);
                names.push(name.to_vec());
            }
        })
        .map_err(malformed)?;
    }
    Ok(names)
}

fn malformed(_: Malformed) -> Fault {
    Fault::runtime("a record is not valid JSON")
}

/// Extracts the cells of a chunk.
pub(super) fn scan_chunk(
    plan: &CellPlan,
    text: Vec<u8>,
    layout: RecordLayout,
) -> Result<Batch, Fault> {
    if let Err(error) = std::str::from_utf8(&text) {
        return Err(Fault::runtime(format!("the records are not UTF-8: {error}")));
    }
    let mut batch = Batch { kinds: vec![Kinds::default(); plan.width], ..Batch::default() };
    let base = text.as_ptr() as usize;
    let mut guesses = ColumnGuesses::default();
    let mut new_names = Columns::default();
    for line in lines(&text, layout) {
        let row = batch.cells.len();
        batch.cells.resize(row + plan.width, Cell::Null);
        if let Some(index) = plan.record {
            let start = line.as_ptr() as usize - base;
            batch.cells[row + index] = Cell::Text(start..start + line.len());
        }
        let mut nth = 0;
        fields(line, |name, value| {
            let column = guesses.find(nth, name, &plan.columns);
            nth += 1;
            match column {
                Some(Field::Column(column)) => {
                    if let Some(index) = plan.cell_indexes[column] {
                        let start = value.as_ptr() as usize - base;
                        let range = start..start + value.len();
                        let kinds = &mut batch.kinds[index];
                        batch.cells[row + index] = cell(&text, range, &mut batch.decoded, kinds);
                    }
                }
                None if new_names.find(name).is_none() => {
                    new_names.add(name);
                    batch.new_fields.push(name.to_vec());
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

/// Looks up columns by position first, because most records have the same fields in the same order.
#[derive(Default)]
struct ColumnGuesses(Vec<usize>);

impl ColumnGuesses {
    fn find(&mut self, nth: usize, name: &[u8], columns: &Columns) -> Option<Field> {
        if let Some(guess) = self.0.get(nth)
            && columns.names()[*guess].as_bytes() == name
        {
            return Some(Field::Column(*guess));
        }
        let field = columns.find(name);
        if let Some(Field::Column(column)) = field {
            // The positions before it get an arbitrary guess.
            self.0.resize(self.0.len().max(nth + 1), column);
            self.0[nth] = column;
        }
        field
    }
}
