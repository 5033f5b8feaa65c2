//! Discovers the configuration files of MCP clients.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use atlatl_lro::clients::{CLIENTS, Client, Folder, Home, Place, Scope};

use crate::{
    error::Error,
    output::Output,
    settings::{Settings, Surroundings},
};

/// No configuration is longer; Claude Code keeps histories in its own.
const MAX_CONFIG_LEN: u64 = 64 << 20;

/// A client's file.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) client: &'static Client,
    /// Where it lies, links followed: what a link leads to is changed, and the link stays.
    pub(crate) file: PathBuf,
    /// Where servers stand in it.
    pub(crate) place: Place,
}

impl Found {
    /// What people call it.
    pub(crate) fn shown(&self) -> String {
        let whose = match self.client.scope {
            Scope::Local => ", for this directory",
            Scope::User | Scope::Project => "",
        };
        format!("{} ({}{whose})", self.file.display(), self.client.title)
    }

    /// Whether the project's file is the user's own: in the home directory they are the same.
    pub(crate) fn is_of_project(&self, surroundings: &Surroundings) -> bool {
        self.client.scope == Scope::Project && surroundings.home != surroundings.working_dir
    }

    /// Its text; why it is left alone.
    pub(crate) fn read(&self) -> Result<String, String> {
        let there = fs::metadata(&self.file).map_err(|error| error.to_string())?;
        if !there.is_file() || there.len() > MAX_CONFIG_LEN {
            return Err("it is no file of configuration".to_owned());
        }
        let text = fs::read_to_string(&self.file).map_err(|error| error.to_string())?;
        atlatl_lro::clients::entries(&text, &self.place).map_err(|error| error.to_string())?;
        Ok(text)
    }
}

/// Where in its file the servers of a client stand; nothing where that cannot be said.
fn place(client: &Client, surroundings: &Surroundings) -> Option<Place> {
    let mut place = client.place.clone();
    if client.scope == Scope::Local {
        let here = fs::canonicalize(surroundings.working_dir.as_ref()?).ok()?;
        place.project = Some(here.into_os_string().into_string().ok()?);
    }
    Some(place)
}

/// The files of the named clients, or of all.
pub(crate) fn find(settings: &Settings, named: &[String]) -> Result<Vec<Found>, Error> {
    for name in named {
        if !CLIENTS.iter().any(|client| client.name == name) {
            let mut known: Vec<_> = CLIENTS.iter().map(|client| client.name).collect();
            known.dedup();
            return Err(
                Error::usage(format!("no client is called {name}")).with_hint(known.join(", "))
            );
        }
    }
    let surroundings = settings.surroundings();
    let kind = if cfg!(target_os = "macos") { Home::MacOs } else { Home::Linux };
    let wanted =
        |client: &&Client| named.is_empty() || named.iter().any(|name| name == client.name);
    let mut found: Vec<Found> = Vec::new();
    for client in CLIENTS.iter().filter(wanted) {
        let base = match client.folder {
            Folder::Project => &surroundings.working_dir,
            _ => &surroundings.home,
        };
        let path = base.as_ref().map(|base| base.join(client.relative_path(kind)));
        // In the home directory a project's file is the user's.
        if let Some(file) = path.and_then(existing)
            && is_inside(client, &file, surroundings)
            && let Some(place) = place(client, surroundings)
            && !found.iter().any(|other| other.file == file && other.place == place)
        {
            found.push(Found { client, file, place });
        }
    }
    Ok(found)
}

/// Whether a project's file is in the project. A link that leads elsewhere could name a file of the user, which is not
/// the project's to change.
fn is_inside(client: &Client, file: &Path, surroundings: &Surroundings) -> bool {
    let Some(dir) = surroundings.working_dir.as_ref().filter(|_| client.folder == Folder::Project)
    else {
        return true;
    };
    let inside = fs::canonicalize(dir).is_ok_and(|dir| file.starts_with(dir));
    if !inside {
        let (title, file) = (client.title, file.display());
        Output::remark(format_args!(
            "{title}: this project's file is a link to {file}, outside of the project. It is left unchanged."
        ));
    }
    inside
}

/// The path of a file without links; as it is where it exists and cannot be reached, which reading it
/// then reports.
fn existing(path: PathBuf) -> Option<PathBuf> {
    match fs::canonicalize(&path) {
        Ok(path) => Some(path),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            None
        }
        Err(_) => Some(path),
    }
}
