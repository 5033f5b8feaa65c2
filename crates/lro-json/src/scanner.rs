//! A push scanner that validates JSON and reports the byte ranges of its values.
//!
//! You feed chunks of any size; a [`TokenVisitor`] receives tokens with absolute byte offsets. The
//! scanner keeps one byte per open container and at most [`LEXEME_CAP`] bytes of a string that
//! crosses a chunk, so its memory does not depend on the payload. It accepts exactly RFC 8259 (plus
//! a sequence of objects or arrays separated by line breaks, which is JSONL), at any depth up to
//! [`DEPTH_CAP`]. It does not interpret lexemes: big integers, duplicate keys and lone surrogates
//! pass unchanged. The caller checks UTF-8. docs/decisions/0002 says why no crate does this.

use super::SyntaxError;
use super::runs::{skip_plain, spaces};
use super::state::{Carried, Digits, Role, State, Word};

/// The longest string lexeme, in bytes, that a [`TokenVisitor`] receives, wherever chunks are cut.
pub(crate) const LEXEME_CAP: usize = 4096;

/// The deepest nesting accepted; deeper input is not treated as JSON.
pub(crate) const DEPTH_CAP: usize = 1_000_000;

/// The two containers of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// `[…]`
    Array,
    /// `{…}`
    Object,
}

/// The kind of a value that the scanner passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number without fraction or exponent.
    Integer,
    /// Any other number.
    Number,
    /// `"…"`
    String,
    /// `[…]`
    Array,
    /// `{…}`
    Object,
}

/// Receives the tokens of a [`Scanner`]. Offsets count from the payload's first byte.
pub trait TokenVisitor {
    /// A value starts at `at`; `depth` containers are open around it. A number begins as
    /// [`TokenKind::Number`]: whether it is an integer is known only at its end.
    fn begin(&mut self, _kind: TokenKind, _at: u64, _depth: usize) {}
    /// The value that began last at this depth ended just before `end`. `lexeme` is the inside of a
    /// string, quotes excluded and escapes untouched; `None` for other kinds and for strings too
    /// long to keep.
    fn end(&mut self, _kind: TokenKind, _end: u64, _depth: usize, _lexeme: Option<&[u8]>) {}
    /// A member's name, in the same form as a string's lexeme.
    fn key(&mut self, _lexeme: Option<&[u8]>) {}
    /// Insignificant white space.
    fn space(&mut self, _start: u64, _end: u64) {}
    /// A `\u` escape in a string or a name.
    fn unicode_escape(&mut self) {}
}

/// A push scanner of JSON.
pub struct Scanner {
    state: State,
    stack: Vec<Container>,
    /// Whether the input is the inside of an array, whose brackets it does not have.
    inside_array: bool,
    /// Offset of the chunk being scanned.
    base: u64,
    carried: Carried,
    /// Where the string's inside starts in this chunk.
    text_from: usize,
}

impl Scanner {
    /// A scanner for a whole document, or several on lines of their own, whose first byte has the
    /// offset `base`.
    pub fn new(base: u64) -> Self {
        Self::with(State::Value, false, base)
    }

    /// A scanner for the inside of an array, without its brackets; `base` is the offset behind `[`.
    pub fn inside_array(base: u64) -> Self {
        Self::with(State::ValueOrClose, true, base)
    }

    fn with(state: State, inside_array: bool, base: u64) -> Self {
        Self {
            state,
            stack: vec![Container::Array; usize::from(inside_array)],
            inside_array,
            base,
            carried: Carried::Nothing,
            text_from: 0,
        }
    }

    /// Scans one more chunk.
    pub fn feed<E: TokenVisitor>(
        &mut self,
        chunk: &[u8],
        visitor: &mut E,
    ) -> Result<(), SyntaxError> {
        let mut i = 0;
        while let Some(&byte) = chunk.get(i) {
            i = match (self.state, byte) {
                (State::Text(role), _) => self.text(chunk, i, role, visitor)?,
                (State::CommaOrClose, b',') => {
                    self.state = match self.stack.last() {
                        Some(Container::Object) => State::Key,
                        _ => State::Value,
                    };
                    i + 1
                }
                (State::Key | State::KeyOrClose, b'"') => {
                    self.start_text(Role::Key, i);
                    i + 1
                }
                (State::Colon, b':') => {
                    self.state = State::Value;
                    i + 1
                }
                (State::Number(digits), _) => self.number(chunk, i, digits, visitor)?,
                (State::Escape(role), _) => self.escape(byte, i, role, visitor)?,
                (State::Hex(role, left), _) => self.hex(byte, i, role, left)?,
                (State::Literal(word, matched), _) => {
                    self.literal(byte, i, word, matched, visitor)?
                }
                (_, b' ' | b'\t' | b'\n' | b'\r') => self.space(chunk, i, visitor),
                (State::Value | State::ValueOrClose, b'"' | b'{' | b'-' | b'0'..=b'9')
                | (State::Value, _)
                | (State::Between { line_break: true }, b'{' | b'[') => {
                    self.start(byte, i, visitor)?
                }
                (State::CommaOrClose | State::ValueOrClose, b']') => {
                    self.close(Container::Array, i, visitor)?
                }
                (State::CommaOrClose | State::KeyOrClose, b'}') => {
                    self.close(Container::Object, i, visitor)?
                }
                (State::ValueOrClose, _) => self.start(byte, i, visitor)?,
                _ => return Err(self.error_at(i)),
            };
        }
        if let State::Text(_) | State::Escape(_) | State::Hex(..) = self.state {
            self.carry(&chunk[self.text_from..]);
            self.text_from = 0;
        }
        self.base += chunk.len() as u64;
        Ok(())
    }

    /// Ends the input.
    pub fn finish<E: TokenVisitor>(&mut self, visitor: &mut E) -> Result<(), SyntaxError> {
        if let State::Number(digits) = self.state {
            self.end_number(digits, 0, visitor)?;
        }
        match (self.state, self.stack.len(), self.inside_array) {
            (State::Between { .. }, 0, false)
            | (State::CommaOrClose | State::ValueOrClose, 1, true) => Ok(()),
            _ => Err(self.error_at(0)),
        }
    }

    #[inline]
    fn error_at(&self, i: usize) -> SyntaxError {
        SyntaxError { offset: self.base + i as u64 }
    }

    #[inline]
    fn at(&self, i: usize) -> u64 {
        self.base + i as u64
    }

    fn start<E: TokenVisitor>(
        &mut self,
        byte: u8,
        i: usize,
        visitor: &mut E,
    ) -> Result<usize, SyntaxError> {
        let (kind, state) = match byte {
            b'{' => (TokenKind::Object, State::KeyOrClose),
            b'[' => (TokenKind::Array, State::ValueOrClose),
            b'"' => (TokenKind::String, State::Text(Role::Value)),
            b'-' => (TokenKind::Number, State::Number(Digits::Minus)),
            b'0' => (TokenKind::Number, State::Number(Digits::Zero)),
            b'1'..=b'9' => (TokenKind::Number, State::Number(Digits::Integer)),
            b't' => (TokenKind::Bool, State::Literal(Word::True, 1)),
            b'f' => (TokenKind::Bool, State::Literal(Word::False, 1)),
            b'n' => (TokenKind::Null, State::Literal(Word::Null, 1)),
            _ => return Err(self.error_at(i)),
        };
        visitor.begin(kind, self.at(i), self.stack.len());
        self.state = state;
        match kind {
            TokenKind::Object | TokenKind::Array => {
                if self.stack.len() == DEPTH_CAP {
                    return Err(self.error_at(i));
                }
                let array = kind == TokenKind::Array;
                self.stack.push(if array { Container::Array } else { Container::Object });
            }
            TokenKind::String => self.start_text(Role::Value, i),
            _ => {}
        }
        Ok(i + 1)
    }

    fn close<E: TokenVisitor>(
        &mut self,
        container: Container,
        i: usize,
        visitor: &mut E,
    ) -> Result<usize, SyntaxError> {
        // The bracket of the array that the input is the inside of does not belong to it.
        let outermost = self.inside_array && self.stack.len() == 1;
        if outermost || self.stack.pop() != Some(container) {
            return Err(self.error_at(i));
        }
        let kind = match container {
            Container::Array => TokenKind::Array,
            Container::Object => TokenKind::Object,
        };
        self.end_value(kind, i + 1, None, visitor);
        Ok(i + 1)
    }

    #[inline]
    fn end_value<E: TokenVisitor>(
        &mut self,
        kind: TokenKind,
        end: usize,
        lexeme: Option<&[u8]>,
        visitor: &mut E,
    ) {
        visitor.end(kind, self.at(end), self.stack.len(), lexeme);
        self.state = if self.stack.is_empty() {
            State::Between { line_break: false }
        } else {
            State::CommaOrClose
        };
    }

    fn space<E: TokenVisitor>(&mut self, chunk: &[u8], start: usize, visitor: &mut E) -> usize {
        let mut i = start;
        let mut line_break = false;
        loop {
            // Indented JSON is largely made of spaces.
            let spaces = spaces(chunk, i);
            i += spaces;
            if spaces == 8 {
                continue;
            }
            match chunk.get(i) {
                Some(b' ' | b'\t' | b'\r') => {}
                Some(b'\n') => line_break = true,
                _ => break,
            }
            i += 1;
        }
        visitor.space(self.at(start), self.at(i));
        if let State::Between { line_break: before } = &mut self.state {
            *before |= line_break;
        }
        i
    }

    #[inline]
    fn start_text(&mut self, role: Role, quote: usize) {
        self.state = State::Text(role);
        self.carried = Carried::Nothing;
        self.text_from = quote + 1;
    }

    /// Keeps the part of a string that is in the current chunk, before that chunk is dropped.
    fn carry(&mut self, part: &[u8]) {
        let mut text = match std::mem::replace(&mut self.carried, Carried::TooLong) {
            Carried::Nothing => Vec::new(),
            Carried::Text(text) => text,
            Carried::TooLong => return,
        };
        if text.len() + part.len() <= LEXEME_CAP {
            text.extend_from_slice(part);
            self.carried = Carried::Text(text);
        }
    }

    /// Reads on in a string, and in the strings that follow it directly.
    #[inline]
    fn text<E: TokenVisitor>(
        &mut self,
        chunk: &[u8],
        mut i: usize,
        mut role: Role,
        visitor: &mut E,
    ) -> Result<usize, SyntaxError> {
        loop {
            i = skip_plain(chunk, i);
            match chunk.get(i) {
                None => return Ok(i),
                Some(b'\\') => {
                    if let Some(b'n' | b'"' | b'\\' | b't' | b'r' | b'/') = chunk.get(i + 1) {
                        i += 2;
                        continue;
                    }
                    self.state = State::Escape(role);
                    return Ok(i + 1);
                }
                Some(b'"') => {
                    let part = &chunk[self.text_from..i];
                    if matches!(self.carried, Carried::Nothing) {
                        let lexeme = (part.len() <= LEXEME_CAP).then_some(part);
                        self.end_text(role, i + 1, lexeme, visitor);
                    } else {
                        self.carry(part);
                        let carried = std::mem::replace(&mut self.carried, Carried::Nothing);
                        self.end_text(role, i + 1, carried.lexeme(), visitor);
                    }
                    i = self.skip_separator(chunk, i + 1, visitor);
                    match self.state {
                        State::Text(next) => role = next,
                        _ => return Ok(i),
                    }
                }
                Some(_) => return Err(self.error_at(i)),
            }
        }
    }

    /// Takes the most common bytes behind a name or a value at once: a colon and the quote of a
    /// string, or a comma and the quote of the next name. An optimization only.
    #[inline]
    fn skip_separator<E: TokenVisitor>(
        &mut self,
        chunk: &[u8],
        i: usize,
        visitor: &mut E,
    ) -> usize {
        let quoted = chunk.get(i + 1) == Some(&b'"');
        match (self.state, chunk.get(i)) {
            (State::Colon, Some(b':')) if quoted => {
                visitor.begin(TokenKind::String, self.at(i + 1), self.stack.len());
                self.start_text(Role::Value, i + 1);
                i + 2
            }
            (State::Colon, Some(b':')) => {
                self.state = State::Value;
                i + 1
            }
            (State::CommaOrClose, Some(b',')) if self.stack.last() == Some(&Container::Object) => {
                if quoted {
                    self.start_text(Role::Key, i + 1);
                    i + 2
                } else {
                    self.state = State::Key;
                    i + 1
                }
            }
            _ => i,
        }
    }

    #[inline]
    fn end_text<E: TokenVisitor>(
        &mut self,
        role: Role,
        end: usize,
        lexeme: Option<&[u8]>,
        visitor: &mut E,
    ) {
        match role {
            Role::Key => {
                visitor.key(lexeme);
                self.state = State::Colon;
            }
            Role::Value => self.end_value(TokenKind::String, end, lexeme, visitor),
        }
    }

    fn escape<E: TokenVisitor>(
        &mut self,
        byte: u8,
        i: usize,
        role: Role,
        visitor: &mut E,
    ) -> Result<usize, SyntaxError> {
        if byte == b'u' {
            visitor.unicode_escape();
        }
        self.state = match byte {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => State::Text(role),
            b'u' => State::Hex(role, 4),
            _ => return Err(self.error_at(i)),
        };
        Ok(i + 1)
    }

    #[inline]
    fn hex(&mut self, byte: u8, i: usize, role: Role, left: u8) -> Result<usize, SyntaxError> {
        if !byte.is_ascii_hexdigit() {
            return Err(self.error_at(i));
        }
        self.state = if left == 1 { State::Text(role) } else { State::Hex(role, left - 1) };
        Ok(i + 1)
    }

    fn literal<E: TokenVisitor>(
        &mut self,
        byte: u8,
        i: usize,
        word: Word,
        matched: u8,
        visitor: &mut E,
    ) -> Result<usize, SyntaxError> {
        let bytes = word.bytes();
        if bytes[usize::from(matched)] != byte {
            return Err(self.error_at(i));
        }
        self.state = State::Literal(word, matched + 1);
        if usize::from(matched) + 1 == bytes.len() {
            let kind = if word == Word::Null { TokenKind::Null } else { TokenKind::Bool };
            self.end_value(kind, i + 1, None, visitor);
        }
        Ok(i + 1)
    }

    #[inline]
    fn number<E: TokenVisitor>(
        &mut self,
        chunk: &[u8],
        start: usize,
        mut digits: Digits,
        visitor: &mut E,
    ) -> Result<usize, SyntaxError> {
        let mut i = start;
        loop {
            // A run of digits changes nothing once it has begun.
            if matches!(digits, Digits::Integer | Digits::Fraction | Digits::Exponent) {
                while chunk.get(i).is_some_and(u8::is_ascii_digit) {
                    i += 1;
                }
            }
            let Some(&byte) = chunk.get(i) else { break };
            digits = match (digits, byte) {
                (Digits::Minus, b'0') => Digits::Zero,
                (Digits::Minus, b'1'..=b'9') => Digits::Integer,
                (Digits::Zero | Digits::Integer, b'.') => Digits::Point,
                (Digits::Point, b'0'..=b'9') => Digits::Fraction,
                (Digits::Zero | Digits::Integer | Digits::Fraction, b'e' | b'E') => Digits::E,
                (Digits::E, b'+' | b'-') => Digits::Sign,
                (Digits::E | Digits::Sign, b'0'..=b'9') => Digits::Exponent,
                _ => {
                    self.end_number(digits, i, visitor)?;
                    return Ok(self.skip_separator(chunk, i, visitor));
                }
            };
            i += 1;
        }
        self.state = State::Number(digits);
        Ok(i)
    }

    fn end_number<E: TokenVisitor>(
        &mut self,
        digits: Digits,
        i: usize,
        visitor: &mut E,
    ) -> Result<(), SyntaxError> {
        let kind = match digits {
            Digits::Zero | Digits::Integer => TokenKind::Integer,
            Digits::Fraction | Digits::Exponent => TokenKind::Number,
            _ => return Err(self.error_at(i)),
        };
        self.end_value(kind, i, None, visitor);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
