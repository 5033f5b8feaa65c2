//! Name: what a stored file is called, and what else lies beside it.
//!
//! `atlatl-{operation}-{ulid}.{extension}` is the data; `.meta.json` behind it makes the sidecar's
//! name, `.part-1` that of a further part. In front of any of them `.part-` marks a file that is
//! still being written. A name is parsed to this form or it is not ours: no path is ever made from
//! anything else.

use std::fmt;
use std::str::FromStr;

use lro_core::{Operation, ResultId};

const PREFIX: &str = "atlatl-";
const SIDECAR_SUFFIX: &str = ".meta.json";
const PART_INFIX: &str = ".part-";
const DRAFT_PREFIX: &str = ".part-";
const ULID_LEN: usize = 26;
const OPERATION_CAP: usize = 40;
/// More parts than this a result does not have.
pub(crate) const PART_CAP: u16 = 999;

/// What kind of content a file holds, by the end of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Extension {
    /// A header line, then one record per line.
    Jsonl,
    /// One JSON document.
    Json,
    /// Text.
    Txt,
    /// Anything else.
    Bin,
}

impl Extension {
    /// As it stands in a name, without the dot.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Json => "json",
            Self::Txt => "txt",
            Self::Bin => "bin",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Jsonl, Self::Json, Self::Txt, Self::Bin].into_iter().find(|e| e.as_str() == text)
    }
}

/// Spec F4: the name of a stored result's data file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileName {
    operation: String,
    id: ResultId,
    extension: Extension,
}

/// The text is not the name of a stored result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a stored result")]
pub struct NotAName;

impl FileName {
    /// The name for a result of `operation`.
    pub fn new(operation: &Operation, id: ResultId, extension: Extension) -> Self {
        Self { operation: operation.as_str().to_owned(), id, extension }
    }

    /// The operation, as in `[a-z0-9_-]{1,40}`.
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// The identity.
    pub fn id(&self) -> ResultId {
        self.id
    }

    /// The kind of content.
    pub fn extension(&self) -> Extension {
        self.extension
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}-{}.{}", self.operation, self.id, self.extension.as_str())
    }
}

impl FromStr for FileName {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let (stem, extension) =
            text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.')).ok_or(NotAName)?;
        let extension = Extension::parse(extension).ok_or(NotAName)?;
        let cut = stem.len().checked_sub(ULID_LEN + 1).ok_or(NotAName)?;
        let (operation, id) = stem.split_at_checked(cut).ok_or(NotAName)?;
        let id = id.strip_prefix('-').and_then(|id| id.parse().ok()).ok_or(NotAName)?;
        let plain = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        if !(1..=OPERATION_CAP).contains(&operation.len()) || !operation.bytes().all(plain) {
            return Err(NotAName);
        }
        Ok(Self { operation: operation.to_owned(), id, extension })
    }
}

/// One of the files that make up a stored result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    Data,
    Sidecar,
    /// Counted from 1.
    Part(u16),
}

impl Piece {
    /// What this piece of `name` is called once it is whole.
    pub(crate) fn of(self, name: &FileName) -> String {
        match self {
            Self::Data => name.to_string(),
            Self::Sidecar => format!("{name}{SIDECAR_SUFFIX}"),
            Self::Part(n) => format!("{name}{PART_INFIX}{n}"),
        }
    }

    /// What it is called while it is being written.
    pub(crate) fn draft_of(self, name: &FileName) -> String {
        format!("{DRAFT_PREFIX}{}", self.of(name))
    }
}

/// What an entry of a directory is to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: FileName,
    pub(crate) piece: Piece,
    /// Whether it is still being written, or was when its writer died.
    pub(crate) draft: bool,
}

impl Entry {
    /// Reads a name; `None` where it is not one of ours.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (rest, draft) = match text.strip_prefix(DRAFT_PREFIX) {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (name, piece) = if let Some(name) = rest.strip_suffix(SIDECAR_SUFFIX) {
            (name, Piece::Sidecar)
        } else if let Some((name, n)) = rest.split_once(PART_INFIX) {
            let number = n.parse().ok().filter(|n| (1..=PART_CAP).contains(n))?;
            // `01` and `+1` would be second names of the same part.
            (name, (number.to_string() == n).then_some(Piece::Part(number))?)
        } else {
            (rest, Piece::Data)
        };
        Some(Self { name: name.parse().ok()?, piece, draft })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(tool: &str, extension: Extension) -> FileName {
        FileName::new(&Operation::of_tool(tool), ResultId::new(1_800_000_000_000, 7), extension)
    }

    #[test]
    fn f4_names_are_the_specifications_and_are_read_back() {
        for (tool, operation) in [
            ("recall_memories", "recall"),
            ("search_memories", "search"),
            ("inject_context", "inject"),
            ("list_memories", "list"),
        ] {
            let name = name(tool, Extension::Jsonl);
            assert_eq!(name.to_string(), format!("atlatl-{operation}-{}.jsonl", name.id()));
            assert_eq!((name.operation(), name.extension()), (operation, Extension::Jsonl));
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        for extension in [Extension::Json, Extension::Txt, Extension::Bin] {
            let name = name("a-b_c-0", extension);
            assert_eq!(name.to_string().parse(), Ok(name));
        }
    }

    #[test]
    fn f27_names_are_bounded_whatever_the_tool_is_called() {
        for tool in ["x".repeat(5000), "../".repeat(900), "\u{1f600}".repeat(300)] {
            let name = name(&tool, Extension::Jsonl);
            assert!(Piece::Part(PART_CAP).draft_of(&name).len() <= 100);
            assert_eq!(name.to_string().parse(), Ok(name));
        }
    }

    #[test]
    fn every_piece_has_one_name() {
        let name = name("grep", Extension::Txt);
        for piece in [Piece::Data, Piece::Sidecar, Piece::Part(1), Piece::Part(PART_CAP)] {
            let whole = Entry { name: name.clone(), piece, draft: false };
            assert_eq!(Entry::parse(&piece.of(&name)), Some(whole.clone()));
            assert_eq!(Entry::parse(&piece.draft_of(&name)), Some(Entry { draft: true, ..whole }));
        }
    }

    #[test]
    fn v5_anything_else_is_no_name_of_ours() {
        let good = name("grep", Extension::Txt).to_string();
        let id = &good[12..38];
        for bad in [
            String::new(),
            "atlatl-".to_owned(),
            format!("../{good}"),
            format!("x/{good}"),
            format!("{good}/"),
            format!("{good}\0"),
            format!("{good}.gz"),
            format!(" {good}"),
            good.to_lowercase(),
            good.replace("grep", ""),
            good.replace("grep", "Grep"),
            good.replace("grep", "gr.p"),
            good.replace("grep", "gr/p"),
            good.replace("grep", "gr\u{e9}p"),
            good.replace(id, &id.to_lowercase()),
            good.replace(id, &id[1..]),
            format!("{good}.part-0"),
            format!("{good}.part-01"),
            format!("{good}.part-+1"),
            format!("{good}.part-1000"),
            format!("{good}.part-1.meta.json"),
            format!(".part-.part-{good}"),
        ] {
            assert_eq!(bad.parse::<FileName>(), Err(NotAName), "{bad:?}");
            assert_eq!(Entry::parse(&bad), None, "{bad:?}");
        }
    }
}
