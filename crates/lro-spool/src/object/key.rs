//! Key: what the objects of a tenant are called.
//!
//! `<prefix>/<tenant>/index/<id>` makes a result visible, `data/<id>/<nonce>/<n>` is its data
//! (number 0) and its parts, and `gone/<id>/<nonce>` says that it is no longer there and who may
//! tell of it.

use std::fmt::{self, Write as _};

use lro_core::ResultId;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use super::blocks::sha256;

/// A longer name of a tenant is replaced by its digest: keys have an end.
const TENANT_CAP: usize = 200;

/// The text names no tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a tenant needs a name")]
pub struct NotATenant;

/// What two drafts of one name differ in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Nonce(String);

impl Nonce {
    /// 128 random bits of the operating system.
    pub(super) fn new() -> Self {
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the operating system provides random numbers");
        Self(format!("{:032x}", u128::from_be_bytes(random)))
    }

    fn parse(text: &str) -> Option<Self> {
        let plain = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == 32 && text.bytes().all(plain)).then(|| Self(text.to_owned()))
    }

    /// Whether one that was read is one that could have been made here.
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

/// What a key means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    Index(ResultId),
    Data(ResultId, Nonce),
    Gone(ResultId, Nonce),
}

impl Keys {
    /// Any text is a name of a tenant, and no two have the same keys.
    pub(super) fn new(prefix: &Path, tenant: &str) -> Result<Self, NotATenant> {
        if tenant.is_empty() {
            return Err(NotATenant);
        }
        Ok(Self(prefix.clone().join(segment(tenant))))
    }

    /// What all of them begin with.
    pub(super) fn all(&self) -> &Path {
        &self.0
    }

    pub(super) fn index(&self, id: ResultId) -> Path {
        self.below(&["index", &id.to_string()])
    }

    pub(super) fn data(&self, id: ResultId, nonce: &Nonce, piece: usize) -> Path {
        self.below(&["data", &id.to_string(), &nonce.0, &piece.to_string()])
    }

    pub(super) fn gone(&self, id: ResultId, nonce: &Nonce) -> Path {
        self.below(&["gone", &id.to_string(), &nonce.0])
    }

    pub(super) fn gone_of(&self, id: ResultId) -> Path {
        self.below(&["gone", &id.to_string()])
    }

    fn below(&self, parts: &[&str]) -> Path {
        parts.iter().fold(self.0.clone(), |path, part| path.join(*part))
    }

    /// Reads a key; `None` where it is not one of ours.
    pub(super) fn meaning(&self, key: &Path) -> Option<Meaning> {
        let rest = key.as_ref().strip_prefix(self.0.as_ref())?.strip_prefix('/')?;
        let parts: Vec<&str> = rest.split('/').collect();
        let id = |text: &str| text.parse::<ResultId>().ok().filter(|id| id.to_string() == text);
        match parts[..] {
            ["index", of] => Some(Meaning::Index(id(of)?)),
            ["data", of, nonce, piece] => {
                let number: u16 = piece.parse().ok()?;
                (number.to_string() == piece).then_some(())?;
                Some(Meaning::Data(id(of)?, Nonce::parse(nonce)?))
            }
            ["gone", of, nonce] => Some(Meaning::Gone(id(of)?, Nonce::parse(nonce)?)),
            _ => None,
        }
    }
}

/// One part of a path that is safe everywhere. `.` stands before what is written in hexadecimal, so
/// no name becomes another's, nor `..`.
fn segment(tenant: &str) -> String {
    let mut plain = String::from("t-");
    for byte in tenant.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            plain.push(char::from(byte));
        } else {
            let _ = write!(plain, ".{byte:02x}");
        }
    }
    if plain.len() > TENANT_CAP { format!("h-{}", sha256(tenant.as_bytes())) } else { plain }
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
                own.len() <= TENANT_CAP && !own.contains('/') && !own.starts_with('.'),
                "{own}"
            );
            assert!(own.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{own}");
            assert!(seen.insert(text), "{name:?} has the keys of another");
        }
        assert_eq!(Keys::new(&prefix, "").err(), Some(NotATenant));
        // What is plain can be read, up to a length.
        let longest = "x".repeat(TENANT_CAP - 2);
        for plain in ["Ann_1-b", &longest] {
            let keys = Keys::new(&prefix, plain).unwrap();
            assert_eq!(keys.all().as_ref(), format!("spool/t-{plain}"));
        }
        let longer = Keys::new(&prefix, &"x".repeat(TENANT_CAP - 1)).unwrap();
        assert!(longer.all().as_ref().starts_with("spool/h-"), "{longer:?}");
    }

    #[test]
    fn only_keys_of_ours_mean_something() {
        let keys = Keys::new(&Path::default(), "ann").unwrap();
        let (id, nonce) = (ResultId::new(1_800_000_000_000, 7), Nonce::new());
        assert_eq!(keys.meaning(&keys.index(id)), Some(Meaning::Index(id)));
        assert_eq!(keys.meaning(&keys.data(id, &nonce, 3)), Some(Meaning::Data(id, nonce.clone())));
        assert_eq!(keys.meaning(&keys.gone(id, &nonce)), Some(Meaning::Gone(id, nonce.clone())));
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
            assert_eq!(keys.meaning(&Path::from(other.as_str())), None, "{other}");
        }
        assert!(keys.gone(id, &nonce).prefix_matches(&keys.gone_of(id)));
        assert!(!keys.gone(ResultId::new(1, 7), &nonce).prefix_matches(&keys.gone_of(id)));
        assert_ne!(Nonce::new(), nonce);
        assert_eq!(Nonce::parse(&nonce.to_string()), Some(nonce.clone()));
        assert!(nonce.is_ours() && !Nonce("../x".to_owned()).is_ours());
    }
}
