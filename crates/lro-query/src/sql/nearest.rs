//! Nearest: the columns that somebody who wrote an unknown one probably meant.

use lro_core::neutralise;

use super::Table;

/// Below this a suggestion misleads.
const NEAR: f64 = 0.5;
const AT_MOST: usize = 3;
const LABEL_CHARS: usize = 60;

pub(super) fn columns(unknown: &str, tables: &[Table]) -> Vec<String> {
    let unknown = unknown.to_lowercase();
    let names = tables.iter().flat_map(|table| table.columns.names());
    let mut near: Vec<(f64, &String)> =
        names.map(|name| (likeness(&unknown, &name.to_lowercase()), name)).collect();
    near.retain(|(likeness, _)| *likeness > NEAR);
    // Stable: of two equally near ones the first met comes first.
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.dedup_by(|(_, a), (_, b)| a == b);
    let label = |name: &String| neutralise(name).chars().take(LABEL_CHARS).collect();
    near.into_iter().take(AT_MOST).map(|(_, name)| label(name)).collect()
}

/// People misspell a name, and they know only part of it.
fn likeness(unknown: &str, name: &str) -> f64 {
    let spelt = strsim::normalized_damerau_levenshtein(unknown, name);
    let part = unknown.len() > 2 && (name.contains(unknown) || unknown.contains(name));
    if part { spelt.max(0.7) } else { spelt }
}
