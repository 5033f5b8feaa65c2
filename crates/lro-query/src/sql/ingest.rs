//! Loads records into tables, only the columns that the statement reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::Statement;
use rusqlite::types::ToSqlOutput;

use super::authorizer::Guard;
use super::cell::Kinds;
use super::column_usage::Reads;
use super::columns::{RECORD, quoted};
use super::database::Database;
use super::scan::{Batch, Wanted, batch};
use super::{Table, error};
use crate::worker::{Crew, Fault, InOrder};

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

pub(super) fn all(
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
    let mut insert = insert.map_err(|error| error::running(&error))?;

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
    let failed = |error: rusqlite::Error| error::running(&error);
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
