//! Scope: which project a result belongs to.

use std::fmt;
use std::str::FromStr;

const LEN: usize = 8;
/// Crockford's alphabet in lower case: no letter is taken for a digit.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The folder of one project's results: eight characters made from what tells projects apart.
///
/// ```
/// use lro_spool::Scope;
///
/// let one = Scope::from_fields([b"1000".as_slice(), b"/home/ann/shop", b""]);
/// assert_eq!(one, Scope::from_fields([b"1000".as_slice(), b"/home/ann/shop", b""]));
/// assert_ne!(one, Scope::from_fields([b"1000".as_slice(), b"/home/ann/shop2", b""]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scope([u8; LEN]);

/// The text is no scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a scope: expected eight characters")]
pub struct NotAScope;

impl Scope {
    /// The scope of these fields, in this order: uid, working directory, what `--scope` said.
    ///
    /// FNV-1a over length and bytes of each field, mixed once more: the same on every machine and in
    /// every version, so that a restarted proxy finds its folder. It keeps projects of one user
    /// apart by accident, not against an attacker: whoever can choose these fields to collide is
    /// that user already. A cryptographic hash would be a dependency for nothing.
    pub fn from_fields<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let mut add = |byte: u8| {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        };
        for field in fields {
            (field.len() as u64).to_le_bytes().into_iter().for_each(&mut add);
            field.iter().copied().for_each(&mut add);
        }
        // FNV leaves the upper bits of short inputs alike.
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        let mut name = [0; LEN];
        for place in &mut name {
            *place = ALPHABET[(hash & 31) as usize];
            hash >>= 5;
        }
        Self(name)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{}", char::from(*b)))
    }
}

impl FromStr for Scope {
    type Err = NotAScope;

    fn from_str(text: &str) -> Result<Self, NotAScope> {
        let name: [u8; LEN] = text.as_bytes().try_into().map_err(|_| NotAScope)?;
        if name.iter().all(|b| ALPHABET.contains(b)) { Ok(Self(name)) } else { Err(NotAScope) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f28_a_scope_is_the_same_in_every_version() {
        let scope = Scope::from_fields([b"1000".as_slice(), b"/home/ann/shop", b""]);
        assert_eq!(scope.to_string(), "q9pvjbp4");
        assert_eq!(scope.to_string().parse(), Ok(scope));
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let of = |a: &str, b: &str| Scope::from_fields([a.as_bytes(), b.as_bytes()]);
        assert_ne!(of("ab", "c"), of("a", "bc"));
        assert_ne!(of("", "abc"), of("abc", ""));
        let many: std::collections::HashSet<Scope> =
            (0..50_000).map(|i| of("1000", &format!("/p/{i}"))).collect();
        assert_eq!(many.len(), 50_000);
    }

    #[test]
    fn only_eight_characters_of_ours_are_a_scope() {
        for text in
            ["", "..", "../../..", "abcdefg", "abcdefghi", "abcdefgU", "abc/defg", "abcdefgi"]
        {
            assert_eq!(text.parse::<Scope>(), Err(NotAScope), "{text}");
        }
    }
}
