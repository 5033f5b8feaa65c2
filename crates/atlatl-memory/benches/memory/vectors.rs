//! Reads by vectors: the nearest memories, and recalls with an embedder.
//!
//! The vectors are random, so that no model is needed. A copy of the store gets them, so that the
//! other measurements and the next size go on without.

use std::sync::Arc;
use std::time::Instant;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    EmbedError, Embedder, Filter, MemoryStore, Need, RecallRequest, RecallService, SqliteStore,
};
use rusqlite::OpenFlags;
use serde_json::{Value, json};
use testkit::SplitMix64;

use crate::asking::{CANDIDATES, PAGE, now};
use crate::bare::{Bare, connect, expression};
use crate::classes::{Class, classes};
use crate::pair::Pair;
use crate::place::Place;
use crate::supply::Supply;

const MODEL: &str = "random";
const DIMENSIONS: usize = 384;
/// The number of memories that a search takes from the nearest.
const NEAREST: usize = 200;
const QUERIES: u64 = 60;
/// The number of vectors that are stored at once.
const BATCH_LEN: usize = 5_000;
/// The size up to which recalls with vectors have a goal, in milliseconds.
const SMALL_STORE: usize = 100_000;
const GOAL: f64 = 50.0;

pub(crate) fn rows(place: &Place, memories: usize) -> Vec<Value> {
    // The last connection to close truncates the log.
    drop(SqliteStore::open(&place.ours()).expect("a store"));
    place.copy();
    let store = SqliteStore::open(&place.bare()).expect("a store");
    fill(&store);
    let mut rows = vec![nearest(place, &store)];
    let store: Arc<dyn MemoryStore> = Arc::new(store);
    let bare = Bare { db: connect(&place.bare(), OpenFlags::SQLITE_OPEN_READ_ONLY), now: now() };
    let [rare, mixed, _] = classes(&Supply::stored());
    rows.extend([rare, mixed].iter().map(|class| {
        let mut row = recalls(class, &store, &bare);
        row["goal_milliseconds"] = if memories > SMALL_STORE { "none".into() } else { GOAL.into() };
        row
    }));
    drop((store, bare));
    place.remove_bare();
    rows
}

fn fill(store: &SqliteStore) {
    loop {
        let waiting = store.unembedded(MODEL, 0, BATCH_LEN).wait().expect("memories");
        if waiting.is_empty() {
            return;
        }
        let vectors: Vec<(u64, Vec<f32>)> =
            waiting.iter().map(|one| (one.version, random_vector(one.version))).collect();
        store.put_vectors(MODEL, &vectors).wait().expect("put");
    }
}

/// The store as it is beside one that compares all vectors exactly.
#[expect(clippy::cast_precision_loss, reason = "hundreds of memories")]
fn nearest(place: &Place, store: &SqliteStore) -> Value {
    let exact = SqliteStore::open_quantized(&place.bare(), usize::MAX).expect("a store");
    let ids = |store: &SqliteStore, vector: &[f32]| -> Vec<u128> {
        let found = store.nearest(MODEL, vector, &Filter::default(), NEAREST, now()).wait();
        found.expect("an answer").iter().map(|one| one.id.as_u128()).collect()
    };
    let first = random_vector(u64::MAX);
    let begun = Instant::now();
    assert_eq!(ids(store, &first).len(), NEAREST);
    let read_seconds = begun.elapsed().as_secs_f64();
    assert_eq!(ids(&exact, &first).len(), NEAREST);
    let (mut pair, mut agreement) = (Pair::default(), 0.0);
    for n in 1..=QUERIES {
        let query = random_vector(u64::MAX - n);
        let (ours, all) = pair.time(|| ids(store, &query), || ids(&exact, &query));
        agreement += ours.iter().filter(|id| all.contains(id)).count() as f64 / NEAREST as f64;
    }
    let mut row = pair.row("the nearest 200 by vectors (bare: all compared exactly)");
    row["goal_milliseconds"] = "none".into();
    row["vectors"] = json!({
        "dimensions": DIMENSIONS,
        "read_seconds": read_seconds,
        "agreement_200": agreement / QUERIES as f64,
    });
    row
}

fn recalls(class: &Class, store: &Arc<dyn MemoryStore>, bare: &Bare) -> Value {
    let service = RecallService::new(store.clone(), Some(Arc::new(RandomVectors)));
    let mut pair = Pair::default();
    for query in &class.queries {
        let expression = expression(query, Need::Any);
        let mut request = RecallRequest::new(query, now());
        request.limit = Some(PAGE);
        let (ours, _) = pair.time(
            || service.results(&request).wait().expect("an answer"),
            || bare.find(&expression, CANDIDATES, PAGE),
        );
        assert_eq!(ours.ranked_by.as_str(), "hybrid", "{query}: {:?}", ours.warning);
    }
    pair.row(&format!("recall with vectors, {}, the best 50", class.name))
}

/// A vector for each text, without a model.
struct RandomVectors;

impl Embedder for RandomVectors {
    fn model(&self) -> &str {
        MODEL
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let seed = |text: &&str| {
            text.bytes().fold(17_u64, |seed, byte| seed.wrapping_mul(31) ^ u64::from(byte))
        };
        Ok(texts.iter().map(|text| random_vector(seed(text))).collect())
    }
}

/// A vector of length 1.
fn random_vector(seed: u64) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    let mut number = || f32::from(u16::try_from(random.below(2_001)).expect("small")) - 1_000.0;
    let numbers: Vec<f32> = (0..DIMENSIONS).map(|_| number()).collect();
    let length = numbers.iter().map(|x| x * x).sum::<f32>().sqrt();
    numbers.iter().map(|x| x / length).collect()
}
