//! Progress bars and a spinner, drawn on standard error if it is a terminal.

use std::fmt::Write as _;
use std::io;
use std::io::{IsTerminal, Write as _};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{grouped, size};

/// The shortest time between two updates.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);
/// The width of the bar, in characters.
const BAR_WIDTH: u64 = 24;

/// A progress bar over items of a known total size.
pub(crate) struct Progress {
    what: &'static str,
    total: u64,
    last_drawn: Option<Instant>,
    is_terminal: bool,
}

/// A progress bar over the bytes of a file or pipe.
pub(crate) struct ByteProgress {
    what: &'static str,
    /// Unknown for a pipe.
    total: Option<u64>,
    started: Instant,
    last_drawn: Option<Instant>,
    is_terminal: bool,
}

impl ByteProgress {
    /// A bar at zero.
    pub(crate) fn new(what: &'static str, total: Option<u64>) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { what, total, started: Instant::now(), last_drawn: None, is_terminal }
    }

    /// Begins the next step, over `total` bytes.
    pub(crate) fn next(&mut self, what: &'static str, total: u64) {
        (self.what, self.total) = (what, Some(total));
    }

    /// Updates the bar. Work that ends within the redraw interval draws nothing.
    pub(crate) fn at(&mut self, done: u64) {
        let last = self.last_drawn.unwrap_or(self.started);
        if !self.is_terminal || last.elapsed() < REDRAW_INTERVAL {
            return;
        }
        self.last_drawn = Some(Instant::now());
        let _ = write!(io::stderr(), "\r{}\u{1b}[K", byte_line(self.what, done, self.total));
    }

    /// Clears the line for other output.
    pub(crate) fn clear(&mut self) {
        if self.last_drawn.take().is_some() {
            clear_line();
        }
    }
}

impl Drop for ByteProgress {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Progress {
    /// A bar at zero. `total` is computed only if the bar is drawn.
    pub(crate) fn new(what: &'static str, total: impl FnOnce() -> u64) -> Self {
        let is_terminal = io::stderr().is_terminal();
        let total = if is_terminal { total() } else { 0 };
        Self { what, total, last_drawn: None, is_terminal }
    }

    /// Whether the bar is drawn: standard error is a terminal.
    pub(crate) fn is_visible(&self) -> bool {
        self.is_terminal
    }

    /// Updates the bar to `done` of the total, and shows the number of items.
    pub(crate) fn at(&mut self, done: u64, items: u64) {
        let is_recent = self.last_drawn.is_some_and(|last| last.elapsed() < REDRAW_INTERVAL);
        if !self.is_terminal || is_recent {
            return;
        }
        self.last_drawn = Some(Instant::now());
        let _ = write!(io::stderr(), "\r{}\u{1b}[K", line(self.what, done, self.total, items));
    }

    /// Clears the line for other output.
    pub(crate) fn clear(&mut self) {
        if self.last_drawn.take().is_some() {
            clear_line();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Clears the current line of the terminal. Errors are ignored: progress is no data.
fn clear_line() {
    let _ = write!(io::stderr(), "\r\u{1b}[K");
}

fn line(what: &str, done: u64, total: u64, items: u64) -> String {
    bar(what, done, total, &grouped(items))
}

fn byte_line(what: &str, done: u64, total: Option<u64>) -> String {
    match total {
        Some(total) => bar(what, done, total, &size(done.min(total))),
        None => format!("{what}  {}", size(done)),
    }
}

fn bar(what: &str, done: u64, total: u64, amount: &str) -> String {
    let mut line = format!("{what} [");
    // A file may grow while it is read.
    let done = done.min(total);
    let full = (done * BAR_WIDTH).checked_div(total).unwrap_or(0);
    line.extend((0..BAR_WIDTH).map(|column| if column < full { '#' } else { '.' }));
    // Writing to a String cannot fail.
    let percent = (done * 100).checked_div(total).unwrap_or(0);
    let _ = write!(line, "] {percent:>3} %  {amount}");
    line
}

/// Shows the elapsed seconds until it is dropped.
pub(crate) struct Spinner {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    /// Starts the spinner. It appears after one second.
    pub(crate) fn start(what: &'static str) -> Self {
        if !io::stderr().is_terminal() {
            return Self { stop: None, thread: None };
        }
        let (stop, stopped) = channel();
        let started = Instant::now();
        let show = move || {
            let mut is_drawn = false;
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                is_drawn = true;
                let _ = write!(io::stderr(), "\r{what}\u{2026} {} s", started.elapsed().as_secs());
            }
            if is_drawn {
                clear_line();
            }
        };
        let thread = std::thread::Builder::new().spawn(show).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in it only affects what it draws.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g37_a_pipe_shows_its_bytes_and_a_file_its_share() {
        assert_eq!(byte_line("reading", 2_000_000, None), "reading  2.0 MB");
        let half = "storing [############............]  50 %  2.0 MB";
        assert_eq!(byte_line("storing", 2_000_000, Some(4_000_000)), half);
    }

    #[test]
    fn the_bar_fills() {
        assert_eq!(line("importing", 0, 0, 0), "importing [........................]   0 %  0");
        assert_eq!(line("i", 50, 100, 1500), "i [############............]  50 %  1,500");
        assert_eq!(line("i", 120, 100, 3), "i [########################] 100 %  3");
    }
}
