//! Batch: one request to the embedder for memories of one store.
//!
//! Only a text that the embedder refuses is stored as "no vector". Everything else is tried again: a
//! failed batch is followed by a check of the embedder. If the check fails too, the embedder is at fault
//! and the batch waits. If it succeeds, one of the texts is: the batch is halved until that text is
//! alone, and then deferred with a backoff of its own, so that it does not hold up the others.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::embed::{EmbedError, Embedder};
use crate::store::{MemoryStore, StoreError, Unembedded};

/// The most memories in one request.
const MAX_BATCH_TEXTS: usize = 32;
/// As many characters of a text as the smallest models accept.
const TRUNCATED_TEXT_CHARS: usize = 1000;
/// A text that failed so often is embedded by its beginning: some servers answer 500 to long texts.
const TRUNCATE_AFTER: u32 = 3;
/// The first and the longest pause before a text is tried again that failed while others did not.
const TEXT_BACKOFF: (Duration, Duration) = (Duration::from_secs(5), Duration::from_hours(1));
/// The most texts whose failures are remembered.
const MAX_DEFERRED: usize = 10_000;

/// How far the embedding of one store has come.
pub(super) struct Progress {
    /// Memories up to this version were passed over in this round.
    cursor: u64,
    /// How many texts go into the next request.
    batch: usize,
    deferred: HashMap<u64, Deferral>,
    /// Texts that failed one after the other, with no success between them.
    in_a_row: u32,
    /// How many vectors were stored.
    pub(super) stored: usize,
}

impl Default for Progress {
    fn default() -> Self {
        Self { cursor: 0, batch: MAX_BATCH_TEXTS, deferred: HashMap::new(), in_a_row: 0, stored: 0 }
    }
}

/// A text that failed by itself.
struct Deferral {
    attempts: u32,
    until: Instant,
}

/// What one request came to.
pub(super) enum Step {
    /// Nothing is left to do for now.
    Idle,
    /// Vectors were stored.
    Stored,
    /// The embedder refused a text for good; it is stored as "no vector".
    Refused(EmbedError),
    /// All of these memories are deferred; the next ones may not be.
    Skipped,
    /// One of the texts is at fault; the next request is smaller.
    Split,
    /// One text failed by itself, and is tried again later.
    Deferred {
        error: EmbedError,
        /// So many texts failed with no success between them.
        in_a_row: u32,
    },
    /// The embedder is at fault.
    Failed {
        error: EmbedError,
        /// The pause that the embedder asked for, if it did.
        retry_after: Option<Duration>,
    },
}

/// Embeds the next memories of `store` that have no vector.
pub(super) fn step(
    store: &dyn MemoryStore,
    embedder: &dyn Embedder,
    progress: &mut Progress,
) -> Result<Step, StoreError> {
    let mut waiting = store.unembedded(embedder.model(), progress.cursor, MAX_BATCH_TEXTS)?;
    let Some(last) = waiting.last().map(|one| one.version) else {
        let began = std::mem::take(&mut progress.cursor) == 0;
        if began {
            // Every memory has its vector: what was deferred is gone or done.
            progress.deferred.clear();
        }
        return Ok(Step::Idle);
    };
    let now = Instant::now();
    waiting.retain(|one| progress.deferred.get(&one.version).is_none_or(|one| one.until <= now));
    // A text that failed before goes alone: with others it would fail them too.
    match waiting.iter().position(|one| progress.deferred.contains_key(&one.version)) {
        Some(again) => waiting = vec![waiting.swap_remove(again)],
        None => waiting.truncate(progress.batch),
    }
    if waiting.is_empty() {
        progress.cursor = last;
        return Ok(Step::Skipped);
    }
    let texts: Vec<&str> = waiting.iter().map(|one| one.text.as_str()).collect();
    let error = match embedder.embed(&texts) {
        Ok(vectors) => {
            let versions = waiting.iter().map(|one| one.version);
            let vectors: Vec<_> = versions.zip(vectors).collect();
            return store_vectors(store, embedder, progress, &vectors);
        }
        Err(error) => error,
    };
    if let EmbedError::Empty { index } = error
        && let Some(one) = waiting.get(index)
    {
        return store_refusal(store, embedder, progress, one.version, error);
    }
    // An embedder that says when to come back is not asked before.
    if let retry_after @ Some(_) = error.retry_after() {
        return Ok(Step::Failed { error, retry_after });
    }
    if let Err(failed) = embedder.check() {
        return Ok(Step::Failed { error, retry_after: failed.retry_after() });
    }
    match &waiting[..] {
        [one] => handle_failed_text(store, embedder, progress, one, error),
        several => {
            progress.batch = several.len() / 2;
            Ok(Step::Split)
        }
    }
}

/// Handles a text that failed by itself while the embedder works.
fn handle_failed_text(
    store: &dyn MemoryStore,
    embedder: &dyn Embedder,
    progress: &mut Progress,
    one: &Unembedded,
    error: EmbedError,
) -> Result<Step, StoreError> {
    let attempts = progress.deferred.get(&one.version).map_or(0, |before| before.attempts) + 1;
    let refused = error.is_refusal_of_text();
    if refused || attempts >= TRUNCATE_AFTER {
        match truncated(&one.text).map(|truncated| embedder.embed(&[truncated])) {
            Some(Ok(vectors)) => {
                let vectors: Vec<_> =
                    vectors.into_iter().map(|vector| (one.version, vector)).collect();
                return store_vectors(store, embedder, progress, &vectors);
            }
            Some(Err(again)) if refused && again.is_refusal_of_text() => {
                return store_refusal(store, embedder, progress, one.version, again);
            }
            None if refused => return store_refusal(store, embedder, progress, one.version, error),
            _ => {}
        }
    }
    if progress.deferred.len() >= MAX_DEFERRED {
        progress.deferred.clear();
    }
    let pause = TEXT_BACKOFF.0 * 2_u32.saturating_pow(attempts - 1).min(1 << 16);
    let until = Instant::now() + pause.min(TEXT_BACKOFF.1);
    progress.deferred.insert(one.version, Deferral { attempts, until });
    progress.in_a_row += 1;
    Ok(Step::Deferred { error, in_a_row: progress.in_a_row })
}

fn store_vectors(
    store: &dyn MemoryStore,
    embedder: &dyn Embedder,
    progress: &mut Progress,
    vectors: &[(u64, Vec<f32>)],
) -> Result<Step, StoreError> {
    store.put_vectors(embedder.model(), vectors)?;
    for (version, _) in vectors {
        progress.deferred.remove(version);
    }
    progress.stored += vectors.len();
    progress.in_a_row = 0;
    progress.batch = (progress.batch * 2).min(MAX_BATCH_TEXTS);
    Ok(Step::Stored)
}

fn store_refusal(
    store: &dyn MemoryStore,
    embedder: &dyn Embedder,
    progress: &mut Progress,
    version: u64,
    error: EmbedError,
) -> Result<Step, StoreError> {
    let before = progress.batch;
    store_vectors(store, embedder, progress, &[(version, Vec::new())])?;
    // That one text is out of the way says nothing of the next.
    progress.batch = before;
    Ok(Step::Refused(error))
}

/// The beginning of a text, where that is not all of it.
fn truncated(text: &str) -> Option<&str> {
    text.char_indices().nth(TRUNCATED_TEXT_CHARS).map(|(end, _)| &text[..end])
}
