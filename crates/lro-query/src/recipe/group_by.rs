//! Recipes that group records by a field.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use super::Scan;
use super::error::RecipeError;
use super::key::Key;
use super::record::fields;
use super::window::Outlet;

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
    fn add(&mut self, field: Option<&[u8]>) -> Result<(), super::error::Flaw> {
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
