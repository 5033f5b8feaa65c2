//! Source: the bytes that are browsed, wherever they lie.

use std::io;

/// Bytes that can be read from any place on.
///
/// # Contract
///
/// [`len`](Self::len) does not grow while the source is browsed. Reading beyond the end gives
/// nothing; a source that became shorter is shown as far as it goes.
pub trait Source {
    /// How many there are.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads from `at` on and says how much; 0 only at the end or for an empty buffer.
    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize>;
}

/// A source in memory.
impl Source for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(self.as_slice().len());
        let read = buf.len().min(self.as_slice().len() - from);
        buf[..read].copy_from_slice(&self[from..from + read]);
        Ok(read)
    }
}

/// Reads until `buf` is full or the source ends, and says how much came.
pub(crate) fn fill(source: &dyn Source, at: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match source.read_at(at + filled as u64, &mut buf[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}
