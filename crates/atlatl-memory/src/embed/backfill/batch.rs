//! One request to the embedder for memories of one store.
//!
//! The memories come from a store that this process alone embeds, or from a queue that processes
//! share. Only a text that the embedder refuses is stored as "no vector". Everything else is retried.
//! After a failed batch the embedder is checked. If the check fails, the embedder is at fault and
//! the batch waits. If it succeeds, one of the texts is at fault: the batch is halved until that
//! text is alone, and the text is deferred with its own backoff, so that it does not delay the
//! others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::blocking;
use crate::embed::{EmbedError, Embedder};
use crate::store::{EmbeddingClaim, EmbeddingQueue, MemoryStore, Release, StoreError, Unembedded};

/// The maximum number of memories in one request.
const MAX_BATCH_TEXTS: usize = 32;
/// The number of characters that even the smallest models accept.
const TRUNCATED_TEXT_CHARS: usize = 1000;
/// The number of failures after which a text is truncated, since some servers answer 500 to long
/// texts.
const TRUNCATE_AFTER: u32 = 3;
/// The first and the maximum delay before a failed text is retried.
const TEXT_BACKOFF: (Duration, Duration) = (Duration::from_secs(5), Duration::from_hours(1));
/// How long a worker may take for a claim: longer than two requests with their retries.
const CLAIM_LEASE: Duration = Duration::from_mins(3);
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

/// Where memories without a vector come from.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Store(&'a dyn MemoryStore),
    Queue(&'a dyn EmbeddingQueue),
}

impl<'a> Source<'a> {
    /// Takes the memories of the next request. Returns the step if there are none.
    async fn take(
        self,
        embedder: &Arc<dyn Embedder>,
        progress: &mut Progress,
    ) -> Result<Result<Batch<'a>, Step>, StoreError> {
        let (model, limit) = (embedder.model(), progress.batch);
        match self {
            Self::Store(store) => {
                let taken = progress.take(store, model).await?;
                Ok(taken.map(|(memories, attempts)| Batch {
                    origin: Origin::Store(store),
                    memories,
                    attempts,
                }))
            }
            Self::Queue(queue) => Ok(match queue.claim(model, limit, CLAIM_LEASE).await? {
                None => Err(Step::Idle),
                Some(mut claim) => {
                    let memories = std::mem::take(&mut claim.memories);
                    let attempts = claim.attempts;
                    Ok(Batch { origin: Origin::Claim(queue, claim), memories, attempts })
                }
            }),
        }
    }
}

/// The memories of one request.
struct Batch<'a> {
    origin: Origin<'a>,
    memories: Vec<Unembedded>,
    /// How often they failed. Memories that failed before are alone.
    attempts: u32,
}

enum Origin<'a> {
    Store(&'a dyn MemoryStore),
    Claim(&'a dyn EmbeddingQueue, EmbeddingClaim),
}

impl Origin<'_> {
    fn store(&self) -> &dyn MemoryStore {
        match self {
            Self::Store(store) => *store,
            Self::Claim(_, claim) => &*claim.store,
        }
    }

    /// Returns claimed memories to the queue. If that fails, their lease ends.
    async fn release(&self, model: &str, memories: impl Iterator<Item = u64>, release: Release) {
        if let Self::Claim(queue, claim) = self {
            let versions: Vec<u64> = memories.collect();
            if !versions.is_empty() {
                let _ = queue.release(model, claim, &versions, release).await;
            }
        }
    }
}

impl Progress {
    /// Takes the next memories of a store, and the number of their failures.
    async fn take(
        &mut self,
        store: &dyn MemoryStore,
        model: &str,
    ) -> Result<Result<(Vec<Unembedded>, u32), Step>, StoreError> {
        let mut waiting = store.unembedded(model, self.cursor, MAX_BATCH_TEXTS).await?;
        let Some(last) = waiting.last().map(|one| one.version) else {
            let began = std::mem::take(&mut self.cursor) == 0;
            if began {
                // Every memory has its vector, so the deferred ones are deleted or done.
                self.deferred.clear();
            }
            return Ok(Err(Step::Idle));
        };
        let now = Instant::now();
        waiting.retain(|one| self.deferred.get(&one.version).is_none_or(|one| one.until <= now));
        let mut attempts = 0;
        // A text that failed before is sent alone, since it would fail a batch.
        match waiting.iter().position(|one| self.deferred.contains_key(&one.version)) {
            Some(again) => {
                let again = waiting.swap_remove(again);
                attempts = self.deferred.get(&again.version).map_or(0, |before| before.attempts);
                waiting = vec![again];
            }
            None => waiting.truncate(self.batch),
        }
        if waiting.is_empty() {
            self.cursor = last;
            return Ok(Err(Step::Skipped));
        }
        Ok(Ok((waiting, attempts)))
    }
}

/// Embeds the next memories of `source` that have no vector.
pub(super) async fn step(
    source: Source<'_>,
    embedder: &Arc<dyn Embedder>,
    progress: &mut Progress,
) -> Result<Step, StoreError> {
    let Batch { origin, memories, attempts } = match source.take(embedder, progress).await? {
        Ok(batch) => batch,
        Err(step) => return Ok(step),
    };
    let (memories, embedded) = call(embedder, move |embedder| {
        let texts: Vec<&str> = memories.iter().map(|one| one.text.as_str()).collect();
        let embedded = embedder.embed(&texts);
        (memories, embedded)
    })
    .await?;
    let store = origin.store();
    let versions = || memories.iter().map(|one| one.version);
    let error = match embedded {
        Ok(vectors) => {
            let vectors: Vec<_> = versions().zip(vectors).collect();
            return store_vectors(store, embedder, progress, &vectors).await;
        }
        Err(error) => error,
    };
    let model = embedder.model();
    if let EmbedError::Empty { index } = error
        && let Some(one) = memories.get(index)
    {
        let refused = store_refusal(store, embedder, progress, one.version, error).await;
        let others = versions().filter(|version| *version != one.version);
        origin.release(model, others, Release::Unchanged).await;
        return refused;
    }
    // An embedder that sends `Retry-After` is not checked before that time.
    if let retry_after @ Some(_) = error.retry_after() {
        origin.release(model, versions(), Release::Unchanged).await;
        return Ok(Step::Failed { error, retry_after });
    }
    if let Err(failed) = call(embedder, |embedder| embedder.check()).await? {
        origin.release(model, versions(), Release::Unchanged).await;
        return Ok(Step::Failed { error, retry_after: failed.retry_after() });
    }
    match &memories[..] {
        [one] => handle_failed_text(&origin, embedder, progress, (one, attempts + 1), error).await,
        several => {
            progress.batch = several.len() / 2;
            origin.release(model, versions(), Release::Unchanged).await;
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

/// Handles a text that failed alone while the embedder works, for the `attempts`-th time.
async fn handle_failed_text(
    origin: &Origin<'_>,
    embedder: &Arc<dyn Embedder>,
    progress: &mut Progress,
    (one, attempts): (&Unembedded, u32),
    error: EmbedError,
) -> Result<Step, StoreError> {
    let store = origin.store();
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
    let pause = TEXT_BACKOFF.0 * 2_u32.saturating_pow(attempts - 1).min(1 << 16);
    let retry_after = pause.min(TEXT_BACKOFF.1);
    match origin {
        Origin::Claim(..) => {
            let release = Release::Failed { retry_after };
            origin.release(embedder.model(), std::iter::once(one.version), release).await;
        }
        Origin::Store(_) => {
            if progress.deferred.len() >= MAX_DEFERRED {
                progress.deferred.clear();
            }
            let until = Instant::now() + retry_after;
            progress.deferred.insert(one.version, Deferral { attempts, until });
        }
    }
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
