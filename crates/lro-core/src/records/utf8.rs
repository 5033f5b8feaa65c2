//! UTF-8, checked while it arrives.

/// Checks chunks that may cut a character.
#[derive(Debug, Default)]
pub(super) struct Utf8Check {
    /// The beginning of a character whose end has not come yet.
    pending: [u8; 4],
    length: usize,
    broken: bool,
}

impl Utf8Check {
    pub(super) fn feed(&mut self, mut chunk: &[u8]) {
        while self.length > 0 && !self.broken {
            let Some((&byte, rest)) = chunk.split_first() else { return };
            self.pending[self.length] = byte;
            self.length += 1;
            chunk = rest;
            match std::str::from_utf8(&self.pending[..self.length]) {
                Ok(_) => self.length = 0,
                Err(error) if error.error_len().is_none() => {}
                Err(_) => self.broken = true,
            }
        }
        if self.broken {
            return;
        }
        let (whole, cut) = chunk.split_at(chunk.len() - cut_character(chunk));
        self.broken = simdutf8::basic::from_utf8(whole).is_err();
        self.pending[..cut.len()].copy_from_slice(cut);
        self.length = cut.len();
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether all that came is UTF-8, the end included.
    pub(super) fn finish(&self) -> bool {
        !self.broken && self.length == 0
    }
}

/// How many bytes at the end of `chunk` begin a character that goes on behind it.
fn cut_character(chunk: &[u8]) -> usize {
    for (bytes, byte) in (1..4).zip(chunk.iter().rev()) {
        let length = match byte {
            0x80..=0xBF => continue,
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xFF => 4,
            _ => 1,
        };
        return if length > bytes { bytes } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], size: usize) -> bool {
        let mut check = Utf8Check::default();
        bytes.chunks(size).for_each(|chunk| check.feed(chunk));
        check.finish()
    }

    #[test]
    fn agrees_with_the_standard_library_wherever_it_is_cut() {
        let samples: &[&[u8]] = &[
            b"plain",
            "a\u{e9}\u{4e2d}\u{1F600}b".as_bytes(),
            b"\xff",
            b"a\xc3",
            b"\xe4\xb8",
            b"\xe4\xb8x",
            b"\xed\xa0\x80",
            b"\xf0\x9f\x98\x80\x80",
            b"",
        ];
        for sample in samples {
            for size in 1..=5 {
                assert_eq!(check(sample, size), std::str::from_utf8(sample).is_ok(), "{sample:?}");
            }
        }
    }
}
