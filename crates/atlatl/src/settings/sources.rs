//! The sources of settings, and the origin of a value. The only module that reads the environment of the
//! process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// The file name of a project's configuration.
pub(crate) const PROJECT_FILE: &str = "atlatl.toml";

/// The working directory, empty if it does not exist, if the variable is set: a shell started this process for completions.
pub(crate) fn completion_directory(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(|_| env::current_dir().unwrap_or_default())
}

/// All sources of settings, as values: a test makes its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// Weakest first.
    pub(super) files: Vec<SourceFile>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) assignments: Vec<String>,
    pub(super) surroundings: Surroundings,
}

/// The directories and the user that defaults depend on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    pub(crate) temp_dir: PathBuf,
    /// The directory for state of programs (`XDG_STATE_HOME`), if there is a home directory.
    pub(crate) state_dir: Option<PathBuf>,
    /// The directory for data of the user (`XDG_DATA_HOME`), if there is a home directory.
    pub(crate) data_dir: Option<PathBuf>,
    /// The user's text editor, with its arguments.
    pub(crate) editor: Option<OsString>,
    /// The home directory.
    pub(crate) home: Option<PathBuf>,
    /// The working directory, if it still exists.
    pub(crate) working_dir: Option<PathBuf>,
    /// The file of this program, without symbolic links.
    pub(crate) program: Option<PathBuf>,
    pub(crate) uid: u32,
}

/// A configuration file of a layer.
#[derive(Debug, Clone)]
pub(super) struct SourceFile {
    pub(super) layer: FileLayer,
    pub(super) path: PathBuf,
}

impl SourceFile {
    /// The origin of a line of the file, or of the whole file.
    pub(super) fn origin(&self, line: Option<usize>) -> Origin {
        Origin::File { layer: self.layer, path: self.path.display().to_string(), line }
    }
}

impl Sources {
    /// The sources of this process; `config` and `assignments` are the values of `--config` and
    /// `--set`.
    pub(crate) fn from_process(config: Option<&Path>, assignments: &[String]) -> Self {
        let files = match config {
            Some(path) => vec![SourceFile { layer: FileLayer::Named, path: path.to_owned() }],
            None => standard_files(
                Path::new("/etc"),
                env::var_os("XDG_CONFIG_HOME").map(PathBuf::from),
                env::var_os("HOME").map(PathBuf::from),
            ),
        };
        Self {
            files,
            environment: env::vars_os().collect(),
            assignments: assignments.to_vec(),
            surroundings: Surroundings::from_process(),
        }
    }

    /// An environment variable that is UTF-8.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.os_variable(name).and_then(|value| value.to_str()).map(str::to_owned)
    }

    /// The directories and the user that defaults depend on.
    pub(crate) fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// The home directory.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.surroundings.home.as_deref()
    }

    /// The same surroundings without any source.
    pub(crate) fn without_values(&self) -> Self {
        Self { surroundings: self.surroundings.clone(), ..Self::default() }
    }

    /// An environment variable.
    pub(crate) fn os_variable(&self, name: &str) -> Option<&OsString> {
        self.environment.iter().find(|(variable, _)| variable == name).map(|(_, value)| value)
    }

    /// The file that the user edits: that of `--config`, or the user's own.
    pub(crate) fn editable_file(&self) -> Option<PathBuf> {
        let is_own = |file: &&SourceFile| matches!(file.layer, FileLayer::User | FileLayer::Named);
        self.files.iter().find(is_own).map(|file| file.path.clone())
    }

    /// Adds a `--set` assignment, which overrides every file and variable.
    pub(crate) fn assign(&mut self, assignment: String) {
        self.assignments.push(assignment);
    }

    /// One file as the only source.
    pub(crate) fn only_file(path: &Path) -> Self {
        let file = SourceFile { layer: FileLayer::Named, path: path.to_owned() };
        Self { files: vec![file], ..Self::default() }
    }
}

impl Surroundings {
    fn from_process() -> Self {
        let variable = |name| env::var_os(name).map(PathBuf::from);
        Self {
            // An empty TMPDIR counts as unset.
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
            program: env::current_exe().and_then(fs::canonicalize).ok(),
            uid: rustix::process::geteuid().as_raw(),
        }
    }
}

/// A base directory of the XDG specification, which says that a relative path is ignored.
fn xdg_dir(variable: Option<PathBuf>, home: Option<PathBuf>, default: &str) -> Option<PathBuf> {
    variable
        .filter(|dir| dir.is_absolute())
        .or_else(|| home.filter(|home| home.is_absolute()).map(|home| home.join(default)))
}

/// The system's file, the user's file if there is a home directory, and the project's file.
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

/// Where a value or a problem comes from: a layer, and the location in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The built-in default.
    Default,
    /// A file.
    File {
        layer: FileLayer,
        path: String,
        /// Counted from 1; `None` for the whole file.
        line: Option<usize>,
    },
    /// An environment variable.
    Environment { variable: String },
    /// `--set`.
    Flag,
}

/// The layer of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileLayer {
    /// `/etc/atlatl/config.toml`.
    System,
    /// `atlatl/config.toml` in the user's configuration directory.
    User,
    /// `atlatl.toml` in the working directory.
    Project,
    /// The file of `--config`.
    Named,
}

impl Origin {
    /// The precedence of the layer: a higher one overrides a lower one.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { layer: FileLayer::System | FileLayer::Named, .. } => 1,
            Self::File { layer: FileLayer::User, .. } => 2,
            Self::File { layer: FileLayer::Project, .. } => 3,
            Self::Environment { .. } => 4,
            Self::Flag => 5,
        }
    }

    fn layer(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File { layer: FileLayer::System, .. } => "system",
            Self::File { layer: FileLayer::User, .. } => "user",
            Self::File { layer: FileLayer::Project, .. } => "project",
            Self::File { layer: FileLayer::Named, .. } => "named",
            Self::Environment { .. } => "environment",
            Self::Flag => "flag",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File { path, line: Some(line), .. } => write!(formatter, "{path}:{line}"),
            Self::File { path, line: None, .. } => formatter.write_str(path),
            Self::Environment { variable } => formatter.write_str(variable),
            Self::Flag => formatter.write_str("--set"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("layer", self.layer())?;
        match self {
            Self::Default | Self::Flag => {}
            Self::File { path, line, .. } => {
                map.serialize_entry("file", path)?;
                if let Some(line) = line {
                    map.serialize_entry("line", line)?;
                }
            }
            Self::Environment { variable } => map.serialize_entry("variable", variable)?,
        }
        map.end()
    }
}
