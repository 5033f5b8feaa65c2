//! Object keys of a tenant.
//!
//! `<prefix>/<tenant>/index/<id>` makes a result visible, `data/<id>/<nonce>/<n>` is its data (number
//! 0) and its parts, and `gone/<id>/<nonce>` is the tombstone of a deleted result.

use std::fmt::{self, Write as _};

use lro_core::ResultId;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use super::digest::sha256;

/// A longer tenant name is replaced by its digest, because keys are limited in length.
const MAX_TENANT_LEN: usize = 200;

/// The text is not a tenant name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tenant name is empty")]
pub struct InvalidTenant;

/// Distinguishes drafts of the same id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Nonce(String);

impl Nonce {
    /// Creates 128 random bits.
    pub(super) fn new() -> Self {
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the operating system provides random numbers");
        Self(format!("{:032x}", u128::from_be_bytes(random)))
    }

    fn parse(text: &str) -> Option<Self> {
        let plain = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == 32 && text.bytes().all(plain)).then(|| Self(text.to_owned()))
    }

    /// Whether a deserialized nonce has the expected form.
    pub(super) fn is_ours(&self) -> bool {
        Self::parse(&self.0).is_some()
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The keys of one tenant.
#[derive(Debug, Clone)]
pub(super) struct Keys(Path);

/// A parsed key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyKind {
    Index(ResultId),
    Data(ResultId, Nonce),
    Tombstone(ResultId, Nonce),
}

impl Keys {
    /// Creates the keys of a tenant. Any text except an empty one is a name, and no two names share
    /// keys.
    pub(super) fn new(prefix: &Path, tenant: &str) -> Result<Self, InvalidTenant> {
        if tenant.is_empty() {
            return Err(InvalidTenant);
        }
        Ok(Self(prefix.clone().join(segment(tenant))))
    }

    /// The common prefix.
    pub(super) fn all(&self) -> &Path {
        &self.0
    }

    pub(super) fn index(&self, id: ResultId) -> Path {
        self.below(&["index", &id.to_string()])
    }

    pub(super) fn data(&self, id: ResultId, nonce: &Nonce, piece: usize) -> Path {
        self.below(&["data", &id.to_string(), &nonce.0, &piece.to_string()])
    }

    pub(super) fn tombstone(&self, id: ResultId, nonce: &Nonce) -> Path {
        self.below(&["gone", &id.to_string(), &nonce.0])
    }

    pub(super) fn index_prefix(&self) -> Path {
        self.below(&["index"])
    }

    pub(super) fn data_prefix(&self, id: ResultId) -> Path {
        self.below(&["data", &id.to_string()])
    }

    pub(super) fn tombstones_prefix(&self) -> Path {
        self.below(&["gone"])
    }

    pub(super) fn tombstone_prefix(&self, id: ResultId) -> Path {
        self.below(&["gone", &id.to_string()])
    }

    fn below(&self, parts: &[&str]) -> Path {
        parts.iter().fold(self.0.clone(), |path, part| path.join(*part))
    }

    /// Parses a key; `None` if this program did not create it.
    pub(super) fn parse(&self, key: &Path) -> Option<KeyKind> {
        let rest = key.as_ref().strip_prefix(self.0.as_ref())?.strip_prefix('/')?;
        let parts: Vec<&str> = rest.split('/').collect();
        let id = |text: &str| text.parse::<ResultId>().ok().filter(|id| id.to_string() == text);
        match parts[..] {
            ["index", of] => Some(KeyKind::Index(id(of)?)),
            ["data", of, nonce, piece] => {
                let number: u16 = piece.parse().ok()?;
                (number.to_string() == piece).then_some(())?;
                Some(KeyKind::Data(id(of)?, Nonce::parse(nonce)?))
            }
            ["gone", of, nonce] => Some(KeyKind::Tombstone(id(of)?, Nonce::parse(nonce)?)),
            _ => None,
        }
    }
}

/// Encodes a tenant name as one path segment that is safe everywhere. `.` precedes each hexadecimal
/// byte, so that no name equals another or becomes `..`.
fn segment(tenant: &str) -> String {
    let mut plain = String::from("t-");
    for byte in tenant.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            plain.push(char::from(byte));
        } else {
            let _ = write!(plain, ".{byte:02x}");
        }
    }
    if plain.len() > MAX_TENANT_LEN { format!("h-{}", sha256(tenant.as_bytes())) } else { plain }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn hostile_tenants_stay_below_the_prefix_and_apart() {
        let prefix = Path::from("spool");
        let long = "x".repeat(5000);
        let names = [
            "a",
            "A",
            ".",
            "..",
            "../b",
            "/",
            "//",
            "a/b",
            "a.2fb",
            "a%2fb",
            "\0",
            "\n",
            "t-a",
            "\u{e9}",
            "e\u{301}",
            "\u{202e}",
            " ",
            "*",
            "index",
            &long,
            &long[1..],
            "a/../../b",
        ];
        let mut seen = BTreeSet::new();
        for name in names {
            let keys = Keys::new(&prefix, name).unwrap();
            let text = keys.all().to_string();
            let own = text.strip_prefix("spool/").unwrap();
            assert!(
                own.len() <= MAX_TENANT_LEN && !own.contains('/') && !own.starts_with('.'),
                "{own}"
            );
            assert!(own.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{own}");
            assert!(seen.insert(text), "{name:?} has the keys of another");
        }
        assert_eq!(Keys::new(&prefix, "").err(), Some(InvalidTenant));
        // Plain names stay readable, up to a length.
        let longest = "x".repeat(MAX_TENANT_LEN - 2);
        for plain in ["Ann_1-b", &longest] {
            let keys = Keys::new(&prefix, plain).unwrap();
            assert_eq!(keys.all().as_ref(), format!("spool/t-{plain}"));
        }
        let longer = Keys::new(&prefix, &"x".repeat(MAX_TENANT_LEN - 1)).unwrap();
        assert!(longer.all().as_ref().starts_with("spool/h-"), "{longer:?}");
    }

    #[test]
    fn only_keys_of_ours_mean_something() {
        let keys = Keys::new(&Path::default(), "ann").unwrap();
        let (id, nonce) = (ResultId::new(1_800_000_000_000, 7), Nonce::new());
        assert_eq!(keys.parse(&keys.index(id)), Some(KeyKind::Index(id)));
        assert_eq!(keys.parse(&keys.data(id, &nonce, 3)), Some(KeyKind::Data(id, nonce.clone())));
        assert_eq!(
            keys.parse(&keys.tombstone(id, &nonce)),
            Some(KeyKind::Tombstone(id, nonce.clone()))
        );
        for other in [
            "t-ann".to_owned(),
            "t-ann/index".to_owned(),
            format!("t-ann/index/{id}/x"),
            format!("t-ann/index/{}", id.to_string().to_lowercase()),
            format!("t-bob/index/{id}"),
            format!("t-anna/index/{id}"),
            format!("t-ann/data/{id}/{nonce}/01"),
            format!("t-ann/data/{id}/{nonce}/+1"),
            format!("t-ann/data/{id}/x/1"),
            format!("t-ann/data/{id}/abc/1"),
            format!("t-ann/data/{id}/{}/1", "g".repeat(32)),
            format!("t-ann/other/{id}"),
        ] {
            assert_eq!(keys.parse(&Path::from(other.as_str())), None, "{other}");
        }
        assert!(keys.tombstone(id, &nonce).prefix_matches(&keys.tombstone_prefix(id)));
        assert!(
            !keys.tombstone(ResultId::new(1, 7), &nonce).prefix_matches(&keys.tombstone_prefix(id))
        );
        assert_ne!(Nonce::new(), nonce);
        assert_eq!(Nonce::parse(&nonce.to_string()), Some(nonce.clone()));
        assert!(nonce.is_ours() && !Nonce("../x".to_owned()).is_ours());
    }
}
