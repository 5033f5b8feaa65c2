//! TODO module doc

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use lro_spool::PositionedRead;

use super::error::{Flaw, RecipeError};
use super::json_cursor::Kind;
use super::key::Key;
use super::random_access::{Fetch, Place};
use super::record::fields;
use super::{Outlet, Scan};

// --- Recipes that group records by a field.

pub(super) enum Counted {
    /// Recipes 6, and 10 at the light level: each value with how many records have it.
    Groups(&'static str),
    /// Recipe 9 at the light level: each value that is neither null nor false.
    Unique(&'static str),
}

/// The values in a chunk by their lexemes, in the order they came first.
#[derive(Default)]
struct Tally {
    places: HashMap<Box<[u8]>, usize>,
    groups: Vec<Group>,
}

/// Records with equal values.
struct Group {
    key: Key,
    /// As the first of them spells it.
    lexeme: Box<[u8]>,
    count: u64,
}

impl Tally {
    fn add(&mut self, field: Option<&[u8]>) -> Result<(), Flaw> {
        let lexeme = field.unwrap_or(b"null");
        if let Some(place) = self.places.get(lexeme) {
            self.groups[*place].count += 1;
        } else {
            self.places.insert(lexeme.into(), self.groups.len());
            self.groups.push(Group {
                key: Key::from_lexeme(field)?,
                lexeme: lexeme.into(),
                count: 1,
            });
        }
        Ok(())
    }
}

impl Counted {
    pub(super) fn groups(field: &'static str) -> Self {
        Self::Groups(field)
    }

    /// Gives the groups in the order of their values and says how many records there were.
    pub(super) fn run(
        &self,
        scan: &Scan<'_>,
        outlet: &mut Outlet<'_, '_>,
    ) -> Result<u64, RecipeError> {
        let (Self::Groups(name) | Self::Unique(name)) = *self;
        // One value can be spelled in several ways: 1 and 1.0, é and \u00e9.
        let mut all: BTreeMap<Key, (Box<[u8]>, u64)> = BTreeMap::new();
        let records = scan.gather(
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
            if outlet.give(&answer).is_break() {
                break;
            }
        }
        Ok(records)
    }
}

// --- Recipes that sort the records.
// ---
// --- Of each record only its key and its place are kept; the records themselves are read again, and
// --- only those that are wanted.

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
