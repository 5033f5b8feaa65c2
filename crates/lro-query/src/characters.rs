//! Character counting and lossy decoding of bytes that are mostly UTF-8.
//!
//! One rule everywhere: a byte that is not part of a valid sequence is one character, U+FFFD. So a
//! character position means the same in counting, cutting and decoding.

use std::borrow::Cow;

/// A run of bytes that is valid UTF-8, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    /// The number of invalid bytes.
    Bad(usize),
}

/// Divides `bytes` into valid and invalid runs.
pub(crate) fn parts(bytes: &[u8]) -> impl Iterator<Item = Part<'_>> {
    // Most inputs are valid as a whole, and checking this is many times faster than dividing.
    let whole = std::str::from_utf8(bytes).ok();
    let chunks = whole.is_none().then(|| bytes.utf8_chunks()).into_iter().flatten();
    let divided =
        chunks.flat_map(|chunk| [Part::Text(chunk.valid()), Part::Bad(chunk.invalid().len())]);
    whole.map(Part::Text).into_iter().chain(divided)
}

/// The number of characters in `bytes`.
pub(crate) fn count(bytes: &[u8]) -> u64 {
    parts(bytes).map(Part::characters).sum()
}

/// Decodes `bytes`, with invalid bytes replaced.
pub(crate) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for part in parts(bytes) {
        part.push_to(&mut text);
    }
    Cow::Owned(text)
}

impl Part<'_> {
    pub(crate) fn characters(self) -> u64 {
        match self {
            // Every character has exactly one byte that is not a continuation byte.
            Self::Text(text) => text.bytes().map(|b| u64::from(!is_continuation(b))).sum(),
            Self::Bad(bytes) => bytes as u64,
        }
    }

    fn push_to(self, out: &mut String) {
        match self {
            Self::Text(text) => out.push_str(text),
            Self::Bad(bytes) => out.extend(std::iter::repeat_n(char::REPLACEMENT_CHARACTER, bytes)),
        }
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// The number of bytes at the end of `bytes` that begin an incomplete character.
pub(crate) fn unfinished(bytes: &[u8]) -> usize {
    (1..=bytes.len().min(3))
        .find(|back| !is_continuation(bytes[bytes.len() - back]))
        .filter(|back| {
            let tail = std::str::from_utf8(&bytes[bytes.len() - back..]);
            tail.is_err_and(|error| error.error_len().is_none())
        })
        .unwrap_or(0)
}

/// The start of the character that ends at `end`, which must not be 0.
pub(crate) fn before(bytes: &[u8], end: usize) -> usize {
    let longest = end.min(4);
    (1..=longest)
        .find(|length| !is_continuation(bytes[end - length]))
        .filter(|length| std::str::from_utf8(&bytes[end - length..end]).is_ok())
        .map_or(end - 1, |length| end - length)
}

/// The end of the character that begins at `start`, which must not be the end of `bytes`.
pub(crate) fn after(bytes: &[u8], start: usize) -> usize {
    let rest = &bytes[start..];
    (1..=rest.len().min(4))
        .find(|length| std::str::from_utf8(&rest[..*length]).is_ok())
        .map_or(start + 1, |length| start + length)
}

/// Rounds `at` down to the start of a character.
pub(crate) fn floor(bytes: &[u8], at: usize) -> usize {
    (1..=at.min(3))
        .take_while(|_| bytes.get(at).copied().is_some_and(is_continuation))
        .map(|back| at - back)
        .find(|start| !is_continuation(bytes[*start]))
        .filter(|start| after(bytes, *start) > at)
        .unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes one character at a time, by the rule.
    fn naive(bytes: &[u8]) -> String {
        let mut text = String::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = (1..=rest.len().min(4)).find(|n| std::str::from_utf8(&rest[..*n]).is_ok());
            text.push_str(length.map_or("\u{FFFD}", |n| std::str::from_utf8(&rest[..n]).unwrap()));
            rest = &rest[length.unwrap_or(1)..];
        }
        text
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            "[a-c\u{e9}\u{65e5}\u{1f642}]".prop_map(String::into_bytes),
            proptest::sample::select(vec![0xFF_u8, 0x80, 0xC3, 0xE6, 0xF0, 0xED, 0xA0, 0x9F])
                .prop_map(|byte| vec![byte]),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn counting_and_showing_agree_with_the_rule(bytes in bytes()) {
            let expected = naive(&bytes);
            prop_assert_eq!(&*lossy(&bytes), &*expected);
            prop_assert_eq!(count(&bytes), expected.chars().count() as u64);
        }

        #[test]
        fn a_text_may_be_cut_before_what_is_unfinished(bytes in bytes(), at in 0_usize..40) {
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            let head = &head[..head.len() - unfinished(head)];
            let joined = format!("{}{}", lossy(head), lossy(&bytes[head.len()..]));
            prop_assert_eq!(joined, naive(&bytes));
            prop_assert!(tail.len() + head.len() + 3 >= bytes.len());
        }

        #[test]
        fn steps_go_from_character_to_character(bytes in bytes()) {
            let mut starts = vec![0];
            while *starts.last().unwrap() < bytes.len() {
                starts.push(after(&bytes, *starts.last().unwrap()));
            }
            prop_assert_eq!(starts.len() as u64, count(&bytes) + 1);
            for pair in starts.windows(2) {
                prop_assert_eq!(before(&bytes, pair[1]), pair[0]);
                for at in pair[0]..pair[1] {
                    prop_assert_eq!(floor(&bytes, at), pair[0]);
                }
            }
        }
    }
}
