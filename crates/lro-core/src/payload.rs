//! Payloads that can be read more than once, in memory or elsewhere.
//!
//! The first pass processes a payload while it arrives. Everything later (samples, the second pass)
//! reads it through [`Payload`], so that it need not be in memory.

use std::error::Error;
use std::ops::Range;

/// A complete payload.
///
/// # Contract
/// - The bytes are the same each time.
/// - [`chunk_at`](Self::chunk_at) returns at least one byte before the end, and none at or after it.
pub trait Payload {
    /// The size in bytes.
    fn bytes(&self) -> u64;

    /// All bytes, if they are in memory.
    fn whole(&self) -> Option<&[u8]>;

    /// Some bytes from `at` on, as many as are cheap to get. `space` is a buffer for them.
    fn chunk_at<'a>(&'a self, at: u64, space: &'a mut Vec<u8>) -> Result<&'a [u8], Unreadable>;
}

/// The payload cannot be read again.
#[derive(Debug, thiserror::Error)]
#[error("the payload could not be read again")]
pub struct Unreadable(#[source] pub Box<dyn Error + Send + Sync>);

impl Payload for &[u8] {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn whole(&self) -> Option<&[u8]> {
        Some(self)
    }

    fn chunk_at<'a>(&'a self, at: u64, _: &'a mut Vec<u8>) -> Result<&'a [u8], Unreadable> {
        Ok(usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default())
    }
}

/// A range of a payload, as a payload.
pub struct Section<'a> {
    payload: &'a dyn Payload,
    range: Range<u64>,
}

impl<'a> Section<'a> {
    /// The bytes of `range`; all of them without one.
    pub fn new(payload: &'a dyn Payload, range: Option<Range<u64>>) -> Self {
        let range = range.unwrap_or(0..payload.bytes());
        Self { payload, range }
    }
}

impl Payload for Section<'_> {
    fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn whole(&self) -> Option<&[u8]> {
        let index = |offset| usize::try_from(offset).ok();
        self.payload.whole()?.get(index(self.range.start)?..index(self.range.end)?)
    }

    fn chunk_at<'a>(&'a self, at: u64, space: &'a mut Vec<u8>) -> Result<&'a [u8], Unreadable> {
        let left = self.bytes().saturating_sub(at);
        if left == 0 {
            return Ok(&[]);
        }
        let chunk = self.payload.chunk_at(self.range.start + at, space)?;
        Ok(&chunk[..usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len())])
    }
}

/// Calls `visit` with pieces of `size` bytes; the last one may be shorter. The pieces do not depend
/// on the chunks of the payload.
pub fn each_piece<E: From<Unreadable>>(
    payload: &dyn Payload,
    size: usize,
    mut visit: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let (mut at, mut space, mut piece) = (0, Vec::new(), Vec::new());
    loop {
        let chunk = payload.chunk_at(at, &mut space)?;
        at += chunk.len() as u64;
        if chunk.is_empty() {
            break;
        }
        // First complete the piece that the previous chunk began.
        let missing = if piece.is_empty() { 0 } else { size - piece.len() };
        let (first, rest) = chunk.split_at(missing.min(chunk.len()));
        piece.extend_from_slice(first);
        if piece.len() == size {
            visit(&piece)?;
            piece.clear();
        }
        let pieces = rest.chunks_exact(size);
        piece.extend_from_slice(pieces.remainder());
        for whole in pieces {
            visit(whole)?;
        }
    }
    if piece.is_empty() { Ok(()) } else { visit(&piece) }
}

/// The bytes of `range`, as far as the payload has them.
pub fn part(payload: &dyn Payload, range: Range<u64>) -> Result<Vec<u8>, Unreadable> {
    let (mut at, mut space, mut bytes) = (range.start, Vec::new(), Vec::new());
    while at < range.end {
        let chunk = payload.chunk_at(at, &mut space)?;
        if chunk.is_empty() {
            break;
        }
        let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(chunk.len());
        bytes.extend_from_slice(&chunk[..wanted]);
        at += wanted as u64;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A payload with chunks of a given size.
    struct Cut<'a>(&'a [u8], usize);

    impl Payload for Cut<'_> {
        fn bytes(&self) -> u64 {
            self.0.len() as u64
        }

        fn whole(&self) -> Option<&[u8]> {
            None
        }

        fn chunk_at<'a>(&'a self, at: u64, _: &'a mut Vec<u8>) -> Result<&'a [u8], Unreadable> {
            let rest = self.0.get(usize::try_from(at).unwrap()..).unwrap_or_default();
            Ok(&rest[..rest.len().min(self.1)])
        }
    }

    #[test]
    fn pieces_are_the_same_however_a_payload_is_cut() {
        let text: Vec<u8> = (0..100).collect();
        for size in 1..=101 {
            let expected: Vec<Vec<u8>> = text.chunks(size).map(<[u8]>::to_vec).collect();
            for cut in 1..=101 {
                let mut pieces = Vec::new();
                each_piece(&Cut(&text, cut), size, |piece| {
                    pieces.push(piece.to_vec());
                    Ok::<_, Unreadable>(())
                })
                .unwrap();
                assert_eq!(pieces, expected, "pieces of {size} from chunks of {cut}");
            }
        }
    }

    #[test]
    fn a_section_has_the_bytes_of_its_range() {
        let text: Vec<u8> = (0..100).collect();
        for cut in [1, 7, 100] {
            let payload = Cut(&text, cut);
            let section = Section::new(&payload, Some(10..30));
            assert_eq!(section.bytes(), 20);
            assert_eq!(part(&section, 0..50).unwrap(), text[10..30]);
            assert_eq!(part(&Section::new(&payload, None), 0..200).unwrap(), text);
        }
        assert_eq!(Section::new(&&text[..], Some(90..95)).whole(), Some(&text[90..95]));
    }

    #[test]
    fn a_part_ends_where_the_payload_does() {
        let text: Vec<u8> = (0..100).collect();
        for cut in [1, 7, 100] {
            let payload = Cut(&text, cut);
            assert_eq!(part(&payload, 10..20).unwrap(), text[10..20]);
            assert_eq!(part(&payload, 95..200).unwrap(), text[95..]);
            assert!(part(&payload, 200..300).unwrap().is_empty());
        }
    }
}
