//! The output of the command while it runs: in memory, then in a log, or passed through.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lro_spool::{OutputLog, OutputStream, SpoolError};

use super::scanner::Scanner;
use super::sink::Sinks;
use super::wiring::Shown;
use crate::error::with_causes;
use crate::stored_output::{Outcome, OutputCall, OutputStore, StoredOutput};

/// The bytes of output that are held in memory.
const MAX_MEMORY_BYTES: usize = 64 * 1024;
/// The size of the buffer that is read into: what a CPU cache holds while it is written and examined.
const BUFFER_BYTES: usize = 256 * 1024;
/// The bytes of output that are examined at a time: a hand-over to the thread that does it costs more
/// than a small read.
const MIN_EXAMINED_BYTES: usize = 128 * 1024;
/// How long output is held in memory only. Most commands are shorter, and need no file.
const MAX_MEMORY_TIME: Duration = Duration::from_millis(50);

/// The error of an output that a panic prevented from being stored.
const PANIC_MESSAGE: &str = "internal error: storing the output panicked";

/// The output of a command.
pub(super) struct Capture<'a> {
    store: &'a OutputStore<'a>,
    call: OutputCall<'a>,
    shown: Shown,
    held: Held,
    /// The buffer that is read into. The first `filled` bytes are in the log, and wait to be examined.
    buffer: Vec<u8>,
    filled: usize,
    /// When the first output arrived.
    since: Option<Instant>,
    /// The bytes of the output so far.
    total: u64,
    /// Why the output is not in a log.
    failure: Option<SpoolError>,
    /// Whether the log stays, because a part of the output could not be printed.
    is_log_kept: bool,
}

/// Where the output is.
enum Held {
    Memory(Memory),
    Log(Box<Logged>),
    /// It was printed, or cannot be stored and is only shown.
    Nowhere,
}

/// Output in memory, with the stream and the length of each run.
#[derive(Default)]
struct Memory {
    bytes: Vec<u8>,
    runs: Vec<(OutputStream, usize)>,
}

/// Output in a log, with the first pass over it.
struct Logged {
    log: OutputLog,
    scanner: Scanner,
}

/// What became of the output.
pub(super) enum Ending {
    /// It was printed unchanged.
    Printed,
    /// It could not be printed. The log stays, for `atlatl results`.
    Kept,
    /// It is stored, and a descriptor is due.
    Stored(Box<StoredOutput>, Arc<OutputLog>),
}

impl<'a> Capture<'a> {
    pub(super) fn new(store: &'a OutputStore<'a>, call: OutputCall<'a>, shown: Shown) -> Self {
        Self {
            store,
            call,
            shown,
            held: Held::Memory(Memory::default()),
            buffer: vec![0; BUFFER_BYTES],
            filled: 0,
            since: None,
            total: 0,
            failure: None,
            is_log_kept: false,
        }
    }

    /// The space for the next bytes of the output.
    pub(super) fn space(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }

    /// Takes the first `read` bytes of [`space`](Self::space), which the command wrote to `stream`.
    pub(super) fn take(&mut self, stream: OutputStream, read: usize, sinks: &mut Sinks) {
        let end = self.filled + read;
        let bytes = &self.buffer[self.filled..end];
        if self.shown == Shown::Live {
            sinks.write(stream, bytes);
        }
        self.since.get_or_insert_with(Instant::now);
        self.total += read as u64;
        match &mut self.held {
            Held::Memory(memory) => {
                memory.push(stream, bytes);
                if memory.bytes.len() > MAX_MEMORY_BYTES {
                    self.save(sinks);
                }
            }
            Held::Log(logged) => {
                // A log that will be deleted needs no writeback: a killed process loses nothing that
                // is in the page cache.
                logged.log.defer_sync(logged.scanner.is_json_lines());
                match logged.log.append(stream, bytes) {
                    Ok(()) => {
                        self.filled = end;
                        if end >= MIN_EXAMINED_BYTES {
                            self.examine();
                        }
                    }
                    Err(error) => {
                        self.failure = Some(error);
                        self.pass_through(sinks);
                        self.print(stream, &self.buffer[self.filled..end], sinks);
                        self.filled = 0;
                    }
                }
            }
            Held::Nowhere => self.print(stream, bytes, sinks),
        }
    }

    /// Examines the bytes that wait for it.
    fn examine(&mut self) {
        if let Held::Log(logged) = &mut self.held
            && self.filled > 0
        {
            logged.scanner.feed_buffer(&mut self.buffer, self.filled);
        }
        self.filled = 0;
    }

    /// The time until the output in memory must be saved, if there is any.
    pub(super) fn save_timeout(&self) -> Option<Duration> {
        match (&self.held, self.since) {
            (Held::Memory(_), Some(since)) => Some(MAX_MEMORY_TIME.saturating_sub(since.elapsed())),
            _ => None,
        }
    }

    /// Saves the output in memory to a log if its time is up.
    pub(super) fn save_if_due(&mut self, sinks: &mut Sinks) {
        if self.save_timeout().is_some_and(|left| left.is_zero()) {
            self.save(sinks);
        }
    }

    /// Moves the output from memory to a log, so that it survives this process.
    fn save(&mut self, sinks: &mut Sinks) {
        let Held::Memory(memory) = &self.held else { return };
        match memory.save(self.store) {
            Ok(logged) => self.held = Held::Log(Box::new(logged)),
            Err(error) => {
                self.failure = Some(error);
                self.pass_through(sinks);
            }
        }
    }

    /// Prints the output so far, and everything that follows.
    fn pass_through(&mut self, sinks: &mut Sinks) {
        let held = std::mem::replace(&mut self.held, Held::Nowhere);
        if self.shown == Shown::Live {
            return;
        }
        match held {
            Held::Memory(memory) => memory.print(sinks),
            Held::Log(logged) => self.print_log(&logged.log, sinks),
            Held::Nowhere => {}
        }
    }

    /// Prints a log, and keeps it if a part of it could not be printed.
    fn print_log(&mut self, log: &OutputLog, sinks: &mut Sinks) {
        if self.shown == Shown::Live {
            return;
        }
        sinks.write_log(log);
        if sinks.failure().is_some() {
            log.keep();
            self.is_log_kept = true;
        }
    }

    fn print(&self, stream: OutputStream, bytes: &[u8], sinks: &mut Sinks) {
        if self.shown == Shown::AtEnd {
            sinks.write(stream, bytes);
        }
    }

    fn len(&self) -> u64 {
        match &self.held {
            Held::Memory(memory) => memory.bytes.len() as u64,
            Held::Log(logged) => logged.log.len(),
            Held::Nowhere => 0,
        }
    }

    /// Whether the output is printed unchanged. Of output in a log, only its size is considered.
    fn is_inline(&self) -> bool {
        let bytes = self.len();
        if bytes == 0 || self.store.is_always_inline(self.call, bytes) {
            return true;
        }
        let Held::Memory(memory) = &self.held else { return false };
        let decide = AssertUnwindSafe(|| self.store.is_inline(self.call, &memory.bytes));
        catch_unwind(decide).unwrap_or(false)
    }

    /// Decides about the output, and prints it unless it was stored.
    pub(super) fn finish(mut self, sinks: &mut Sinks) -> Ending {
        if self.is_inline() {
            self.pass_through(sinks);
            return self.printed();
        }
        self.save(sinks);
        self.examine();
        let Held::Log(logged) = std::mem::replace(&mut self.held, Held::Nowhere) else {
            return self.printed();
        };
        let Logged { log, scanner } = *logged;
        let log = Arc::new(log);
        let offload =
            AssertUnwindSafe(|| self.store.offload_log(self.call, &log, scanner.finish()));
        // A panic costs the descriptor, never the output. Its report is on standard error.
        let outcome = catch_unwind(offload).unwrap_or_else(|_| {
            self.store.publish_failure(self.call, PANIC_MESSAGE.to_owned());
            Outcome::Failed
        });
        match outcome {
            Outcome::Offloaded(stored) => Ending::Stored(stored, log),
            Outcome::Unchanged | Outcome::Failed => {
                self.print_log(&log, sinks);
                self.printed()
            }
        }
    }

    /// The ending of an output that is not stored.
    fn printed(&self) -> Ending {
        if let Some(error) = &self.failure
            && !self.store.is_always_inline(self.call, self.total)
        {
            self.store.publish_failure(self.call, with_causes(error));
        }
        if self.is_log_kept { Ending::Kept } else { Ending::Printed }
    }
}

impl Memory {
    fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        match self.runs.last_mut() {
            Some((last, length)) if *last == stream => *length += bytes.len(),
            _ => self.runs.push((stream, bytes.len())),
        }
    }

    /// The runs with their bytes.
    fn pieces(&self) -> impl Iterator<Item = (OutputStream, &[u8])> {
        let mut rest = &*self.bytes;
        self.runs.iter().map(move |(stream, length)| {
            let (piece, behind) = rest.split_at(*length);
            rest = behind;
            (*stream, piece)
        })
    }

    fn print(&self, sinks: &mut Sinks) {
        self.pieces().for_each(|(stream, piece)| sinks.write(stream, piece));
    }

    /// Copies the output to a new log.
    fn save(&self, store: &OutputStore<'_>) -> Result<Logged, SpoolError> {
        let log = store.create_log()?;
        let mut logged = Logged { log, scanner: Scanner::new() };
        for (stream, piece) in self.pieces() {
            logged.log.append(stream, piece)?;
            logged.scanner.feed(piece);
        }
        Ok(logged)
    }
}
