//! The journal of files with hooks, from which they are restored.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use atlatl_lro::clients::{HOOK_CLIENTS, HookClient, HookFormat, uninstall_hooks};
use serde::{Deserialize, Serialize};

use super::{failed, replace, rewrite};
use crate::error::Error;
use crate::settings::Surroundings;

/// The journal of one file with hooks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HookInstall {
    /// The file, with symbolic links resolved.
    pub(crate) file: PathBuf,
    /// The name of the agent.
    pub(crate) client: String,
    /// The contents before; `None` if there was no file.
    pub(crate) original: Option<String>,
    /// The contents after.
    pub(crate) written: String,
    /// The inserted texts of servers, if the file was created.
    pub(crate) servers: Vec<String>,
    /// The inserted texts of hooks, in the order of the file.
    pub(crate) inserted: Vec<String>,
    /// Directories that were created, the outermost first.
    pub(crate) created_dirs: Vec<PathBuf>,
}

/// Why a file was not restored.
#[derive(Debug)]
pub(crate) enum RestoreError {
    /// Something that was added later depends on the hooks; try again when that is removed.
    Later(String),
    /// Any other reason.
    Failed(String),
}

impl HookInstall {
    /// The agent; `None` if it is not known to this version.
    pub(crate) fn hook_client(&self) -> Option<&'static HookClient> {
        HOOK_CLIENTS.iter().find(|client| client.name == self.client)
    }

    /// Writes the file.
    pub(crate) fn write(&self) -> io::Result<()> {
        for dir in &self.created_dirs {
            DirBuilder::new().recursive(true).mode(0o755).create(dir)?;
        }
        if self.file.exists() {
            rewrite(&self.file, &self.written)
        } else {
            replace(&self.file, self.written.as_bytes(), 0o644)
        }
    }

    /// Restores the file: its original bytes, or without what was inserted if it was edited since.
    pub(crate) fn restore(&self) -> Result<(), RestoreError> {
        let fail = |error: io::Error| RestoreError::Failed(error.to_string());
        let current = match fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(fail(error)),
        };
        let client =
            self.hook_client().ok_or_else(|| RestoreError::Failed("unknown client".to_owned()))?;
        let restored = match (&self.original, client.format) {
            (original, _) if current == self.written => original.clone(),
            // An own file that was edited still has only hooks of Atlatl.
            (_, HookFormat::OwnFile) => None,
            (_, HookFormat::Settings(notation)) => {
                let inserted = [&self.servers[..], &self.inserted].concat();
                let text = uninstall_hooks(&current, notation, &inserted)
                    .map_err(|error| RestoreError::Later(error.to_string()))?;
                let rest: String = text.split_whitespace().collect();
                let is_empty = matches!(&*rest, "" | "{}");
                (self.original.is_some() || !is_empty).then_some(text)
            }
            (_, _) => return Err(RestoreError::Failed("unknown format".to_owned())),
        };
        match restored {
            Some(text) => rewrite(&self.file, &text).map_err(fail)?,
            None => fs::remove_file(&self.file).map_err(fail)?,
        }
        for dir in self.created_dirs.iter().rev() {
            // Directories with other files stay.
            let _ = fs::remove_dir(dir);
        }
        Ok(())
    }
}

/// The directory of journals.
pub(crate) struct HookInstalls(PathBuf);

impl HookInstalls {
    pub(crate) fn open(surroundings: &Surroundings) -> Result<Self, Error> {
        let state = surroundings.state_dir.as_ref();
        state
            .map(|dir| Self(dir.join("atlatl/hook-installs")))
            .ok_or_else(|| Error::usage("no home directory to record the changes in"))
    }

    /// All journals, in the order of [`HOOK_CLIENTS`].
    pub(crate) fn all(&self) -> Result<Vec<HookInstall>, Error> {
        let mut all = Vec::new();
        for client in HOOK_CLIENTS {
            all.extend(self.find(client.name)?);
        }
        Ok(all)
    }

    /// The journal of an agent.
    pub(crate) fn find(&self, client: &str) -> Result<Option<HookInstall>, Error> {
        let path = self.path(client);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&path, &error)),
        };
        let unreadable = |_| Error::failure(format!("{}: cannot read this file", path.display()));
        serde_json::from_slice(&text).map(Some).map_err(unreadable)
    }

    /// Writes a journal. Call this before changing the file.
    pub(crate) fn store(&self, install: &HookInstall) -> Result<(), Error> {
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        created.map_err(|error| failed(&self.0, &error))?;
        let json = serde_json::to_vec_pretty(install)
            .map_err(|error| Error::failure(error.to_string()))?;
        let path = self.path(&install.client);
        replace(&path, &json, 0o600).map_err(|error| failed(&path, &error))
    }

    /// Removes a journal, after its changes were undone.
    pub(crate) fn remove(&self, install: &HookInstall) -> Result<(), Error> {
        let path = self.path(&install.client);
        fs::remove_file(&path).map_err(|error| failed(&path, &error))
    }

    fn path(&self, client: &str) -> PathBuf {
        self.0.join(Path::new(client).with_extension("json"))
    }
}
