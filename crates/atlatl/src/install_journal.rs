//! The journal of changed client files, from which they are restored.
//!
//! One file for each, in the state directory: what was changed, and the client's file as it was.

use std::{
    fs, io,
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use atlatl_lro::clients::{CLIENTS, Journal, Place};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{error::Error, settings::Settings};

/// What was done to one file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Install {
    /// The file, without links on the way.
    pub(crate) file: PathBuf,
    /// Which of the clients' files it is, by name and path.
    pub(crate) client: String,
    pub(crate) path: String,
    /// The project whose servers were changed, where the file has a table for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) project: Option<String>,
    pub(crate) journal: Journal,
    /// The file before anything was changed.
    pub(crate) original: String,
}

impl Install {
    /// Where in its file the servers stand; nothing where this version does not know the client.
    pub(crate) fn place(&self) -> Option<Place> {
        let client =
            CLIENTS.iter().find(|client| client.name == self.client && client.path == self.path)?;
        Some(Place { project: self.project.clone(), ..client.place.clone() })
    }
}

/// Where they are written down.
pub(crate) struct Installs(PathBuf);

impl Installs {
    pub(crate) fn open(settings: &Settings) -> Result<Self, Error> {
        let state = settings.surroundings().state_dir.as_ref();
        state.map(|dir| Self(dir.join("atlatl/installs"))).ok_or_else(|| {
            Error::usage("there is no home directory to write down what was changed")
        })
    }

    /// Everything that was installed.
    pub(crate) fn all(&self) -> Result<Vec<Install>, Error> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&self.0, &error)),
        };
        let mut all = Vec::new();
        for entry in
            entries.flatten().filter(|entry| entry.path().extension() == Some("json".as_ref()))
        {
            all.extend(read(&entry.path())?);
        }
        all.sort_by(|one, other| one.file.cmp(&other.file));
        Ok(all)
    }

    /// The file that says what was done to the servers of a project, or of everyone, in `file`.
    pub(crate) fn path(&self, file: &Path, project: Option<&str>) -> PathBuf {
        let mut digest = Sha256::new_with_prefix(file.as_os_str().as_encoded_bytes());
        if let Some(project) = project {
            // No path holds this byte.
            digest.update([0]);
            digest.update(project);
        }
        let digest = digest.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        self.0.join(format!("{:016x}.json", u64::from_be_bytes(first)))
    }

    /// What was done to the servers at one place of `file`.
    pub(crate) fn of(&self, file: &Path, place: &Place) -> Result<Option<Install>, Error> {
        read(&self.path(file, place.project.as_deref()))
    }

    /// Writes it down, before the file itself is changed.
    pub(crate) fn keep(&self, install: &Install) -> Result<(), Error> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        made.map_err(|error| failed(&self.0, &error))?;
        let json = serde_json::to_vec_pretty(install)
            .map_err(|error| Error::failure(error.to_string()))?;
        let path = self.path(&install.file, install.project.as_deref());
        replace(&path, &json, 0o600).map_err(|error| failed(&path, &error))
    }

    /// Temporary files of interrupted runs: beside `files`, beside every file that was changed before,
    /// and in this directory.
    pub(crate) fn leftovers(&self, files: &[PathBuf]) -> Vec<PathBuf> {
        let mut files = files.to_vec();
        files.extend(self.all().unwrap_or_default().into_iter().map(|install| install.file));
        files.sort();
        files.dedup();
        let mut found: Vec<PathBuf> = files.iter().flat_map(|file| leftovers_of(file)).collect();
        // Journals are written in the same way.
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            if is_leftover(&entry.path(), None) {
                found.push(entry.path());
            }
        }
        found
    }

    pub(crate) fn forget(&self, install: &Install) -> Result<(), Error> {
        let path = self.path(&install.file, install.project.as_deref());
        fs::remove_file(&path).map_err(|error| failed(&path, &error))
    }
}

/// What one file says; nothing where there is none.
fn read(path: &Path) -> Result<Option<Install>, Error> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, &error)),
    };
    let unreadable = |_| Error::failure(format!("{}: this cannot be read", path.display()));
    serde_json::from_slice(&text).map(Some).map_err(unreadable)
}

/// Puts `content` in the place of a file, whole or not at all, with the rights that it had.
pub(crate) fn rewrite(file: &Path, content: &str) -> io::Result<()> {
    let mode = fs::metadata(file)?.permissions().mode() & 0o7777;
    replace(file, content.as_bytes(), mode)
}

/// What the name of a temporary file has between the name of its file and the writer's process id.
const TEMPORARY: &str = ".atlatl-";
/// A temporary file of this age is a leftover, whichever process has its writer's id now.
const MAX_TEMPORARY_AGE: Duration = Duration::from_hours(1);

/// Temporary files beside `file` whose writer was interrupted.
fn leftovers_of(file: &Path) -> Vec<PathBuf> {
    let (Some(dir), Some(name)) = (file.parent(), file.file_name()) else { return Vec::new() };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let name = name.as_encoded_bytes();
    entries.map(|entry| entry.path()).filter(|path| is_leftover(path, Some(name))).collect()
}

/// Whether a path is a temporary file of ours, of the file called `of`, without a writer: by its name,
/// and a regular file of this user with one name. A link or a directory with such a name is not ours.
fn is_leftover(path: &Path, of: Option<&[u8]>) -> bool {
    let name = path.file_name().and_then(std::ffi::OsStr::to_str);
    let Some((stem, pid)) = name.and_then(|name| name.rsplit_once(TEMPORARY)) else { return false };
    if of.is_some_and(|of| of != stem.as_bytes()) {
        return false;
    }
    let digits = !pid.starts_with('0') && pid.bytes().all(|byte| byte.is_ascii_digit());
    let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw) else { return false };
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    let ours = metadata.is_file()
        && metadata.uid() == rustix::process::geteuid().as_raw()
        && metadata.nlink() == 1;
    let age = metadata.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
    let running = rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH);
    digits && ours && (!running || age > MAX_TEMPORARY_AGE)
}

fn replace(file: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut part = file.as_os_str().to_owned();
    part.push(format!("{TEMPORARY}{}", std::process::id()));
    let part = PathBuf::from(part);
    let written = (|| {
        let mut out = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&part)?;
        io::Write::write_all(&mut out, content)?;
        // What the umask took is given back.
        out.set_permissions(fs::Permissions::from_mode(mode))?;
        out.sync_all()?;
        fs::rename(&part, file)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

pub(crate) fn failed(path: &Path, error: &io::Error) -> Error {
    Error::failure(format!("{}: {error}", path.display()))
}
