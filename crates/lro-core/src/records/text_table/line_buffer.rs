//! Splits chunks into lines.

use super::MAX_ROW_BYTES;

/// Splits chunks into lines.
#[derive(Default)]
pub(super) struct LineBuffer {
    /// The beginning of a line that the last chunk did not end.
    partial: Vec<u8>,
}

impl LineBuffer {
    /// Calls `each` with every line that ends in `chunk` and its size, until it returns false. A line
    /// that is too long is `None`.
    pub(super) fn feed(
        &mut self,
        chunk: &[u8],
        mut each: impl FnMut(Option<&[u8]>, usize) -> bool,
    ) {
        for part in chunk.split_inclusive(|b| *b == b'\n') {
            let more = match (part.strip_suffix(b"\n"), self.partial.is_empty()) {
                (Some(line), true) => each(checked(line), part.len()),
                (Some(line), false) => {
                    self.partial.extend_from_slice(line);
                    let line = std::mem::take(&mut self.partial);
                    let more = each(checked(&line), line.len() + 1);
                    self.partial = line;
                    self.partial.clear();
                    more
                }
                (None, _) => {
                    self.partial.extend_from_slice(part);
                    self.partial.len() <= MAX_ROW_BYTES || each(None, 0)
                }
            };
            if !more {
                return;
            }
        }
    }

    /// Ends the text: the rest is a line.
    pub(super) fn finish(&mut self, mut each: impl FnMut(Option<&[u8]>, usize) -> bool) {
        if !self.partial.is_empty() {
            let line = std::mem::take(&mut self.partial);
            each(checked(&line), line.len());
        }
    }
}

/// A line without its carriage return, if it is not too long.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let text = line.strip_suffix(b"\r").unwrap_or(line);
    Some(text).filter(|_| line.len() <= MAX_ROW_BYTES)
}
