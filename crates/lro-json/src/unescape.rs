//! Decodes and encodes the strings of JSON.
//!
//! Half of a surrogate pair has no UTF-8. [`decode`] and [`Unescape`] refuse such a string,
//! [`decode_lossy`] and [`append_lossy`] replace the half by U+FFFD.

use std::borrow::Cow;

use memchr::memchr;

/// The text of a string's inside (quotes excluded); `None` where it has no UTF-8.
pub fn decode(inside: &[u8]) -> Option<Cow<'_, str>> {
    if memchr(b'\\', inside).is_none() {
        return std::str::from_utf8(inside).ok().map(Cow::Borrowed);
    }
    let mut quoted = Vec::with_capacity(inside.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(inside);
    quoted.push(b'"');
    serde_json::from_slice::<String>(&quoted).ok().map(Cow::Owned)
}

/// `text` as a JSON string, quotes included.
pub fn encode(text: &str) -> String {
    // A &str always serializes; the fallback keeps the function total.
    serde_json::to_string(text).unwrap_or_else(|_| String::from("\"\""))
}

/// The text of a string's inside, decoded into `scratch` only where it has escapes.
#[inline]
pub fn decode_lossy<'a>(inside: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if memchr(b'\\', inside).is_none() {
        return inside;
    }
    scratch.clear();
    append_lossy(inside, scratch);
    scratch
}

/// Appends the text of a string's inside to `out`.
///
/// An escape that JSON does not have loses its backslash, and `\u` without four hexadecimal digits
/// becomes U+FFFD.
pub fn append_lossy(inside: &[u8], out: &mut Vec<u8>) {
    let mut rest = inside;
    while let Some(i) = memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..i]);
        rest = &rest[i + 1..];
        match rest.split_first() {
            Some((b'u', digits)) => {
                let (character, behind) = unicode_lossy(digits);
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = behind;
            }
            Some((&letter, behind)) => {
                out.push(simple(letter).unwrap_or(letter));
                rest = behind;
            }
            None => out.push(b'\\'),
        }
    }
    out.extend_from_slice(rest);
}

/// Whether the text of a string's inside equals `text`.
#[inline]
pub fn string_equals(inside: &[u8], text: &str) -> bool {
    inside == text.as_bytes()
        || (memchr(b'\\', inside).is_some() && decoded_string_equals(inside, text))
}

/// Out of line: names with escapes are rare.
#[cold]
fn decoded_string_equals(inside: &[u8], text: &str) -> bool {
    decode_lossy(inside, &mut Vec::new()) == text.as_bytes()
}

/// The character of a `\u` escape, of two of them where they are a pair, and the text behind it.
fn unicode_lossy(digits: &[u8]) -> (char, &[u8]) {
    let Some((first, rest)) = split_hex(digits) else {
        return (char::REPLACEMENT_CHARACTER, digits);
    };
    if let Some((second, behind)) = rest.strip_prefix(b"\\u").and_then(split_hex)
        && let Some(pair) = surrogate_pair(first, second)
    {
        return (pair, behind);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), rest)
}

/// The character of a high and a low surrogate; `None` where they are no pair.
fn surrogate_pair(high: u32, low: u32) -> Option<char> {
    match (high, low) {
        (0xD800..0xDC00, 0xDC00..0xE000) => {
            char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
        }
        _ => None,
    }
}

/// The byte of an escape of one letter.
fn simple(escape: u8) -> Option<u8> {
    Some(match escape {
        b'"' | b'\\' | b'/' => escape,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return None,
    })
}

/// The number of four hexadecimal digits, and the text behind them.
fn split_hex(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(4)?;
    let number = digits
        .iter()
        .try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?))?;
    Some((number, rest))
}

/// The string has no text: it holds half of a surrogate pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the string has a lone surrogate")]
pub struct LoneSurrogate;

/// Decodes the inside of a JSON string that arrives in parts and need not fit into memory.
#[derive(Debug, Default)]
pub struct Unescape {
    /// An escape that is not complete yet.
    pending: Vec<u8>,
}

impl Unescape {
    /// Decodes the next part of a valid string, quotes excluded, into `out`.
    pub fn feed(&mut self, part: &[u8], out: &mut Vec<u8>) -> Result<(), LoneSurrogate> {
        let mut part = self.complete(part, out)?;
        while let Some(at) = memchr(b'\\', part) {
            out.extend_from_slice(&part[..at]);
            part = &part[at + 1..];
            if let Some(plain) = part.first().copied().and_then(simple) {
                out.push(plain);
                part = &part[1..];
                continue;
            }
            self.pending.push(b'\\');
            part = self.complete(part, out)?;
        }
        out.extend_from_slice(part);
        Ok(())
    }

    /// Ends the string.
    pub fn finish(self) -> Result<(), LoneSurrogate> {
        if self.pending.is_empty() { Ok(()) } else { Err(LoneSurrogate) }
    }

    /// Adds bytes of `part` to the pending escape until it is decoded; returns the other bytes.
    fn complete<'a>(
        &mut self,
        mut part: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<&'a [u8], LoneSurrogate> {
        while !self.pending.is_empty()
            && let Some((&byte, rest)) = part.split_first()
        {
            part = rest;
            self.pending.push(byte);
            self.settle(out)?;
        }
        Ok(part)
    }

    /// Decodes the pending escape if it is complete.
    fn settle(&mut self, out: &mut Vec<u8>) -> Result<(), LoneSurrogate> {
        let character = match *self.pending.as_slice() {
            [] | [_] | [_, b'u'] => return Ok(()),
            [_, escape] => {
                out.push(simple(escape).ok_or(LoneSurrogate)?);
                self.pending.clear();
                return Ok(());
            }
            [_, _, ref digits @ ..] if digits.len() < 4 => return Ok(()),
            [_, _, ref digits @ ..] => match split_hex(digits).ok_or(LoneSurrogate)? {
                (0xD800..0xDC00, follows) if follows.len() < 6 => {
                    // The other half must follow at once.
                    let starts = &follows[..follows.len().min(2)];
                    return if b"\\u".starts_with(starts) { Ok(()) } else { Err(LoneSurrogate) };
                }
                (high @ 0xD800..0xDC00, follows) => {
                    let (low, _) = split_hex(&follows[2..]).ok_or(LoneSurrogate)?;
                    surrogate_pair(high, low)
                }
                (unit, _) => char::from_u32(unit),
            },
        };
        let character = character.ok_or(LoneSurrogate)?;
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.pending.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(inside: &str, cut: usize) -> Result<String, LoneSurrogate> {
        let (mut unescape, mut out) = (Unescape::default(), Vec::new());
        for part in inside.as_bytes().chunks(cut) {
            unescape.feed(part, &mut out)?;
        }
        unescape.finish()?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_string_is_decoded_however_it_is_cut() {
        let inside = r#"plain \"\\\/\b\f\n\r\t \u00e9é \ud83d\ude00\ud83d\ude00 end\u0000"#;
        let expected: String = serde_json::from_str(&format!("\"{inside}\"")).unwrap();
        for cut in 1..=inside.len() {
            assert_eq!(decoded(inside, cut).as_deref(), Ok(expected.as_str()), "cut by {cut}");
        }
        assert_eq!(decode_lossy(inside.as_bytes(), &mut Vec::new()), expected.as_bytes());
    }

    #[test]
    fn half_a_pair_is_no_text() {
        for inside in [r"\ud800", r"\ud800x", r"\ud800\n", r"\udc00", r"\ud800\ud800", r"a\ud83d\u"]
        {
            for cut in 1..=inside.len() {
                assert_eq!(decoded(inside, cut), Err(LoneSurrogate), "{inside} cut by {cut}");
            }
        }
    }

    #[test]
    fn decoding_resolves_escapes_and_refuses_lone_surrogates() {
        assert_eq!(decode(br"a\n\u00e9").as_deref(), Some("a\n\u{e9}"));
        assert_eq!(decode(br"\ud83d\ude00").as_deref(), Some("\u{1F600}"));
        assert_eq!(decode(br"\ud83d"), None);
        assert_eq!(decode(b"\xff"), None);
    }

    #[test]
    fn lossy_decoding_replaces_lone_surrogates() {
        for (inside, expected) in [
            (r"a\n\u00e9\/", "a\n\u{e9}/"),
            (r#"\"\b\f\r\t\\"#, "\"\u{8}\u{c}\r\t\\"),
            (r"\ud83d\ude00!", "\u{1F600}!"),
            (r"\ud83dx", "\u{FFFD}x"),
            (r"\udc00\ud83d", "\u{FFFD}\u{FFFD}"),
            (r"\ud83d\u0041", "\u{FFFD}A"),
            (r"\u0000", "\0"),
            (r"\u12", "\u{FFFD}12"),
            (r"\x\é", "xé"),
            (r"a\", r"a\"),
        ] {
            let mut scratch = b"earlier".to_vec();
            assert_eq!(
                decode_lossy(inside.as_bytes(), &mut scratch),
                expected.as_bytes(),
                "{inside}"
            );
            let mut out = b"before ".to_vec();
            append_lossy(inside.as_bytes(), &mut out);
            assert_eq!(out, format!("before {expected}").as_bytes(), "{inside}");
            assert!(string_equals(inside.as_bytes(), expected), "{inside}");
            assert!(!string_equals(inside.as_bytes(), "other"), "{inside}");
        }
    }

    proptest! {
        #[test]
        fn whatever_serde_writes_is_read_back(text: String) {
            let encoded = encode(&text);
            let inside = &encoded.as_bytes()[1..encoded.len() - 1];
            let mut scratch = Vec::new();
            prop_assert_eq!(decode_lossy(inside, &mut scratch), text.as_bytes());
            prop_assert!(string_equals(inside, &text));
            prop_assert!(decode(inside).is_some_and(|decoded| decoded == text));
        }

        #[test]
        fn anything_can_be_decoded(bytes: Vec<u8>) {
            decode_lossy(&bytes, &mut Vec::new());
            decode(&bytes);
        }
    }
}
