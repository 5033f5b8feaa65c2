//! The output of a command: its two streams in one file, and the order in which they were read.
//!
//! The order is a text of lines such as `2 4096`: from byte 4096 on, the bytes are of file descriptor 2.
//! The output begins with standard output, so that an output of one stream needs no order.

use std::io::{self, Write};
use std::ops::Range;

use crate::error::SpoolError;
use crate::restore::{RestoreError, copy_range, restore_payload};
use crate::sidecar::{PartNumber, PartRole, Sidecar, StoredForm};
use crate::spool::{PositionedRead, StoredResult};

/// The bytes of the order that are read at a time.
const ORDER_CHUNK_BYTES: usize = 64 * 1024;
/// The longest line of the order: a digit, a space, a 64-bit number, a line break.
const MAX_LINE_BYTES: usize = 32;

/// An output stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a process has two output streams")]
pub enum OutputStream {
    /// Standard output, or both streams if the command has one descriptor for both.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// The file descriptor of the stream.
    pub fn descriptor(self) -> u8 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
        }
    }

    fn from_descriptor(digit: &[u8]) -> Option<Self> {
        match digit {
            b"1" => Some(Self::Stdout),
            b"2" => Some(Self::Stderr),
            _ => None,
        }
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.descriptor()) - 1
    }
}

/// A range of an output with bytes of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputRun {
    /// The stream.
    pub stream: OutputStream,
    /// The range in the output.
    pub range: Range<u64>,
}

/// The line of the order for bytes of `stream` from `offset` on.
pub(crate) fn order_line(stream: OutputStream, offset: u64) -> String {
    format!("{} {offset}\n", stream.descriptor())
}

/// The runs of an output, read from its order.
pub struct OutputRuns<'a> {
    order: Option<&'a dyn PositionedRead>,
    /// The offset of the next chunk of the order.
    at: u64,
    chunk: Vec<u8>,
    consumed: usize,
    stream: OutputStream,
    start: u64,
    /// The size of the output.
    total: u64,
}

impl<'a> OutputRuns<'a> {
    /// The runs of an output of `total` bytes. Without an order, all of it is standard output.
    pub(crate) fn new(order: Option<&'a dyn PositionedRead>, total: u64) -> Self {
        Self {
            order,
            at: 0,
            chunk: Vec::new(),
            consumed: 0,
            stream: OutputStream::Stdout,
            start: 0,
            total,
        }
    }

    /// The next line of the order; `None` at its end, or at a line that this program did not write.
    fn line(&mut self) -> Result<Option<(OutputStream, u64)>, SpoolError> {
        let Some(order) = self.order else { return Ok(None) };
        if self.chunk.len() - self.consumed < MAX_LINE_BYTES {
            self.chunk.drain(..self.consumed);
            self.consumed = 0;
            let filled = self.chunk.len();
            self.chunk.resize(filled + ORDER_CHUNK_BYTES, 0);
            let read = order.read_at(self.at, &mut self.chunk[filled..])?;
            self.chunk.truncate(filled + read);
            self.at += read as u64;
        }
        let rest = &self.chunk[self.consumed..];
        let line = rest.iter().position(|byte| *byte == b'\n').map(|end| &rest[..end]);
        let parsed = line.and_then(|line| {
            let mut fields = line.splitn(2, |byte| *byte == b' ');
            let stream = OutputStream::from_descriptor(fields.next()?)?;
            let offset = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
            self.consumed += line.len() + 1;
            Some((stream, offset))
        });
        if parsed.is_none() {
            self.order = None;
        }
        Ok(parsed)
    }
}

impl Iterator for OutputRuns<'_> {
    type Item = Result<OutputRun, SpoolError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (stream, offset) = match self.line() {
                Ok(Some(line)) => line,
                Ok(None) => (self.stream, self.total),
                Err(error) => {
                    (self.order, self.start) = (None, self.total);
                    return Some(Err(error));
                }
            };
            // A line behind the end is of bytes that were never written.
            let end = offset.clamp(self.start, self.total);
            let run = OutputRun { stream: self.stream, range: self.start..end };
            (self.stream, self.start) = (stream, end);
            if !run.range.is_empty() {
                return Some(Ok(run));
            }
            if self.start == self.total {
                return None;
            }
        }
    }
}

/// Writes the bytes of one stream of a stored output to `out`.
///
/// A result that is not the output of a command counts as standard output.
pub fn restore_stream(
    stored: &dyn StoredResult,
    stream: OutputStream,
    out: &mut dyn Write,
) -> Result<(), RestoreError> {
    let sidecar = &stored.listed().sidecar;
    let Some(order) = part(sidecar, PartRole::Order) else {
        return match stream {
            OutputStream::Stdout => restore_payload(stored, out),
            OutputStream::Stderr => Ok(()),
        };
    };
    let order = stored.part(order)?;
    let kept = part(sidecar, PartRole::Output).or_else(|| part(sidecar, PartRole::Original));
    let kept = kept.map(|number| stored.part(number)).transpose()?;
    let output: &dyn PositionedRead = match (&kept, sidecar.content) {
        (Some(part), _) => &**part,
        (None, StoredForm::Text | StoredForm::Document | StoredForm::Binary) => &Data(stored),
        (None, _) => return Err(RestoreError::Unknown),
    };
    for run in OutputRuns::new(Some(&*order), output.len()) {
        let run = run?;
        if run.stream == stream {
            copy_range(output, run.range, &mut |chunk: &[u8]| -> io::Result<()> {
                out.write_all(chunk)
            })?;
        }
    }
    Ok(())
}

/// Writes a stored output as it was read, both streams of it, to `out`.
///
/// For a result that is not the output of a command, writes its payload.
pub fn restore_output(stored: &dyn StoredResult, out: &mut dyn Write) -> Result<(), RestoreError> {
    match part(&stored.listed().sidecar, PartRole::Output) {
        // The payload is standard output alone.
        Some(output) => {
            let output = stored.part(output)?;
            copy_range(&*output, 0..output.len(), &mut |chunk: &[u8]| out.write_all(chunk))
        }
        None => restore_payload(stored, out),
    }
}

/// The number of the first part with a role.
fn part(sidecar: &Sidecar, role: PartRole) -> Option<PartNumber> {
    let index = sidecar.parts.iter().position(|part| part.role == role)?;
    u16::try_from(index + 1).ok().map(PartNumber)
}

/// The data of a stored result.
struct Data<'a>(&'a dyn StoredResult);

impl PositionedRead for Data<'_> {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        self.0.read_at(offset, buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(Vec<u8>);

    impl PositionedRead for Bytes {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
            let rest = &self.0[usize::try_from(offset).unwrap().min(self.0.len())..];
            let length = rest.len().min(buf.len());
            buf[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        }
    }

    fn runs(order: &str, total: u64) -> Vec<(u8, Range<u64>)> {
        let order = Bytes(order.as_bytes().to_vec());
        let runs = OutputRuns::new(Some(&order), total);
        runs.map(|run| run.map(|run| (run.stream.descriptor(), run.range)).unwrap()).collect()
    }

    #[test]
    fn an_order_divides_an_output_into_runs() {
        assert_eq!(runs("", 0), []);
        assert_eq!(runs("", 5), [(1, 0..5)]);
        assert_eq!(runs("2 0\n", 5), [(2, 0..5)]);
        assert_eq!(runs("2 2\n1 3\n", 5), [(1, 0..2), (2, 2..3), (1, 3..5)]);
        assert_eq!(OutputRuns::new(None, 3).count(), 1);
    }

    #[test]
    fn an_order_that_was_cut_or_damaged_loses_no_byte() {
        assert_eq!(runs("2 2\n1 9\n", 5), [(1, 0..2), (2, 2..5)], "a run that was never written");
        assert_eq!(runs("2 2\n1 ", 5), [(1, 0..2), (2, 2..5)], "a line that was cut");
        assert_eq!(runs("2 2\n3 4\n1 4\n", 5), [(1, 0..2), (2, 2..5)], "an unknown stream");
        assert_eq!(runs("2 3\n1 1\n", 5), [(1, 0..3), (1, 3..5)], "an offset that goes back");
        assert_eq!(runs("2 2\n1 2\n2 4\n", 5), [(1, 0..2), (1, 2..4), (2, 4..5)], "an empty run");
    }

    #[test]
    fn an_order_longer_than_a_chunk_is_read_to_its_end() {
        let order: String = (1..20_000_u64)
            .map(|n| order_line([OutputStream::Stdout, OutputStream::Stderr][(n % 2) as usize], n))
            .collect();
        let runs = runs(&order, 20_000);
        assert_eq!(runs.len(), 20_000);
        assert!(runs.iter().zip(0..).all(|((stream, range), n)| {
            *range == (n..n + 1) && *stream == if n % 2 == 1 { 2 } else { 1 }
        }));
    }
}
