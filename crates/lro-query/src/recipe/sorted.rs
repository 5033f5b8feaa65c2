//! Sorted: the recipes that put all records in an order.
//!
//! Of each record only its key and its place are kept; the records themselves are read again, and
//! only those that are wanted.

use std::ops::ControlFlow;

use lro_spool::PositionedRead;

use super::Scan;
use super::error::{Flaw, RecipeError};
use super::key::Key;
use super::lexeme::Kind;
use super::outlet::Outlet;
use super::record::fields;
use crate::lines::fill;

/// Records that follow each other in the source are read together, up to so many bytes.
const TOGETHER: usize = 1 << 20;

pub(super) enum Sorted {
    /// Recipe 8: by date of creation.
    Created,
    /// Recipe 9 at the medium level: by confidence, highest first.
    Confidence,
    /// Recipe 9 at the full level.
    ProvenanceConfidence,
}

/// A record's key and place.
struct Keyed {
    key: Key,
    at: u64,
    length: usize,
}

impl Sorted {
    /// Gives the records in order and says how many there were.
    pub(super) fn run(
        &self,
        source: &dyn PositionedRead,
        scan: &Scan<'_>,
        outlet: &mut Outlet<'_, '_>,
    ) -> Result<u64, RecipeError> {
        let mut all: Vec<Keyed> = Vec::new();
        let records = scan.gather(
            || (),
            |(), chunk: &mut Vec<Keyed>, at, record| {
                chunk.push(Keyed { key: self.key(record)?, at, length: record.len() });
                Ok(())
            },
            // Sorted pieces make the final sort a merge.
            |chunk| chunk.sort_by(|a, b| a.key.cmp(&b.key)),
            |chunk| {
                all.extend(chunk);
                Ok(ControlFlow::Continue(()))
            },
        )?;
        all.sort_by(|a, b| a.key.cmp(&b.key));
        if let Self::Confidence | Self::ProvenanceConfidence = self {
            // As `reverse` does: equal ones in turned order, too.
            all.reverse();
        }
        give(source, &all, outlet)?;
        Ok(records)
    }

    fn key(&self, record: &[u8]) -> Result<Key, Flaw> {
        let confidence = match self {
            Self::Created => return Key::of(fields(record, ["created"])?[0]),
            Self::Confidence => fields(record, ["confidence"])?[0],
            Self::ProvenanceConfidence => match fields(record, ["provenance"])?[0] {
                Some(object) if Kind::of(object)? == Kind::Object => {
                    fields(object, ["confidence"])?[0]
                }
                _ => None,
            },
        };
        let key = Key::of(confidence)?;
        Ok(if key.is_falsy() { Key::Number(0.0) } else { key })
    }
}

fn give(
    source: &dyn PositionedRead,
    all: &[Keyed],
    outlet: &mut Outlet<'_, '_>,
) -> Result<(), RecipeError> {
    let mut rest = all;
    let mut buf = Vec::new();
    while let Some(first) = rest.first() {
        if outlet.only_counts() {
            outlet.count(rest.len() as u64);
            break;
        }
        if !outlet.wants_next() {
            outlet.count(1);
            rest = &rest[1..];
            continue;
        }
        let (count, length) = neighbours(rest);
        buf.resize(length, 0);
        let read = fill(source, first.at, &mut buf)?;
        for record in &rest[..count] {
            let from = usize::try_from(record.at - first.at).unwrap_or(usize::MAX).min(read);
            let to = from.saturating_add(record.length).min(read);
            if outlet.give(buf[from..to].trim_ascii()).is_break() {
                return Ok(());
            }
        }
        rest = &rest[count..];
    }
    Ok(())
}

/// How many of the next records lie directly behind each other, and the bytes they take.
fn neighbours(records: &[Keyed]) -> (usize, usize) {
    let first = &records[0];
    let (mut count, mut length) = (1, first.length);
    for next in &records[1..] {
        // One byte for the line break.
        let adjacent = next.at == first.at + length as u64 + 1;
        if !adjacent || length + next.length >= TOGETHER {
            break;
        }
        length += 1 + next.length;
        count += 1;
    }
    (count, length)
}
