//! The layer of a TOML file, with the line of every value.
//!
//! Owner, mode, kind and size of a file are checked on the open handle, by the rule of its layer. The
//! file named with `--config` was chosen by the user and is read as it is. The system's and the user's
//! file must belong to the user or to root, and other users must not be able to write to them. The same
//! holds for a project's file, which in addition must not be a symbolic link: a clone could otherwise
//! point it at a file that the user trusts elsewhere, or at one that the project must not read.

use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::{fmt, io};

use lro_core::config::{ConfigKey, InvalidValue, is_section, key};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::sources::Origin;
use super::sources::{FileLayer, SourceFile};
use super::{LayerEntries, Problem};

/// The largest configuration file that is read, in bytes.
const MAX_FILE_LEN: u64 = 1 << 20;
/// The permission bit that lets every user write.
const WORLD_WRITABLE: u32 = 0o002;
/// The largest number of syntax errors that are reported per file. After the first few, a parser mostly
/// reports consequences of earlier errors.
const MAX_SYNTAX_ERRORS: usize = 5;

/// Whether a configuration file was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileState {
    /// It was read.
    Read,
    /// It does not exist, which is fine unless it was named with `--config`.
    Absent,
    /// A project's file that is not used.
    Ignored(Refusal),
}

/// Parses the contents of a file into `entries`.
pub(super) fn parse(file: &SourceFile, contents: Vec<u8>, entries: &mut LayerEntries) {
    let origin = |line| file.origin(line);
    match String::from_utf8(contents) {
        Ok(text) => Parser { text: &text, origin: &origin, entries }.document(),
        Err(error) => {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            entries.problems.push(Problem::not_utf8(origin(Some(line_after(valid)))));
        }
    }
}

/// The line number at the end of `text`.
fn line_after(text: &[u8]) -> usize {
    text.split(|byte| *byte == b'\n').count()
}

struct Parser<'a> {
    text: &'a str,
    origin: &'a dyn Fn(Option<usize>) -> Origin,
    entries: &'a mut LayerEntries,
}

impl Parser<'_> {
    fn document(&mut self) {
        let first_problem = self.entries.problems.len();
        let (document, errors) = DeTable::parse_recoverable(self.text);
        if errors.is_empty() {
            self.table("", document.get_ref());
        }
        for error in errors.iter().take(MAX_SYNTAX_ERRORS) {
            let origin = match error.span() {
                Some(span) => self.at(&span),
                None => (self.origin)(None),
            };
            self.entries.problems.push(Problem::syntax(origin, error.message()));
        }
        // The parser sorts a table by its keys; people fix a file from top to bottom.
        self.entries.problems[first_problem..].sort_by_key(|problem| match problem.origin() {
            Origin::File { line, .. } => *line,
            _ => None,
        });
    }

    fn table(&mut self, section: &str, table: &DeTable<'_>) {
        for (part, value) in table {
            let name = join(section, part.get_ref());
            let origin = self.at(&part.span());
            match (key(&name), value.get_ref()) {
                (Some(key), DeValue::Table(entries)) if key.kind.is_map() => {
                    for (entry, value) in entries {
                        self.entry(key, entry, value);
                    }
                }
                (Some(key), _) => match to_json(value.get_ref()) {
                    Some(value) => self.entries.add_value(key, value, origin),
                    None => self.unrepresentable(key.name, key.kind.expected(), value, origin),
                },
                (None, DeValue::Table(keys)) if is_section(&name) => self.table(&name, keys),
                (None, DeValue::Table(_)) => {
                    self.entries.problems.push(Problem::unknown_section(origin, name));
                }
                (None, _) if is_section(&name) => {
                    self.entries.problems.push(Problem::no_section(origin, name));
                }
                (None, _) => self.entries.problems.push(Problem::unknown_key(origin, name)),
            }
        }
    }

    fn entry(
        &mut self,
        key: &'static ConfigKey,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let origin = self.at(&name.span());
        if let Some(value) = to_json(value.get_ref()) {
            return self.entries.add_entry(key, name.get_ref().to_string(), value, origin);
        }
        // No entry takes null, so the check builds the message.
        if let Err(invalid) = key.check_entry(name.get_ref(), &Value::Null) {
            self.unrepresentable(&invalid.key, invalid.expected, value, origin);
        }
    }

    /// Reports a date or a number beyond 64 bits, which no key takes, in its original spelling.
    fn unrepresentable(
        &mut self,
        name: &str,
        expected: String,
        value: &Spanned<DeValue<'_>>,
        origin: Origin,
    ) {
        let written = self.text.get(value.span()).unwrap_or_default();
        let invalid = InvalidValue::new(name, written, expected);
        self.entries.problems.push(Problem::invalid(origin, invalid));
    }

    fn at(&self, span: &Range<usize>) -> Origin {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        (self.origin)(Some(line_after(before)))
    }
}

/// The dotted name. A part that contains a dot or is otherwise not a bare key is quoted.
fn join(section: &str, part: &str) -> String {
    let bare = !part.is_empty()
        && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let part = if bare { part.to_owned() } else { Value::from(part).to_string() };
    if section.is_empty() { part } else { format!("{section}.{part}") }
}

/// Converts a TOML value to JSON; `None` if JSON has no such value.
pub(super) fn to_json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::from(&**text),
        DeValue::Boolean(truth) => Value::from(*truth),
        DeValue::Integer(number) => {
            let (digits, radix) = (number.as_str(), number.radix());
            let unsigned = u64::from_str_radix(digits, radix).map(Value::from);
            unsigned.or_else(|_| i64::from_str_radix(digits, radix).map(Value::from)).ok()?
        }
        DeValue::Float(number) => Value::Number(Number::from_f64(number.as_str().parse().ok()?)?),
        DeValue::Array(items) => {
            Value::Array(items.iter().map(|item| to_json(item.get_ref())).collect::<Option<_>>()?)
        }
        DeValue::Table(entries) => Value::Object(
            entries
                .iter()
                .map(|(name, value)| Some((name.get_ref().to_string(), to_json(value.get_ref())?)))
                .collect::<Option<Map<_, _>>>()?,
        ),
        DeValue::Datetime(_) => return None,
    })
}

/// The outcome of reading a configuration file.
#[derive(Debug)]
pub(super) enum ReadOutcome {
    /// The contents of the file.
    Contents(Vec<u8>),
    /// There is no such file.
    Absent,
    /// The file exists and is not used.
    Refused(Refusal),
}

/// Why a configuration file that exists is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It belongs to another user.
    ForeignOwner { owner: u32 },
    /// Every user can write to it.
    WorldWritable,
    /// A project's file is a symbolic link.
    SymbolicLink,
    /// A directory, a FIFO, a socket or a device.
    NotAFile,
    /// It is larger than a configuration file may be.
    TooLarge,
    /// The operating system reported an error.
    Unreadable(String),
}

impl Refusal {
    /// A command that solves the problem.
    pub(crate) fn hint(&self, path: &str) -> Option<String> {
        match self {
            Self::ForeignOwner { .. } | Self::SymbolicLink => {
                Some(format!("if you trust its author: --config {path}"))
            }
            Self::WorldWritable => Some(format!("chmod o-w {path}")),
            Self::NotAFile | Self::TooLarge | Self::Unreadable(_) => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignOwner { owner } => {
                write!(formatter, "it belongs to another user (uid {owner})")
            }
            Self::WorldWritable => formatter.write_str("every user can write to it"),
            Self::SymbolicLink => formatter.write_str("it is a symbolic link"),
            Self::NotAFile => formatter.write_str("it is not a regular file"),
            Self::TooLarge => write!(formatter, "it is larger than {} KiB", MAX_FILE_LEN >> 10),
            Self::Unreadable(error) => write!(formatter, "cannot be read: {error}"),
        }
    }
}

/// Reads a file for the user `uid`, if the rule of its layer permits it.
pub(super) fn read(file: &SourceFile, uid: u32) -> ReadOutcome {
    let opened = match file.layer {
        FileLayer::Named => File::open(&file.path),
        FileLayer::System | FileLayer::User => open(&file.path, OFlags::empty()),
        FileLayer::Project => open(&file.path, OFlags::NOFOLLOW),
    };
    let contents = opened.map_err(|error| open_error(&error, file.layer)).and_then(|handle| {
        if file.layer != FileLayer::Named {
            check_metadata(&handle, uid)?;
        }
        read_contents(&handle)
    });
    match contents {
        Ok(contents) => ReadOutcome::Contents(contents),
        Err(Some(refusal)) => ReadOutcome::Refused(refusal),
        Err(None) => ReadOutcome::Absent,
    }
}

/// Opens a file without blocking: `open` of a FIFO would wait for a writer.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Why a file could not be opened; `None` if it does not exist.
fn open_error(error: &io::Error, layer: FileLayer) -> Option<Refusal> {
    // `NotADirectory`: a home such as /dev/null means that there is none.
    let absent = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    if absent && layer != FileLayer::Named {
        return None;
    }
    let is_link =
        layer == FileLayer::Project && error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
    Some(if is_link { Refusal::SymbolicLink } else { Refusal::Unreadable(error.to_string()) })
}

/// Checks the kind, owner and mode of an open file.
fn check_metadata(handle: &File, uid: u32) -> Result<(), Option<Refusal>> {
    let metadata =
        handle.metadata().map_err(|error| Some(Refusal::Unreadable(error.to_string())))?;
    if !metadata.is_file() {
        return Err(Some(Refusal::NotAFile));
    }
    if metadata.uid() != uid && metadata.uid() != 0 {
        return Err(Some(Refusal::ForeignOwner { owner: metadata.uid() }));
    }
    if metadata.mode() & WORLD_WRITABLE != 0 {
        return Err(Some(Refusal::WorldWritable));
    }
    Ok(())
}

fn read_contents(handle: &File) -> Result<Vec<u8>, Option<Refusal>> {
    let mut contents = Vec::new();
    handle
        .take(MAX_FILE_LEN + 1)
        .read_to_end(&mut contents)
        .map_err(|error| Some(Refusal::Unreadable(error.to_string())))?;
    if contents.len() as u64 > MAX_FILE_LEN { Err(Some(Refusal::TooLarge)) } else { Ok(contents) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use tempfile::TempDir;

    use super::*;

    fn refusal(path: &Path, layer: FileLayer, uid: u32) -> Option<Refusal> {
        match read(&SourceFile { layer, path: path.to_owned() }, uid) {
            ReadOutcome::Refused(refusal) => Some(refusal),
            ReadOutcome::Contents(_) | ReadOutcome::Absent => None,
        }
    }

    #[test]
    fn g01_owner_mode_kind_and_size_are_checked_on_the_open_file() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("atlatl.toml");
        let me = rustix::process::geteuid().as_raw();
        let stranger = 65_534;
        let checked = [FileLayer::System, FileLayer::User, FileLayer::Project];
        let all = |path: &Path| checked.map(|layer| refusal(path, layer, me));

        fs::write(&path, "").unwrap();
        assert_eq!(all(&path), [None, None, None]);
        if me == 0 {
            std::os::unix::fs::chown(&path, Some(stranger), None).unwrap();
            let foreign = Some(Refusal::ForeignOwner { owner: stranger });
            assert_eq!(all(&path), [foreign.clone(), foreign.clone(), foreign]);
            assert_eq!(refusal(&path, FileLayer::Named, me), None);
            // Files of root are accepted from every user.
            std::os::unix::fs::chown(&path, Some(0), None).unwrap();
            assert_eq!(refusal(&path, FileLayer::Project, stranger), None);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o646)).unwrap();
        let writable = Some(Refusal::WorldWritable);
        assert_eq!(all(&path), [writable.clone(), writable.clone(), writable]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        assert_eq!(all(&path), [None, None, None]);

        File::create(&path).unwrap().set_len(MAX_FILE_LEN + 1).unwrap();
        let large = Some(Refusal::TooLarge);
        assert_eq!(all(&path), [large.clone(), large.clone(), large]);
    }

    #[test]
    fn g01_links_are_not_followed_for_a_project_and_a_fifo_is_not_waited_for() {
        let dir = TempDir::new().unwrap();
        let (target, path) = (dir.path().join("target"), dir.path().join("atlatl.toml"));
        let me = rustix::process::geteuid().as_raw();
        fs::write(&target, "").unwrap();
        symlink(&target, &path).unwrap();
        assert_eq!(refusal(&path, FileLayer::Project, me), Some(Refusal::SymbolicLink));
        assert_eq!(refusal(&path, FileLayer::User, me), None);
        fs::remove_file(&path).unwrap();

        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        for layer in [FileLayer::System, FileLayer::User, FileLayer::Project] {
            assert_eq!(refusal(&path, layer, me), Some(Refusal::NotAFile));
        }
    }
}
