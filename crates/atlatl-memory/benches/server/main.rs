//! The store in `PostgreSQL` beside its own SQL sent bare, with many tenants, at three sizes.
//!
//! `cargo xtask bench server` runs it and keeps the results. Prints one JSON object.
//! `ATLATL_BENCH_MEMORIES` (numbers, commas between) names other sizes, `ATLATL_BENCH_SECONDS`
//! bounds the time for a row.

#![expect(clippy::print_stdout, reason = "its output is its result")]

mod bare;
mod database;
mod environment;
#[path = "../memory/pair.rs"]
#[expect(dead_code, reason = "its other half takes turns one by one")]
mod pair;
mod question;
#[path = "../memory/questions.rs"]
#[expect(dead_code, reason = "a search is not measured here")]
mod questions;
mod rows;
#[path = "../memory/supply.rs"]
#[expect(dead_code, reason = "each tenant counts for itself")]
mod supply;
mod tenants;
mod turns;

use std::time::Instant;

use serde_json::{Value, json};

use self::database::Database;
use self::environment::{load_average, sizes};
use self::rows::Rows;
use self::supply::Supply;
use self::tenants::Tenants;

const SIZES: [usize; 3] = [10_000, 100_000, 1_000_000];
/// The maximum ratio of our time to the baseline.
const RECALL_GOAL: f64 = 1.25;
const OTHER_GOAL: f64 = 1.3;

fn main() {
    let before = load_average();
    let database = Database::start();
    let tenants = Tenants::new(&database);
    let mut supply = Supply::new();
    let rows = Rows::new(&database, &tenants);
    let steps: Vec<Value> = sizes(&SIZES)
        .into_iter()
        .map(|size| step(&database, &tenants, &rows, &mut supply, size))
        .collect();
    println!(
        "{:#}",
        json!({
            "postgresql": database.version(),
            "settings": database.settings(),
            "file_system": database.file_system(),
            "connections": database::CONNECTIONS,
            "tenants": tenants::COUNT,
            "load_average": {"before": before, "after": load_average()},
            "goals": {"recall": RECALL_GOAL, "other": OTHER_GOAL},
            "steps": steps,
        })
    );
}

/// Fills the tables up to `size` and measures everything.
fn step(
    database: &Database,
    tenants: &Tenants,
    rows: &Rows<'_>,
    supply: &mut Supply,
    size: usize,
) -> Value {
    let begun = Instant::now();
    let (new, largest, median) = tenants.fill(supply, size);
    let seconds = begun.elapsed().as_secs_f64();
    // Maintenance that the database would otherwise do during the measurement.
    database.tidy();
    let bytes = database.bytes();
    json!({
        "memories": size,
        "largest_tenant": largest,
        "median_tenant": median,
        "filled": {"memories": new, "seconds": seconds, "clients": tenants::FILLING},
        "database_bytes": bytes,
        "operations": rows.measure(supply),
    })
}
