//! Spills a long line to the spool.

use std::io::Read;
use std::sync::Arc;

use lro::SpillBuffer;
use lro_spool::Spool;
use lro_wire::LongLine;

use crate::relay::Relay;

/// A longer line is no message.
const LINE_CAP: u64 = 4 << 30;
/// A line up to this size goes to no disk.
const IN_MEMORY: usize = 48 << 20;
/// A line that finds no room on disk may take so much of memory.
const MEMORY_CAP: usize = 96 << 20;

/// There is no room for a line.
#[derive(Debug)]
pub(crate) struct TooLong;

/// A long line that arrives.
pub(crate) struct Aside {
    held: SpillBuffer,
    spool: Arc<dyn Spool>,
}

impl Aside {
    pub(crate) fn new(spool: Arc<dyn Spool>) -> Self {
        Self { held: SpillBuffer::new(IN_MEMORY), spool }
    }

    /// Takes the next piece.
    pub(crate) fn append(&mut self, piece: &[u8]) -> Result<(), TooLong> {
        self.held.append(piece, &*self.spool);
        if self.held.bytes() > LINE_CAP || self.held.memory_bytes() > MEMORY_CAP {
            return Err(TooLong);
        }
        Ok(())
    }

    /// All that came.
    pub(crate) fn held(self) -> SpillBuffer {
        self.held
    }
}

/// Reads a line to its end; `None` where it has none, or where there is no room for it.
pub(crate) fn set_aside<R: Read>(mut line: LongLine<'_, R>, relay: &Relay) -> Option<SpillBuffer> {
    let mut aside = Aside::new(relay.spool());
    // A stream that ends in the middle of a line has said all it will.
    while let Ok(Some(piece)) = line.next_chunk() {
        aside.append(piece).ok()?;
    }
    Some(aside.held())
}
