//! SHA-256 digests: of the blocks of a piece, and of small objects.
//!
//! Each block has a digest in the index entry. The checksums of the services do not replace it: the
//! client library verifies none on reads, and the services return none for a range.

use sha2::{Digest, Sha256};

use crate::error::Damage;

/// The size of a block, the unit of verification.
pub(super) const BLOCK_BYTES: u64 = 1 << 20;
/// The length of a digest in hexadecimal.
const DIGEST_HEX_LEN: usize = 64;

/// Computes the block digests of a piece while it is being written.
#[derive(Default)]
pub(super) struct BlockDigester {
    block: Sha256,
    filled: u64,
    done: String,
}

impl BlockDigester {
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = usize::try_from(BLOCK_BYTES - self.filled).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(space.min(bytes.len()));
            self.block.update(now);
            self.filled += now.len() as u64;
            bytes = later;
            if self.filled == BLOCK_BYTES {
                self.close();
            }
        }
    }

    /// The concatenated digests.
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

/// Whether there is a digest for each block of `bytes` bytes.
pub(super) fn digests_cover(digests: &str, bytes: u64) -> bool {
    digests.is_ascii()
        && bytes.div_ceil(BLOCK_BYTES).checked_mul(DIGEST_HEX_LEN as u64)
            == Some(digests.len() as u64)
}

/// Verifies that `bytes` are the blocks from number `first`.
pub(super) fn verify_blocks(digests: &str, first: u64, bytes: &[u8]) -> Result<(), Damage> {
    let block = usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX);
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    let expected = digests.as_bytes().chunks(DIGEST_HEX_LEN).skip(first);
    for (bytes, expected) in bytes.chunks(block).zip(expected) {
        if sha256(bytes).as_bytes() != expected {
            return Err(Damage::Changed);
        }
    }
    Ok(())
}

/// The SHA-256 digest of `bytes`, in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(DIGEST_HEX_LEN);
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
        let mut whole = BlockDigester::default();
        whole.feed(&bytes);
        let mut pieces = BlockDigester::default();
        for piece in bytes.chunks(77_777) {
            pieces.feed(piece);
        }
        let digests = whole.finish();
        assert_eq!(digests, pieces.finish());
        assert!(digests_cover(&digests, bytes.len() as u64) && !digests_cover(&digests, 1));
        assert_eq!(verify_blocks(&digests, 1, &bytes[1 << 20..3 << 20]), Ok(()));
        assert_eq!(verify_blocks(&digests, 0, &bytes[1 << 20..3 << 20]), Err(Damage::Changed));
        let mut other = bytes[4 << 20..].to_vec();
        assert_eq!(verify_blocks(&digests, 4, &other), Ok(()));
        other[7] ^= 1;
        assert_eq!(verify_blocks(&digests, 4, &other), Err(Damage::Changed));
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
