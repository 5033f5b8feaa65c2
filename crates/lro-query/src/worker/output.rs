//! Writes the values of a result to the parent, within a budget.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;

use super::protocol::{DONE, Done, FAULT, Fault, LINES, write_frame};
use crate::answer::Window;

/// Gives on what fits, counts what does not, and gives up counting in time.
pub(crate) struct Emit {
    out: File,
    window: Window,
    /// The bytes an answer may have.
    output: u64,
    /// Those given so far.
    written: u64,
    /// What may still be counted beyond the window or the limit.
    flood: Flood,
    /// A value of the window did not fit: none behind it may be given.
    full: bool,
    seen: u64,
    given: u64,
    /// Whether every value so far was null, or a list of nothing else.
    only_null: bool,
    buffer: Vec<u8>,
}

/// Counting goes on over this many times the output and twice what was read: as far as any filter
/// goes that gives a value or two per record, and not so far that one without end runs into the
/// clock. Measured by what was read and made and not by time, so that an answer depends on the data
/// alone (N6).
const COUNTED: u64 = 16;
const PER_RECORD: u64 = 2;

/// What a value weighs beside its bytes: small ones take time as well.
const WEIGHT: u64 = 64;

const BUFFER: usize = 64 * 1024;

impl Emit {
    pub(super) fn new(out: File, window: Window, output: u64) -> Self {
        Self {
            out,
            window,
            output,
            written: 0,
            flood: Flood { left: output.saturating_mul(COUNTED) },
            full: false,
            seen: 0,
            given: 0,
            only_null: true,
            buffer: Vec::new(),
        }
    }

    /// When to stop making values, for whoever makes many before they are taken here.
    #[cfg(feature = "jq")]
    pub(crate) fn flood(&self) -> Flood {
        Flood { left: self.output.saturating_mul(COUNTED) }
    }

    /// Takes note of what was read: so much more may be counted.
    pub(crate) fn read(&mut self, records: u64, bytes: u64) {
        self.flood.read(records, bytes);
    }

    /// Takes a value without its line break. `Break` once enough was counted.
    pub(crate) fn value(&mut self, line: &[u8]) -> io::Result<ControlFlow<()>> {
        let number = self.seen;
        self.seen += 1;
        self.only_null = self.only_null && line.iter().all(|byte| b"null[],".contains(byte));
        if number < self.window.offset {
            return Ok(ControlFlow::Continue(()));
        }
        let bytes = line.len() as u64 + 1;
        let wanted = self.window.limit.is_none_or(|limit| self.given < limit);
        if wanted && !self.full && self.written + bytes <= self.output {
            self.written += bytes;
            self.given += 1;
            self.buffer.extend_from_slice(line);
            self.buffer.push(b'\n');
            if self.buffer.len() >= BUFFER {
                self.flush()?;
            }
            return Ok(ControlFlow::Continue(()));
        }
        self.full |= wanted;
        Ok(if self.flood.rises(line.len()) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    /// Whether the first wanted value did not fit.
    fn is_stuck(&self) -> bool {
        self.full && self.given == 0
    }

    /// How many values there were so far.
    #[cfg(feature = "jq")]
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether there was no value so far that says anything.
    #[cfg(feature = "jq")]
    pub(crate) fn says_nothing(&self) -> bool {
        self.only_null
    }

    /// Ends the answer. `counted` says whether all values were seen.
    pub(super) fn finish(mut self, mut done: Done, counted: bool) -> io::Result<()> {
        if self.is_stuck() {
            return self.fault(Fault::Output);
        }
        self.flush()?;
        done.given = self.given;
        done.total = counted.then_some(self.seen);
        write_frame(&mut self.out, DONE, &serde_json::to_vec(&done.cut())?)
    }

    /// Ends without an answer.
    pub(super) fn fault(mut self, fault: Fault) -> io::Result<()> {
        write_frame(&mut self.out, FAULT, &serde_json::to_vec(&fault.cut())?)
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            write_frame(&mut self.out, LINES, &self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// More values than anyone will count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flood {
    left: u64,
}

impl Flood {
    /// Takes note of what was read.
    pub(crate) fn read(&mut self, records: u64, bytes: u64) {
        let weight = records.saturating_mul(WEIGHT).saturating_add(bytes);
        self.left = self.left.saturating_add(weight.saturating_mul(PER_RECORD));
    }

    /// Takes note of a value; whether it was one too many.
    pub(crate) fn rises(&mut self, bytes: usize) -> bool {
        let weight = bytes as u64 + WEIGHT;
        let over = weight > self.left;
        self.left = self.left.saturating_sub(weight);
        over
    }
}
