//! An in-memory copy of the vectors of one model, and their similarity to a query.
//!
//! Vectors have length 1, so that a dot product is a cosine. Up to a number of vectors the copy is
//! exact. Above it, the copy has 8 bits per number: a quarter of the memory, and of the time to read
//! it. The similarities are then approximate and select candidates, whose exact vectors are in the
//! table.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rusqlite::{Connection, params};

use super::error::to_store_error;
use crate::store::StoreError;

/// The number of vectors above which the copy has 8 bits per number.
pub(super) const QUANTIZED_ABOVE: usize = 100_000;
/// The number of dimensions up to which a sum of products of quantized numbers fits into 32 bits.
const MAX_QUANTIZED_DIMENSIONS: usize = 16_384;
/// The largest magnitude of a quantized number of a stored vector, and of a query. A query has more
/// bits, because only one of them is in memory.
const MAX_STORED_LEVEL: f32 = 127.0;
const MAX_QUERY_LEVEL: f32 = 1_023.0;
/// The number of independent sums of a dot product. Additions of floating-point numbers cannot be
/// reordered, so that one sum would not be computed with vector instructions.
const SUMS: usize = 16;

/// The vectors of one model in memory. The copy is refreshed before each query, since another
/// process may have added vectors.
#[derive(Debug)]
pub(super) struct VectorCache {
    model: String,
    dimensions: usize,
    quantized_above: usize,
    rows: Rows,
    keys: Vec<i64>,
    slots: HashMap<i64, usize>,
    /// The sequence number of the last vector in it.
    upto: i64,
}

/// Returns the vectors of `model`. The cache holds one model at a time.
pub(super) fn cache_for_model(
    cached: &RwLock<Option<Arc<Mutex<VectorCache>>>>,
    model: &str,
    dimensions: usize,
    quantized_above: usize,
) -> Arc<Mutex<VectorCache>> {
    let is_it = |vector_cache: &Arc<Mutex<VectorCache>>| {
        let vector_cache = vector_cache.lock().unwrap_or_else(PoisonError::into_inner);
        vector_cache.model == model && vector_cache.dimensions == dimensions
    };
    let found = cached.read().unwrap_or_else(PoisonError::into_inner).clone().filter(is_it);
    found.unwrap_or_else(|| {
        let vector_cache = Arc::new(Mutex::new(VectorCache {
            model: model.to_owned(),
            dimensions,
            quantized_above,
            rows: Rows::Exact(Vec::new()),
            keys: Vec::new(),
            slots: HashMap::new(),
            upto: 0,
        }));
        *cached.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&vector_cache));
        vector_cache
    })
}

impl VectorCache {
    /// Reads the vectors that were stored since the last refresh.
    pub(super) fn refresh(&mut self, db: &Connection) -> Result<(), StoreError> {
        let mut statement = db
            .prepare_cached(
                "SELECT seq, key, vector FROM vector WHERE seq > ?1 AND model = ?2 ORDER BY seq",
            )
            .map_err(to_store_error)?;
        let mut rows = statement.query(params![self.upto, self.model]).map_err(to_store_error)?;
        while let Some(row) = rows.next().map_err(to_store_error)? {
            let (seq, key) =
                (row.get(0).map_err(to_store_error)?, row.get(1).map_err(to_store_error)?);
            let bytes = row.get_ref(2).map_err(to_store_error)?.as_blob();
            let bytes = bytes.map_err(|error| to_store_error(error.into()))?;
            self.upto = seq;
            // An empty vector marks a text that the model refused, and vectors of other lengths
            // cannot be compared.
            if let Some(vector) = decode(bytes, self.dimensions) {
                self.insert(key, &vector);
            }
        }
        Ok(())
    }

    fn insert(&mut self, key: i64, vector: &[f32]) {
        let next = self.keys.len();
        let slot = *self.slots.entry(key).or_insert(next);
        if slot == next {
            self.keys.push(key);
        }
        self.rows.set(slot, vector);
        let is_large = self.keys.len() > self.quantized_above;
        if is_large && self.dimensions <= MAX_QUANTIZED_DIMENSIONS {
            self.rows.quantize(self.dimensions);
        }
    }

    /// Returns all keys by descending similarity to `vector`. The first `expected` are sorted at
    /// once.
    pub(super) fn neighbors(&self, vector: &[f32], expected: usize) -> Neighbors {
        let keyed = self.rows.cosines(vector).into_iter().zip(&self.keys);
        let all = keyed.map(|(cosine, key)| Neighbor { cosine, key: *key }).collect();
        let is_exact = matches!(self.rows, Rows::Exact(_));
        Neighbors { all, is_exact, sorted: 0, next: 0, batch: expected.max(1) }
    }
}

/// Returns the numbers of a stored vector if it has this many.
pub(super) fn decode(bytes: &[u8], dimensions: usize) -> Option<Vec<f32>> {
    let numbers = bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four));
    (bytes.len() == dimensions * size_of::<f32>()).then(|| numbers.collect())
}

/// The numbers of all vectors, one row after the other.
#[derive(Debug)]
enum Rows {
    Exact(Vec<f32>),
    Quantized {
        levels: Vec<i8>,
        /// The value of one level, by row.
        scales: Vec<f32>,
    },
}

impl Rows {
    /// Replaces the row at `slot`, or appends it if it is the next one.
    fn set(&mut self, slot: usize, vector: &[f32]) {
        match self {
            Self::Exact(numbers) => set_row(numbers, slot, vector),
            Self::Quantized { levels, scales } => {
                let (row, scale) = quantize(vector, MAX_STORED_LEVEL);
                #[expect(clippy::cast_possible_truncation, reason = "at most 127")]
                let row: Vec<i8> = row.into_iter().map(|level| level as i8).collect();
                set_row(levels, slot, &row);
                set_row(scales, slot, &[scale]);
            }
        }
    }

    /// Reduces exact rows to 8 bits per number.
    fn quantize(&mut self, dimensions: usize) {
        let Self::Exact(numbers) = self else { return };
        let numbers = std::mem::take(numbers);
        *self = Self::Quantized { levels: Vec::new(), scales: Vec::new() };
        for (slot, vector) in numbers.chunks_exact(dimensions.max(1)).enumerate() {
            self.set(slot, vector);
        }
    }

    /// Returns the similarity of each row to `vector`.
    fn cosines(&self, vector: &[f32]) -> Vec<f32> {
        let dimensions = vector.len().max(1);
        match self {
            Self::Exact(numbers) => {
                numbers.chunks_exact(dimensions).map(|row| dot(row, vector)).collect()
            }
            Self::Quantized { levels, scales } => {
                let (query, query_scale) = quantize(vector, MAX_QUERY_LEVEL);
                let products =
                    levels.chunks_exact(dimensions).map(|row| quantized_dot(row, &query));
                products.zip(scales).map(|(product, scale)| product * scale * query_scale).collect()
            }
        }
    }
}

fn set_row<T: Copy>(numbers: &mut Vec<T>, slot: usize, row: &[T]) {
    match numbers.get_mut(slot * row.len()..(slot + 1) * row.len()) {
        Some(place) => place.copy_from_slice(row),
        None => numbers.extend_from_slice(row),
    }
}

/// Returns the numbers of a vector as multiples of a scale, up to `max_level`, and the scale.
fn quantize(vector: &[f32], max_level: f32) -> (Vec<i16>, f32) {
    let scale = vector.iter().fold(0.0_f32, |largest, x| largest.max(x.abs())) / max_level;
    #[expect(clippy::cast_possible_truncation, reason = "at most 1,023; NaN becomes 0")]
    let level = |x: &f32| (x / scale).round().clamp(-max_level, max_level) as i16;
    (vector.iter().map(level).collect(), scale)
}

/// Returns the dot product.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<SUMS>(), b.as_chunks::<SUMS>());
    let mut sums = [0.0; SUMS];
    for (x, y) in a.iter().zip(b) {
        for (sum, (x, y)) in sums.iter_mut().zip(x.iter().zip(y)) {
            *sum += x * y;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f32>() + rest
}

/// Returns the dot product in levels.
#[expect(clippy::cast_precision_loss, reason = "an approximation of 8 bits")]
fn quantized_dot(row: &[i8], query: &[i16]) -> f32 {
    row.iter().zip(query).map(|(x, y)| i32::from(*x) * i32::from(*y)).sum::<i32>() as f32
}

/// A key with its cosine similarity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Neighbor {
    pub(super) cosine: f32,
    pub(super) key: i64,
}

impl Neighbor {
    /// The sort order: the nearest first, and among equals the oldest.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        other.cosine.total_cmp(&self.cosine).then(self.key.cmp(&other.key))
    }
}

/// All neighbors, the nearest first. They are sorted in batches of growing size, because usually only
/// the first are read.
#[derive(Debug)]
pub(super) struct Neighbors {
    all: Vec<Neighbor>,
    is_exact: bool,
    sorted: usize,
    next: usize,
    batch: usize,
}

impl Neighbors {
    /// Returns whether the similarities are exact.
    pub(super) fn is_exact(&self) -> bool {
        self.is_exact
    }

    fn sort_batch(&mut self) {
        let rest = &mut self.all[self.sorted..];
        let len = self.batch.min(rest.len());
        if len < rest.len() {
            rest.select_nth_unstable_by(len, Neighbor::compare);
        }
        rest[..len].sort_unstable_by(Neighbor::compare);
        self.sorted += len;
        self.batch = self.batch.saturating_mul(4);
    }
}

impl Iterator for Neighbors {
    type Item = Neighbor;

    fn next(&mut self) -> Option<Neighbor> {
        if self.next == self.sorted {
            self.sort_batch();
        }
        let neighbor = self.all.get(self.next).copied()?;
        self.next += 1;
        Some(neighbor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs() -> impl Strategy<Value = Vec<(f32, f32)>> {
        proptest::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 0..200)
    }

    proptest! {
        #[test]
        fn a_dot_product_is_near_the_sum_in_double_precision(pairs in pairs()) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
            let expected: f64 = pairs.iter().map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
            prop_assert!((f64::from(dot(&a, &b)) - expected).abs() < 1e-5 * (1.0 + expected.abs()));
        }

        #[test]
        fn a_quantized_product_is_within_half_a_level_per_number(pairs in pairs()) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
            let mut rows = Rows::Exact(a.clone());
            rows.quantize(a.len());
            let [cosine] = rows.cosines(&b)[..] else {
                prop_assert!(a.is_empty());
                return Ok(());
            };
            let level = |numbers: &[f32], levels: f32| {
                numbers.iter().fold(0.0_f32, |largest, x| largest.max(x.abs())) / levels
            };
            let length = |numbers: &[f32]| numbers.iter().map(|x| x.abs()).sum::<f32>();
            let error = 0.51 * level(&a, MAX_STORED_LEVEL) * length(&b)
                + 0.51 * level(&b, MAX_QUERY_LEVEL) * length(&a) + 1e-4;
            prop_assert!((cosine - dot(&a, &b)).abs() < error, "{cosine} {}", dot(&a, &b));
        }

        #[test]
        fn neighbors_come_in_order_whatever_the_first_batch(
            cosines in proptest::collection::vec(0_u8..20, 0..200), expected in 0_usize..50,
        ) {
            let mut cache = empty_cache(1, usize::MAX);
            for (cosine, key) in cosines.iter().zip(1..) {
                cache.insert(key, &[f32::from(*cosine)]);
            }
            let found: Vec<(u8, i64)> = cache
                .neighbors(&[1.0], expected)
                .map(|one| (20 - cosines[usize::try_from(one.key - 1).unwrap()], one.key))
                .collect();
            prop_assert_eq!(found.len(), cosines.len());
            prop_assert!(found.is_sorted(), "{:?}", found);
        }
    }

    fn empty_cache(dimensions: usize, quantized_above: usize) -> VectorCache {
        let cache = cache_for_model(&RwLock::default(), "m", dimensions, quantized_above);
        Arc::into_inner(cache).unwrap().into_inner().unwrap()
    }

    #[test]
    fn a_row_is_replaced_in_its_place_before_and_after_quantization() {
        let mut cache = empty_cache(2, 2);
        let nearest = |cache: &VectorCache| {
            let neighbors = cache.neighbors(&[1.0, 0.0], 9);
            let is_exact = neighbors.is_exact();
            (neighbors.map(|one| one.key).collect::<Vec<_>>(), is_exact)
        };
        cache.insert(7, &[0.0, 1.0]);
        cache.insert(8, &[0.6, 0.8]);
        assert_eq!(nearest(&cache), (vec![8, 7], true));
        cache.insert(7, &[1.0, 0.0]);
        assert_eq!(nearest(&cache), (vec![7, 8], true));
        cache.insert(9, &[0.8, 0.6]);
        assert_eq!(nearest(&cache), (vec![7, 9, 8], false));
        cache.insert(7, &[0.0, -1.0]);
        assert_eq!(nearest(&cache), (vec![9, 8, 7], false));
    }

    #[test]
    fn a_vector_without_direction_is_quantized_to_zero() {
        assert_eq!(quantize(&[0.0, -0.0], MAX_STORED_LEVEL), (vec![0, 0], 0.0));
    }
}
