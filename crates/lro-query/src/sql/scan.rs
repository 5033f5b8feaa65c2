//! Scan: from a chunk of records to the cells that a statement reads.

use std::sync::Arc;

use super::Table;
use super::cell::{Cell, Kinds, cell};
use super::columns::{Columns, Field};
use super::fields::{Malformed, fields};
use crate::source::Form;
use crate::worker::{Crew, Fault, InOrder, Opened, lines};

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
pub(super) fn sniff(source: &Opened) -> Result<(Columns, bool), Fault> {
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
