//! A hash for comparing and counting names and values: FNV-1a.

use std::hash::Hasher;

/// The FNV-1a hash of `bytes`. A collision makes two values count as one, and nothing worse.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The hasher of a set of hashes: each is its own hash. For sets of bounded size only, because a
/// result can contain values that collide.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SameHash(u64);

impl Hasher for SameHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = fnv1a(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
