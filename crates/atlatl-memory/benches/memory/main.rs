//! The memory store and its services beside the same SQL without them, at two sizes.
//!
//! `cargo xtask bench memory` runs it and keeps the results. Prints one JSON object.
//! `ATLATL_BENCH_MEMORIES` (two numbers, a comma between) makes it smaller for a try,
//! `ATLATL_BENCH_SECONDS` bounds the time for a row, and `ATLATL_BENCH_STORE` names a store of the
//! larger size that an earlier run left: it takes the place of the filling.

#![expect(clippy::print_stdout, reason = "its output is its result")]

mod asking;
mod bare;
mod bare_put;
mod classes;
mod ingest;
mod pair;
mod place;
mod questions;
mod supply;
mod vectors;

use std::path::Path;
use std::time::Instant;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{MemoryStore, OnConflict, SqliteStore};
use serde_json::{Value, json};

use self::place::Place;
use self::supply::Supply;

const SIZES: [usize; 2] = [100_000, 1_000_000];
/// The maximum ratio of our time to the baseline.
const GOAL: f64 = 1.3;
/// The batch size of filling the store.
const BATCH_LEN: usize = 500;

fn main() {
    let place = Place::new();
    let mut supply = Supply::new();
    let mut steps = vec![json!({
        "memories": 0,
        "operations": ingest::rows(&place, &mut supply),
    })];
    for size in sizes() {
        steps.push(step(&place, &mut supply, size));
    }
    println!(
        "{:#}",
        json!({
            "file_system": place.kind(),
            "sqlite": rusqlite::version(),
            "goal": GOAL,
            "steps": steps,
        })
    );
}

/// Fills the store up to `size` and measures everything.
fn step(place: &Place, supply: &mut Supply, size: usize) -> Value {
    let there = supply.taken();
    let begun = Instant::now();
    let left = std::env::var_os("ATLATL_BENCH_STORE").filter(|_| size == SIZES[1]);
    if let Some(left) = &left {
        place.take(Path::new(left));
        drop(supply.take(size - supply.taken()));
    }
    let store = SqliteStore::open(&place.ours()).expect("a store");
    while supply.taken() < size {
        let batch = supply.take(BATCH_LEN.min(size - supply.taken()));
        store.put(&batch, OnConflict::Keep).wait().expect("put");
    }
    let seconds = begun.elapsed().as_secs_f64();
    let filled = left.is_none().then(|| json!({"memories": size - there, "seconds": seconds}));
    let mut operations = asking::rows(place, store, supply);
    let bytes = place.ours().metadata().map_or(0, |file| file.len());
    operations.extend(vectors::rows(place, size));
    operations.extend(ingest::rows(place, supply));
    json!({
        "memories": size,
        "file_bytes": bytes,
        "filled": filled,
        "operations": operations,
    })
}

fn sizes() -> Vec<usize> {
    let Ok(asked) = std::env::var("ATLATL_BENCH_MEMORIES") else { return SIZES.to_vec() };
    asked.split(',').map(|size| size.trim().parse().expect("a number of memories")).collect()
}
