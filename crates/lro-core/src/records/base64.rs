//! Detects text that is base64: one run of its alphabet, or lines of equal width, optionally after
//! `data:…;base64,`.
//!
//! Long words and lists of identifiers have the same characters. So a run needs 512 characters with
//! capitals, small letters and digits, and more distinct ones than hexadecimal digits are; lines need
//! the width that encoders use.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde::Serialize;

/// The fewest characters.
const MIN_CHARS: u64 = 512;
/// The fewest distinct characters.
const MIN_DISTINCT: u32 = 24;
/// The shortest line of wrapped base64: encoders use 64 (PEM) and 76 (MIME).
const MIN_LINE_WIDTH: u64 = 60;
/// The longest text before the data: `data:`, a media type with parameters, `;base64,`.
const MAX_LABEL_BYTES: usize = 256;
/// The characters that are decoded to identify the data. A multiple of four.
const MAX_HEAD_CHARS: usize = 1024;

/// Data that a text encodes as base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Base64Data {
    /// The size of the data.
    pub decoded_bytes: u64,
    /// The media type, if the first bytes identify it.
    pub media_type: Option<&'static str>,
}

/// Checks whether a text that arrives in chunks is base64.
pub(super) struct Base64Check {
    /// The beginning, while it may be a label.
    label: Option<Vec<u8>>,
    /// The first characters.
    head: Vec<u8>,
    chars: u64,
    padding: u64,
    /// The set of characters, by value.
    seen: u64,
    /// Whether `+` or `/` occurred, and whether `-` or `_` did.
    alphabets: (bool, bool),
    line: LineWidth,
}

#[derive(Default)]
struct LineWidth {
    /// The width of the first line.
    first: Option<u64>,
    current: u64,
    /// Whether a carriage return awaits its line feed.
    after_return: bool,
    /// Whether a line was shorter: it has to be the last.
    last: bool,
}

impl Base64Check {
    pub(super) fn new() -> Self {
        Self {
            label: Some(Vec::new()),
            head: Vec::new(),
            chars: 0,
            padding: 0,
            seen: 0,
            alphabets: (false, false),
            line: LineWidth::default(),
        }
    }

    /// Processes the next chunk. Returns false as soon as the text cannot be base64.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> bool {
        let mut rest = chunk;
        while let Some(label) = &mut self.label {
            let Some((byte, after)) = rest.split_first() else { return true };
            label.push(*byte);
            rest = after;
            let expected = b"data:";
            let compared = label.len().min(expected.len());
            if label[..compared] != expected[..compared] {
                let label = self.label.take().unwrap_or_default();
                if !self.add(&label) {
                    return false;
                }
            } else if *byte == b',' {
                let is_base64 = label.ends_with(b";base64,");
                self.label = None;
                if !is_base64 {
                    return false;
                }
            } else if label.len() > MAX_LABEL_BYTES {
                return false;
            }
        }
        self.add(rest)
    }

    fn add(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| self.add_byte(*byte))
    }

    #[inline]
    fn add_byte(&mut self, byte: u8) -> bool {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => {
                self.padding += 1;
                return self.padding <= 2 && self.line.add();
            }
            b'\r' | b'\n' => return self.line.add_break(byte),
            _ => return false,
        };
        self.seen |= 1 << value;
        self.alphabets.0 |= matches!(byte, b'+' | b'/');
        self.alphabets.1 |= matches!(byte, b'-' | b'_');
        self.chars += 1;
        if self.head.len() < MAX_HEAD_CHARS {
            self.head.push(byte);
        }
        self.padding == 0 && self.line.add()
    }

    /// The data, if the text is base64.
    pub(super) fn finish(mut self) -> Option<Base64Data> {
        if let Some(label) = self.label.take() {
            // A text as short as a label.
            self.add(&label);
        }
        let digits = (1 << 10) - 1;
        let letters = (1 << 26) - 1;
        let kinds = [letters, letters << 26, digits << 52];
        let rest = self.chars % 4;
        let is_base64 = self.chars >= MIN_CHARS
            && self.seen.count_ones() >= MIN_DISTINCT
            && kinds.iter().all(|kind| self.seen & kind != 0)
            && self.alphabets != (true, true)
            && self.line.is_even(self.chars + self.padding)
            && rest != 1
            && (self.padding == 0 || rest + self.padding == 4);
        is_base64.then(|| Base64Data {
            decoded_bytes: self.chars / 4 * 3 + rest.saturating_sub(1),
            media_type: self.media_type(),
        })
    }

    fn media_type(&self) -> Option<&'static str> {
        let engine = if self.alphabets.1 { URL_SAFE_NO_PAD } else { STANDARD_NO_PAD };
        // Whole groups of four characters.
        let head = &self.head[..self.head.len() / 4 * 4];
        infer::get(&engine.decode(head).ok()?).map(|kind| kind.mime_type())
    }
}

impl LineWidth {
    /// Adds a character. Returns false if the line is too long, or is not the last.
    #[inline]
    fn add(&mut self) -> bool {
        self.current += 1;
        !self.after_return && !self.last && self.first.is_none_or(|width| self.current <= width)
    }

    fn add_break(&mut self, byte: u8) -> bool {
        if byte == b'\r' {
            return !std::mem::replace(&mut self.after_return, true);
        }
        self.after_return = false;
        let width = std::mem::take(&mut self.current);
        match self.first {
            // One line with a line break at its end.
            None => {
                self.first = Some(width);
                width > 0
            }
            Some(first) => {
                self.last |= width < first;
                true
            }
        }
    }

    /// Whether a text of `chars` characters is one line, or has lines as an encoder writes them.
    fn is_even(&self, chars: u64) -> bool {
        let is_wrapped = |width| width >= MIN_LINE_WIDTH && width % 4 == 0;
        !self.after_return && self.first.is_none_or(|width| width == chars || is_wrapped(width))
    }
}
