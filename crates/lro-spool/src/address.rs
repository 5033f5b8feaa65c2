//! How stored results are named and addressed: file names, scopes, addresses.
//!
//! `atlatl-{operation}-{ulid}.{extension}` names the data file. The suffix `.meta.json` names its
//! sidecar and `.part-1` an additional part; the prefix `.part-` marks a file that is still being
//! written. A name must parse to this form: no path is ever built from any other text.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use lro_core::{Operation, Reference, ResultId};

const PREFIX: &str = "atlatl-";
const SIDECAR_SUFFIX: &str = ".meta.json";
const PART_INFIX: &str = ".part-";
const DRAFT_PREFIX: &str = ".part-";
const ULID_LEN: usize = 26;
const MAX_OPERATION_LEN: usize = 40;
/// The most additional parts of a result.
pub(crate) const MAX_PARTS: u16 = 999;
const SCOPE_LEN: usize = 8;
/// Crockford's alphabet in lower case: no letter can be mistaken for a digit.
const SCOPE_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The address of a stored result: a reference, an id, a file name, or the absolute path that a
/// descriptor showed.
///
/// ```
/// use lro_spool::Address;
///
/// assert!("lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D".parse::<Address>().is_ok());
/// assert!("/tmp/atlatl-recall-01KA2Z3T4V5W6X7Y8Z9A0B1C2D.jsonl".parse::<Address>().is_ok());
/// assert!("/tmp/../etc/passwd".parse::<Address>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// By id.
    Id(ResultId),
    /// By file name.
    Name(FileName),
    /// By absolute path. The directory is compared with the spool's own and never opened.
    Path {
        /// The directory.
        folder: PathBuf,
        /// The file name.
        name: FileName,
    },
}

/// The text is not an address of a stored result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("neither a reference nor the name or path of a stored result")]
pub struct InvalidAddress;

impl Address {
    /// The id of the result.
    pub fn id(&self) -> ResultId {
        match self {
            Self::Id(id) => *id,
            Self::Name(name) | Self::Path { name, .. } => name.id(),
        }
    }
}

impl From<ResultId> for Address {
    fn from(id: ResultId) -> Self {
        Self::Id(id)
    }
}

impl From<FileName> for Address {
    fn from(name: FileName) -> Self {
        Self::Name(name)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.reference().fmt(f),
            Self::Name(name) => name.fmt(f),
            Self::Path { folder, name } => folder.join(name.to_string()).display().fmt(f),
        }
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        if let Ok(Reference(id)) = text.parse() {
            return Ok(Self::Id(id));
        }
        if let Ok(name) = text.parse() {
            return Ok(Self::Name(name));
        }
        let (folder, name) = text.rsplit_once('/').ok_or(InvalidAddress)?;
        let name = name.parse().map_err(|_| InvalidAddress)?;
        let folder = Path::new(if folder.is_empty() { "/" } else { folder });
        // Spec V5: `..` is refused at any position, even if the path leads back to the spool.
        let upward = folder.components().any(|c| c == Component::ParentDir);
        if folder.is_relative() || upward {
            return Err(InvalidAddress);
        }
        Ok(Self::Path { folder: folder.to_owned(), name })
    }
}

/// The content type of a data file, by its file name extension.
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
    /// The extension without the dot.
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
pub struct InvalidName;

impl FileName {
    /// Creates the file name of a result of `operation`.
    pub fn new(operation: &Operation, id: ResultId, extension: Extension) -> Self {
        Self { operation: operation.as_str().to_owned(), id, extension }
    }

    /// The operation, as in `[a-z0-9_-]{1,40}`.
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// The id.
    pub fn id(&self) -> ResultId {
        self.id
    }

    /// The extension.
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
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let (stem, extension) =
            text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.')).ok_or(InvalidName)?;
        let extension = Extension::parse(extension).ok_or(InvalidName)?;
        let cut = stem.len().checked_sub(ULID_LEN + 1).ok_or(InvalidName)?;
        let (operation, id) = stem.split_at_checked(cut).ok_or(InvalidName)?;
        let id = id.strip_prefix('-').and_then(|id| id.parse().ok()).ok_or(InvalidName)?;
        let plain = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        if !(1..=MAX_OPERATION_LEN).contains(&operation.len()) || !operation.bytes().all(plain) {
            return Err(InvalidName);
        }
        Ok(Self { operation: operation.to_owned(), id, extension })
    }
}

/// One of the files that make up a stored result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultFile {
    Data,
    Sidecar,
    /// An additional part, numbered from 1.
    Part(u16),
}

impl ResultFile {
    /// The name of this file once it is complete.
    pub(crate) fn file_name(self, name: &FileName) -> String {
        match self {
            Self::Data => name.to_string(),
            Self::Sidecar => format!("{name}{SIDECAR_SUFFIX}"),
            Self::Part(n) => format!("{name}{PART_INFIX}{n}"),
        }
    }

    /// The name of this file while it is being written.
    pub(crate) fn draft_name(self, name: &FileName) -> String {
        format!("{DRAFT_PREFIX}{}", self.file_name(name))
    }
}

/// The parsed name of a directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirEntryName {
    pub(crate) name: FileName,
    pub(crate) piece: ResultFile,
    /// Whether the file is a draft, of a live or a dead writer.
    pub(crate) draft: bool,
}

impl DirEntryName {
    /// Parses a name; `None` if this program did not write it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (rest, draft) = match text.strip_prefix(DRAFT_PREFIX) {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (name, piece) = if let Some(name) = rest.strip_suffix(SIDECAR_SUFFIX) {
            (name, ResultFile::Sidecar)
        } else if let Some((name, n)) = rest.split_once(PART_INFIX) {
            let number = n.parse().ok().filter(|n| (1..=MAX_PARTS).contains(n))?;
            // `01` and `+1` would be other names of the same part.
            (name, (number.to_string() == n).then_some(ResultFile::Part(number))?)
        } else {
            (rest, ResultFile::Data)
        };
        Some(Self { name: name.parse().ok()?, piece, draft })
    }
}

/// A project scope: the eight-character name of the directory for its results.
///
/// ```
/// use lro_spool::Scope;
///
/// let one = Scope::from_fields([b"1000".as_slice(), b"/home/ann/shop", b""]);
/// assert_eq!(one, Scope::from_fields([b"1000".as_slice(), b"/home/ann/shop", b""]));
/// assert_ne!(one, Scope::from_fields([b"1000".as_slice(), b"/home/ann/shop2", b""]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scope([u8; SCOPE_LEN]);

/// The text is not a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a scope: expected eight characters")]
pub struct InvalidScope;

impl Scope {
    /// Derives the scope from these fields, in this order: uid, working directory, `--scope`.
    ///
    /// FNV-1a over length and bytes of each field, followed by a finalizer: the same on every
    /// machine and in every version, so that a restarted proxy finds its directory. It prevents
    /// accidental collisions between projects of one user, not attacks: an attacker who can choose
    /// these fields is that user. A cryptographic hash would add a dependency without a benefit.
    pub fn from_fields<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let mut add = |byte: u8| {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        };
        for field in fields {
            (field.len() as u64).to_le_bytes().into_iter().for_each(&mut add);
            field.iter().copied().for_each(&mut add);
        }
        // FNV mixes the upper bits of short inputs poorly.
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        let mut name = [0; SCOPE_LEN];
        for place in &mut name {
            *place = SCOPE_ALPHABET[(hash & 31) as usize];
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
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        let name: [u8; SCOPE_LEN] = text.as_bytes().try_into().map_err(|_| InvalidScope)?;
        if name.iter().all(|b| SCOPE_ALPHABET.contains(b)) {
            Ok(Self(name))
        } else {
            Err(InvalidScope)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01KA2Z3T4V5W6X7Y8Z9A0B1C2D";

    #[test]
    fn all_four_forms_mean_the_same_result() {
        let id: ResultId = ID.parse().unwrap();
        for text in [
            format!("lro:{ID}"),
            ID.to_owned(),
            format!("atlatl-recall-{ID}.jsonl"),
            format!("/tmp/atlatl-recall-{ID}.jsonl"),
            format!("/atlatl-recall-{ID}.jsonl"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.id(), id, "{text}");
        }
    }

    #[test]
    fn a_path_in_the_root_is_written_as_it_was_given() {
        for folder in ["", "/tmp", "/tmp/./x"] {
            let path = format!("{folder}/atlatl-recall-{ID}.jsonl");
            assert_eq!(path.parse::<Address>().unwrap().to_string(), path);
        }
    }

    #[test]
    fn v5_upward_relative_and_other_paths_are_no_address() {
        let name = format!("atlatl-recall-{ID}.jsonl");
        for text in [
            String::new(),
            "/etc/passwd".to_owned(),
            "lro:".to_owned(),
            format!("lro:lro:{ID}"),
            format!("lro:../{ID}"),
            format!("../{name}"),
            format!("./{name}"),
            format!("x/{name}"),
            format!("/tmp/../tmp/{name}"),
            format!("/tmp/{name}/.."),
            format!("/tmp/{name}/"),
            format!("/tmp/.part-{name}"),
            format!("/tmp/{name}.meta.json"),
            format!("file:///tmp/{name}"),
            format!("{name}\n"),
        ] {
            assert_eq!(text.parse::<Address>(), Err(InvalidAddress), "{text:?}");
        }
    }

    fn name(tool: &str, extension: Extension) -> FileName {
        FileName::new(&Operation::from_tool(tool), ResultId::new(1_800_000_000_000, 7), extension)
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
            assert!(ResultFile::Part(MAX_PARTS).draft_name(&name).len() <= 100);
            assert_eq!(name.to_string().parse(), Ok(name));
        }
    }

    #[test]
    fn every_piece_has_one_name() {
        let name = name("grep", Extension::Txt);
        for piece in [
            ResultFile::Data,
            ResultFile::Sidecar,
            ResultFile::Part(1),
            ResultFile::Part(MAX_PARTS),
        ] {
            let whole = DirEntryName { name: name.clone(), piece, draft: false };
            assert_eq!(DirEntryName::parse(&piece.file_name(&name)), Some(whole.clone()));
            assert_eq!(
                DirEntryName::parse(&piece.draft_name(&name)),
                Some(DirEntryName { draft: true, ..whole })
            );
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
            assert_eq!(bad.parse::<FileName>(), Err(InvalidName), "{bad:?}");
            assert_eq!(DirEntryName::parse(&bad), None, "{bad:?}");
        }
    }

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
            assert_eq!(text.parse::<Scope>(), Err(InvalidScope), "{text}");
        }
    }
}
