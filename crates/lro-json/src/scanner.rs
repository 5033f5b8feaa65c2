//! A push scanner that validates JSON and reports the byte ranges of its values.
//!
//! Chunks of any size go in, events with absolute byte offsets come out. It keeps
//! one byte per open container and at most [`LEXEME_CAP`] bytes of a string that crosses a chunk,
//! so memory does not depend on the payload. It accepts exactly RFC 8259 (plus a sequence of
//! objects or arrays separated by line breaks, which is JSONL), at any depth up to [`DEPTH_CAP`],
//! and leaves every lexeme alone: big integers, duplicate keys and lone surrogates are not its
//! business. UTF-8 is checked by the caller. docs/decisions/0002 says why no crate does this.

use super::runs::{skip_plain, spaces};
use super::state::{Carried, Digits, Role, State, Word};

/// The longest string lexeme that is handed to [`Events`], wherever the chunks are cut.
pub(crate) const LEXEME_CAP: usize = 4096;

/// The deepest nesting accepted; what is deeper is not treated as JSON.
pub(crate) const DEPTH_CAP: usize = 1_000_000;

/// The two containers of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// `[…]`
    Array,
    /// `{…}`
    Object,
}

/// What a value is, from its lexeme alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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

/// Receives what the scanner sees. Offsets count from the payload's first byte.
pub trait Events {
    /// A value starts at `at`; `depth` containers are open around it. A number begins as
    /// [`Kind::Number`]: whether it is an integer is known only at its end.
    fn begin(&mut self, _kind: Kind, _at: u64, _depth: usize) {}
    /// The value that began last at this depth ended just before `end`. `lexeme` is the inside of a
    /// string, quotes excluded and escapes untouched; `None` for other kinds and for strings too
    /// long to keep.
    fn end(&mut self, _kind: Kind, _end: u64, _depth: usize, _lexeme: Option<&[u8]>) {}
    /// A member's name, in the same form as a string's lexeme.
    fn key(&mut self, _lexeme: Option<&[u8]>) {}
    /// Insignificant white space.
    fn space(&mut self, _start: u64, _end: u64) {}
    /// A `\u` escape in a string or a name.
    fn unicode_escape(&mut self) {}
}

/// The bytes are not JSON, or not all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// The offset of the first byte that cannot be JSON.
    pub at: u64,
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
    /// A scanner for a whole document, or several on lines of their own, whose first byte lies at
    /// `base`.
    pub fn new(base: u64) -> Self {
        Self::with(State::Value, false, base)
    }

    /// A scanner for what stands between `[` and `]`; `base` is the offset behind the bracket.
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
    pub fn feed<E: Events>(&mut self, chunk: &[u8], events: &mut E) -> Result<(), Malformed> {
        let mut i = 0;
        while let Some(&byte) = chunk.get(i) {
            i = match (self.state, byte) {
                (State::Text(role), _) => self.text(chunk, i, role, events)?,
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
                (State::Number(digits), _) => self.number(chunk, i, digits, events)?,
                (State::Escape(role), _) => self.escape(byte, i, role, events)?,
                (State::Hex(role, left), _) => self.hex(byte, i, role, left)?,
                (State::Literal(word, come), _) => self.literal(byte, i, word, come, events)?,
                (_, b' ' | b'\t' | b'\n' | b'\r') => self.space(chunk, i, events),
                (State::Value | State::ValueOrClose, b'"' | b'{' | b'-' | b'0'..=b'9')
                | (State::Value, _)
                | (State::Between { line_break: true }, b'{' | b'[') => {
                    self.start(byte, i, events)?
                }
                (State::CommaOrClose | State::ValueOrClose, b']') => {
                    self.close(Container::Array, i, events)?
                }
                (State::CommaOrClose | State::KeyOrClose, b'}') => {
                    self.close(Container::Object, i, events)?
                }
                (State::ValueOrClose, _) => self.start(byte, i, events)?,
                _ => return Err(self.malformed(i)),
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
    pub fn finish<E: Events>(&mut self, events: &mut E) -> Result<(), Malformed> {
        if let State::Number(digits) = self.state {
            self.end_number(digits, 0, events)?;
        }
        match (self.state, self.stack.len(), self.inside_array) {
            (State::Between { .. }, 0, false)
            | (State::CommaOrClose | State::ValueOrClose, 1, true) => Ok(()),
            _ => Err(self.malformed(0)),
        }
    }

    fn malformed(&self, i: usize) -> Malformed {
        Malformed { at: self.base + i as u64 }
    }

    fn at(&self, i: usize) -> u64 {
        self.base + i as u64
    }

    fn start<E: Events>(&mut self, byte: u8, i: usize, events: &mut E) -> Result<usize, Malformed> {
        let (kind, state) = match byte {
            b'{' => (Kind::Object, State::KeyOrClose),
            b'[' => (Kind::Array, State::ValueOrClose),
            b'"' => (Kind::String, State::Text(Role::Value)),
            b'-' => (Kind::Number, State::Number(Digits::Minus)),
            b'0' => (Kind::Number, State::Number(Digits::Zero)),
            b'1'..=b'9' => (Kind::Number, State::Number(Digits::Integer)),
            b't' => (Kind::Bool, State::Literal(Word::True, 1)),
            b'f' => (Kind::Bool, State::Literal(Word::False, 1)),
            b'n' => (Kind::Null, State::Literal(Word::Null, 1)),
            _ => return Err(self.malformed(i)),
        };
        events.begin(kind, self.at(i), self.stack.len());
        self.state = state;
        match kind {
            Kind::Object | Kind::Array => {
                if self.stack.len() == DEPTH_CAP {
                    return Err(self.malformed(i));
                }
                let array = kind == Kind::Array;
                self.stack.push(if array { Container::Array } else { Container::Object });
            }
            Kind::String => self.start_text(Role::Value, i),
            _ => {}
        }
        Ok(i + 1)
    }

    fn close<E: Events>(
        &mut self,
        container: Container,
        i: usize,
        events: &mut E,
    ) -> Result<usize, Malformed> {
        // The bracket of the array that the input is the inside of does not belong to it.
        let outermost = self.inside_array && self.stack.len() == 1;
        if outermost || self.stack.pop() != Some(container) {
            return Err(self.malformed(i));
        }
        let kind = match container {
            Container::Array => Kind::Array,
            Container::Object => Kind::Object,
        };
        self.end_value(kind, i + 1, None, events);
        Ok(i + 1)
    }

    #[inline]
    fn end_value<E: Events>(
        &mut self,
        kind: Kind,
        end: usize,
        lexeme: Option<&[u8]>,
        events: &mut E,
    ) {
        events.end(kind, self.at(end), self.stack.len(), lexeme);
        self.state = if self.stack.is_empty() {
            State::Between { line_break: false }
        } else {
            State::CommaOrClose
        };
    }

    fn space<E: Events>(&mut self, chunk: &[u8], start: usize, events: &mut E) -> usize {
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
        events.space(self.at(start), self.at(i));
        if let State::Between { line_break: seen } = &mut self.state {
            *seen |= line_break;
        }
        i
    }

    #[inline]
    fn start_text(&mut self, role: Role, quote: usize) {
        self.state = State::Text(role);
        self.carried = Carried::Nothing;
        self.text_from = quote + 1;
    }

    /// Keeps the part of a string that lies in a chunk which is about to go.
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
    fn text<E: Events>(
        &mut self,
        chunk: &[u8],
        mut i: usize,
        mut role: Role,
        events: &mut E,
    ) -> Result<usize, Malformed> {
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
                        self.end_text(role, i + 1, lexeme, events);
                    } else {
                        self.carry(part);
                        let carried = std::mem::replace(&mut self.carried, Carried::Nothing);
                        self.end_text(role, i + 1, carried.lexeme(), events);
                    }
                    i = self.hurry(chunk, i + 1, events);
                    match self.state {
                        State::Text(next) => role = next,
                        _ => return Ok(i),
                    }
                }
                Some(_) => return Err(self.malformed(i)),
            }
        }
    }

    /// Takes what mostly follows a name or a value at once: a colon and the quote of a string, or a
    /// comma and the quote of the next name. Nothing depends on it but speed.
    #[inline]
    fn hurry<E: Events>(&mut self, chunk: &[u8], i: usize, events: &mut E) -> usize {
        let quoted = chunk.get(i + 1) == Some(&b'"');
        match (self.state, chunk.get(i)) {
            (State::Colon, Some(b':')) if quoted => {
                events.begin(Kind::String, self.at(i + 1), self.stack.len());
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
    fn end_text<E: Events>(
        &mut self,
        role: Role,
        end: usize,
        lexeme: Option<&[u8]>,
        events: &mut E,
    ) {
        match role {
            Role::Key => {
                events.key(lexeme);
                self.state = State::Colon;
            }
            Role::Value => self.end_value(Kind::String, end, lexeme, events),
        }
    }

    fn escape<E: Events>(
        &mut self,
        byte: u8,
        i: usize,
        role: Role,
        events: &mut E,
    ) -> Result<usize, Malformed> {
        if byte == b'u' {
            events.unicode_escape();
        }
        self.state = match byte {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => State::Text(role),
            b'u' => State::Hex(role, 4),
            _ => return Err(self.malformed(i)),
        };
        Ok(i + 1)
    }

    fn hex(&mut self, byte: u8, i: usize, role: Role, left: u8) -> Result<usize, Malformed> {
        if !byte.is_ascii_hexdigit() {
            return Err(self.malformed(i));
        }
        self.state = if left == 1 { State::Text(role) } else { State::Hex(role, left - 1) };
        Ok(i + 1)
    }

    fn literal<E: Events>(
        &mut self,
        byte: u8,
        i: usize,
        word: Word,
        come: u8,
        events: &mut E,
    ) -> Result<usize, Malformed> {
        let bytes = word.bytes();
        if bytes[usize::from(come)] != byte {
            return Err(self.malformed(i));
        }
        self.state = State::Literal(word, come + 1);
        if usize::from(come) + 1 == bytes.len() {
            let kind = if word == Word::Null { Kind::Null } else { Kind::Bool };
            self.end_value(kind, i + 1, None, events);
        }
        Ok(i + 1)
    }

    #[inline]
    fn number<E: Events>(
        &mut self,
        chunk: &[u8],
        start: usize,
        mut digits: Digits,
        events: &mut E,
    ) -> Result<usize, Malformed> {
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
                    self.end_number(digits, i, events)?;
                    return Ok(self.hurry(chunk, i, events));
                }
            };
            i += 1;
        }
        self.state = State::Number(digits);
        Ok(i)
    }

    fn end_number<E: Events>(
        &mut self,
        digits: Digits,
        i: usize,
        events: &mut E,
    ) -> Result<(), Malformed> {
        let kind = match digits {
            Digits::Zero | Digits::Integer => Kind::Integer,
            Digits::Fraction | Digits::Exponent => Kind::Number,
            _ => return Err(self.malformed(i)),
        };
        self.end_value(kind, i, None, events);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, PartialEq, Debug)]
    struct Log(Vec<String>);

    impl Events for Log {
        fn begin(&mut self, kind: Kind, at: u64, depth: usize) {
            self.0.push(format!("begin {kind:?} {at} {depth}"));
        }
        fn end(&mut self, kind: Kind, end: u64, depth: usize, lexeme: Option<&[u8]>) {
            let lexeme = lexeme.map(String::from_utf8_lossy);
            self.0.push(format!("end {kind:?} {end} {depth} {lexeme:?}"));
        }
        fn key(&mut self, lexeme: Option<&[u8]>) {
            self.0.push(format!("key {:?}", lexeme.map(String::from_utf8_lossy)));
        }
    }

    fn scan(text: &str, chunk: usize) -> Result<Log, Malformed> {
        let mut log = Log::default();
        let mut scanner = Scanner::new(0);
        for part in text.as_bytes().chunks(chunk) {
            scanner.feed(part, &mut log)?;
        }
        scanner.finish(&mut log)?;
        Ok(log)
    }

    const VALID: &[&str] = &[
        "{}",
        "[]",
        " [ ] ",
        "0",
        "-0",
        "10.5e+3",
        "1E9",
        "\"\"",
        "true",
        "false",
        "null",
        r#"{"a":1,"b":[true,null,{"c":"d\"\\\/\b\f\n\r\t\u00e9"}],"a":2}"#,
        r#"["\ud800", "\udc00\ud800", 123456789012345678901234567890, 0.10000000000000000000001]"#,
        "{\"long key that crosses the chunks\":\"and a value that crosses them as well\"}",
        "{}\n{}\n\n[1]\n",
        "[1]\r\n[2]",
    ];

    const INVALID: &[&str] = &[
        "",
        " ",
        "[",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\"}",
        "{a:1}",
        "01",
        "1.",
        "1.e1",
        "-",
        "+1",
        ".5",
        "1e",
        "1e+",
        "tru",
        "truex",
        "nul",
        "\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"a\nb\"",
        "]",
        "}",
        "[}",
        "{]",
        "[1 2]",
        "{}{}",
        "{} {}",
        "{}\n1",
        "{},{}",
        "[1]]",
        "'a'",
        "NaN",
        "{\"a\":1 \"b\":2}",
        "[1]\nx",
        "/**/{}",
    ];

    #[test]
    fn chunks_of_any_size_give_the_same_events() {
        for text in VALID {
            let whole = scan(text, usize::MAX).unwrap_or_else(|e| panic!("{text}: {e:?}"));
            for size in 1..=text.len().max(1) {
                assert_eq!(scan(text, size).as_ref(), Ok(&whole), "{text} in chunks of {size}");
            }
        }
    }

    #[test]
    fn accepts_and_refuses_what_the_engine_does() {
        for text in VALID.iter().chain(INVALID) {
            let ours = scan(text, 3).is_ok();
            let several = text.contains('\n') && ours;
            let engine = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            assert!(ours == engine || several, "{text:?}: ours {ours}, engine {engine}");
        }
        for text in INVALID {
            assert!(scan(text, usize::MAX).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_million_brackets_neither_crash_nor_grow() {
        let deep = "[".repeat(DEPTH_CAP) + &"]".repeat(DEPTH_CAP);
        let mut scanner = Scanner::new(0);
        scanner.feed(deep.as_bytes(), &mut Log::default()).unwrap();
        let deeper = "[".repeat(DEPTH_CAP + 1);
        assert_eq!(
            Scanner::new(0).feed(deeper.as_bytes(), &mut Log::default()),
            Err(Malformed { at: DEPTH_CAP as u64 })
        );
    }

    #[test]
    fn a_string_longer_than_the_cap_is_not_kept() {
        let text = format!("\"{}\"", "x".repeat(LEXEME_CAP + 1));
        let log = scan(&text, 1000).unwrap();
        assert_eq!(log.0.last().unwrap(), &format!("end String {} 0 None", text.len()));
    }
}
