//! Waiting: a sign of life on a terminal while something takes long.

use std::{
    io::{self, IsTerminal, Write as _},
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Shows how long it has been, until it is dropped.
pub(crate) struct Waiting {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Waiting {
    /// Starts to show it, after the first second and only on a terminal.
    pub(crate) fn start(what: &'static str) -> Self {
        if !io::stderr().is_terminal() {
            return Self { stop: None, thread: None };
        }
        let (stop, stopped) = channel();
        let started = Instant::now();
        let show = move || {
            let mut shown = false;
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                shown = true;
                // Nobody is left to tell when even this cannot be printed.
                let _ = write!(io::stderr(), "\r{what}\u{2026} {} s", started.elapsed().as_secs());
            }
            if shown {
                let _ = write!(io::stderr(), "\r\u{1b}[K");
            }
        };
        let thread = std::thread::Builder::new().spawn(show).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It only printed.
            let _ = thread.join();
        }
    }
}
