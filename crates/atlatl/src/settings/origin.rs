//! Where a value came from, or where a problem is.

use std::fmt;

use serde::{Serialize, Serializer, ser::SerializeMap};

/// A layer, and the place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody set it.
    Default,
    /// A file.
    File {
        layer: FileLayer,
        path: String,
        /// Counted from 1; none where the file as a whole is meant.
        line: Option<usize>,
    },
    /// An environment variable.
    Environment { variable: String },
    /// `--set`.
    Flag,
}

/// Which of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileLayer {
    /// `/etc/atlatl/config.toml`.
    System,
    /// `atlatl/config.toml` in the user's configuration directory.
    User,
    /// `atlatl.toml` in the working directory.
    Project,
    /// The one named on the command line.
    Named,
}

impl Origin {
    /// The position of its layer: a higher one is above a lower one.
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
