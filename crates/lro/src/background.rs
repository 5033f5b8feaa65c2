//! Background threads: the token counter and the periodic cleanup.
//!
//! The decision to offload only needs to know that a result is large, so it stops counting at the
//! threshold. The saved tokens deserve an exact figure (f37): [`TokenCounter`] reads the stored result
//! later and counts all of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use chrono::{DateTime, Utc};
use lro_core::tokens::{Estimate, Method};
use lro_core::{Reference, Tokenizer, tokens};
use lro_spool::{PartRole, RestoreError, StoredResult, restore_payload, restore_text};

use super::event::{Event, EventKind, EventSink};
use super::offloader::Offloader;
use super::query::Spools;

/// Larger results are not counted; their estimate stays.
const MAX_COUNTED_BYTES: u64 = 4 << 20;
/// The length of the queue. If it is full, the estimate of a result stays.
const MAX_QUEUED: usize = 256;

/// Counts the tokens of stored results and publishes an event for each.
#[derive(Debug)]
pub struct TokenCounter {
    queue: Mutex<Option<SyncSender<CountJob>>>,
    done: Mutex<Receiver<()>>,
}

#[derive(Debug)]
struct CountJob {
    result: Reference,
    all_texts: bool,
    stored: DateTime<Utc>,
}

impl TokenCounter {
    /// Starts a thread that counts results in `spools` with `tokenizer` and publishes to `events`.
    pub fn start(
        spools: Spools,
        tokenizer: impl Tokenizer + Send + 'static,
        events: Arc<dyn EventSink>,
    ) -> std::io::Result<Self> {
        let (queue, jobs) = sync_channel::<CountJob>(MAX_QUEUED);
        let (finished, done): (Sender<()>, _) = channel();
        std::thread::Builder::new().name("token_counter".to_owned()).spawn(move || {
            for job in jobs {
                // A result that cannot be read keeps its estimate.
                if let Ok(Some(inline)) = count(&spools, &job, &tokenizer) {
                    let kind = EventKind::ResultCounted { inline };
                    events.publish(Event::new(job.stored, job.result.0, kind));
                }
            }
            drop(finished);
        })?;
        Ok(Self { queue: Mutex::new(Some(queue)), done: Mutex::new(done) })
    }

    /// Queues the result of a `ResultOffloaded` event; ignores other events.
    pub fn watch(&self, event: &Event) {
        let (Some(result), EventKind::ResultOffloaded { all_texts, .. }) =
            (event.result, &event.kind)
        else {
            return;
        };
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = &*queue {
            let job = CountJob { result, all_texts: *all_texts, stored: event.time };
            // If the queue is full, the estimate stays.
            let _ = queue.try_send(job);
        }
    }

    /// Closes the queue and waits until it is empty, for at most `timeout`.
    pub fn finish(&self, timeout: Duration) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing is ever sent: the channel closes when the thread ends.
        let _ = done.recv_timeout(timeout);
    }
}

fn count(
    spools: &Spools,
    job: &CountJob,
    tokenizer: &dyn Tokenizer,
) -> Result<Option<Estimate>, RestoreError> {
    let stored = spools.open(&job.result.0.into(), job.stored)?;
    let sidecar = &stored.listed().sidecar;
    let texts = sidecar.parts.iter().filter(|part| part.role != PartRole::Original);
    let size = sidecar.bytes + texts.map(|part| part.bytes).sum::<u64>();
    if size > MAX_COUNTED_BYTES {
        return Ok(None);
    }
    let mut payload = Vec::new();
    restore_payload(&*stored, &mut payload)?;
    let Ok(payload) = String::from_utf8(payload) else { return Ok(None) };
    let mut all = tokens::count_all(&payload, tokenizer);
    if job.all_texts {
        for text in further_texts(&*stored)? {
            let more = tokens::count_all(&text, tokenizer);
            all.tokens.0 += more.tokens.0;
        }
    }
    Ok((all.method == Method::Counted).then_some(all))
}

/// The further texts of a result.
fn further_texts(stored: &dyn StoredResult) -> Result<Vec<String>, RestoreError> {
    let mut texts = Vec::new();
    for number in 1.. {
        let mut text = Vec::new();
        if !restore_text(stored, number, &mut text)? {
            break;
        }
        texts.push(String::from_utf8_lossy(&text).into_owned());
    }
    Ok(texts)
}

/// Spec L2: the default interval of cleanup.
pub const CLEANUP_INTERVAL: Duration = Duration::from_hours(1);

/// A thread that sweeps immediately and then at every interval, until it is dropped. Dropping it
/// waits for the current sweep.
#[derive(Debug)]
pub struct MaintenanceTask {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MaintenanceTask {
    /// Starts a thread that sweeps the spool of `offloader`. `clock` returns the current time.
    pub fn start(
        offloader: Arc<Offloader>,
        interval: Duration,
        clock: impl Fn() -> DateTime<Utc> + Send + 'static,
    ) -> std::io::Result<Self> {
        // A failed sweep is repeated at the job interval.
        Self::every(interval, move || drop(offloader.sweep(clock())))
    }

    /// Starts a thread that calls `sweep` immediately and then at every interval.
    pub fn every(interval: Duration, sweep: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let thread =
            std::thread::Builder::new().name("offload_cleanup".to_owned()).spawn(move || {
                loop {
                    // A sweep that panicked is repeated at the job interval.
                    let _ = catch_unwind(AssertUnwindSafe(&sweep));
                    if stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
                        return;
                    }
                }
            })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for MaintenanceTask {
    fn drop(&mut self) {
        // The thread wakes when the sender is dropped.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
