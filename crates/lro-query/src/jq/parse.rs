//! Parse: from a record's bytes to a value of jaq.
//!
//! Our own, for three reasons: strings without escapes stay where they lie, numbers keep their
//! spelling, and the depth is bounded (jaq's own parser has no bound, and a million `[` would fill
//! any stack; `serde_json` rounds numbers and refuses half a surrogate pair).

use bytes::Bytes;
use jaq_json::{Map, Rc, Val};

use super::number;

/// Deeper records are not parsed; a filter could do nothing with them that ends well.
const DEPTH: usize = 1000;

/// Where the bytes stop being a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Malformed {
    At(usize),
    TooDeep,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(byte) => write!(f, "the record is no JSON value from byte {byte} on"),
            Self::TooDeep => write!(f, "the record is nested more than {DEPTH} deep"),
        }
    }
}

/// Parses `text`, which is UTF-8 and holds one value.
pub(super) fn value(text: &Bytes) -> Result<Val, Malformed> {
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
        if self.depth > DEPTH {
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
        // Most records have about this many fields; growing twice costs more than the room.
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
        match lexeme.and_then(number::parse) {
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

    /// Half a surrogate pair becomes the replacement character, as in jq.
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

#[cfg(test)]
mod tests {
    use super::super::write;
    use super::*;

    fn round(text: &str) -> Option<String> {
        let value = value(&Bytes::copy_from_slice(text.as_bytes())).ok()?;
        let mut out = Vec::new();
        write::value(&mut out, &value).ok()?;
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
        assert!(round(&deep(DEPTH)).is_some());
        let too_deep = Bytes::from(deep(1_000_000).into_bytes());
        assert!(matches!(value(&too_deep), Err(Malformed::TooDeep)));
    }
}
