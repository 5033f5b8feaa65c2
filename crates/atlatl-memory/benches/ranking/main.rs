//! Ranking quality on the graded collection: by words, by vectors and by both, with two real models.
//!
//! `cargo xtask bench ranking` runs it and keeps the results. Prints one JSON object.
//! `ATLATL_CACHE` has the models (`.ci/models` puts them there) and keeps the vectors.

#![expect(clippy::print_stdout, reason = "its output is its result")]

mod collection;
mod figures;
mod ways;

use std::path::PathBuf;

use serde_json::json;

use self::collection::Collection;

fn main() {
    let cache = std::env::var_os("ATLATL_CACHE").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cache/atlatl"),
        PathBuf::from,
    );
    let collection = Collection::read();
    let rows = ways::rows(&collection, &cache);
    println!(
        "{:#}",
        json!({
            "gold": collection.gold,
            "memories": collection.memories.len(),
            "queries": collection.queries.len(),
            "sha256": collection.sha256,
            "rows": rows,
        })
    );
}
