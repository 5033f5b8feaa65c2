//! Converts JSON text to values of jaq and back.
//!
//! This is not `jaq_json::read`, for three reasons: strings without escapes borrow from the record,
//! numbers keep their spelling, and the depth is bounded. The parser of jaq has no depth limit, so that
//! a million `[` overflow any stack; `serde_json` rounds numbers and rejects half a surrogate pair.

use std::io::Write as _;

use bytes::Bytes;
use jaq_json::{Map, Num, Rc, Val};

/// The maximum nesting depth of a record.
const MAX_DEPTH: usize = 1000;

/// A record that is not a valid JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Malformed {
    /// The offset of the first invalid byte.
    At(usize),
    TooDeep,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(byte) => write!(f, "the record is not valid JSON at byte {byte}"),
            Self::TooDeep => write!(f, "the record is nested more than {MAX_DEPTH} deep"),
        }
    }
}

/// Parses `text`, which must be valid UTF-8 and hold one value.
pub(super) fn parse(text: &Bytes) -> Result<Val, Malformed> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    parser.space();
    let value = parser.value()?;
    parser.space();
    if parser.at == text.len() { Ok(value) } else { Err(Malformed::At(parser.at)) }
}

struct Parser<'a> {
    text: &'a Bytes,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn malformed<T>(&self) -> Result<T, Malformed> {
        Err(Malformed::At(self.at))
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        self.malformed()
    }

    fn value(&mut self) -> Result<Val, Malformed> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true", Val::Bool(true)),
            Some(b'f') => self.word(b"false", Val::Bool(false)),
            Some(b'n') => self.word(b"null", Val::Null),
            _ => self.malformed(),
        }
    }

    fn word(&mut self, word: &[u8], value: Val) -> Result<Val, Malformed> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(value);
        }
        self.malformed()
    }

    fn nested(
        &mut self,
        inside: fn(&mut Self) -> Result<Val, Malformed>,
    ) -> Result<Val, Malformed> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Malformed::TooDeep);
        }
        self.at += 1;
        self.space();
        let value = inside(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<Val, Malformed> {
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Val::Arr(Rc::new(items)));
        }
        loop {
            items.push(self.value()?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Val::Arr(Rc::new(items)));
                }
                _ => return self.malformed(),
            }
            self.space();
        }
    }

    fn object(&mut self) -> Result<Val, Malformed> {
        let mut members = Map::default();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Val::obj(members));
        }
        // Most records have about this many fields, and growing the map costs more than the space.
        members.reserve(if self.depth == 1 { 16 } else { 4 });
        loop {
            if self.peek() != Some(b'"') {
                return self.malformed();
            }
            let name = self.string()?;
            self.space();
            self.expect(b':')?;
            self.space();
            let value = self.value()?;
            members.insert(name, value);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Val::obj(members));
                }
                _ => return self.malformed(),
            }
            self.space();
        }
    }

    fn number(&mut self) -> Result<Val, Malformed> {
        let start = self.at;
        let rest = &self.text[start..];
        let part = |b: &u8| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().position(|b| !part(b)).unwrap_or(rest.len());
        let lexeme = std::str::from_utf8(&rest[..length]).ok();
        match lexeme.and_then(parse_number) {
            Some(number) => {
                self.at += length;
                Ok(Val::Num(number))
            }
            None => self.malformed(),
        }
    }

    fn string(&mut self) -> Result<Val, Malformed> {
        let start = self.at + 1;
        let Some(plain) = memchr::memchr2(b'"', b'\\', &self.text[start..]) else {
            return self.malformed();
        };
        let end = start + plain;
        if self.text[end] == b'"' {
            self.at = end + 1;
            return Ok(Val::TStr(Box::new(self.text.slice(start..end))));
        }
        let mut decoded = self.text[start..end].to_vec();
        self.at = end;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Val::TStr(Box::new(Bytes::from(decoded))));
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut decoded)?;
                }
                _ => {}
            }
            let rest = &self.text[self.at..];
            let Some(plain) = memchr::memchr2(b'"', b'\\', rest) else { return self.malformed() };
            decoded.extend_from_slice(&rest[..plain]);
            self.at += plain;
        }
    }

    fn escape(&mut self, decoded: &mut Vec<u8>) -> Result<(), Malformed> {
        let Some(letter) = self.peek() else { return self.malformed() };
        self.at += 1;
        decoded.push(match letter {
            b'"' | b'\\' | b'/' => letter,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let c = self.unicode()?;
                decoded.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return self.malformed(),
        });
        Ok(())
    }

    /// Decodes a `\u` escape. As in jq, half a surrogate pair becomes the replacement character.
    fn unicode(&mut self) -> Result<char, Malformed> {
        let first = self.hex()?;
        let whole = if (0xD800..0xDC00).contains(&first) && self.text[self.at..].starts_with(b"\\u")
        {
            let before = self.at;
            self.at += 2;
            let second = self.hex()?;
            if (0xDC00..0xE000).contains(&second) {
                0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            } else {
                self.at = before;
                first
            }
        } else {
            first
        };
        Ok(char::from_u32(whole).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&mut self) -> Result<u32, Malformed> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => self.malformed(),
        }
    }
}

/// Parses a number. If neither an integer nor a double prints the same text, the number keeps its text
/// until a filter computes with it.
pub(super) fn parse_number(lexeme: &str) -> Option<Num> {
    let digits = lexeme.strip_prefix('-').unwrap_or(lexeme);
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        let well_formed = digits == "0" || (!digits.is_empty() && !digits.starts_with('0'));
        if !well_formed {
            return None;
        }
        return match lexeme.parse::<isize>() {
            Ok(0) if lexeme.len() > 1 => Some(with_text(lexeme)),
            Ok(int) => Some(Num::Int(int)),
            Err(_) => Num::from_str_radix(lexeme, 10),
        };
    }
    if !is_decimal(digits) {
        return None;
    }
    let float: f64 = lexeme.parse().ok()?;
    let mut text = NumberText::default();
    text.float(float);
    Some(if text.as_bytes() == lexeme.as_bytes() { Num::Float(float) } else { with_text(lexeme) })
}

fn with_text(lexeme: &str) -> Num {
    Num::Dec(Rc::new(lexeme.to_owned()))
}

/// Whether `text` is a number of RFC 8259 without the sign. Rust also parses `1.`, `.5` and `inf`.
fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    all_digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(all_digits)
        && exponent.is_none_or(|e| all_digits(e.strip_prefix(['+', '-']).unwrap_or(e)))
}

/// Whole doubles below this are written as integers, as in jq.
const MAX_WHOLE_NUMBER: f64 = 1e17;
/// Doubles below this are written with an exponent.
const MIN_PLAIN_NUMBER: f64 = 1e-5;

/// The text of a double, on the stack.
#[derive(Default)]
struct NumberText {
    bytes: [u8; 32],
    length: usize,
}

impl NumberText {
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn float(&mut self, float: f64) {
        let size = float.abs();
        let mut free = &mut self.bytes[..];
        // The shortest digits that round-trip: at most 17, with sign, point and exponent.
        let written = if size == 0.0 || (MIN_PLAIN_NUMBER..MAX_WHOLE_NUMBER).contains(&size) {
            write!(free, "{float}")
        } else {
            write!(free, "{float:e}")
        };
        written.expect("a double has at most 24 characters");
        self.length = 32 - free.len();
    }
}

/// Writes a number as JSON. As in jq, NaN is null and infinities are the largest doubles.
pub(super) fn write_number(out: &mut Vec<u8>, number: &Num) {
    match number {
        Num::Float(float) if float.is_nan() => out.extend_from_slice(b"null"),
        Num::Float(float) => {
            let mut text = NumberText::default();
            text.float(float.clamp(f64::MIN, f64::MAX));
            out.extend_from_slice(text.as_bytes());
        }
        // Writing to memory cannot fail.
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

/// An object with a key that is not a string, which has no JSON form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NonStringKey;

impl std::fmt::Display for NonStringKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object's key must be a string")
    }
}

/// Appends `value` as JSON on one line.
pub(super) fn write(out: &mut Vec<u8>, value: &Val) -> Result<(), NonStringKey> {
    match value {
        Val::Null => out.extend_from_slice(b"null"),
        Val::Bool(true) => out.extend_from_slice(b"true"),
        Val::Bool(false) => out.extend_from_slice(b"false"),
        Val::Num(number) => write_number(out, number),
        Val::TStr(text) | Val::BStr(text) => write_string(out, text),
        Val::Arr(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(out, item)?;
            }
            out.push(b']');
        }
        Val::Obj(members) => {
            out.push(b'{');
            for (i, (key, member)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                match key {
                    Val::TStr(text) | Val::BStr(text) => write_string(out, text),
                    _ => return Err(NonStringKey),
                }
                out.push(b':');
                write(out, member)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

/// Writes a string. A filter can cut a character in two; invalid bytes are replaced.
fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    match std::str::from_utf8(text) {
        Ok(_) => write_escaped(out, text),
        Err(_) => write_escaped(out, String::from_utf8_lossy(text).as_bytes()),
    }
    out.push(b'"');
}

fn write_escaped(out: &mut Vec<u8>, text: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let is_special = |b: &u8| matches!(b, 0..=0x1F | b'"' | b'\\' | 0x7F);
    let mut rest = text;
    while let Some(i) = rest.iter().position(is_special) {
        out.extend_from_slice(&rest[..i]);
        let byte = rest[i];
        let short = match byte {
            b'"' | b'\\' => Some(byte),
            8 => Some(b'b'),
            12 => Some(b'f'),
            b'\n' => Some(b'n'),
            b'\r' => Some(b'r'),
            b'\t' => Some(b't'),
            _ => None,
        };
        if let Some(letter) = short {
            out.extend_from_slice(&[b'\\', letter]);
        } else {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        rest = &rest[i + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str) -> Option<String> {
        let value = parse(&Bytes::copy_from_slice(text.as_bytes())).ok()?;
        let mut out = Vec::new();
        write(&mut out, &value).ok()?;
        String::from_utf8(out).ok()
    }

    #[test]
    fn numbers_and_strings_come_out_as_they_came_in() {
        for same in [
            "0",
            "-0",
            "1.0",
            "1e5",
            "1E+5",
            "0.10",
            "0.1",
            "123456789012345678901234567890",
            "-9223372036854775808",
            "3.14159265358979323846264338327950288",
            "1e400",
            "2.5e-7",
            "\"a\\\"b\\\\\"",
            "\"\\u0001\\n\"",
            "[]",
            "{}",
            "[1,[2,{\"a\":null}]]",
            "{\"b\":true,\"a\":false}",
            "\"日本\"",
        ] {
            assert_eq!(round(same).as_deref(), Some(same));
        }
    }

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(round(r#""\u00e9\ud83d\ude00\/""#).as_deref(), Some("\"é😀/\""));
        assert_eq!(round(r#""\ud83d""#).as_deref(), Some("\"\u{FFFD}\""));
        assert_eq!(round(r#""\ud83dx\u0041""#).as_deref(), Some("\"\u{FFFD}xA\""));
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for bad in [
            "",
            "[",
            "]",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "[1,]",
            "{,}",
            "\"a",
            "\"\\x\"",
            "\"\\u12g4\"",
            "tru",
            "1 2",
            "-",
            "01",
            "1.",
            ".5",
            "1e",
            "+1",
            "nan",
            "'a'",
            "{a:1}",
        ] {
            assert_eq!(round(bad), None, "{bad}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(round(&deep(MAX_DEPTH)).is_some());
        let too_deep = Bytes::from(deep(1_000_000).into_bytes());
        assert!(matches!(parse(&too_deep), Err(Malformed::TooDeep)));
    }
}
