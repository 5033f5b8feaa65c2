//! The JSON parser.
//!
//! It exists because `serde_json` cannot do three things that are needed here: report the line
//! of a value that is found invalid later, refuse a duplicate key instead of dropping the first, and
//! keep every digit without a feature that changes the whole program. `jsonc-parser` accepts more than
//! JSON even with all options off (control characters in strings, Unicode white space).

use std::collections::HashSet;
use std::str::FromStr;

use crate::error::{MemoryFormat, MifError, TextPosition, quoted};
use crate::value::{MAX_NESTING_DEPTH, Node, NodeKind, Value};

/// Up to this many keys, duplicates are found by a linear search instead of a set.
const LINEAR_SEARCH_MAX_KEYS: usize = 24;

/// Parses one JSON document; `form` only appears in errors.
pub(crate) fn read(text: &str, form: MemoryFormat) -> Result<Node, MifError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader =
        Reader { text, pos: 0, marked: 0, mark: TextPosition { line: 1, column: 1 }, form };
    reader.skip_space();
    let node = reader.value(0)?;
    reader.skip_space();
    if reader.peek().is_some() {
        return Err(reader.unexpected("the end of the document"));
    }
    Ok(node)
}

impl FromStr for Value {
    type Err = MifError;

    fn from_str(text: &str) -> Result<Self, MifError> {
        read(text, MemoryFormat::Json).map(Self::from)
    }
}

struct Reader<'a> {
    text: &'a str,
    pos: usize,
    /// `mark` is the position of byte `marked`. It only moves forward, so that all positions
    /// together cost one pass over the text.
    marked: usize,
    mark: TextPosition,
    form: MemoryFormat,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    fn here(&mut self) -> TextPosition {
        // Counts the bytes that begin a character.
        let passed = &self.text.as_bytes()[self.marked..self.pos];
        self.mark.column += passed.iter().filter(|byte| byte.cast_signed() >= -0x40).count();
        self.marked = self.pos;
        self.mark
    }

    /// Marks the beginning of a line, after a line break.
    fn new_line(&mut self) {
        self.mark = TextPosition { line: self.mark.line + 1, column: 1 };
        self.marked = self.pos;
    }

    fn error(&self, at: TextPosition, expected: &str, found: String) -> MifError {
        MifError::Syntax { form: self.form, at, expected: expected.to_owned(), found }
    }

    fn unexpected(&mut self, expected: &str) -> MifError {
        let at = self.here();
        let found = self.text[self.pos..]
            .chars()
            .next()
            .map_or_else(|| "the end of the text".to_owned(), |c| format!("{c:?}"));
        self.error(at, expected, found)
    }

    fn skip_space(&mut self) {
        while let Some(space @ (b' ' | b'\t' | b'\n' | b'\r')) = self.peek() {
            self.pos += 1;
            if space == b'\n' {
                self.new_line();
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, MifError> {
        let at = self.here();
        let kind = match self.peek() {
            Some(b'{' | b'[') if depth == MAX_NESTING_DEPTH => {
                let expected = format!("at most {MAX_NESTING_DEPTH} levels of nesting");
                return Err(self.error(at, &expected, "one more".to_owned()));
            }
            Some(b'{') => NodeKind::Object(self.object(depth + 1)?),
            Some(b'[') => NodeKind::Array(self.array(depth + 1)?),
            Some(b'"') => NodeKind::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number(at)?,
            Some(b't') => self.word("true", NodeKind::Bool(true))?,
            Some(b'f') => self.word("false", NodeKind::Bool(false))?,
            Some(b'n') => self.word("null", NodeKind::Null)?,
            _ => return Err(self.unexpected("a JSON value")),
        };
        Ok(Node::new(at, kind))
    }

    fn word(&mut self, word: &str, kind: NodeKind) -> Result<NodeKind, MifError> {
        if !self.text[self.pos..].starts_with(word) {
            return Err(self.unexpected("a JSON value"));
        }
        self.pos += word.len();
        Ok(kind)
    }

    fn number(&mut self, at: TextPosition) -> Result<NodeKind, MifError> {
        let rest = &self.text[self.pos..];
        let end = rest
            .bytes()
            .position(|b| !matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
            .unwrap_or(rest.len());
        let lexeme = &rest[..end];
        self.pos += end;
        lexeme
            .parse()
            .map(NodeKind::Number)
            .map_err(|_| self.error(at, "a JSON number", quoted(lexeme)))
    }

    fn string(&mut self) -> Result<String, MifError> {
        let at = self.here();
        let start = self.pos;
        self.pos += 1;
        let mut escaped = false;
        loop {
            match self.peek() {
                Some(b'"') => break,
                // The byte after a backslash cannot end the string. It may be inside a multi-byte
                // character, which is harmless, since only ASCII is searched for.
                Some(b'\\') if self.pos + 1 < self.text.len() => {
                    escaped = true;
                    self.pos += 2;
                    // An invalid escape, reported at the end of the string.
                    if self.text.as_bytes()[self.pos - 1] == b'\n' {
                        self.new_line();
                    }
                }
                Some(b) if b >= 0x20 && b != b'\\' => self.pos += 1,
                Some(b'\\') | None => {
                    self.pos = self.text.len();
                    return Err(self.unexpected("a closing '\"'"));
                }
                Some(_) => return Err(self.unexpected("control characters escaped in strings")),
            }
        }
        self.pos += 1;
        let lexeme = &self.text[start..self.pos];
        if !escaped {
            return Ok(lexeme[1..lexeme.len() - 1].to_owned());
        }
        serde_json::from_str(lexeme)
            .map_err(|_| self.error(at, "a string whose escapes are valid Unicode", quoted(lexeme)))
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Node>, MifError> {
        let mut items = Vec::new();
        self.pos += 1;
        self.skip_space();
        if self.peek() == Some(b']') {
            self.pos += 1;
            return Ok(items);
        }
        loop {
            self.skip_space();
            items.push(self.value(depth)?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.pos += 1,
                Some(b']') => break,
                _ => return Err(self.unexpected("',' or ']'")),
            }
        }
        self.pos += 1;
        Ok(items)
    }

    fn object(&mut self, depth: usize) -> Result<Vec<(String, Node)>, MifError> {
        let mut entries: Vec<(String, Node)> = Vec::new();
        // A linear search is faster for few keys; with a set, the cost per key stays constant in a
        // document of a million keys.
        let mut seen = HashSet::new();
        self.pos += 1;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.pos += 1;
            return Ok(entries);
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            let at = self.here();
            let key = self.string()?;
            if entries.len() == LINEAR_SEARCH_MAX_KEYS {
                seen.extend(entries.iter().map(|(key, _)| key.clone()));
            }
            let again = if entries.len() < LINEAR_SEARCH_MAX_KEYS {
                entries.iter().any(|(other, _)| *other == key)
            } else {
                !seen.insert(key.clone())
            };
            if again {
                return Err(self.error(at, "each key once", format!("a second {}", quoted(&key))));
            }
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("':'"));
            }
            self.pos += 1;
            self.skip_space();
            let value = self.value(depth)?;
            entries.push((key, value));
            self.skip_space();
            match self.peek() {
                Some(b',') => self.pos += 1,
                Some(b'}') => break,
                _ => return Err(self.unexpected("',' or '}'")),
            }
        }
        self.pos += 1;
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_serde_json() {
        for text in [
            r#"{"a": [1, -0.5e3, true, null, "\u00e9\ud83d\ude00\/"], "b": {}}"#,
            "[]",
            " \"x\" ",
            "0.125",
        ] {
            let ours =
                serde_json::Value::from(Value::from(read(text, MemoryFormat::Json).unwrap()));
            assert_eq!(ours, serde_json::from_str::<serde_json::Value>(text).unwrap());
        }
    }

    #[test]
    fn keeps_every_digit_and_every_key() {
        let text = r#"{"$serde_json::private::JsonNumber":"12","b":1E05,"a":-0.10,"c":123456789012345678901234567890}"#;
        assert_eq!(Value::from(read(text, MemoryFormat::Json).unwrap()).to_string(), text);
    }

    #[test]
    fn refuses_what_json_refuses() {
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "01",
            "1.",
            "+1",
            "nul",
            "\"\\ud800\"",
            "\"a\nb\"",
            "\"\\",
            "\"\\é\"",
            "1 2",
            "{a:1}",
            "{\"a\":1,\"a\":2}",
            "'x'",
            "NaN",
            "\"\\u12\"",
        ] {
            assert!(read(text, MemoryFormat::Json).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn a_duplicate_key_is_detected_among_few_and_many() {
        for n in [
            2,
            LINEAR_SEARCH_MAX_KEYS - 1,
            LINEAR_SEARCH_MAX_KEYS,
            LINEAR_SEARCH_MAX_KEYS + 1,
            LINEAR_SEARCH_MAX_KEYS + 2,
            3 * LINEAR_SEARCH_MAX_KEYS,
        ] {
            for again in [0, n / 2, n - 1] {
                let keys: Vec<String> = (0..n).map(|key| format!("\"k{key}\":0")).collect();
                let text = format!("{{{}}}", keys.join(","));
                assert!(read(&text, MemoryFormat::Json).is_ok(), "{n} keys");
                let text = format!("{{{},\"k{again}\":1}}", keys.join(","));
                assert!(read(&text, MemoryFormat::Json).is_err(), "{n} keys and k{again} again");
            }
        }
    }

    #[test]
    fn places_count_characters_and_lines() {
        for (text, line, column) in [
            ("{\"é日\": 1,\n \"ü\":\n  \"日本\" x}", 3, 8),
            ("{\"é日\": x}", 1, 8),
            ("\n\n x", 3, 2),
            ("[\"é\\\n日", 2, 2),
        ] {
            let Err(MifError::Syntax { at, .. }) = read(text, MemoryFormat::Json) else {
                panic!("{text}")
            };
            assert_eq!(at, TextPosition { line, column }, "{text}");
        }
    }

    #[test]
    fn bounds_nesting() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(read(&deep(MAX_NESTING_DEPTH), MemoryFormat::Json).is_ok());
        assert!(read(&deep(MAX_NESTING_DEPTH + 1), MemoryFormat::Json).is_err());
        assert!(read(&"[".repeat(1_000_000), MemoryFormat::Json).is_err());
    }
}
