//! Progress: a bar on a terminal while something takes long.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write as _},
    time::{Duration, Instant},
};

use super::grouped;

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
    let mut line = format!("{what} [");
    // A file may grow while it is read.
    let done = done.min(total);
    let full = (done * SIGNS).checked_div(total).unwrap_or(0);
    line.extend((0..SIGNS).map(|sign| if sign < full { '#' } else { '.' }));
    // A String takes everything: the result says nothing.
    let percent = (done * 100).checked_div(total).unwrap_or(0);
    let _ = write!(line, "] {percent:>3} %  {}", grouped(things));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills() {
        assert_eq!(line("importing", 0, 0, 0), "importing [........................]   0 %  0");
        assert_eq!(line("i", 50, 100, 1500), "i [############............]  50 %  1,500");
        assert_eq!(line("i", 120, 100, 3), "i [########################] 100 %  3");
    }
}
