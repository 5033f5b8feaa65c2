//! Trust: project files that the user has reviewed, each by its path and the hash of its contents.
//!
//! One record per path in the state directory. A record is believed only if this user wrote it:
//! directory and file must belong to the effective user, and no other user may write to them.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs::{self, DirBuilder, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use chrono::{DateTime, Utc};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Surroundings;

/// The largest record that is read.
const MAX_RECORD_LEN: u64 = 64 << 10;
/// The permission bits that let others write.
const OTHERS_WRITE: u32 = 0o022;

/// One trusted file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TrustRecord {
    /// The file, without links on the way.
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

/// The records of one user.
#[derive(Debug)]
pub(crate) struct TrustStore {
    dir: PathBuf,
    uid: u32,
}

impl TrustStore {
    /// The store of the user, where there is a state directory.
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

    /// Trusts `contents` at `path`, in place of what was trusted there before.
    pub(crate) fn grant(
        &self,
        path: &Path,
        contents: &[u8],
        trusted_at: DateTime<Utc>,
    ) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        self.open_dir()?;
        let record = TrustRecord { path: path.to_owned(), sha256: digest(contents), trusted_at };
        // Private from the start (0600), and in place whole or not at all.
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        file.write_all(&serde_json::to_vec_pretty(&record)?)?;
        file.as_file().sync_all()?;
        file.persist(self.dir.join(name(path)))?;
        Ok(())
    }

    /// Removes the trust in the file at `path`; whether there was any.
    pub(crate) fn revoke(&self, path: &Path) -> io::Result<bool> {
        match fs::remove_file(self.dir.join(name(path))) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Every record that is believed, by path.
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
            Ok(dir) => self.read(&dir, OsStr::new(&name(path))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open_dir(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = File::from(rustix::fs::open(&self.dir, flags, Mode::empty())?);
        self.examine(&dir)?;
        Ok(dir)
    }

    fn read(&self, dir: &File, name: &OsStr) -> io::Result<Option<TrustRecord>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        self.examine(&file)?;
        let mut text = Vec::new();
        (&file).take(MAX_RECORD_LEN).read_to_end(&mut text)?;
        Ok(Some(serde_json::from_slice(&text)?))
    }

    fn examine(&self, handle: &File) -> io::Result<()> {
        let found = handle.metadata()?;
        if found.uid() == self.uid && found.mode() & OTHERS_WRITE == 0 {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "others can write to it"))
    }
}

impl TrustRecord {
    /// Whether the file has these contents.
    pub(crate) fn is_for(&self, contents: &[u8]) -> bool {
        self.sha256 == digest(contents)
    }
}

/// The name of the record for the file at `path`.
fn name(path: &Path) -> String {
    format!("{}.json", digest(path.as_os_str().as_encoded_bytes()))
}

fn digest(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing into a text does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
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
        fs::copy(store.dir.join(name(here)), store.dir.join(name(there))).unwrap();
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
        let record = store.dir.join(name(path));
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
