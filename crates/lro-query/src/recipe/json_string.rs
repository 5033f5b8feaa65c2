//! Decodes a JSON string to UTF-8.

use memchr::memchr;

/// The text of a string's inside, decoded into `scratch` only where it has escapes.
///
/// A surrogate without its partner, which no UTF-8 can say, reads as U+FFFD.
#[inline]
pub(super) fn decode<'a>(inside: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let Some(mut backslash) = memchr(b'\\', inside) else { return inside };
    scratch.clear();
    let mut rest = inside;
    loop {
        scratch.extend_from_slice(&rest[..backslash]);
        rest = escape(&rest[backslash + 1..], scratch);
        match memchr(b'\\', rest) {
            Some(next) => backslash = next,
            None => break,
        }
    }
    scratch.extend_from_slice(rest);
    scratch
}

/// Decodes the escape behind a backslash and returns what follows it.
fn escape<'a>(text: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let Some((&letter, rest)) = text.split_first() else { return text };
    out.push(match letter {
        b'b' => 0x08,
        b'f' => 0x0C,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => {
            let (c, rest) = unicode(rest);
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return rest;
        }
        other => other,
    });
    rest
}

/// The character of a `\u` escape, two of them where they are a pair.
fn unicode(text: &[u8]) -> (char, &[u8]) {
    let Some((first, rest)) = hex(text) else { return (char::REPLACEMENT_CHARACTER, text) };
    if (0xD800..0xDC00).contains(&first)
        && let Some((second, behind)) = rest.strip_prefix(b"\\u").and_then(hex)
        && (0xDC00..0xE000).contains(&second)
    {
        let c = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        return (char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER), behind);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), rest)
}

fn hex(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(4)?;
    let value = digits
        .iter()
        .try_fold(0, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?))?;
    Some((value, rest))
}

/// Whether a string's inside says `wanted`.
#[inline]
pub(super) fn is(inside: &[u8], wanted: &str) -> bool {
    inside == wanted.as_bytes()
        || (memchr(b'\\', inside).is_some() && decode(inside, &mut Vec::new()) == wanted.as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_and_lone_surrogates() {
        for (inside, expected) in [
            (r"a\n\u00e9\/", "a\n\u{e9}/"),
            (r"\ud83d\ude00!", "\u{1F600}!"),
            (r"\ud83dx", "\u{FFFD}x"),
            (r"\udc00\ud83d", "\u{FFFD}\u{FFFD}"),
            (r"\ud83d\u0041", "\u{FFFD}A"),
            (r"\u0000", "\0"),
        ] {
            assert_eq!(decode(inside.as_bytes(), &mut Vec::new()), expected.as_bytes(), "{inside}");
        }
    }

    proptest! {
        #[test]
        fn whatever_serde_writes_is_read_back(text: String) {
            let written = serde_json::to_string(&text).unwrap();
            let inside = &written.as_bytes()[1..written.len() - 1];
            let mut scratch = Vec::new();
            prop_assert_eq!(decode(inside, &mut scratch), text.as_bytes());
            prop_assert!(is(inside, &text));
        }

        #[test]
        fn anything_can_be_decoded(bytes: Vec<u8>) {
            decode(&bytes, &mut Vec::new());
        }
    }
}
