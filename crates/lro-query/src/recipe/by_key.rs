//! Recipes that order their answers by a key: grouped values and sorted records.
//!
//! Sorting keeps only the key and the position of each record in memory; then it reads the requested
//! records again.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use lro_spool::PositionedRead;

use super::error::{Flaw, RecipeError};
use super::json_cursor::Kind;
use super::key::Key;
use super::random_access::{RecordReader, RecordSpan};
use super::record::fields;
use super::{PageWriter, RecordScan};

/// A recipe that groups records by a field.
pub(super) enum GroupRecipe {
    /// Recipes 6, and 10 at the light level: each value with its number of records.
    Groups(&'static str),
    /// Recipe 9 at the light level: each value that is neither null nor false.
    Unique(&'static str),
}

/// The groups of a chunk by the lexeme of their value, in order of appearance.
#[derive(Default)]
struct Tally {
    indexes: HashMap<Box<[u8]>, usize>,
    groups: Vec<Group>,
}

/// The records with equal values.
struct Group {
    key: Key,
    /// The value as spelled in the first record.
    lexeme: Box<[u8]>,
    count: u64,
}

impl Tally {
    fn add(&mut self, field: Option<&[u8]>) -> Result<(), Flaw> {
        let lexeme = field.unwrap_or(b"null");
        if let Some(index) = self.indexes.get(lexeme) {
            self.groups[*index].count += 1;
        } else {
            self.indexes.insert(lexeme.into(), self.groups.len());
            self.groups.push(Group {
                key: Key::from_lexeme(field)?,
                lexeme: lexeme.into(),
                count: 1,
            });
        }
        Ok(())
    }
}

impl GroupRecipe {
    /// Writes the groups in the order of their values and returns the number of records.
    pub(super) fn run(
        &self,
        scan: &RecordScan<'_>,
        page_writer: &mut PageWriter<'_, '_>,
    ) -> Result<u64, RecipeError> {
        let (Self::Groups(name) | Self::Unique(name)) = *self;
        // Different lexemes can be equal values: 1 and 1.0, é and \u00e9.
        let mut all: BTreeMap<Key, (Box<[u8]>, u64)> = BTreeMap::new();
        let records = scan.map_records(
            || (),
            |(), tally: &mut Tally, _, record| tally.add(fields(record, [name])?[0]),
            |_| {},
            |tally| {
                for Group { key, lexeme, count } in tally.groups {
                    all.entry(key).or_insert((lexeme, 0)).1 += count;
                }
                Ok(ControlFlow::Continue(()))
            },
        )?;
        for (key, (lexeme, count)) in all {
            let answer = match self {
                Self::Unique(_) if key.is_falsy() => continue,
                Self::Unique(_) => lexeme.into_vec(),
                Self::Groups(_) => [
                    format!("{{\"{name}\":").as_bytes(),
                    &lexeme,
                    format!(",\"count\":{count}}}").as_bytes(),
                ]
                .concat(),
            };
            if page_writer.write(&answer).is_break() {
                break;
            }
        }
        Ok(records)
    }
}

/// A recipe that sorts records.
pub(super) enum SortRecipe {
    /// Recipe 8: by date of creation.
    Created,
    /// Recipe 9 at the medium level: by confidence, highest first.
    Confidence,
    /// Recipe 9 at the full level.
    ProvenanceConfidence,
}

/// The key and the position of a record.
struct KeyedRecord {
    key: Key,
    offset: u64,
    length: usize,
}

impl SortRecipe {
    /// Writes the records in order and returns their number.
    pub(super) fn run(
        &self,
        source: &dyn PositionedRead,
        scan: &RecordScan<'_>,
        page_writer: &mut PageWriter<'_, '_>,
    ) -> Result<u64, RecipeError> {
        let mut all: Vec<KeyedRecord> = Vec::new();
        let records = scan.map_records(
            || (),
            |(), chunk: &mut Vec<KeyedRecord>, offset, record| {
                chunk.push(KeyedRecord { key: self.key(record)?, offset, length: record.len() });
                Ok(())
            },
            // Sorted chunks turn the final sort into a merge.
            |chunk| chunk.sort_by(|a, b| a.key.cmp(&b.key)),
            |chunk| {
                all.extend(chunk);
                Ok(ControlFlow::Continue(()))
            },
        )?;
        all.sort_by(|a, b| a.key.cmp(&b.key));
        if let Self::Confidence | Self::ProvenanceConfidence = self {
            // As `reverse` in `jq`: equal records are reversed, too.
            all.reverse();
        }
        let RecordScan { threads, deadline, .. } = *scan;
        write_records(RecordReader { source, threads, deadline }, &all, page_writer)?;
        Ok(records)
    }

    fn key(&self, record: &[u8]) -> Result<Key, Flaw> {
        let confidence = match self {
            Self::Created => return Key::from_lexeme(fields(record, ["created"])?[0]),
            Self::Confidence => fields(record, ["confidence"])?[0],
            Self::ProvenanceConfidence => match fields(record, ["provenance"])?[0] {
                Some(object) if Kind::from_lexeme(object)? == Kind::Object => {
                    fields(object, ["confidence"])?[0]
                }
                _ => None,
            },
        };
        let key = Key::from_lexeme(confidence)?;
        Ok(if key.is_falsy() { Key::Number(0.0) } else { key })
    }
}

impl RecordSpan for KeyedRecord {
    fn offset(&self) -> u64 {
        self.offset
    }

    fn length(&self) -> usize {
        self.length
    }
}

fn write_records(
    reader: RecordReader<'_>,
    all: &[KeyedRecord],
    page_writer: &mut PageWriter<'_, '_>,
) -> Result<(), RecipeError> {
    let range = page_writer.page_range(all.len());
    page_writer.skip(range.start as u64);
    let mut next = range.start;
    let mut stopped = ControlFlow::Continue(());
    reader.for_each(&all[range], &mut |record| {
        next += 1;
        stopped = page_writer.write(record);
        if page_writer.only_counts() { ControlFlow::Break(()) } else { stopped }
    })?;
    if stopped.is_continue() {
        page_writer.skip((all.len() - next) as u64);
    }
    Ok(())
}
