//! Reports fields that a filter reads and no record has.
//!
//! jq answers such a field with null, and whoever misspelt it believes that there is nothing. So
//! where a filter gave nothing, or nothing but null, its names are held against those in the data.
//! What comes of it stands beside the answer and changes nothing in it.

mod field_names;
mod keys;

use std::collections::BTreeSet;

use crate::answer::UnknownField;
use crate::suggest;
use crate::worker::{Crew, Opened};

/// A name is called unknown only when all records were looked at, and this many bytes are looked at.
const LOOKED_AT: u64 = 64 << 20;
/// More names than this suggest nothing.
const NAMES: usize = 1000;

/// The fields that `filter` reads and the source does not have, in the order of the filter.
pub(super) fn fields(filter: String, source: &Opened, crew: &Crew) -> Vec<UnknownField> {
    if source.end.saturating_sub(source.begin) > LOOKED_AT {
        return Vec::new();
    }
    // Terms nest as deep as they compiled, which was where the stack is deep.
    let named = crew.give(move || field_names::fields(&filter)).recv();
    let mut missing = named.unwrap_or_default();
    let mut known = BTreeSet::new();
    for chunk in source.chunks() {
        if missing.is_empty() {
            break;
        }
        // What cannot be read says nothing about its names.
        let Ok(chunk) = chunk else { return Vec::new() };
        for key in keys::member_names(&chunk) {
            missing.retain(|name| *name != key);
            if known.len() < NAMES && !known.contains(&*key) {
                known.insert(key.into_owned());
            }
        }
    }
    let unknown = missing.into_iter().map(|name| {
        let near = suggest::names(&name, known.iter());
        UnknownField { name, near }
    });
    unknown.collect()
}
