//! The importer: takes memories in by batches, and counts what became of them.

use std::sync::Arc;

use atlatl_memory::{CaptureService, Clash, MemoryStore, Put};
use mif::Memory;
use serde::Serialize;

use crate::{
    error::{Error, Status},
    output::{Mode, Output, Progress, grouped},
};

/// Memories of one transaction, whose end waits for the disk.
const BATCH: usize = 500;
/// The most bytes of them: memories may be large, and all of these are held.
const BATCH_BYTES: u64 = 16 << 20;
/// How many bad ones are told one by one.
const TOLD: u64 = 20;

/// Takes memories in.
pub(in crate::command) struct Importer<'a> {
    capture: CaptureService,
    clash: Clash,
    strict: bool,
    batch: Vec<Memory>,
    batch_bytes: u64,
    bytes: u64,
    tally: Tally,
    progress: Progress,
    output: &'a mut Output,
}

/// What became of what was read. As a program reads it.
#[derive(Debug, Default, Serialize)]
struct Tally {
    stored: u64,
    unchanged: u64,
    kept: u64,
    replaced: u64,
    failed: u64,
}

impl<'a> Importer<'a> {
    pub(in crate::command) fn new(
        store: Arc<dyn MemoryStore>,
        clash: Clash,
        strict: bool,
        progress: Progress,
        output: &'a mut Output,
    ) -> Self {
        Self {
            capture: CaptureService::new(store),
            clash,
            strict,
            batch: Vec::with_capacity(BATCH),
            batch_bytes: 0,
            bytes: 0,
            tally: Tally::default(),
            progress,
            output,
        }
    }

    /// Takes a memory that was so many bytes.
    pub(in crate::command) fn memory(&mut self, memory: Memory, bytes: u64) -> Result<(), Error> {
        self.batch.push(memory);
        self.batch_bytes += bytes;
        self.skip(bytes);
        if self.batch.len() >= BATCH || self.batch_bytes >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// So many bytes were read.
    pub(in crate::command) fn skip(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.progress.at(self.bytes, self.tally.taken() + self.batch.len() as u64);
    }

    /// Something is no memory. The rest goes on, unless that is not wanted.
    pub(in crate::command) fn bad(&mut self, place: &str, what: &str) -> Result<(), Error> {
        self.tally.failed += 1;
        let error = Error::failure(format!("{place}: {what}"));
        if self.strict {
            return Err(error);
        }
        if self.tally.failed <= TOLD {
            self.progress.clear();
            self.output.error(&error);
        }
        Ok(())
    }

    /// Writes what waits; it is durable when this returns.
    fn flush(&mut self) -> Result<(), Error> {
        for put in self.capture.import(&self.batch, self.clash)? {
            match put {
                Put::Stored => self.tally.stored += 1,
                Put::Replaced => self.tally.replaced += 1,
                Put::Unchanged => self.tally.unchanged += 1,
                _ => self.tally.kept += 1,
            }
        }
        self.batch.clear();
        self.batch_bytes = 0;
        Ok(())
    }

    /// Writes the last ones and says what became of all, also where reading ended too soon.
    pub(in crate::command) fn finish(mut self, done: Result<(), Error>) -> Result<Status, Error> {
        // A store that refused a batch is not asked again; what was good before a bad one is.
        let done = match done {
            Err(error) if self.tally.failed == 0 => Err(error),
            done => self.flush().and(done),
        };
        self.progress.clear();
        let Self { tally, output, .. } = self;
        if tally.failed > TOLD {
            output.note(format_args!("{} more cannot be read", grouped(tally.failed - TOLD)));
        }
        match output.mode() {
            Mode::Json => output.json(&tally)?,
            Mode::Human => output.line(&tally)?,
        }
        if tally.kept > 0 {
            output.note("a different memory of the same id was kept; --replace takes the new one");
        }
        done?;
        Ok(if tally.failed == 0 { Status::Success } else { Status::JsonRpcError })
    }
}

impl Tally {
    /// How many were taken in, or were there.
    fn taken(&self) -> u64 {
        self.stored + self.unchanged + self.kept + self.replaced
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stored, unchanged, kept, replaced, failed } = self;
        let counts = [
            ("stored", stored),
            ("unchanged", unchanged),
            ("kept", kept),
            ("replaced", replaced),
            ("failed", failed),
        ];
        let texts: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name} {}", grouped(**count))).collect();
        formatter.write_str(&texts.join(", "))
    }
}
