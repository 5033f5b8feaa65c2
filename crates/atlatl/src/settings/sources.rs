//! Where settings are looked for. The only place that asks the process about its surroundings.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::{Origin, origin::FileLayer};
use crate::args::Global;

/// The name of a project's file.
pub(crate) const PROJECT_FILE: &str = "atlatl.toml";

/// Everything that can set something, as values: a test makes its own.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// Weakest first.
    pub(super) files: Vec<SourceFile>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) assignments: Vec<String>,
    pub(super) surroundings: Surroundings,
}

/// What defaults are made from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    pub(crate) temp_dir: PathBuf,
    /// The directory for what a program keeps between runs, where there is a home.
    pub(crate) state_dir: Option<PathBuf>,
    /// The directory for what a person keeps, where there is a home.
    pub(crate) data_dir: Option<PathBuf>,
    /// The program that a person writes texts with, and its arguments.
    pub(crate) editor: Option<OsString>,
    /// The home directory.
    pub(crate) home: Option<PathBuf>,
    /// The working directory, if it is still there.
    pub(crate) working_dir: Option<PathBuf>,
    pub(crate) uid: u32,
}

/// A file to read.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub(super) layer: FileLayer,
    pub(super) path: PathBuf,
}

impl SourceFile {
    /// The origin of what is on a line of it, or of the whole file.
    pub(super) fn origin(&self, line: Option<usize>) -> Origin {
        Origin::File { layer: self.layer, path: self.path.display().to_string(), line }
    }
}

impl Sources {
    /// Those of this process.
    pub(crate) fn of_process(flags: &Global) -> Self {
        let files = match &flags.config {
            Some(path) => vec![SourceFile { layer: FileLayer::Named, path: path.clone() }],
            None => standard_files(
                Path::new("/etc"),
                env::var_os("XDG_CONFIG_HOME").map(PathBuf::from),
                env::var_os("HOME").map(PathBuf::from),
            ),
        };
        Self {
            files,
            environment: env::vars_os().collect(),
            assignments: flags.assignments.clone(),
            surroundings: Surroundings::of_process(),
        }
    }

    /// A variable of the environment that is text.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let found = self.environment.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.to_str()).map(str::to_owned)
    }

    /// What defaults are made from.
    pub(crate) fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// The home directory.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.surroundings.home.as_deref()
    }

    /// The surroundings alone, in which nothing sets anything.
    pub(crate) fn without_values(&self) -> Self {
        Self { surroundings: self.surroundings.clone(), ..Self::default() }
    }

    /// A variable of the environment, as it is.
    pub(crate) fn os_variable(&self, name: &str) -> Option<&OsString> {
        self.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Sets one key above every file and variable.
    pub(crate) fn assign(&mut self, assignment: String) {
        self.assignments.push(assignment);
    }

    /// One file and nothing else.
    pub(crate) fn only_file(path: &Path) -> Self {
        let file = SourceFile { layer: FileLayer::Named, path: path.to_owned() };
        Self { files: vec![file], ..Self::default() }
    }
}

impl Surroundings {
    fn of_process() -> Self {
        let variable = |name| env::var_os(name).map(PathBuf::from);
        Self {
            // An empty variable is as good as none.
            temp_dir: Some(env::temp_dir())
                .filter(|dir| !dir.as_os_str().is_empty())
                .unwrap_or_else(|| PathBuf::from("/tmp")),
            state_dir: xdg_dir(variable("XDG_STATE_HOME"), variable("HOME"), ".local/state"),
            data_dir: xdg_dir(variable("XDG_DATA_HOME"), variable("HOME"), ".local/share"),
            editor: ["VISUAL", "EDITOR"]
                .into_iter()
                .filter_map(env::var_os)
                .find(|editor| !editor.as_encoded_bytes().trim_ascii().is_empty()),
            home: variable("HOME").filter(|home| home.is_absolute()),
            working_dir: env::current_dir().ok(),
            uid: rustix::process::geteuid().as_raw(),
        }
    }
}

/// A base directory of the XDG specification, by which a relative path is to be ignored.
fn xdg_dir(named: Option<PathBuf>, home: Option<PathBuf>, beneath: &str) -> Option<PathBuf> {
    named
        .filter(|dir| dir.is_absolute())
        .or_else(|| home.filter(|home| home.is_absolute()).map(|home| home.join(beneath)))
}

/// The system's file, the user's where there is a home, and the project's.
pub(super) fn standard_files(
    etc: &Path,
    xdg_config_home: Option<PathBuf>,
    home: Option<PathBuf>,
) -> Vec<SourceFile> {
    let mut files =
        vec![SourceFile { layer: FileLayer::System, path: etc.join("atlatl/config.toml") }];
    if let Some(dir) = xdg_dir(xdg_config_home, home, ".config") {
        files.push(SourceFile { layer: FileLayer::User, path: dir.join("atlatl/config.toml") });
    }
    files.push(SourceFile { layer: FileLayer::Project, path: PathBuf::from(PROJECT_FILE) });
    files
}
