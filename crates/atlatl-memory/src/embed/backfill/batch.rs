//! One request to the embedder for memories of one store.
//!
//! Only a text that the embedder refuses is stored as "no vector". Everything else is retried.
//! After a failed batch the embedder is checked. If the check fails, the embedder is at fault and
//! the batch waits. If it succeeds, one of the texts is at fault: the batch is halved until that
//! text is alone, and the text is deferred with its own backoff, so that it does not delay the
//! others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::blocking;
use crate::embed::{EmbedError, Embedder};
use crate::store::{MemoryStore, StoreError, Unembedded};

/// The maximum number of memories in one request.
const MAX_BATCH_TEXTS: usize = 32;
/// The number of characters that even the smallest models accept.
const TRUNCATED_TEXT_CHARS: usize = 1000;
/// The number of failures after which a text is truncated, since some servers answer 500 to long
/// texts.
const TRUNCATE_AFTER: u32 = 3;
/// The first and the maximum delay before a failed text is retried.
const TEXT_BACKOFF: (Duration, Duration) = (Duration::from_secs(5), Duration::from_hours(1));
/// The maximum number of texts whose failures are remembered.
const MAX_DEFERRED: usize = 10_000;

/// The progress of embedding one store.
pub(super) struct Progress {
    /// Memories up to this version were processed in this round.
    cursor: u64,
    /// The number of texts in the next request.
    batch: usize,
    deferred: HashMap<u64, Deferral>,
    /// The number of consecutive failed texts.
    in_a_row: u32,
    /// The number of stored vectors.
    pub(super) stored: usize,
}

impl Default for Progress {
    fn default() -> Self {
        Self { cursor: 0, batch: MAX_BATCH_TEXTS, deferred: HashMap::new(), in_a_row: 0, stored: 0 }
    }
}

/// A text that failed alone.
struct Deferral {
    attempts: u32,
    until: Instant,
}

/// The outcome of one request.
pub(super) enum Step {
    /// There is nothing to do for now.
    Idle,
    /// Vectors were stored.
    Stored,
    /// The embedder refused a text permanently. It is stored as "no vector".
    Refused(EmbedError),
    /// All of these memories are deferred; the next ones may not be.
    Skipped,
    /// One of the texts is at fault. The next request is smaller.
    Split,
    /// One text failed alone, and is retried later.
    Deferred {
        error: EmbedError,
        /// The number of consecutive failed texts.
        in_a_row: u32,
    },
    /// The embedder is at fault.
    Failed {
        error: EmbedError,
        /// The delay that the embedder asked for, if it did.
        retry_after: Option<Duration>,
    },
}

/// Embeds the next memories of `store` that have no vector.
pub(super) async fn step(
    store: &dyn MemoryStore,
    embedder: &Arc<dyn Embedder>,
    progress: &mut Progress,
) -> Result<Step, StoreError> {
    let mut waiting = store.unembedded(embedder.model(), progress.cursor, MAX_BATCH_TEXTS).await?;
    let Some(last) = waiting.last().map(|one| one.version) else {
        let began = std::mem::take(&mut progress.cursor) == 0;
        if began {
            // Every memory has its vector, so the deferred ones are deleted or done.
            progress.deferred.clear();
        }
        return Ok(Step::Idle);
    };
    let now = Instant::now();
    waiting.retain(|one| progress.deferred.get(&one.version).is_none_or(|one| one.until <= now));
    // A text that failed before is sent alone, since it would fail a batch.
    match waiting.iter().position(|one| progress.deferred.contains_key(&one.version)) {
        Some(again) => waiting = vec![waiting.swap_remove(again)],
        None => waiting.truncate(progress.batch),
    }
    if waiting.is_empty() {
        progress.cursor = last;
        return Ok(Step::Skipped);
    }
    let (waiting, embedded) = call(embedder, move |embedder| {
        let texts: Vec<&str> = waiting.iter().map(|one| one.text.as_str()).collect();
        let embedded = embedder.embed(&texts);
        (waiting, embedded)
    })
    .await?;
    let error = match embedded {
        Ok(vectors) => {
            let versions = waiting.iter().map(|one| one.version);
            let vectors: Vec<_> = versions.zip(vectors).collect();
            return store_vectors(store, embedder, progress, &vectors).await;
        }
        Err(error) => error,
    };
    if let EmbedError::Empty { index } = error
        && let Some(one) = waiting.get(index)
    {
        return store_refusal(store, embedder, progress, one.version, error).await;
    }
    // An embedder that sends `Retry-After` is not checked before that time.
    if let retry_after @ Some(_) = error.retry_after() {
        return Ok(Step::Failed { error, retry_after });
    }
    if let Err(failed) = call(embedder, |embedder| embedder.check()).await? {
        return Ok(Step::Failed { error, retry_after: failed.retry_after() });
    }
    match &waiting[..] {
        [one] => handle_failed_text(store, embedder, progress, one, error).await,
        several => {
            progress.batch = several.len() / 2;
            Ok(Step::Split)
        }
    }
}

/// Calls the embedder on a blocking thread.
async fn call<T: Send + 'static>(
    embedder: &Arc<dyn Embedder>,
    call: impl FnOnce(&dyn Embedder) -> T + Send + 'static,
) -> Result<T, StoreError> {
    let embedder = Arc::clone(embedder);
    let called = blocking::run(move || call(&*embedder));
    called.await.map_err(|shutdown| StoreError::Engine(shutdown.into()))
}

/// Handles a text that failed alone while the embedder works.
async fn handle_failed_text(
    store: &dyn MemoryStore,
    embedder: &Arc<dyn Embedder>,
    progress: &mut Progress,
    one: &Unembedded,
    error: EmbedError,
) -> Result<Step, StoreError> {
    let attempts = progress.deferred.get(&one.version).map_or(0, |before| before.attempts) + 1;
    let refused = error.is_refusal_of_text();
    if refused || attempts >= TRUNCATE_AFTER {
        let again = match truncated(&one.text).map(str::to_owned) {
            Some(text) => Some(call(embedder, move |embedder| embedder.embed(&[&text])).await?),
            None => None,
        };
        match again {
            Some(Ok(vectors)) => {
                let vectors: Vec<_> =
                    vectors.into_iter().map(|vector| (one.version, vector)).collect();
                return store_vectors(store, embedder, progress, &vectors).await;
            }
            Some(Err(again)) if refused && again.is_refusal_of_text() => {
                return store_refusal(store, embedder, progress, one.version, again).await;
            }
            None if refused => {
                return store_refusal(store, embedder, progress, one.version, error).await;
            }
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

async fn store_vectors(
    store: &dyn MemoryStore,
    embedder: &Arc<dyn Embedder>,
    progress: &mut Progress,
    vectors: &[(u64, Vec<f32>)],
) -> Result<Step, StoreError> {
    store.put_vectors(embedder.model(), vectors).await?;
    for (version, _) in vectors {
        progress.deferred.remove(version);
    }
    progress.stored += vectors.len();
    progress.in_a_row = 0;
    progress.batch = (progress.batch * 2).min(MAX_BATCH_TEXTS);
    Ok(Step::Stored)
}

async fn store_refusal(
    store: &dyn MemoryStore,
    embedder: &Arc<dyn Embedder>,
    progress: &mut Progress,
    version: u64,
    error: EmbedError,
) -> Result<Step, StoreError> {
    let before = progress.batch;
    store_vectors(store, embedder, progress, &[(version, Vec::new())]).await?;
    // A refused text says nothing about the next batch size.
    progress.batch = before;
    Ok(Step::Refused(error))
}

/// Returns the beginning of a text that is longer than the limit.
fn truncated(text: &str) -> Option<&str> {
    text.char_indices().nth(TRUNCATED_TEXT_CHARS).map(|(end, _)| &text[..end])
}
