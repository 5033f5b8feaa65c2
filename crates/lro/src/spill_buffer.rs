//! A buffer that spills from memory to a scratch file of the spool.

use std::io::{self, Write};

use lro_core::payload::{Payload, Unreadable};
use lro_spool::{Scratch, Spool};

/// In which pieces a payload goes to the spool, and comes back from it.
const PIECE: usize = 1 << 20;

/// A payload that has arrived, whole and as it came.
///
/// Its first bytes may lie in a file without a name, which goes with it; what could not be put there
/// stays in memory, however much that is: a byte that arrived is never given up.
pub struct SpillBuffer {
    /// What was set aside, the beginning of the payload.
    aside: Option<Box<dyn Scratch>>,
    /// What follows it.
    memory: Vec<u8>,
    memory_cap: usize,
    /// Setting aside failed, and is not tried again.
    stays: bool,
}

impl SpillBuffer {
    /// Nothing yet; beyond `memory_cap` bytes it is set aside.
    pub fn new(memory_cap: usize) -> Self {
        Self { aside: None, memory: Vec::new(), memory_cap, stays: false }
    }

    /// Takes what comes next, setting it aside in `spool` where it is too much.
    pub fn append(&mut self, chunk: &[u8], spool: &dyn Spool) {
        for piece in chunk.chunks(PIECE) {
            self.memory.extend_from_slice(piece);
            let cap =
                if self.aside.is_some() { PIECE.min(self.memory_cap) } else { self.memory_cap };
            if self.memory.len() > cap && !self.stays {
                self.set_aside(spool);
            }
        }
    }

    /// Empties memory into the spool, or remembers that this does not work.
    fn set_aside(&mut self, spool: &dyn Spool) {
        if self.aside.is_none() {
            self.aside = spool.scratch().ok();
        }
        let Some(aside) = &mut self.aside else {
            self.stays = true;
            return;
        };
        // Of a failed append nothing counts, and all of it is still here.
        let mut done = 0;
        for piece in self.memory.chunks(PIECE) {
            if aside.append(piece).is_err() {
                self.stays = true;
                break;
            }
            done += piece.len();
        }
        self.memory.drain(..done);
        // The room for what was held so far is not needed again.
        self.memory.shrink_to(PIECE + PIECE);
    }

    fn aside_bytes(&self) -> u64 {
        self.aside.as_ref().map_or(0, |aside| aside.len())
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> u64 {
        self.aside_bytes() + self.memory.len() as u64
    }

    /// How much of it takes memory: all of it where it could not be set aside.
    pub fn memory_bytes(&self) -> usize {
        self.memory.len()
    }

    /// All of it, where it is in memory.
    pub fn whole(&self) -> Option<&[u8]> {
        (self.aside_bytes() == 0).then_some(&self.memory)
    }

    /// All of it, where it is in memory and within the cap; itself otherwise.
    pub fn into_memory(self) -> Result<Vec<u8>, Self> {
        if self.aside.is_none() && self.memory.len() <= self.memory_cap {
            Ok(self.memory)
        } else {
            Err(self)
        }
    }

    /// Writes all of it to `out`, as it came.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let (mut at, mut space) = (0, Vec::new());
        loop {
            let chunk = self.chunk_at(at, &mut space).map_err(io::Error::other)?;
            if chunk.is_empty() {
                return Ok(());
            }
            out.write_all(chunk)?;
            at += chunk.len() as u64;
        }
    }
}

impl Payload for SpillBuffer {
    fn bytes(&self) -> u64 {
        self.bytes()
    }

    fn whole(&self) -> Option<&[u8]> {
        self.whole()
    }

    fn chunk_at<'a>(&'a self, at: u64, space: &'a mut Vec<u8>) -> Result<&'a [u8], Unreadable> {
        let aside = match &self.aside {
            Some(aside) if at < aside.len() => aside,
            _ => {
                let from = usize::try_from(at - self.aside_bytes()).ok();
                return Ok(from.and_then(|from| self.memory.get(from..)).unwrap_or_default());
            }
        };
        space.resize(PIECE, 0);
        let read = aside.read_at(at, space).map_err(|error| Unreadable(error.into()))?;
        if read == 0 {
            // The file is shorter than what went into it.
            return Err(Unreadable(io::Error::from(io::ErrorKind::UnexpectedEof).into()));
        }
        Ok(&space[..read])
    }
}

impl std::fmt::Debug for SpillBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Contents are nobody's business.
        f.debug_struct("Held")
            .field("bytes", &self.bytes())
            .field("aside_bytes", &self.aside_bytes())
            .finish_non_exhaustive()
    }
}
