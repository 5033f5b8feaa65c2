//! Pool: a few threads that answer calls of our own tools, started when there is one.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::line_writer::SharedLineWriter;
use crate::local_tools::LocalToolCall;
use crate::relay::Relay;

/// Calls that run at the same time; the engines have bounds of their own.
const THREADS: usize = 4;

/// Answers calls beside the traffic.
pub(super) struct Pool<W> {
    relay: Arc<Relay>,
    client: Arc<SharedLineWriter<W>>,
    calls: Sender<LocalToolCall>,
    waiting: Arc<Mutex<Receiver<LocalToolCall>>>,
    /// Calls that are not answered yet.
    open: Arc<AtomicUsize>,
    threads: AtomicUsize,
}

impl<W: Write + Send + 'static> Pool<W> {
    pub(super) fn new(relay: Arc<Relay>, client: Arc<SharedLineWriter<W>>) -> Self {
        let (calls, waiting) = mpsc::channel();
        let waiting = Arc::new(Mutex::new(waiting));
        Self { relay, client, calls, waiting, open: Arc::default(), threads: AtomicUsize::new(0) }
    }

    /// Answers `call` as soon as a thread is free.
    pub(super) fn answer(&self, call: LocalToolCall) {
        let open = self.open.fetch_add(1, Ordering::AcqRel) + 1;
        if open > self.threads.load(Ordering::Acquire) && open <= THREADS {
            self.threads.fetch_add(1, Ordering::AcqRel);
            let (relay, client) = (self.relay.clone(), self.client.clone());
            let (waiting, open) = (self.waiting.clone(), self.open.clone());
            super::spawn("extract", move || work(&relay, &client, &waiting, &open));
        }
        // The receiver lives as long as we do.
        let _ = self.calls.send(call);
    }

    /// Waits until all calls are answered, or until then.
    pub(super) fn finish(&self, until: Instant) {
        while self.open.load(Ordering::Acquire) > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn work<W: Write + Send>(
    relay: &Relay,
    client: &SharedLineWriter<W>,
    waiting: &Mutex<Receiver<LocalToolCall>>,
    open: &AtomicUsize,
) {
    loop {
        let call = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(call) = call else { return };
        // A client that is gone will be noticed where it is read from.
        relay.answer(&call, &|message| drop(client.line(message)));
        open.fetch_sub(1, Ordering::AcqRel);
    }
}
