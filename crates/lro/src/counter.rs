//! Counter: how many tokens a stored result would have taken, counted when it is out of the way.
//!
//! The decision to store a result needs to know only that it is large, so it counts no further than
//! that. What was saved is worth more care (f37), and time: a thread of its own reads what was stored
//! and counts all of it.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use lro_core::tokens::{self, Estimate, Method};
use lro_core::{Reference, Tokenizer};
use lro_spool::{OriginalError, PartNumber, PartRole, StoredResult, original, original_part};

use crate::event::{Event, EventKind, EventSink};
use crate::spools::Spools;

/// A payload up to this size is counted whole.
const WHOLE: u64 = 4 << 20;
/// How many wait to be counted at most: the estimate of any further one stands.
const QUEUE: usize = 256;

/// Counts stored results and tells of each.
#[derive(Debug)]
pub struct Counter {
    queue: Mutex<Option<SyncSender<ToCount>>>,
    done: Mutex<Receiver<()>>,
}

#[derive(Debug)]
struct ToCount {
    result: Reference,
    all_texts: bool,
    stored: DateTime<Utc>,
}

impl Counter {
    /// Counts what lies in `spools` with `tokenizer`, and tells `events`.
    pub fn start(
        spools: Spools,
        tokenizer: impl Tokenizer + Send + 'static,
        events: Arc<dyn EventSink>,
    ) -> std::io::Result<Self> {
        let (queue, waiting) = sync_channel::<ToCount>(QUEUE);
        let (finished, done): (Sender<()>, _) = channel();
        std::thread::Builder::new().name("token_counter".to_owned()).spawn(move || {
            for next in waiting {
                // What cannot be read keeps its estimate.
                if let Ok(Some(inline)) = count(&spools, &next, &tokenizer) {
                    let kind = EventKind::ResultCounted { inline };
                    events.publish(Event::new(next.stored, next.result.0, kind));
                }
            }
            drop(finished);
        })?;
        Ok(Self { queue: Mutex::new(Some(queue)), done: Mutex::new(done) })
    }

    /// Counts the result that `event` tells of, later.
    pub fn watch(&self, event: &Event) {
        let (Some(result), EventKind::ResultOffloaded { all_texts, .. }) =
            (event.result, &event.kind)
        else {
            return;
        };
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = &*queue {
            let next = ToCount { result, all_texts: *all_texts, stored: event.time };
            // Where there is no room for it, its estimate stands.
            let _ = queue.try_send(next);
        }
    }

    /// Takes no more, and waits until what there is has been counted, at most so long.
    pub fn finish(&self, most: Duration) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing is ever sent: it ends when the thread does, or the time is up.
        let _ = done.recv_timeout(most);
    }
}

fn count(
    spools: &Spools,
    next: &ToCount,
    tokenizer: &dyn Tokenizer,
) -> Result<Option<Estimate>, OriginalError> {
    let stored = spools.open(&next.result.0.into(), next.stored)?;
    let sidecar = &stored.listed().sidecar;
    let texts = sidecar.parts.iter().filter(|part| part.role == PartRole::Text);
    let size = sidecar.bytes + texts.map(|part| part.bytes).sum::<u64>();
    if size > WHOLE {
        return Ok(None);
    }
    let mut payload = Vec::new();
    original(&*stored, &mut payload)?;
    let Ok(payload) = String::from_utf8(payload) else { return Ok(None) };
    let mut all = tokens::count_all(&payload, tokenizer);
    if next.all_texts {
        for text in texts_of(&*stored)? {
            let more = tokens::count_all(&text, tokenizer);
            all.tokens.0 += more.tokens.0;
        }
    }
    Ok((all.method == Method::Counted).then_some(all))
}

/// The further texts of a result.
fn texts_of(stored: &dyn StoredResult) -> Result<Vec<String>, OriginalError> {
    let parts = stored.listed().sidecar.parts.iter().zip(1..);
    let texts = parts.filter(|(part, _)| part.role == PartRole::Text);
    texts
        .map(|(_, number)| {
            let mut text = Vec::new();
            original_part(stored, PartNumber(number), &mut text)?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        })
        .collect()
}
