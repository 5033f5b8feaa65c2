//! The journal of changed client files, from which they are restored.
//!
//! The state directory has one JSON file per changed file, with the changes and the original contents.

mod hooks;

use std::{
    fs, io,
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use atlatl_lro::clients::{CLIENTS, Journal, ServerTable};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub(crate) use self::hooks::{HookInstall, HookInstalls, RestoreError};
use crate::{error::Error, settings::Settings};

/// The journal of one client file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Install {
    /// The file, with symbolic links resolved.
    pub(crate) file: PathBuf,
    /// The name of the client, and the path in [`CLIENTS`].
    pub(crate) client: String,
    pub(crate) path: String,
    /// The project whose servers were changed, if the file has a table per project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) project: Option<String>,
    pub(crate) journal: Journal,
    /// The contents before the first change.
    pub(crate) original: String,
}

impl Install {
    /// The table of servers in the file; `None` if unknown client.
    pub(crate) fn place(&self) -> Option<ServerTable> {
        let client =
            CLIENTS.iter().find(|client| client.name == self.client && client.path == self.path)?;
        Some(ServerTable { project: self.project.clone(), ..client.place.clone() })
    }
}

/// The directory of journals.
pub(crate) struct Installs(PathBuf);

impl Installs {
    pub(crate) fn open(settings: &Settings) -> Result<Self, Error> {
        let state = settings.surroundings().state_dir.as_ref();
        state
            .map(|dir| Self(dir.join("atlatl/installs")))
            .ok_or_else(|| Error::usage("no home directory to record the changes in"))
    }

    /// All journals, sorted by file.
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

    /// The journal file for the servers in `file` of a project, or of all projects.
    pub(crate) fn path(&self, file: &Path, project: Option<&str>) -> PathBuf {
        let mut digest = Sha256::new_with_prefix(file.as_os_str().as_encoded_bytes());
        if let Some(project) = project {
            // A path cannot contain this byte.
            digest.update([0]);
            digest.update(project);
        }
        let digest = digest.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        self.0.join(format!("{:016x}.json", u64::from_be_bytes(first)))
    }

    /// The journal of one table of servers in `file`.
    pub(crate) fn find(&self, file: &Path, table: &ServerTable) -> Result<Option<Install>, Error> {
        read(&self.path(file, table.project.as_deref()))
    }

    /// Writes a journal. Call this before changing the client's file.
    pub(crate) fn store(&self, install: &Install) -> Result<(), Error> {
        let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        created.map_err(|error| failed(&self.0, &error))?;
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
        let mut leftovers: Vec<PathBuf> =
            files.iter().flat_map(|file| leftovers_of(file)).collect();
        // Journals are written in the same way.
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            if is_leftover(&entry.path(), None) {
                leftovers.push(entry.path());
            }
        }
        leftovers
    }

    /// Removes a journal, after its changes were undone.
    pub(crate) fn remove(&self, install: &Install) -> Result<(), Error> {
        let path = self.path(&install.file, install.project.as_deref());
        fs::remove_file(&path).map_err(|error| failed(&path, &error))
    }
}

/// Reads a journal; `None` if the file does not exist.
fn read(path: &Path) -> Result<Option<Install>, Error> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, &error)),
    };
    let unreadable = |_| Error::failure(format!("{}: cannot read this file", path.display()));
    serde_json::from_slice(&text).map(Some).map_err(unreadable)
}

/// Replaces the contents of a file atomically. The file keeps its mode.
pub(crate) fn rewrite(file: &Path, content: &str) -> io::Result<()> {
    let mode = fs::metadata(file)?.permissions().mode() & 0o7777;
    replace(file, content.as_bytes(), mode)
}

/// The infix in the name of a temporary file, between the name of its file and the writer's process id.
const TEMPORARY_INFIX: &str = ".atlatl-";
/// A temporary file older than this is a leftover, even if a process has its writer's id.
const MAX_TEMPORARY_AGE: Duration = Duration::from_hours(1);

/// Temporary files beside `file` whose writer was interrupted.
fn leftovers_of(file: &Path) -> Vec<PathBuf> {
    let (Some(dir), Some(name)) = (file.parent(), file.file_name()) else { return Vec::new() };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let name = name.as_encoded_bytes();
    entries.map(|entry| entry.path()).filter(|path| is_leftover(path, Some(name))).collect()
}

/// Whether a path is a temporary file of Atlatl without a writer, for the file `original` if that is
/// given: it has such a name, and is a regular file of this user with one hard link. A symbolic link or a
/// directory with such a name is not one.
fn is_leftover(path: &Path, original: Option<&[u8]>) -> bool {
    let name = path.file_name().and_then(std::ffi::OsStr::to_str);
    let Some((stem, pid)) = name.and_then(|name| name.rsplit_once(TEMPORARY_INFIX)) else {
        return false;
    };
    if original.is_some_and(|name| name != stem.as_bytes()) {
        return false;
    }
    let is_number = !pid.starts_with('0') && pid.bytes().all(|byte| byte.is_ascii_digit());
    let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw) else { return false };
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    let is_ours = metadata.is_file()
        && metadata.uid() == rustix::process::geteuid().as_raw()
        && metadata.nlink() == 1;
    let age = metadata.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
    let is_running = rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH);
    is_number && is_ours && (!is_running || age > MAX_TEMPORARY_AGE)
}

/// Writes `content` to a temporary file beside `file`, then renames it.
fn replace(file: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut part = file.as_os_str().to_owned();
    part.push(format!("{TEMPORARY_INFIX}{}", std::process::id()));
    let part = PathBuf::from(part);
    let written = (|| {
        let mut out = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&part)?;
        io::Write::write_all(&mut out, content)?;
        // Undo the effect of the umask.
        out.set_permissions(fs::Permissions::from_mode(mode))?;
        out.sync_all()?;
        fs::rename(&part, file)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

/// An I/O error on `path`.
pub(crate) fn failed(path: &Path, error: &io::Error) -> Error {
    Error::failure(format!("{}: {error}", path.display()))
}
