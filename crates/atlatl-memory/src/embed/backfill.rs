//! Background embedding of memories that have no vector yet, so that no write waits for a model.
//!
//! A few tasks serve every store of the process. Processes that share a database take memories
//! from its queue, so that each is embedded once. A failure of the embedder pauses all tasks, because
//! the stores share the embedder. It is retried forever with backoff.

mod batch;

use std::collections::HashMap;
use std::error::Error;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::timeout;

use self::batch::{Progress, Source, Step};
use super::{EmbedError, Embedder};
use crate::blocking;
use crate::store::{EmbeddingQueue, MemoryStore, StoreError};

/// The interval at which a store or queue is polled without a notification, since another process may have
/// written.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The minimum time between two such polls of the pool, for any number of stores.
const POLL_SPACING: Duration = Duration::from_millis(200);
/// The first and the maximum pause after the embedder failed.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// The maximum `Retry-After` that is respected.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);
/// The minimum time between two reports of refused texts.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);

/// A state change of the backfill, reported once.
#[derive(Debug)]
#[non_exhaustive]
pub enum BackfillEvent<'a> {
    /// The embedder failed. No vectors are made until it works again; it is retried with backoff.
    Paused {
        /// The error.
        error: &'a EmbedError,
    },
    /// The embedder works again.
    Resumed,
    /// Memories were stored without a vector, because the embedder refused their texts.
    Refused {
        /// The number since the last report.
        memories: u64,
        /// The last refusal.
        error: &'a EmbedError,
    },
    /// A store failed. It is retried with backoff.
    StoreFailed {
        /// The error.
        error: &'a (dyn Error + 'static),
    },
}

/// Makes the missing vectors of every registered store in tasks of the runtime. Cheap to clone. The
/// tasks end when the last clone and the last [`BackfillQueue`] are dropped, without waiting for a
/// running call of the model.
#[derive(Clone)]
pub struct EmbeddingBackfill(Arc<Owner>);

/// A registered store or queue. It is unregistered on drop.
pub struct BackfillQueue {
    owner: Arc<Owner>,
    id: u64,
    /// Whether the queue was registered for all stores of the database, and outlives this.
    is_borrowed: bool,
}

/// Stops the tasks on drop. The tasks share the state but not this.
struct Owner(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Notify,
    workers: usize,
}

#[derive(Default)]
struct State {
    stopped: bool,
    queues: HashMap<u64, Queue>,
    next_id: u64,
    /// Set while the embedder fails.
    outage: Option<Outage>,
    polled_at: Option<Instant>,
    /// Whether the failure of a store was reported and nothing succeeded since.
    store_failed: bool,
    refused: u64,
    refused_reported_at: Option<Instant>,
}

struct Queue {
    texts: TextSource,
    /// The progress of the tasks that may work on it and do not.
    idle: Vec<Progress>,
    due: Instant,
    /// Whether the next run is a poll, without a notification.
    poll: bool,
    /// The number of notifications.
    notified: u64,
    backoff: Duration,
}

/// Where memories without a vector come from.
#[derive(Clone)]
enum TextSource {
    /// A store, on which one task works at a time.
    Store(Arc<dyn MemoryStore>),
    /// A queue, from which all tasks take.
    Queue(Arc<dyn EmbeddingQueue>),
}

impl TextSource {
    fn from_store(store: Arc<dyn MemoryStore>) -> Self {
        store.embedding_queue().map_or(Self::Store(store), Self::Queue)
    }

    fn as_source(&self) -> Source<'_> {
        match self {
            Self::Store(store) => Source::Store(&**store),
            Self::Queue(queue) => Source::Queue(&**queue),
        }
    }

    /// Returns whether this queue includes everything of `other`.
    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Queue(this), Self::Queue(other)) => {
                this.is_shared() && this.database() == other.database()
            }
            _ => false,
        }
    }
}

struct Outage {
    retry_at: Instant,
    backoff: Duration,
    /// Whether a task is checking the embedder.
    checking: bool,
}

/// The next job of a task.
enum Job {
    Check,
    Embed { run: Run, texts: TextSource, progress: Progress },
}

/// A run of a task for a queue.
#[derive(Clone, Copy)]
struct Run {
    /// The queue.
    id: u64,
    /// The number of notifications of the queue when the run began.
    notified: u64,
}

type Report = Arc<dyn Fn(BackfillEvent<'_>) + Send + Sync>;

impl EmbeddingBackfill {
    /// Starts `workers` tasks over `embedder`, each of which uses one blocking thread. `report`
    /// receives state changes. Fails without a runtime.
    #[expect(clippy::needless_pass_by_value, reason = "the tasks share what is handed over")]
    pub fn start(
        embedder: Arc<dyn Embedder>,
        workers: usize,
        report: impl Fn(BackfillEvent<'_>) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let runtime = Handle::try_current().map_err(std::io::Error::other)?;
        let workers = workers.max(1);
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Notify::new(), workers });
        let owner = Arc::new(Owner(Arc::clone(&shared)));
        let report: Report = Arc::new(report);
        for _ in 0..workers {
            let (shared, embedder) = (Arc::clone(&shared), Arc::clone(&embedder));
            let report = Arc::clone(&report);
            runtime.spawn(async move { run(&shared, &embedder, &report).await });
        }
        Ok(Self(owner))
    }

    /// Registers a store. Its missing vectors are made from now on. If the queue of its database is
    /// registered, that is used.
    pub fn register(&self, store: Arc<dyn MemoryStore>) -> BackfillQueue {
        let texts = TextSource::from_store(store);
        let mut state = self.0.0.lock();
        let including = state.queues.iter().find(|(_, queue)| queue.texts.includes(&texts));
        if let Some((&id, _)) = including {
            return BackfillQueue { owner: Arc::clone(&self.0), id, is_borrowed: true };
        }
        let id = state.insert(texts, self.0.0.workers);
        drop(state);
        self.0.0.changed.notify_one();
        BackfillQueue { owner: Arc::clone(&self.0), id, is_borrowed: false }
    }

    /// Registers the queue of a database. The missing vectors of all its stores are made from now
    /// on.
    pub fn register_queue(&self, queue: Arc<dyn EmbeddingQueue>) -> BackfillQueue {
        let id = self.0.0.lock().insert(TextSource::Queue(queue), self.0.0.workers);
        self.0.0.changed.notify_one();
        BackfillQueue { owner: Arc::clone(&self.0), id, is_borrowed: false }
    }
}

impl BackfillQueue {
    /// Notifies the pool that the store has new memories.
    pub fn notify(&self) {
        let mut state = self.owner.0.lock();
        if let Some(queue) = state.queues.get_mut(&self.id) {
            queue.due = Instant::now();
            queue.poll = false;
            queue.notified += 1;
        }
        drop(state);
        self.owner.0.changed.notify_one();
    }
}

impl Drop for BackfillQueue {
    fn drop(&mut self) {
        if self.is_borrowed {
            return;
        }
        let gone = self.owner.0.lock().queues.remove(&self.id);
        // Outside the lock, because the store may be dropped with it.
        drop(gone);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.lock().stopped = true;
        self.0.changed.notify_waiters();
    }
}

impl std::fmt::Debug for EmbeddingBackfill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddingBackfill").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for BackfillQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackfillQueue").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next job. Returns `None` when the tasks are stopped.
    async fn next(&self) -> Option<Job> {
        loop {
            // Registered before the state is read, so that no notification is missed.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let now = Instant::now();
            let due = {
                let mut state = self.lock();
                if state.stopped {
                    return None;
                }
                match state.job(now) {
                    Ok(job) => return Some(job),
                    Err(due) => due,
                }
            };
            match due.map(|due| due.saturating_duration_since(now)) {
                None => changed.await,
                Some(pause) => {
                    let _ = timeout(pause.max(Duration::from_millis(1)), changed).await;
                }
            }
        }
    }

    /// Pauses the pool because the embedder failed. Returns whether it was running.
    fn pause(&self, retry_after: Option<Duration>) -> bool {
        let mut state = self.lock();
        let is_change = state.outage.is_none();
        let backoff = state.outage.as_ref().map_or(BACKOFF.0, |outage| outage.backoff);
        let retry_after = retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
        state.outage = Some(Outage {
            retry_at: Instant::now() + backoff.max(retry_after),
            backoff: (backoff * 2).min(BACKOFF.1),
            checking: false,
        });
        is_change
    }

    fn resume(&self) {
        self.lock().outage = None;
        self.changed.notify_waiters();
    }

    /// Ends a run. The queue is due in `after`, unless it was notified meanwhile.
    fn put_back(&self, run: Run, progress: Progress, after: Duration, poll: bool, failed: bool) {
        let mut state = self.lock();
        if !failed {
            state.store_failed = false;
        }
        let Some(queue) = state.queues.get_mut(&run.id) else { return };
        queue.idle.push(progress);
        queue.backoff = if failed { (queue.backoff * 2).min(BACKOFF.1) } else { BACKOFF.0 };
        if queue.notified == run.notified {
            queue.due = Instant::now() + after;
            queue.poll = poll;
        }
        drop(state);
        self.changed.notify_one();
    }
}

impl State {
    /// Adds a queue for `workers` tasks, and returns its id.
    fn insert(&mut self, texts: TextSource, workers: usize) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let tasks = match texts {
            TextSource::Store(_) => 1,
            TextSource::Queue(_) => workers,
        };
        let queue = Queue {
            texts,
            idle: (0..tasks).map(|_| Progress::default()).collect(),
            due: Instant::now(),
            poll: false,
            notified: 0,
            backoff: BACKOFF.0,
        };
        self.queues.insert(id, queue);
        id
    }

    /// Returns the next task, or the time when there may be one.
    fn job(&mut self, now: Instant) -> Result<Job, Option<Instant>> {
        if let Some(outage) = &mut self.outage {
            return match outage.checking {
                true => Err(None),
                false if outage.retry_at > now => Err(Some(outage.retry_at)),
                false => {
                    outage.checking = true;
                    Ok(Job::Check)
                }
            };
        }
        let spaced = self.polled_at.map(|at| at + POLL_SPACING);
        let due = |queue: &Queue| match spaced {
            Some(spaced) if queue.poll => queue.due.max(spaced),
            _ => queue.due,
        };
        let idle = self.queues.iter_mut().filter(|(_, queue)| !queue.idle.is_empty());
        let Some((&id, queue)) = idle.min_by_key(|(_, queue)| due(queue)) else { return Err(None) };
        let at = due(queue);
        if at > now {
            return Err(Some(at));
        }
        if queue.poll {
            self.polled_at = Some(now);
            // One task polls. The others follow if it finds something.
            queue.due = now + POLL_INTERVAL;
        }
        let progress = queue.idle.pop().unwrap_or_default();
        let run = Run { id, notified: queue.notified };
        Ok(Job::Embed { run, texts: queue.texts.clone(), progress })
    }
}

async fn run(shared: &Shared, embedder: &Arc<dyn Embedder>, report: &Report) {
    while let Some(job) = shared.next().await {
        match job {
            Job::Check => {
                let checked = Arc::clone(embedder);
                match catch_panic(blocking::run(move || checked.check())).await {
                    Ok(Ok(Ok(()))) => {
                        shared.resume();
                        report(BackfillEvent::Resumed);
                    }
                    Ok(Ok(Err(error))) => drop(shared.pause(error.retry_after())),
                    // It panicked, or the runtime shuts down.
                    Ok(Err(_)) | Err(_) => drop(shared.pause(None)),
                }
            }
            Job::Embed { run, texts, mut progress } => {
                let step = batch::step(texts.as_source(), embedder, &mut progress);
                match catch_panic(step).await {
                    Ok(Ok(step)) => handle_step(shared, report, run, progress, step),
                    Ok(Err(error)) => store_failed(shared, report, run, progress, &error),
                    Err(panic) => store_failed(shared, report, run, Progress::default(), &panic),
                }
            }
        }
    }
}

/// Handles the outcome of a batch.
fn handle_step(shared: &Shared, report: &Report, run: Run, progress: Progress, step: Step) {
    match step {
        Step::Idle => shared.put_back(run, progress, POLL_INTERVAL, true, false),
        Step::Stored | Step::Skipped | Step::Split => {
            shared.put_back(run, progress, Duration::ZERO, false, false);
        }
        Step::Refused(error) => {
            shared.put_back(run, progress, Duration::ZERO, false, false);
            report_refusal(shared, report, &error);
        }
        // Throttles an embedder that fails on every text but passes its check.
        Step::Deferred { in_a_row, .. } => {
            let pause = Duration::from_millis(250) * in_a_row.saturating_sub(1).min(40);
            shared.put_back(run, progress, pause, false, false);
        }
        Step::Failed { error, retry_after } => {
            // Before the queue is returned, so that no other task calls the embedder.
            let is_change = shared.pause(retry_after);
            shared.put_back(run, progress, Duration::ZERO, false, false);
            if is_change {
                report(BackfillEvent::Paused { error: &error });
            }
        }
    }
}

fn report_refusal(shared: &Shared, report: &Report, error: &EmbedError) {
    let memories = {
        let mut state = shared.lock();
        state.refused += 1;
        let now = Instant::now();
        if state.refused_reported_at.is_some_and(|at| now - at < REPORT_INTERVAL) {
            return;
        }
        state.refused_reported_at = Some(now);
        std::mem::take(&mut state.refused)
    };
    report(BackfillEvent::Refused { memories, error });
}

fn store_failed(
    shared: &Shared,
    report: &Report,
    run: Run,
    progress: Progress,
    error: &(dyn Error + 'static),
) {
    let (is_change, backoff) = {
        let mut state = shared.lock();
        let is_change = !std::mem::replace(&mut state.store_failed, true);
        (is_change, state.queues.get(&run.id).map_or(BACKOFF.0, |queue| queue.backoff))
    };
    shared.put_back(run, progress, backoff, false, true);
    if is_change {
        report(BackfillEvent::StoreFailed { error });
    }
}

/// A panic of a store or an embedder.
#[derive(Debug, thiserror::Error)]
#[error("embedding a batch of memories panicked")]
struct EmbeddingPanic;

/// Runs `work` and catches panics. One panic must not end the embedding of other stores.
async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, EmbeddingPanic> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| EmbeddingPanic)
}

/// Embeds the next memories without a vector, without retries. Returns the number of stored
/// vectors.
pub async fn embed_missing(
    store: &dyn MemoryStore,
    embedder: &Arc<dyn Embedder>,
) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let queue = store.embedding_queue();
    let source = queue.as_deref().map_or(Source::Store(store), Source::Queue);
    let mut progress = Progress::default();
    loop {
        let before = progress.stored;
        let step = batch::step(source, embedder, &mut progress).await;
        match step.map_err(Box::<StoreError>::new)? {
            Step::Idle => return Ok(0),
            Step::Stored | Step::Refused(_) => return Ok(progress.stored - before),
            Step::Skipped | Step::Split => {}
            Step::Deferred { error, .. } | Step::Failed { error, .. } => return Err(error.into()),
        }
    }
}
