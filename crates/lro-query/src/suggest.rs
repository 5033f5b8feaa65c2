//! Suggestions for unknown field names.

use lro_core::neutralise;

/// Below this a suggestion misleads.
const NEAR: f64 = 0.5;
const AT_MOST: usize = 3;
const LABEL_CHARS: usize = 60;

/// The names most like `unknown`, the nearest first, fit to be shown.
pub(crate) fn names<'n>(unknown: &str, names: impl Iterator<Item = &'n String>) -> Vec<String> {
    let unknown = unknown.to_lowercase();
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
    let long = unknown.len().min(name.len()) > 2;
    let part = long && (name.contains(unknown) || unknown.contains(name));
    if part { spelt.max(0.7) } else { spelt }
}
