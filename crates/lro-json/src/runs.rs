//! Skips runs of plain bytes and white space, eight at a time.
//!
//! The masks are the classic "word has a zero byte" tests. Borrows only travel upwards, so the
//! lowest marked byte is always a true hit.

/// A byte times this is a word of eight of it.
const ONES: u64 = 0x0101_0101_0101_0101;

/// The highest bit of each byte in a word.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Up to this many bytes, words are faster than a call of `memchr`.
const SHORT_RUN_LEN: usize = 32;

/// The index of the first byte from `i` on that ends a run of plain string bytes: a quote, a
/// backslash or a control character.
#[inline]
pub(super) fn skip_plain(chunk: &[u8], mut i: usize) -> usize {
    while let Some(word) = word_at(chunk, i) {
        // 0x20 is the first character that is no control.
        let hit = (quotes_and_backslashes(word) | (word.wrapping_sub(ONES * 0x20) & !word)) & HIGH;
        if hit != 0 {
            return i + (hit.trailing_zeros() / 8) as usize;
        }
        i += 8;
    }
    while let Some(&byte) = chunk.get(i) {
        if byte == b'"' || byte == b'\\' || byte < 0x20 {
            break;
        }
        i += 1;
    }
    i
}

/// The index of the first quote or backslash from `i` on. Names and short values end within a word
/// or two, where a call of `memchr` costs more than it saves.
#[inline]
pub(super) fn find_quote_or_backslash(text: &[u8], mut i: usize) -> Option<usize> {
    let short = i + SHORT_RUN_LEN;
    while i < short {
        let Some(word) = word_at(text, i) else { break };
        let hit = quotes_and_backslashes(word) & HIGH;
        if hit != 0 {
            return Some(i + (hit.trailing_zeros() / 8) as usize);
        }
        i += 8;
    }
    memchr::memchr2(b'"', b'\\', text.get(i..)?).map(|end| i + end)
}

/// How many of the next eight bytes are spaces before another byte comes; 0 where fewer than eight
/// bytes are left.
#[inline]
pub(super) fn spaces(chunk: &[u8], i: usize) -> usize {
    word_at(chunk, i)
        .map_or(0, |word| (word ^ (ONES * u64::from(b' '))).trailing_zeros() as usize / 8)
}

#[inline]
fn word_at(text: &[u8], i: usize) -> Option<u64> {
    text.get(i..).and_then(<[u8]>::first_chunk::<8>).map(|word| u64::from_le_bytes(*word))
}

#[inline]
fn quotes_and_backslashes(word: u64) -> u64 {
    let quote = word ^ (ONES * 0x22);
    let backslash = word ^ (ONES * 0x5C);
    (quote.wrapping_sub(ONES) & !quote) | (backslash.wrapping_sub(ONES) & !backslash)
}
