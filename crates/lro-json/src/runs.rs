//! Skips runs of plain bytes and white space, eight at a time.

/// A byte times this is a word of eight of it.
const ONES: u64 = 0x0101_0101_0101_0101;

/// The index of the first byte from `i` on that ends a run of plain string bytes: a quote, a
/// backslash or a control character. Eight bytes at a time; the masks are the classic
/// "word has a zero byte" tests.
#[inline]
pub(super) fn skip_plain(chunk: &[u8], mut i: usize) -> usize {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // 0x22 is the quote, 0x5C the backslash, 0x20 the first character that is no control.
    while let Some(word) = chunk.get(i..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*word);
        let quote = word ^ (ONES * 0x22);
        let backslash = word ^ (ONES * 0x5C);
        let hit = (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        let hit = hit & HIGH;
        if hit != 0 {
            // Borrows only travel upwards, so the lowest marked byte is always a true hit.
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

/// How many of the next eight bytes are spaces before anything else comes; 0 near the end, where
/// there are no eight.
#[inline]
pub(super) fn spaces(chunk: &[u8], i: usize) -> usize {
    chunk.get(i..).and_then(<[u8]>::first_chunk::<8>).map_or(0, |word| {
        let others = u64::from_le_bytes(*word) ^ (ONES * 0x20);
        others.trailing_zeros() as usize / 8
    })
}
