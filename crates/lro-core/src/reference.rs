//! Reference: the name of a stored result that needs no path.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use ulid::Ulid;

const PREFIX: &str = "lro:";

/// The identity of a stored result: a ULID, so that names sort by time and never collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResultId(Ulid);

impl ResultId {
    /// An identity from a time in milliseconds since 1970 and 80 random bits (the lower ones).
    pub fn new(unix_ms: u64, random: u128) -> Self {
        Self(Ulid::from_parts(unix_ms, random))
    }

    /// The time it was made at, in milliseconds since 1970.
    pub fn unix_ms(self) -> u64 {
        self.0.timestamp_ms()
    }

    /// The reference that stands for the result in a call.
    pub fn reference(self) -> Reference {
        Reference(self)
    }
}

impl fmt::Display for ResultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ResultId {
    type Err = NotAReference;

    /// Accepts exactly the 26 characters that [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, NotAReference> {
        let id = Ulid::from_string(text).map_err(|_| NotAReference)?;
        // The alphabet is read in either case; one result shall have one name.
        if id.to_string() == text { Ok(Self(id)) } else { Err(NotAReference) }
    }
}

/// `lro:` and the identity of a stored result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reference(pub ResultId);

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

impl FromStr for Reference {
    type Err = NotAReference;

    fn from_str(text: &str) -> Result<Self, NotAReference> {
        text.strip_prefix(PREFIX).unwrap_or(text).parse().map(Self)
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The text is no reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a reference: expected `lro:` and 26 characters, as in a descriptor's `lro.ref`")]
pub struct NotAReference;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_read_back_and_nothing_else_is() {
        let id = ResultId::new(1_800_000_000_000, 42);
        let reference = id.reference().to_string();
        assert_eq!(reference.parse(), Ok(Reference(id)));
        assert_eq!(id.to_string().parse(), Ok(Reference(id)));
        assert_eq!(id.unix_ms(), 1_800_000_000_000);
        let lower = reference.to_lowercase();
        for other in
            ["", "lro:", "lro:../x", "lro:lro:", &lower, "lro:01J\u{202e}", &reference[..29]]
        {
            assert_eq!(other.parse::<Reference>(), Err(NotAReference), "{other}");
        }
    }
}
