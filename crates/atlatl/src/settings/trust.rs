//! Project files, and the store of those that the user trusts.
//!
//! A project's file comes with a clone, so anyone may have written it. Without trust it sets only the
//! keys that are [allowed](lro_core::config::ProjectUse::Allowed) to any project.
//!
//! The user trusts a file by its path and the hash of its contents. The state directory has one record
//! per path. A record is valid only if this user wrote it: directory and file must belong to the
//! effective user, and no other user may write to them.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{DirBuilder, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

use chrono::{DateTime, Utc};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::file::ReadOutcome;
use super::sources::{FileLayer, PROJECT_FILE, SourceFile};
use super::{
    FileState, LayerEntries, Problem, Problems, Refusal, SettingEntry, Settings, Surroundings, file,
};

/// The largest trust record that is read, in bytes.
const MAX_RECORD_LEN: u64 = 64 << 10;
/// The permission bits that let other users write.
const OTHERS_WRITE: u32 = 0o022;
/// The largest number of keys that a note names.
const MAX_LISTED_KEYS: usize = 5;

/// The record of a trusted file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TrustRecord {
    /// The file, with symbolic links resolved.
    pub(crate) path: PathBuf,
    /// The SHA-256 of its contents, in hexadecimal.
    pub(crate) sha256: String,
    /// When the user trusted it.
    pub(crate) trusted_at: DateTime<Utc>,
}

/// Whether the contents of a project file are trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The user trusted exactly these contents at this path.
    Granted,
    /// The user trusted other contents at this path.
    Changed,
    /// The user trusted nothing at this path.
    #[default]
    Unknown,
}

/// The trust records of one user.
#[derive(Debug)]
pub(crate) struct TrustStore {
    dir: PathBuf,
    uid: u32,
}

impl TrustStore {
    /// The store of the user, if there is a state directory.
    pub(crate) fn new(surroundings: &Surroundings) -> Option<Self> {
        let dir = surroundings.state_dir.as_ref()?.join("atlatl/trust");
        Some(Self { dir, uid: surroundings.uid })
    }

    /// Whether `contents` are trusted at `path`. A record that cannot be read grants nothing.
    pub(crate) fn status(&self, path: &Path, contents: &[u8]) -> Trust {
        match self.record(path) {
            Ok(Some(record)) if record.path != path => Trust::Unknown,
            Ok(Some(record)) if record.sha256 == digest(contents) => Trust::Granted,
            Ok(Some(_)) => Trust::Changed,
            Ok(None) | Err(_) => Trust::Unknown,
        }
    }

    /// Trusts `contents` at `path`, and replaces an earlier record of that path.
    pub(crate) fn grant(
        &self,
        path: &Path,
        contents: &[u8],
        trusted_at: DateTime<Utc>,
    ) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        self.open_dir()?;
        let record = TrustRecord { path: path.to_owned(), sha256: digest(contents), trusted_at };
        // Created private (0600), and moved into place atomically.
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        file.write_all(&serde_json::to_vec_pretty(&record)?)?;
        file.as_file().sync_all()?;
        file.persist(self.dir.join(record_name(path)))?;
        Ok(())
    }

    /// Removes the trust in the file at `path`. Returns whether there was any.
    pub(crate) fn revoke(&self, path: &Path) -> io::Result<bool> {
        match fs::remove_file(self.dir.join(record_name(path))) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// All valid records, sorted by path.
    pub(crate) fn records(&self) -> io::Result<Vec<TrustRecord>> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let dir = self.open_dir()?;
        let mut records: Vec<TrustRecord> = entries
            .flatten()
            .map(|entry| entry.file_name())
            .filter(|file| Path::new(file).extension() == Some(OsStr::new("json")))
            .filter_map(|file| self.read(&dir, &file).ok().flatten())
            .collect();
        records.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(records)
    }

    fn record(&self, path: &Path) -> io::Result<Option<TrustRecord>> {
        match self.open_dir() {
            Ok(dir) => self.read(&dir, OsStr::new(&record_name(path))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open_dir(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = File::from(rustix::fs::open(&self.dir, flags, Mode::empty())?);
        self.check_owner(&dir)?;
        Ok(dir)
    }

    fn read(&self, dir: &File, name: &OsStr) -> io::Result<Option<TrustRecord>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        self.check_owner(&file)?;
        let mut text = Vec::new();
        (&file).take(MAX_RECORD_LEN).read_to_end(&mut text)?;
        Ok(Some(serde_json::from_slice(&text)?))
    }

    fn check_owner(&self, handle: &File) -> io::Result<()> {
        let metadata = handle.metadata()?;
        if metadata.uid() == self.uid && metadata.mode() & OTHERS_WRITE == 0 {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "other users can write to it"))
    }
}

impl TrustRecord {
    /// Whether the file has these contents.
    pub(crate) fn is_for(&self, contents: &[u8]) -> bool {
        self.sha256 == digest(contents)
    }
}

/// The name of the record for the file at `path`.
fn record_name(path: &Path) -> String {
    format!("{}.json", digest(path.as_os_str().as_encoded_bytes()))
}

fn digest(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A project's file that was read on its own, for the user to review.
#[derive(Debug)]
pub(crate) struct ProjectFile {
    /// The path, with symbolic links of the directory resolved.
    pub(crate) path: PathBuf,
    pub(crate) contents: Vec<u8>,
    /// Entries that apply without trust.
    pub(crate) allowed: Vec<SettingEntry>,
    /// Entries that apply only with trust.
    pub(crate) untrusted: Vec<SettingEntry>,
}

/// Why a project's file cannot be reviewed.
#[derive(Debug)]
pub(crate) enum ProjectError {
    /// The file does not exist.
    Absent,
    /// The file is not used, trusted or not.
    Refused(Refusal),
    /// The file is not valid.
    Invalid(Problems),
}

impl ProjectFile {
    /// Reads the file at `path` as commands in its directory would.
    pub(crate) fn open(path: &Path, surroundings: &Surroundings) -> Result<Self, ProjectError> {
        let source = SourceFile { layer: FileLayer::Project, path: path.to_owned() };
        let contents = match file::read(&source, surroundings.uid) {
            ReadOutcome::Contents(contents) => contents,
            ReadOutcome::Absent => return Err(ProjectError::Absent),
            ReadOutcome::Refused(refusal) => return Err(ProjectError::Refused(refusal)),
        };
        let path = canonical_path(path)
            .map_err(|error| ProjectError::Refused(Refusal::Unreadable(error.to_string())))?;
        let mut entries = LayerEntries::default();
        file::parse(&source, contents.clone(), &mut entries);
        entries.withhold(0);
        Problems::into_result(entries.problems).map_err(ProjectError::Invalid)?;
        Ok(Self { path, contents, allowed: entries.entries, untrusted: entries.untrusted })
    }
}

/// The absolute path of a project's file, with symbolic links of its directory resolved.
pub(crate) fn canonical_path(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let dir = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or(PROJECT_FILE.as_ref());
    Ok(dir.canonicalize()?.join(name))
}

/// Reads a layer's file into `entries`, and withholds what a project's file must not set.
pub(super) fn read_file(
    file: &SourceFile,
    surroundings: &Surroundings,
    entries: &mut LayerEntries,
) -> FileState {
    let contents = match file::read(file, surroundings.uid) {
        ReadOutcome::Absent => return FileState::Absent,
        // Another user must not be able to stop commands with a file in a shared directory.
        ReadOutcome::Refused(refusal) if file.layer == FileLayer::Project => {
            return FileState::Ignored(refusal);
        }
        ReadOutcome::Refused(refusal) => {
            entries.problems.push(Problem::refused(file.origin(None), refusal));
            return FileState::Absent;
        }
        ReadOutcome::Contents(contents) => contents,
    };
    if file.layer != FileLayer::Project {
        file::parse(file, contents, entries);
        return FileState::Read;
    }
    let start = entries.entries.len();
    entries.project_trust = trust_status(file, &contents, surroundings);
    file::parse(file, contents, entries);
    if entries.project_trust != Trust::Granted {
        entries.withhold(start);
    }
    FileState::Read
}

fn trust_status(file: &SourceFile, contents: &[u8], surroundings: &Surroundings) -> Trust {
    // The path of the working directory has no symbolic links.
    let dir = surroundings.working_dir.as_deref();
    match (dir, TrustStore::new(surroundings)) {
        (Some(dir), Some(store)) => store.status(&dir.join(&file.path), contents),
        _ => Trust::Unknown,
    }
}

impl Settings {
    /// Notes on what does not apply of the project's file.
    pub(crate) fn project_notes(&self) -> Vec<String> {
        let ignored = self.files().iter().filter_map(|(path, state)| match state {
            FileState::Ignored(why) => Some(format!("{path} is ignored: {why}")),
            FileState::Read | FileState::Absent => None,
        });
        ignored.chain(self.untrusted_note()).collect()
    }

    fn untrusted_note(&self) -> Option<String> {
        let keys = key_list(self.untrusted())?;
        let why = match self.trust {
            Trust::Changed => "changed since you trusted it",
            Trust::Granted | Trust::Unknown => "is not trusted",
        };
        Some(format!("{PROJECT_FILE} {why} and does not set {keys}; review it: atlatl trust"))
    }
}

/// The names of the keys, up to [`MAX_LISTED_KEYS`]; `None` if there are no entries.
pub(crate) fn key_list(entries: &[SettingEntry]) -> Option<String> {
    let listed: Vec<&str> =
        entries.iter().take(MAX_LISTED_KEYS).map(|entry| entry.key.name).collect();
    match (&*listed, entries.len().saturating_sub(MAX_LISTED_KEYS)) {
        ([], _) => None,
        (listed, 0) => Some(listed.join(", ")),
        (listed, more) => Some(format!("{} and {more} more", listed.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;

    fn store(dir: &TempDir) -> TrustStore {
        let uid = rustix::process::geteuid().as_raw();
        let state_dir = Some(dir.path().to_owned());
        TrustStore::new(&Surroundings { state_dir, uid, ..Surroundings::default() }).unwrap()
    }

    #[test]
    fn g01_trust_is_for_one_path_and_one_text() {
        let dir = TempDir::new().unwrap();
        let store = store(&dir);
        let (here, there) = (Path::new("/a/atlatl.toml"), Path::new("/b/atlatl.toml"));
        assert_eq!(store.status(here, b"x"), Trust::Unknown);
        store.grant(here, b"x", Utc::now()).unwrap();
        assert_eq!(store.status(here, b"x"), Trust::Granted);
        assert_eq!(store.status(here, b"y"), Trust::Changed);
        assert_eq!(store.status(there, b"x"), Trust::Unknown);
        // The record of one path is no record for another.
        fs::copy(store.dir.join(record_name(here)), store.dir.join(record_name(there))).unwrap();
        assert_eq!(store.status(there, b"x"), Trust::Unknown);
        store.grant(here, b"y", Utc::now()).unwrap();
        assert_eq!(store.status(here, b"x"), Trust::Changed);
        assert!(store.revoke(here).unwrap());
        assert!(!store.revoke(here).unwrap());
        assert_eq!(store.status(here, b"y"), Trust::Unknown);
    }

    #[test]
    fn g01_records_are_private_and_others_are_not_believed() {
        let dir = TempDir::new().unwrap();
        let store = store(&dir);
        let path = Path::new("/a/atlatl.toml");
        store.grant(path, b"x", Utc::now()).unwrap();
        let record = store.dir.join(record_name(path));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&store.dir), mode(&record)), (0o700, 0o600));

        for (path_of, lax, strict) in [(&record, 0o622, 0o600), (&store.dir, 0o720, 0o700)] {
            fs::set_permissions(path_of, fs::Permissions::from_mode(lax)).unwrap();
            assert_eq!(store.status(path, b"x"), Trust::Unknown);
            fs::set_permissions(path_of, fs::Permissions::from_mode(strict)).unwrap();
            assert_eq!(store.status(path, b"x"), Trust::Granted);
        }
        let stranger = TrustStore { dir: store.dir.clone(), uid: store.uid.wrapping_add(1) };
        assert_eq!(stranger.status(path, b"x"), Trust::Unknown);
        assert!(stranger.grant(path, b"x", Utc::now()).is_err());
    }
}
