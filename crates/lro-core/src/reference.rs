//! The names of a stored result: its id, its reference (`lro:…`) and its location, with the shell
//! commands that read it there.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use ulid::Ulid;

/// The prefix of a reference.
const PREFIX: &str = "lro:";

/// The id of a stored result: a ULID, so that names sort by time and never collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResultId(Ulid);

impl ResultId {
    /// The id from a time in milliseconds since 1970 and 80 random bits (the lower ones).
    pub fn new(unix_ms: u64, random: u128) -> Self {
        Self(Ulid::from_parts(unix_ms, random))
    }

    /// The creation time, in milliseconds since 1970.
    pub fn unix_ms(self) -> u64 {
        self.0.timestamp_ms()
    }

    /// The reference for use in tool calls.
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
    type Err = InvalidReference;

    /// Accepts exactly the 26 characters that [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, InvalidReference> {
        let id = Ulid::from_string(text).map_err(|_| InvalidReference)?;
        // ULIDs are case-insensitive; a result has only one name here.
        if id.to_string() == text { Ok(Self(id)) } else { Err(InvalidReference) }
    }
}

/// A reference to a stored result: `lro:` and its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reference(pub ResultId);

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, InvalidReference> {
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

/// The text is not a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a reference: expected `lro:` and 26 characters, as in a descriptor's `lro.ref`")]
pub struct InvalidReference;

/// The location of a stored result, as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location<'a> {
    /// The absolute path of a file.
    File(&'a str),
    /// A link that is valid for a few minutes.
    Link(&'a str),
}

impl<'a> Location<'a> {
    /// The path or the link.
    pub fn as_str(self) -> &'a str {
        match self {
            Self::File(text) | Self::Link(text) => text,
        }
    }

    /// The shell command that prints the records, without the header.
    pub(crate) fn records(self) -> String {
        match self {
            Self::File(path) => format!("tail -n +2 {}", shell_word(path)),
            Self::Link(link) => format!("{} | tail -n +2", fetch_command(link)),
        }
    }

    /// The shell command that runs `program` on the file or, through standard input, on the link.
    pub(crate) fn piped_into(self, program: &str) -> String {
        match self {
            Self::File(path) => format!("{program} {}", shell_word(path)),
            Self::Link(link) => format!("{} | {program} -", fetch_command(link)),
        }
    }
}

/// The command that downloads a link. It fails if the link has expired, instead of printing the
/// error page as data.
fn fetch_command(link: &str) -> String {
    format!("curl -fsS {}", shell_word(link))
}

/// Quotes `path` as one word of a POSIX shell command. A path of plain characters stays unquoted,
/// because every quote costs a token in each of ten recipes.
pub(crate) fn shell_word(path: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if !path.is_empty() && path.chars().all(plain) && !path.starts_with('-') {
        return Cow::Borrowed(path);
    }
    // Inside single quotes only the quote itself is special, and has to be written outside of them.
    Cow::Owned(format!("'{}'", path.replace('\'', r"'\''")))
}

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
            assert_eq!(other.parse::<Reference>(), Err(InvalidReference), "{other}");
        }
    }

    #[test]
    fn commands_begin_where_the_bytes_are() {
        let file = Location::File("/tmp/a b.jsonl");
        assert_eq!(file.records(), "tail -n +2 '/tmp/a b.jsonl'");
        assert_eq!(file.piped_into("jq keys"), "jq keys '/tmp/a b.jsonl'");
        let link = Location::Link("https://h/v1/offloads/X/a.b");
        assert_eq!(link.records(), "curl -fsS 'https://h/v1/offloads/X/a.b' | tail -n +2");
        assert_eq!(link.piped_into("file"), "curl -fsS 'https://h/v1/offloads/X/a.b' | file -");
    }

    #[test]
    fn plain_paths_stay_and_others_are_quoted() {
        assert_eq!(shell_word("/tmp/atlatl-recall-01J.jsonl"), "/tmp/atlatl-recall-01J.jsonl");
        assert_eq!(shell_word("/tmp/a b"), "'/tmp/a b'");
        assert_eq!(shell_word("/tmp/it's $(x)"), r"'/tmp/it'\''s $(x)'");
        assert_eq!(shell_word("-n"), "'-n'");
        assert_eq!(shell_word(""), "''");
    }
}
