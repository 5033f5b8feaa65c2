//! TODO module doc

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::query::{Alias, Form};

// --- Lines: records read from a descriptor, many at a time.

/// A source as a worker has it.
#[derive(Debug)]
pub(crate) struct OpenSource {
    #[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "only statements name sources"))]
    pub(crate) alias: Alias,
    pub(crate) file: File,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) form: Form,
}

/// Fixed, so that where chunks are cut depends on the data alone (N6).
const CHUNK: usize = 1 << 20;

impl OpenSource {
    /// Reads chunk by chunk from the beginning.
    pub(crate) fn chunks(&self) -> Chunks<'_> {
        Chunks { source: self, at: self.begin }
    }

    /// Reads everything.
    #[cfg(feature = "jq")]
    pub(crate) fn whole(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_more(&mut bytes, self.begin, usize::MAX)?;
        Ok(bytes)
    }

    /// Appends up to `more` bytes from `at` on.
    fn read_more(&self, bytes: &mut Vec<u8>, at: u64, more: usize) -> io::Result<()> {
        let left = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
        let start = bytes.len();
        bytes.resize(start + more.min(left), 0);
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

/// Whole lines, about a megabyte at a time; a document is one chunk.
pub(crate) struct Chunks<'a> {
    source: &'a OpenSource,
    at: u64,
}

impl Chunks<'_> {
    /// Whether everything was read.
    #[cfg(feature = "sql")]
    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.source.end
    }

    fn chunk(&mut self) -> io::Result<Vec<u8>> {
        let size = match self.source.form {
            Form::Lines => CHUNK,
            Form::Document => usize::MAX,
        };
        let mut bytes = Vec::new();
        loop {
            let before = bytes.len();
            self.source.read_more(&mut bytes, self.at + before as u64, size)?;
            if bytes.len() - before < size {
                // The last line may lack its break, and the file may be shorter than it was.
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
        let chunk = self.chunk();
        if chunk.is_err() {
            self.at = self.source.end;
        }
        Some(chunk)
    }
}

/// The lines of a chunk that hold something, without their breaks.
pub(crate) fn lines(chunk: &[u8], form: Form) -> impl Iterator<Item = &[u8]> {
    let mut rest = chunk;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = match form {
            Form::Lines => memchr::memchr(b'\n', rest),
            Form::Document => None,
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

    fn opened(bytes: &[u8], form: Form) -> OpenSource {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        OpenSource { alias: Alias::results(), file, begin: 2, end: bytes.len() as u64, form }
    }

    #[test]
    fn chunks_are_whole_lines_however_long() {
        let mut text = b"h\n".to_vec();
        for n in [10, CHUNK - 20, 3 * CHUNK, 0, 5, CHUNK, 1] {
            text.extend(std::iter::repeat_n(b'x', n));
            text.push(b'\n');
        }
        text.extend(b"end");
        let source = opened(&text, Form::Lines);
        let chunks: Vec<_> = source.chunks().map(Result::unwrap).collect();
        assert_eq!(chunks.concat(), &text[2..]);
        assert!(chunks.iter().rev().skip(1).all(|chunk| chunk.ends_with(b"\n")));
        let found = chunks.iter().flat_map(|chunk| lines(chunk, Form::Lines)).map(<[u8]>::len);
        assert_eq!(found.collect::<Vec<_>>(), [10, CHUNK - 20, 3 * CHUNK, 5, CHUNK, 1, 3]);
    }

    #[test]
    fn a_document_is_one_line() {
        let source = opened(b"h\n{\n\"a\": 1\n}\n", Form::Document);
        let chunk = source.chunks().next().unwrap().unwrap();
        assert_eq!(lines(&chunk, Form::Document).count(), 1);
    }

    #[test]
    fn a_file_that_was_cut_ends_early() {
        let mut source = opened(b"h\n1\n2\n", Form::Lines);
        source.end = 1000;
        assert_eq!(source.chunks().map(Result::unwrap).collect::<Vec<_>>(), [b"1\n2\n"]);
    }
}
