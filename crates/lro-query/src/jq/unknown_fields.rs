//! Reports fields that a filter reads and no record has.
//!
//! jq evaluates such a field to null, so that a misspelt name looks like missing data. If a filter
//! returns nothing, or only null, its field names are compared with those in the data. The result is
//! reported beside the answer and does not change it.

mod field_names;
mod keys;

use std::collections::BTreeSet;

use crate::engine::{OpenSource, ThreadPool};
use crate::error::similar_names;
use crate::query::UnknownField;

/// The maximum size of a source in bytes: a name is unknown only if all records were scanned.
const MAX_SCANNED_BYTES: u64 = 64 << 20;
/// The maximum number of names in the data that are kept for suggestions.
const MAX_SUGGESTED_NAMES: usize = 1000;

/// The fields that `filter` reads and no record has, in the order of the filter.
pub(super) fn fields(filter: String, source: &OpenSource, pool: &ThreadPool) -> Vec<UnknownField> {
    if source.end.saturating_sub(source.begin) > MAX_SCANNED_BYTES {
        return Vec::new();
    }
    // The term nests as deeply as the compiler allowed, so this needs a deep stack, too.
    let names = pool.submit(move || field_names::fields(&filter)).recv();
    let mut missing = names.unwrap_or_default();
    let mut present = BTreeSet::new();
    for chunk in source.chunks() {
        if missing.is_empty() {
            break;
        }
        // An unreadable chunk may contain any name.
        let Ok(chunk) = chunk else { return Vec::new() };
        for key in keys::member_names(&chunk) {
            missing.retain(|name| *name != key);
            if present.len() < MAX_SUGGESTED_NAMES && !present.contains(&*key) {
                present.insert(key.into_owned());
            }
        }
    }
    let unknown = missing.into_iter().map(|name| {
        let near = similar_names(&name, present.iter());
        UnknownField { name, near }
    });
    unknown.collect()
}
