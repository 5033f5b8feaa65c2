//! Progress: a bar on a terminal while something takes long.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write as _},
    time::{Duration, Instant},
};

use super::{grouped, size};

/// How often it is drawn at most.
const EVERY: Duration = Duration::from_millis(100);
/// How many signs the bar has.
const SIGNS: u64 = 24;

/// How much of a known amount is done. It is drawn on a terminal and nowhere else.
pub(crate) struct Progress {
    what: &'static str,
    total: u64,
    drawn: Option<Instant>,
    terminal: bool,
}

/// How many bytes of a file or pipe are done. It is drawn on a terminal and nowhere else.
pub(crate) struct ByteProgress {
    what: &'static str,
    /// Unknown for a pipe.
    total: Option<u64>,
    began: Instant,
    drawn: Option<Instant>,
    terminal: bool,
}

impl ByteProgress {
    /// Nothing is done yet.
    pub(crate) fn new(what: &'static str, total: Option<u64>) -> Self {
        let terminal = io::stderr().is_terminal();
        Self { what, total, began: Instant::now(), drawn: None, terminal }
    }

    /// Begins the next step, over `total` bytes.
    pub(crate) fn next(&mut self, what: &'static str, total: u64) {
        (self.what, self.total) = (what, Some(total));
    }

    /// So many bytes are done. Nothing is drawn for what is over at once.
    pub(crate) fn at(&mut self, done: u64) {
        let last = self.drawn.unwrap_or(self.began);
        if !self.terminal || last.elapsed() < EVERY {
            return;
        }
        self.drawn = Some(Instant::now());
        let _ = write!(io::stderr(), "\r{}\u{1b}[K", byte_line(self.what, done, self.total));
    }

    /// Clears the line for other output.
    pub(crate) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

impl Drop for ByteProgress {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Progress {
    /// Nothing is done yet. The amount is asked for only where it is shown.
    pub(crate) fn new(what: &'static str, total: impl FnOnce() -> u64) -> Self {
        let terminal = io::stderr().is_terminal();
        let total = if terminal { total() } else { 0 };
        Self { what, total, drawn: None, terminal }
    }

    /// So much is done, which are so many things.
    pub(crate) fn at(&mut self, done: u64, things: u64) {
        if !self.terminal || self.drawn.is_some_and(|drawn| drawn.elapsed() < EVERY) {
            return;
        }
        self.drawn = Some(Instant::now());
        // Nobody is left to tell when even this cannot be printed.
        let _ = write!(io::stderr(), "\r{}\u{1b}[K", line(self.what, done, self.total, things));
    }

    /// Makes room for something else on the terminal.
    pub(crate) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn line(what: &str, done: u64, total: u64, things: u64) -> String {
    bar(what, done, total, &grouped(things))
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
    let full = (done * SIGNS).checked_div(total).unwrap_or(0);
    line.extend((0..SIGNS).map(|sign| if sign < full { '#' } else { '.' }));
    // A String takes everything: the result says nothing.
    let percent = (done * 100).checked_div(total).unwrap_or(0);
    let _ = write!(line, "] {percent:>3} %  {amount}");
    line
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
