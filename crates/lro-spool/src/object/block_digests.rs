//! Digests of blocks, which detect changed data.

use sha2::{Digest, Sha256};

use crate::error::Damage;

/// What is fetched and checked as one.
pub(super) const BLOCK: u64 = 1 << 20;
/// The length of a digest in hexadecimal.
const HEX: usize = 64;

/// The digests of a piece that is being written.
#[derive(Default)]
pub(super) struct Digests {
    block: Sha256,
    filled: u64,
    done: String,
}

impl Digests {
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = usize::try_from(BLOCK - self.filled).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(space.min(bytes.len()));
            self.block.update(now);
            self.filled += now.len() as u64;
            bytes = later;
            if self.filled == BLOCK {
                self.close();
            }
        }
    }

    /// All of them, one behind the other.
    pub(super) fn finish(&mut self) -> String {
        if self.filled > 0 {
            self.close();
        }
        std::mem::take(&mut self.done)
    }

    fn close(&mut self) {
        push_hex(&mut self.done, &self.block.finalize_reset());
        self.filled = 0;
    }
}

/// Whether there is a digest for each block of this many bytes.
pub(super) fn fit(digests: &str, bytes: u64) -> bool {
    digests.is_ascii()
        && bytes.div_ceil(BLOCK).checked_mul(HEX as u64) == Some(digests.len() as u64)
}

/// Whether `bytes` are the blocks from number `first` on.
pub(super) fn check(digests: &str, first: u64, bytes: &[u8]) -> Result<(), Damage> {
    let block = usize::try_from(BLOCK).unwrap_or(usize::MAX);
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    let expected = digests.as_bytes().chunks(HEX).skip(first);
    for (bytes, expected) in bytes.chunks(block).zip(expected) {
        if sha256(bytes).as_bytes() != expected {
            return Err(Damage::Changed);
        }
    }
    Ok(())
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(HEX);
    push_hex(&mut hex, &Sha256::digest(bytes));
    hex
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_sha256_whatever_pieces_the_bytes_come_in() {
        let bytes: Vec<u8> = (0..5_000_000u32).map(|n| (n / 999).to_le_bytes()[0]).collect();
        let mut whole = Digests::default();
        whole.feed(&bytes);
        let mut pieces = Digests::default();
        for piece in bytes.chunks(77_777) {
            pieces.feed(piece);
        }
        let digests = whole.finish();
        assert_eq!(digests, pieces.finish());
        assert!(fit(&digests, bytes.len() as u64) && !fit(&digests, 1));
        assert_eq!(check(&digests, 1, &bytes[1 << 20..3 << 20]), Ok(()));
        assert_eq!(check(&digests, 0, &bytes[1 << 20..3 << 20]), Err(Damage::Changed));
        let mut other = bytes[4 << 20..].to_vec();
        assert_eq!(check(&digests, 4, &other), Ok(()));
        other[7] ^= 1;
        assert_eq!(check(&digests, 4, &other), Err(Damage::Changed));
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
