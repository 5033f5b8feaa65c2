//! A cursor over JSON text that builds no values.
//!
//! Stored lines are valid JSON; whoever wrote to the file afterwards may have changed that. So no
//! byte is trusted: what is walked over may be accepted though it is not JSON, but nothing here
//! reads past a line, recurses by the data or panics.

use memchr::memchr2;

use super::error::Flaw;

/// What a value is, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    False,
    True,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    #[inline]
    pub(super) fn from_lexeme(lexeme: &[u8]) -> Result<Self, Flaw> {
        match lexeme.first() {
            Some(b'"') => Ok(Self::String),
            Some(b'{') => Ok(Self::Object),
            Some(b'[') => Ok(Self::Array),
            Some(b'-' | b'0'..=b'9') => Ok(Self::Number),
            _ if lexeme == b"null" => Ok(Self::Null),
            _ if lexeme == b"true" => Ok(Self::True),
            _ if lexeme == b"false" => Ok(Self::False),
            _ => Err(Flaw::NotJson),
        }
    }
}

/// The inside of a string lexeme; `None` for other kinds.
#[inline]
pub(super) fn inside(lexeme: &[u8]) -> Option<&[u8]> {
    lexeme.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// A place in JSON text, moving on.
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The next byte that is no white space, not taken.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Takes the next byte that is no white space if it is this one.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let is_it = self.peek() == Some(byte);
        self.at += usize::from(is_it);
        is_it
    }

    /// Takes a value and returns its lexeme.
    #[inline]
    pub(super) fn value(&mut self) -> Result<&'a [u8], Flaw> {
        let first = self.peek().ok_or(Flaw::NotJson)?;
        let start = self.at;
        match first {
            b'"' => self.string()?,
            b'{' | b'[' => self.container()?,
            b',' | b':' | b'}' | b']' => return Err(Flaw::NotJson),
            _ => self.scalar(),
        }
        Ok(&self.text[start..self.at])
    }

    /// Moves behind the string that begins here.
    #[inline]
    fn string(&mut self) -> Result<(), Flaw> {
        self.at += 1;
        loop {
            let rest = self.text.get(self.at..).ok_or(Flaw::NotJson)?;
            let i = plain_run(rest).ok_or(Flaw::NotJson)?;
            if rest[i] == b'"' {
                self.at += i + 1;
                return Ok(());
            }
            self.at += i + 2;
        }
    }

    fn container(&mut self) -> Result<(), Flaw> {
        let mut depth = 0_usize;
        loop {
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.string()?;
                    continue;
                }
                Some(b'{' | b'[') => depth += 1,
                Some(b'}' | b']') => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        return Ok(());
                    }
                }
                Some(_) => {}
                None => return Err(Flaw::NotJson),
            }
            self.at += 1;
        }
    }

    #[inline]
    fn scalar(&mut self) {
        let rest = &self.text[self.at..];
        let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().position(ends).unwrap_or(rest.len());
    }
}

/// How many bytes come before a quote or a backslash. Names and short values end within a word or
/// two, where a call costs more than it saves.
#[inline]
fn plain_run(text: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut i = 0;
    while i < 32 {
        let Some(word) = text.get(i..).and_then(<[u8]>::first_chunk::<8>) else { break };
        let word = u64::from_le_bytes(*word);
        let quote = word ^ (ONES * 0x22);
        let backslash = word ^ (ONES * 0x5C);
        let hit = ((quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash))
            & HIGH;
        if hit != 0 {
            // Borrows only travel upwards, so the lowest marked byte is always a true hit.
            return Some(i + (hit.trailing_zeros() / 8) as usize);
        }
        i += 8;
    }
    memchr2(b'"', b'\\', text.get(i..)?).map(|found| i + found)
}
