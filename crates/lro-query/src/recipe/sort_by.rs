//! Recipes that sort the records.
//!
//! Of each record only its key and its place are kept; the records themselves are read again, and
//! only those that are wanted.

use std::ops::ControlFlow;

use lro_spool::PositionedRead;

use super::Scan;
use super::error::{Flaw, RecipeError};
use super::json_cursor::Kind;
use super::key::Key;
use super::random_access::{Fetch, Place};
use super::record::fields;
use super::window::Outlet;

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
        let Scan { threads, deadline, .. } = *scan;
        give(Fetch { source, threads, deadline }, &all, outlet)?;
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

impl Place for Keyed {
    fn at(&self) -> u64 {
        self.at
    }

    fn length(&self) -> usize {
        self.length
    }
}

fn give(fetch: Fetch<'_>, all: &[Keyed], outlet: &mut Outlet<'_, '_>) -> Result<(), RecipeError> {
    let wanted = outlet.wanted(all.len());
    outlet.count(wanted.start as u64);
    let mut next = wanted.start;
    let mut stopped = ControlFlow::Continue(());
    fetch.each(&all[wanted], &mut |record| {
        next += 1;
        stopped = outlet.give(record);
        if outlet.only_counts() { ControlFlow::Break(()) } else { stopped }
    })?;
    if stopped.is_continue() {
        outlet.count((all.len() - next) as u64);
    }
    Ok(())
}
