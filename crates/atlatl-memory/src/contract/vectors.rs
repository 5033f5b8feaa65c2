//! The cases about vectors.

use mif::MemoryId;

use super::{BlockOn, MODEL, at, memory};
use crate::{Filter, MemoryStore};

/// The error of a cosine if vectors are stored in half precision: half a unit in the last of 11
/// bits, for each number of a vector of length 1.
const MAX_COSINE_ERROR: f64 = 1.0 / 4096.0;

pub(super) fn cosines_are_those_of_the_vectors(store: &dyn MemoryStore) {
    super::put(store, &[memory(1, "one"), memory(2, "two"), memory(3, "three"), memory(4, "four")]);
    put(store, &[vec![1.0, 0.0], vec![0.6, 0.8], Vec::new()]);
    let ids = [3, 2, 99, 1, 4].map(MemoryId::from_u128);
    let cosines =
        |model: &str, vector: &[f32]| store.cosines(model, vector, &ids).wait().expect("cosines");
    let check = |vector: &[f32], expected: [Option<f64>; 5]| {
        let cosines = cosines(MODEL, vector);
        for (cosine, expected) in cosines.iter().zip(expected) {
            match (cosine, expected) {
                (Some(cosine), Some(expected)) => {
                    assert!((cosine - expected).abs() <= MAX_COSINE_ERROR, "{cosine} {expected}");
                }
                (cosine, expected) => assert_eq!(*cosine, expected),
            }
        }
    };
    check(&[1.0, 0.0], [None, Some(0.6), None, Some(1.0), None]);
    check(&[0.0, 1.0], [None, Some(0.8), None, Some(0.0), None]);
    for (model, vector) in [("model-2", &[1.0, 0.0][..]), (MODEL, &[1.0]), (MODEL, &[])] {
        assert_eq!(cosines(model, vector), [None, None, None, None, None], "{model} {vector:?}");
    }
    assert!(store.cosines(MODEL, &[1.0, 0.0], &[]).wait().expect("none").is_empty());
}

pub(super) fn put(store: &dyn MemoryStore, vectors: &[Vec<f32>]) {
    let waiting = store.unembedded(MODEL, 0, vectors.len()).wait().expect("waiting");
    let made: Vec<_> = waiting.iter().map(|one| one.version).zip(vectors.iter().cloned()).collect();
    store.put_vectors(MODEL, &made).wait().expect("vectors");
}

pub(super) fn near(store: &dyn MemoryStore, vector: &[f32], limit: usize) -> Vec<u128> {
    let near = store.nearest(MODEL, vector, &Filter::default(), limit, at(0)).wait().expect("near");
    near.iter().map(|one| one.id.as_u128()).collect()
}

/// A text that cannot be embedded must neither hide others nor be dropped.
pub(super) fn vectors_left_out_go_on_waiting(store: &dyn MemoryStore) {
    super::put(store, &[memory(1, "one"), memory(2, "two"), memory(3, "three"), memory(4, "four")]);
    let waiting = store.unembedded(MODEL, 0, 9).wait().expect("waiting");
    let version = |n: usize| waiting[n].version;
    store
        .put_vectors(MODEL, &[(version(1), vec![1.0]), (version(3), vec![1.0])])
        .wait()
        .expect("vectors");
    let left = |after: u64, limit: usize| {
        let left = store.unembedded(MODEL, after, limit).wait().expect("waiting");
        left.into_iter().map(|one| one.text).collect::<Vec<_>>()
    };
    assert_eq!(left(0, 9), ["one", "three"]);
    assert_eq!(store.count_unembedded(MODEL).wait().expect("a count"), 2);
    assert_eq!(store.count_unembedded("model-2").wait().expect("a count"), 4);
    assert_eq!(left(0, 1), ["one"]);
    assert_eq!(left(version(0), 9), ["three"]);
    assert_eq!(left(version(2), 9), [""; 0]);
    store.put_vectors(MODEL, &[(version(2), vec![1.0])]).wait().expect("vectors");
    super::put(store, &[memory(5, "five")]);
    assert_eq!(left(0, 9), ["one", "five"]);
    assert_eq!(store.count_unembedded(MODEL).wait().expect("a count"), 2);
}

pub(super) fn vectors_lag_and_catch_up(store: &dyn MemoryStore) {
    super::put(store, &[memory(1, "one"), memory(2, "two"), memory(3, "three")]);
    assert_eq!(near(store, &[1.0, 0.0], 9), [] as [u128; 0]);
    let waiting = store.unembedded(MODEL, 0, 9).wait().expect("waiting");
    assert_eq!(
        waiting.iter().map(|one| one.text.as_str()).collect::<Vec<_>>(),
        ["one", "two", "three"]
    );
    put(store, &[vec![1.0, 0.0], vec![0.6, 0.8], Vec::new()]);
    assert!(store.unembedded(MODEL, 0, 9).wait().expect("waiting").is_empty(), "the empty one too");
    assert_eq!(near(store, &[1.0, 0.0], 9), [1, 2]);
    assert_eq!(near(store, &[0.0, 1.0], 1), [2]);
    // An updated memory is pending again, and has no vector until then.
    let id = MemoryId::from_u128(1);
    let change = |text: &'static str| {
        let changed = store
            .update(
                &id,
                Box::new(move |mut memory| {
                    memory.content = String::from(text);
                    Ok(memory)
                }),
            )
            .wait();
        changed.expect("update").expect("there")
    };
    change("uno");
    assert_eq!(near(store, &[1.0, 0.0], 9), [2]);
    let old = store.unembedded(MODEL, 0, 9).wait().expect("waiting");
    assert_eq!(old.len(), 1);
    // The memory changed while its vector was made, so the vector is dropped.
    change("eins");
    store.put_vectors(MODEL, &[(old[0].version, vec![1.0, 0.0])]).wait().expect("vectors");
    assert_eq!(near(store, &[1.0, 0.0], 9), [2]);
    put(store, &[vec![0.0, 1.0]]);
    assert_eq!(near(store, &[0.0, 1.0], 9), [1, 2]);
    // Another model has its own pending memories and vectors.
    assert_eq!(store.unembedded("model-2", 0, 9).wait().expect("waiting").len(), 3);
    let other = store.nearest("model-2", &[1.0, 0.0], &Filter::default(), 9, at(0)).wait();
    assert!(other.expect("near").is_empty());
    let filter = Filter { namespace: "nowhere".parse().ok(), ..Filter::default() };
    assert!(store.nearest(MODEL, &[1.0, 0.0], &filter, 9, at(0)).wait().expect("near").is_empty());
}
