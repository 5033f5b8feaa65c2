//! The threads that answer calls of extraction tools.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::spawn;
use crate::downstream::stdio::SharedLineWriter;
use crate::relay::Relay;
use crate::relay::local_tools::LocalToolCall;

/// The number of calls that run concurrently; the engines have their own limits.
const MAX_THREADS: usize = 4;

/// A thread pool that answers calls of extraction tools. Threads start when there are calls.
pub(super) struct LocalCallPool<W> {
    relay: Arc<Relay>,
    client: Arc<SharedLineWriter<W>>,
    calls: Sender<LocalToolCall>,
    queue: Arc<Mutex<Receiver<LocalToolCall>>>,
    /// The number of calls without a response.
    unanswered: Arc<AtomicUsize>,
    threads: AtomicUsize,
}

impl<W: Write + Send + 'static> LocalCallPool<W> {
    pub(super) fn new(relay: Arc<Relay>, client: Arc<SharedLineWriter<W>>) -> Self {
        let (calls, queue) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        let (unanswered, threads) = (Arc::default(), AtomicUsize::new(0));
        Self { relay, client, calls, queue, unanswered, threads }
    }

    /// Answers `call` as soon as a thread is free.
    pub(super) fn answer(&self, call: LocalToolCall) {
        let unanswered = self.unanswered.fetch_add(1, Ordering::AcqRel) + 1;
        if unanswered > self.threads.load(Ordering::Acquire) && unanswered <= MAX_THREADS {
            self.threads.fetch_add(1, Ordering::AcqRel);
            let (relay, client) = (self.relay.clone(), self.client.clone());
            let (queue, unanswered) = (self.queue.clone(), self.unanswered.clone());
            spawn("extract", move || work(&relay, &client, &queue, &unanswered));
        }
        // The receiver is a field of this value, so it exists.
        let _ = self.calls.send(call);
    }

    /// Waits until all calls are answered or the deadline has passed.
    pub(super) fn finish(&self, deadline: Instant) {
        while self.unanswered.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn work<W: Write + Send>(
    relay: &Relay,
    client: &SharedLineWriter<W>,
    queue: &Mutex<Receiver<LocalToolCall>>,
    unanswered: &AtomicUsize,
) {
    loop {
        let call = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(call) = call else { return };
        // The thread that reads from the client notices when the client is gone.
        relay.answer(&call, &|message| drop(client.line(message)));
        unanswered.fetch_sub(1, Ordering::AcqRel);
    }
}
