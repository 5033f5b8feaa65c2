//! A cursor over JSON in memory that finds where values end.
//!
//! The cursor builds no values and allocates nothing. It does not validate either: it looks for
//! quotes, brackets and separators only, so it is meant for text that was valid when it was stored.
//! A scalar is any run of bytes up to `,`, `]`, `}` or white space that does not begin with a colon.
//! On damaged text the cursor reports an error or returns lexemes that are no JSON, but it never
//! reads outside of the text, recurses or panics. [`Scanner`](crate::Scanner) validates.

use memchr::memchr;

use crate::SyntaxError;
use crate::runs::find_quote_or_backslash;

/// A position in JSON text that moves forward.
///
/// ```
/// use lro_json::Cursor;
///
/// let mut cursor = Cursor::new(br#" [ {"a": 1} , "b" ] "#);
/// assert!(cursor.take(b'['));
/// assert_eq!(cursor.value()?, br#"{"a": 1}"#);
/// assert!(cursor.take(b','));
/// assert_eq!(cursor.string()?, b"b");
/// cursor.expect(b']')?;
/// cursor.finish()?;
/// # Ok::<(), lro_json::SyntaxError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `text`.
    #[inline]
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The next byte that is no white space. The cursor stops at that byte.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.at)?;
            if !is_space(byte) {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Takes the next byte that is no white space if it equals `byte`.
    #[inline]
    pub fn take(&mut self, byte: u8) -> bool {
        let matches = self.peek() == Some(byte);
        self.at += usize::from(matches);
        matches
    }

    /// Takes the next byte that is no white space, which must equal `byte`.
    #[inline]
    pub fn expect(&mut self, byte: u8) -> Result<(), SyntaxError> {
        if self.take(byte) { Ok(()) } else { Err(error_at(self.at)) }
    }

    /// Takes a string and returns its inside: quotes excluded, escapes untouched.
    #[inline]
    pub fn string(&mut self) -> Result<&'a [u8], SyntaxError> {
        if self.peek() != Some(b'"') {
            return Err(error_at(self.at));
        }
        let start = self.at + 1;
        self.at = string_end(self.text, self.at).ok_or(end_of(self.text))?;
        Ok(&self.text[start..self.at - 1])
    }

    /// Takes a value and returns its lexeme, quotes or brackets included.
    #[inline]
    pub fn value(&mut self) -> Result<&'a [u8], SyntaxError> {
        let start = match self.peek() {
            Some(_) => self.at,
            None => return Err(error_at(self.at)),
        };
        let end = match self.text[start] {
            b'"' => string_end(self.text, start).ok_or(end_of(self.text))?,
            b'{' | b'[' => nested_end(self.text, start).ok_or(end_of(self.text))?,
            b',' | b':' | b']' | b'}' => return Err(error_at(start)),
            _ => scalar_end(self.text, start),
        };
        self.at = end;
        Ok(&self.text[start..end])
    }

    /// Takes a value that may be cut short: without its end, it is the rest of the text. Empty where
    /// no value begins.
    ///
    /// A scalar ends at a separator, or with the first string or container that follows it directly.
    pub fn value_or_rest(&mut self) -> &'a [u8] {
        self.peek();
        let start = self.at;
        let stops = |byte: &u8| ends_scalar(*byte) || matches!(byte, b'"' | b'{' | b'[');
        let rest = &self.text[start..];
        let at = start + rest.iter().position(stops).unwrap_or(rest.len());
        let end = match self.text.get(at) {
            Some(b'"') => string_end(self.text, at),
            Some(b'{' | b'[') => nested_end(self.text, at),
            _ => Some(at),
        };
        self.at = end.unwrap_or(self.text.len());
        &self.text[start..self.at]
    }

    /// Skips everything up to the next string, at any depth, and takes that string: its inside,
    /// quotes excluded. `None` where no whole string follows.
    #[inline]
    pub fn next_string(&mut self) -> Option<&'a [u8]> {
        let quote = self.at + memchr(b'"', &self.text[self.at..])?;
        self.at = string_end(self.text, quote)?;
        Some(&self.text[quote + 1..self.at - 1])
    }

    /// Checks that nothing but white space follows.
    #[inline]
    pub fn finish(&mut self) -> Result<(), SyntaxError> {
        if self.peek().is_none() { Ok(()) } else { Err(error_at(self.at)) }
    }
}

// By value: a reference to the cursor would keep its position out of the registers.
#[inline]
fn error_at(offset: usize) -> SyntaxError {
    SyntaxError { offset: offset as u64 }
}

#[inline]
fn end_of(text: &[u8]) -> SyntaxError {
    error_at(text.len())
}

/// Whether `byte` is white space in JSON; a form feed is not.
#[inline]
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[inline]
fn ends_scalar(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']') || is_space(byte)
}

/// The offset behind the string whose opening quote is at `at`.
#[inline]
pub(crate) fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut i = at + 1;
    loop {
        i = find_quote_or_backslash(text, i)?;
        if text[i] == b'"' {
            return Some(i + 1);
        }
        i += 2;
    }
}

/// The offset behind the container whose opening bracket is at `at`.
#[inline]
fn nested_end(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match text.get(at)? {
            b'"' => {
                at = string_end(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

#[inline]
fn scalar_end(text: &[u8], at: usize) -> usize {
    let rest = &text[at..];
    at + rest.iter().position(|byte| ends_scalar(*byte)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    fn value(text: &str) -> Result<&str, u64> {
        let value = Cursor::new(text.as_bytes()).value();
        value.map(|value| std::str::from_utf8(value).unwrap()).map_err(|error| error.offset)
    }

    #[test]
    fn a_value_ends_where_its_quote_bracket_or_scalar_does() {
        for (text, expected) in [
            (r#" "a\"b\\" , 1"#, r#""a\"b\\""#),
            (r#"[1,{"d":"]\""},[]] ]"#, r#"[1,{"d":"]\""},[]]"#),
            (r#"{"}":{}}}"#, r#"{"}":{}}"#),
            ("-1.50e+3}", "-1.50e+3"),
            ("null", "null"),
            ("\t\r\n true\n", "true"),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_error_has_the_offset_where_the_value_breaks() {
        for (text, offset) in [
            ("", 0),
            ("  ", 2),
            (" ,", 1),
            (":1", 0),
            ("]", 0),
            ("}", 0),
            ("\"a\\\"", 4),
            ("[1,\"]", 5),
        ] {
            assert_eq!(value(text), Err(offset), "{text}");
        }
        assert_eq!(Cursor::new(b" 1").string(), Err(SyntaxError { offset: 1 }));
        assert_eq!(Cursor::new(b" 1").expect(b','), Err(SyntaxError { offset: 1 }));
        assert_eq!(Cursor::new(b"  x").finish(), Err(SyntaxError { offset: 2 }));
    }

    #[test]
    fn a_value_cut_short_is_the_rest() {
        for (text, expected) in [
            ("\"xy", "\"xy"),
            ("\"x\\\"y, z", "\"x\\\"y, z"),
            (" [1,{\"a", "[1,{\"a"),
            (" tru", "tru"),
            ("\"a\" ,", "\"a\""),
            ("{}}", "{}"),
            ("1,2", "1"),
            ("1\"a,b\"c", "1\"a,b\""),
            (",", ""),
            ("", ""),
        ] {
            let rest = Cursor::new(text.as_bytes()).value_or_rest();
            assert_eq!(rest, expected.as_bytes(), "{text}");
        }
    }

    #[test]
    fn strings_at_any_depth() {
        let mut cursor = Cursor::new(br#"{"a":["\"b",{"":1}]} "cut"#);
        let strings: Vec<_> = std::iter::from_fn(|| cursor.next_string()).collect();
        assert_eq!(strings, [&b"a"[..], br#"\"b"#, b""]);
    }

    #[test]
    fn runs_end_at_the_same_byte_however_they_are_aligned() {
        for length in 0..80 {
            for (end, tail) in [("\"", ""), ("\\\"\"", "x"), ("\\\\\"", ",")] {
                let text = format!(
                    "\"{}{end}{tail}",
                    "é!#[]".chars().cycle().take(length).collect::<String>()
                );
                let expected = text.len() - tail.len();
                assert_eq!(string_end(text.as_bytes(), 0), Some(expected), "{text}");
                assert_eq!(string_end(&text.as_bytes()[..expected - 1], 0), None, "{text}");
            }
        }
    }

    /// JSON values in various spellings, with white space between the lexemes.
    fn json() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            Just("-0.10e5".to_owned()),
            Just("123456789012345678901234567890".to_owned()),
            any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
            Just(r#""\ud800\"\\""#.to_owned()),
        ];
        scalar.prop_recursive(4, 24, 5, |inner| {
            let name = any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap());
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5)
                    .prop_map(|values| format!("[ {} ]", values.join(" ,"))),
                proptest::collection::vec((name, inner), 0..5).prop_map(|members| {
                    let members: Vec<_> =
                        members.iter().map(|(n, v)| format!("{n}: {v}")).collect();
                    format!("{{{}\n}}", members.join(",\t"))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn valid_json_is_cut_where_serde_cuts_it(values in proptest::collection::vec(json(), 0..5)) {
            let array = format!("[{}]", values.join(", "));
            let expected: Vec<&RawValue> = serde_json::from_str(&array).unwrap();
            let mut cursor = Cursor::new(array.as_bytes());
            cursor.expect(b'[').unwrap();
            for (i, raw) in expected.iter().enumerate() {
                prop_assert!(i == 0 || cursor.take(b','));
                let lenient = cursor.clone().value_or_rest();
                let value = cursor.value().unwrap();
                prop_assert_eq!(value, raw.get().as_bytes());
                prop_assert_eq!(lenient, value);
            }
            cursor.expect(b']').unwrap();
            prop_assert_eq!(cursor.finish(), Ok(()));
        }

        #[test]
        fn what_serde_accepts_is_one_value(damaged in json(), at: prop::sample::Index, byte: u8) {
            let mut bytes = damaged.into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let mut cursor = Cursor::new(&bytes);
            let one = cursor.value().is_ok() && cursor.finish().is_ok();
            prop_assert!(one || serde_json::from_slice::<&RawValue>(&bytes).is_err());
        }

        #[test]
        fn no_bytes_lead_outside(bytes in proptest::collection::vec(
            prop::sample::select(b"{}[]\",:\\ a1".to_vec()), 0..24,
        )) {
            let mut cursor = Cursor::new(&bytes);
            while cursor.value().is_ok() {}
            let mut cursor = Cursor::new(&bytes);
            while !cursor.value_or_rest().is_empty() {}
            while cursor.next_string().is_some() {}
            let error = Cursor::new(&bytes).value().err().map_or(0, |error| error.offset);
            prop_assert!(error <= bytes.len() as u64);
        }
    }
}
