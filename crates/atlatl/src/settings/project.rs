//! A project's file: what it sets, and what of it needs the user's trust.
//!
//! Anyone may have written the file: it comes with a clone. Without trust it sets only the keys
//! that are [allowed](lro_core::config::ProjectUse::Allowed) to any project.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    Entry, FileState, Problem, Problems, Refusal, Settings, Surroundings,
    entry::Found,
    file,
    open::{self, Opened},
    origin::FileLayer,
    sources::{PROJECT_FILE, SourceFile},
    trust::{Trust, TrustStore},
};

/// The most keys that one line names.
const KEYS_SHOWN: usize = 5;

/// A project's file that was read on its own, to be trusted.
#[derive(Debug)]
pub(crate) struct ProjectFile {
    /// Where it is, without links on the way.
    pub(crate) path: PathBuf,
    pub(crate) contents: Vec<u8>,
    /// What applies without trust.
    pub(crate) allowed: Vec<Entry>,
    /// What applies with trust.
    pub(crate) untrusted: Vec<Entry>,
}

/// Why a project's file cannot be looked at.
#[derive(Debug)]
pub(crate) enum ProjectError {
    /// There is none.
    Absent,
    /// It is not used, trusted or not.
    Refused(Refusal),
    /// It is not valid.
    Invalid(Problems),
}

impl ProjectFile {
    /// Reads the file at `path` as commands in its directory would.
    pub(crate) fn open(path: &Path, surroundings: &Surroundings) -> Result<Self, ProjectError> {
        let source = SourceFile { layer: FileLayer::Project, path: path.to_owned() };
        let contents = match open::read(&source, surroundings.uid) {
            Opened::Contents(contents) => contents,
            Opened::Absent => return Err(ProjectError::Absent),
            Opened::Refused(refusal) => return Err(ProjectError::Refused(refusal)),
        };
        let path = location(path)
            .map_err(|error| ProjectError::Refused(Refusal::Unreadable(error.to_string())))?;
        let mut found = Found::default();
        file::parse(&source, contents.clone(), &mut found);
        found.withhold(0);
        Problems::none_or(found.problems).map_err(ProjectError::Invalid)?;
        Ok(Self { path, contents, allowed: found.entries, untrusted: found.untrusted })
    }
}

/// Where a project's file is, without links on the way to its directory.
pub(crate) fn location(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let dir = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or(PROJECT_FILE.as_ref());
    Ok(dir.canonicalize()?.join(name))
}

/// Reads a layer's file into `found`, and withholds what a project's file must not set.
pub(super) fn read(file: &SourceFile, here: &Surroundings, found: &mut Found) -> FileState {
    let contents = match open::read(file, here.uid) {
        Opened::Absent => return FileState::Absent,
        // Another user must not be able to stop commands by what is in a shared directory.
        Opened::Refused(refusal) if file.layer == FileLayer::Project => {
            return FileState::Ignored(refusal);
        }
        Opened::Refused(refusal) => {
            found.problems.push(Problem::refused(file.origin(None), refusal));
            return FileState::Absent;
        }
        Opened::Contents(contents) => contents,
    };
    if file.layer != FileLayer::Project {
        file::parse(file, contents, found);
        return FileState::Read;
    }
    let before = found.entries.len();
    found.project_trust = trust(file, &contents, here);
    file::parse(file, contents, found);
    if found.project_trust != Trust::Granted {
        found.withhold(before);
    }
    FileState::Read
}

fn trust(file: &SourceFile, contents: &[u8], here: &Surroundings) -> Trust {
    // The working directory that the system names has no links in it.
    let dir = here.working_dir.as_deref();
    match (dir, TrustStore::new(here)) {
        (Some(dir), Some(store)) => store.status(&dir.join(&file.path), contents),
        _ => Trust::Unknown,
    }
}

impl Settings {
    /// What does not apply although it is in the project's file: a line each.
    pub(crate) fn project_notes(&self) -> Vec<String> {
        let ignored = self.files().iter().filter_map(|(path, state)| match state {
            FileState::Ignored(why) => Some(format!("{path} is ignored: {why}")),
            FileState::Read | FileState::Absent => None,
        });
        ignored.chain(self.untrusted_note()).collect()
    }

    fn untrusted_note(&self) -> Option<String> {
        let keys = names(self.untrusted())?;
        let why = match self.trust {
            Trust::Changed => "changed since you trusted it",
            Trust::Granted | Trust::Unknown => "is not trusted",
        };
        Some(format!("{PROJECT_FILE} {why} and does not set {keys}; review it: atlatl trust"))
    }
}

/// The keys by name, the first few of many.
pub(crate) fn names(entries: &[Entry]) -> Option<String> {
    let shown: Vec<&str> = entries.iter().take(KEYS_SHOWN).map(|entry| entry.key.name).collect();
    match (&*shown, entries.len().saturating_sub(KEYS_SHOWN)) {
        ([], _) => None,
        (shown, 0) => Some(shown.join(", ")),
        (shown, more) => Some(format!("{} and {more} more", shown.join(", "))),
    }
}
