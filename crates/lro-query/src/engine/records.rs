//! Reads records from an open descriptor, in chunks of whole lines.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::query::{Alias, RecordLayout};

/// A source in the worker: an open file and the range of its records.
#[derive(Debug)]
pub(crate) struct OpenSource {
    #[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "only statements name sources"))]
    pub(crate) alias: Alias,
    pub(crate) file: File,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) layout: RecordLayout,
}

/// The size of a chunk in bytes. It is fixed, so that chunk boundaries depend on the data alone (Spec
/// N6).
const CHUNK_LEN: usize = 1 << 20;

impl OpenSource {
    /// The chunks from the beginning.
    pub(crate) fn chunks(&self) -> Chunks<'_> {
        Chunks { source: self, at: self.begin }
    }

    /// Reads the whole source.
    #[cfg(feature = "jq")]
    pub(crate) fn whole(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.append(&mut bytes, self.begin, usize::MAX)?;
        Ok(bytes)
    }

    /// Appends up to `count` bytes from offset `at`.
    fn append(&self, bytes: &mut Vec<u8>, at: u64, count: usize) -> io::Result<()> {
        let left = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
        let start = bytes.len();
        bytes.resize(start + count.min(left), 0);
        let mut filled = start;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], at + (filled - start) as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(())
    }
}

/// Chunks of whole lines, about a megabyte each. A document is one chunk.
pub(crate) struct Chunks<'a> {
    source: &'a OpenSource,
    at: u64,
}

impl Chunks<'_> {
    /// Whether the whole source was read.
    #[cfg(feature = "sql")]
    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.source.end
    }

    fn next_chunk(&mut self) -> io::Result<Vec<u8>> {
        let size = match self.source.layout {
            RecordLayout::Lines => CHUNK_LEN,
            RecordLayout::Document => usize::MAX,
        };
        let mut bytes = Vec::new();
        loop {
            let before = bytes.len();
            self.source.append(&mut bytes, self.at + before as u64, size)?;
            if bytes.len() - before < size {
                // The last line may lack a line break, and the file may have become shorter.
                self.at = self.source.end;
                return Ok(bytes);
            }
            if let Some(end) = memchr::memrchr(b'\n', &bytes[before..]) {
                bytes.truncate(before + end + 1);
                self.at += bytes.len() as u64;
                return Ok(bytes);
            }
        }
    }
}

impl Iterator for Chunks<'_> {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.source.end {
            return None;
        }
        let chunk = self.next_chunk();
        if chunk.is_err() {
            self.at = self.source.end;
        }
        Some(chunk)
    }
}

/// The lines of a chunk that are not blank, without line breaks.
pub(crate) fn lines(chunk: &[u8], layout: RecordLayout) -> impl Iterator<Item = &[u8]> {
    let mut rest = chunk;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = match layout {
            RecordLayout::Lines => memchr::memchr(b'\n', rest),
            RecordLayout::Document => None,
        };
        let line = &rest[..end.unwrap_or(rest.len())];
        rest = end.map_or(&[], |end| &rest[end + 1..]);
        Some(line)
    })
    .filter(|line| !line.iter().all(u8::is_ascii_whitespace))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn opened(bytes: &[u8], layout: RecordLayout) -> OpenSource {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        OpenSource { alias: Alias::results(), file, begin: 2, end: bytes.len() as u64, layout }
    }

    #[test]
    fn chunks_are_whole_lines_however_long() {
        let mut text = b"h\n".to_vec();
        for n in [10, CHUNK_LEN - 20, 3 * CHUNK_LEN, 0, 5, CHUNK_LEN, 1] {
            text.extend(std::iter::repeat_n(b'x', n));
            text.push(b'\n');
        }
        text.extend(b"end");
        let source = opened(&text, RecordLayout::Lines);
        let chunks: Vec<_> = source.chunks().map(Result::unwrap).collect();
        assert_eq!(chunks.concat(), &text[2..]);
        assert!(chunks.iter().rev().skip(1).all(|chunk| chunk.ends_with(b"\n")));
        let lengths =
            chunks.iter().flat_map(|chunk| lines(chunk, RecordLayout::Lines)).map(<[u8]>::len);
        assert_eq!(
            lengths.collect::<Vec<_>>(),
            [10, CHUNK_LEN - 20, 3 * CHUNK_LEN, 5, CHUNK_LEN, 1, 3]
        );
    }

    #[test]
    fn a_document_is_one_line() {
        let source = opened(b"h\n{\n\"a\": 1\n}\n", RecordLayout::Document);
        let chunk = source.chunks().next().unwrap().unwrap();
        assert_eq!(lines(&chunk, RecordLayout::Document).count(), 1);
    }

    #[test]
    fn a_file_that_was_cut_ends_early() {
        let mut source = opened(b"h\n1\n2\n", RecordLayout::Lines);
        source.end = 1000;
        assert_eq!(source.chunks().map(Result::unwrap).collect::<Vec<_>>(), [b"1\n2\n"]);
    }
}
