//! A hash for comparing and counting names and values: FNV-1a.

/// The FNV-1a hash of `bytes`. A collision makes two values count as one, and nothing worse.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}
