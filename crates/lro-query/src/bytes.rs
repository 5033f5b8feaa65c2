//! Bytes: a source that is already in memory.

use lro_spool::{PositionedRead, SpoolError};

/// A slice as a source of byte ranges.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl PositionedRead for Bytes<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let length = buf.len().min(self.0.len() - from);
        buf[..length].copy_from_slice(&self.0[from..from + length]);
        Ok(length)
    }
}
