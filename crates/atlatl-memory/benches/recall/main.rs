//! Recall in one large tenant of `PostgreSQL`, beside exact BM25 and beside the statement of 0.1.0.
//!
//! `cargo xtask bench recall` runs it and keeps the results. Prints one JSON object.
//! `ATLATL_BENCH_MEMORIES` (numbers in ascending order, commas between) names other sizes,
//! `ATLATL_BENCH_QUERIES` the number of queries of each class, and `ATLATL_BENCH_PREVIOUS` how many of
//! them are measured with 0.1.0's statement. With `ATLATL_BENCH_RANDOM` it runs so many random
//! queries in place of the classes.

#![expect(clippy::print_stdout, reason = "its output is its result")]
#![expect(clippy::print_stderr, reason = "filling takes minutes")]

mod client;
#[path = "../server/database.rs"]
mod database;
#[path = "../server/environment.rs"]
mod environment;
mod exact;
mod load;
mod measurement;
mod memories;
#[path = "../memory/pair.rs"]
#[expect(dead_code, reason = "nothing is measured in pairs")]
mod pair;
mod previous;
mod queries;
mod searches;
mod text;

use std::env;
use std::time::Instant;

use atlatl_memory::PostgresStore;
use serde_json::{Map, Value, json};

use self::database::Database;
use self::environment::{load_average, sizes};
use self::exact::ExactIndex;
use self::load::{Loader, put};
use self::memories::{Corpus, SEARCHED};
use self::previous::Previous;
use self::searches::Searches;
use self::text::Text;

const SIZES: [usize; 3] = [10_000, 100_000, 1_000_000];
const RANDOM_SIZES: [usize; 1] = [100_000];
/// The tenant that is searched.
const TENANT: &str = "large";
/// The number of other tenants, and of memories of each.
const NEIGHBORS: u64 = 45;
const NEIGHBOR_LEN: usize = 200;
/// The number of memories of the searched tenant when old statistics were collected.
const ANALYZED: usize = 600;
const QUERIES: usize = 40;
const PREVIOUS_QUERIES: usize = 10;
/// The goals: milliseconds at the 95th percentile up to 100,000 memories, and above, and the overlap.
const GOAL: f64 = 50.0;
const LARGE_GOAL: f64 = 100.0;
const OVERLAP_GOAL: f64 = 0.9;
/// The number of memories whose words are compared with those of the index.
const VERIFIED: usize = 500;

fn main() {
    let before = load_average();
    let corpus = Corpus::new(Text::read());
    for n in 0..VERIFIED {
        corpus.verify(n);
    }
    let database = Database::start();
    // Statistics are collected when this program says so.
    database.sql("ALTER SYSTEM SET autovacuum = off");
    database.sql("SELECT pg_reload_conf()");
    let store = start_tenants(&database, &corpus);
    let loader = Loader { corpus: &corpus, database: &database, store: &store, speed: None };
    let random = number("ATLATL_BENCH_RANDOM", 0);
    let steps = if random > 0 {
        random_steps(loader, random)
    } else {
        class_steps(loader, number("ATLATL_BENCH_QUERIES", QUERIES))
    };
    println!(
        "{:#}",
        json!({
            "postgresql": database.version(),
            "settings": database.settings(),
            "file_system": database.file_system(),
            "connections": database::CONNECTIONS,
            "load_average": {"before": before, "after": load_average()},
            "neighbors": {"tenants": NEIGHBORS, "memories": NEIGHBOR_LEN},
            "text": {
                "tokens": corpus.text.len(),
                "vocabulary": corpus.text.vocabulary_len(),
                "digest": corpus.text.digest(),
            },
            "goals": {"overlap": OVERLAP_GOAL},
            "steps": steps,
        })
    );
}

/// Fills the other tenants and the beginning of the searched one, and collects statistics.
fn start_tenants(database: &Database, corpus: &Corpus) -> PostgresStore {
    let tenant = |name: &str| database.postgres.tenant(name).expect("a name");
    for n in 1..=NEIGHBORS {
        put(corpus, &tenant(&format!("neighbor {n}")), n, 0..NEIGHBOR_LEN, NEIGHBOR_LEN);
    }
    let store = tenant(TENANT);
    put(corpus, &store, SEARCHED, 0..ANALYZED, ANALYZED);
    database.sql("ANALYZE");
    store
}

/// Measures all classes of queries at every size. The statistics are as old as they can be at first;
/// they are collected at the last but one size and at the last, after a first measurement.
fn class_steps(mut loader: Loader<'_>, queries: usize) -> Vec<Value> {
    let (corpus, database, store) = (loader.corpus, loader.database, loader.store);
    let previous_queries = number("ATLATL_BENCH_PREVIOUS", PREVIOUS_QUERIES);
    let previous = (previous_queries > 0).then(|| Previous::new(database, &corpus.text, TENANT));
    let (mut index, mut stored, mut analyzed) = (ExactIndex::default(), ANALYZED, ANALYZED);
    let sizes = sizes(&SIZES);
    let mut steps = Vec::new();
    for (n, &size) in sizes.iter().enumerate() {
        let filled = loader.fill(stored..size);
        stored = size;
        let from = index.len();
        index.extend(corpus, from..size);
        let begun = Instant::now();
        if let Some(previous) = &previous {
            progress(&format!("filling the tables of 0.1.0 up to {size}"));
            previous.fill(corpus, from..size);
        }
        let previous_seconds = begun.elapsed().as_secs_f64();
        let searches = Searches { database, store, text: &corpus.text, index: &index };
        let previous = previous.as_ref().map(|previous| (previous, previous_queries));
        // Statistics of the first of several sizes would be those of the second.
        let is_renewed = n > 0 || sizes.len() == 1;
        let mut rows = Vec::new();
        let old = if is_renewed { None } else { previous };
        rows.extend(labeled(searches.classes(queries, old), &format!("of {analyzed}")));
        if is_renewed {
            database.tidy();
            analyzed = size;
            rows.extend(labeled(searches.classes(queries, previous), "new"));
        }
        steps.push(json!({
            "memories": size,
            "mean_words": index.mean_len(),
            "filled": filled,
            "previous_seconds": previous.map(|_| previous_seconds),
            "database_bytes": database.bytes(),
            "goal_milliseconds": if size > 100_000 { LARGE_GOAL } else { GOAL },
            "classes": rows,
        }));
    }
    steps
}

/// Adds the age of the statistics to rows.
fn labeled(rows: Vec<Value>, statistics: &str) -> impl Iterator<Item = Value> {
    rows.into_iter().map(move |mut row| {
        row["statistics"] = json!(statistics);
        row
    })
}

/// Runs random queries at every size, half of them with old statistics.
fn random_steps(mut loader: Loader<'_>, count: usize) -> Vec<Value> {
    let (corpus, database, store) = (loader.corpus, loader.database, loader.store);
    let (mut index, mut stored, mut analyzed) = (ExactIndex::default(), ANALYZED, ANALYZED);
    let mut steps = Vec::new();
    for size in sizes(&RANDOM_SIZES) {
        let filled = loader.fill(stored..size);
        stored = size;
        index.extend(corpus, index.len()..size);
        let searches = Searches { database, store, text: &corpus.text, index: &index };
        let old = searches.random(count / 2, 1);
        database.tidy();
        let new = searches.random(count - count / 2, 2);
        let mut runs = Map::new();
        runs.insert(format!("of {analyzed}"), old);
        runs.insert("new".to_owned(), new);
        analyzed = size;
        steps.push(json!({"memories": size, "filled": filled, "statistics": runs}));
    }
    steps
}

/// The number in an environment variable.
fn number(variable: &str, default: usize) -> usize {
    env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// Reports progress.
fn progress(text: &str) {
    eprintln!("bench recall: {text}");
}
