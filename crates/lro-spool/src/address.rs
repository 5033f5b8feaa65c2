//! Address: what a caller may say to mean a stored result.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use lro_core::{Reference, ResultId};

use crate::name::FileName;

/// A reference, a bare identity, a file name, or the absolute path a descriptor showed.
///
/// ```
/// use lro_spool::Address;
///
/// assert!("lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D".parse::<Address>().is_ok());
/// assert!("/tmp/atlatl-recall-01KA2Z3T4V5W6X7Y8Z9A0B1C2D.jsonl".parse::<Address>().is_ok());
/// assert!("/tmp/../etc/passwd".parse::<Address>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// By identity.
    Id(ResultId),
    /// By file name.
    Name(FileName),
    /// By absolute path; the file name is split off, and the folder is compared and never opened.
    Path {
        /// Everything before the name.
        folder: PathBuf,
        /// The name.
        name: FileName,
    },
}

/// The text means no stored result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("neither a reference nor the name or path of a stored result")]
pub struct NotAnAddress;

impl Address {
    /// The identity it speaks of.
    pub fn id(&self) -> ResultId {
        match self {
            Self::Id(id) => *id,
            Self::Name(name) | Self::Path { name, .. } => name.id(),
        }
    }
}

impl From<ResultId> for Address {
    fn from(id: ResultId) -> Self {
        Self::Id(id)
    }
}

impl From<FileName> for Address {
    fn from(name: FileName) -> Self {
        Self::Name(name)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.reference().fmt(f),
            Self::Name(name) => name.fmt(f),
            Self::Path { folder, name } => folder.join(name.to_string()).display().fmt(f),
        }
    }
}

impl FromStr for Address {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        if let Ok(Reference(id)) = text.parse() {
            return Ok(Self::Id(id));
        }
        if let Ok(name) = text.parse() {
            return Ok(Self::Name(name));
        }
        let (folder, name) = text.rsplit_once('/').ok_or(NotAnAddress)?;
        let name = name.parse().map_err(|_| NotAnAddress)?;
        let folder = Path::new(if folder.is_empty() { "/" } else { folder });
        // Spec V5: `..` is refused wherever it stands, even where it would lead back to us.
        let upward = folder.components().any(|c| c == Component::ParentDir);
        if folder.is_relative() || upward {
            return Err(NotAnAddress);
        }
        Ok(Self::Path { folder: folder.to_owned(), name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01KA2Z3T4V5W6X7Y8Z9A0B1C2D";

    #[test]
    fn all_four_forms_mean_the_same_result() {
        let id: ResultId = ID.parse().unwrap();
        for text in [
            format!("lro:{ID}"),
            ID.to_owned(),
            format!("atlatl-recall-{ID}.jsonl"),
            format!("/tmp/atlatl-recall-{ID}.jsonl"),
            format!("/atlatl-recall-{ID}.jsonl"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.id(), id, "{text}");
        }
    }

    #[test]
    fn a_path_in_the_root_is_written_as_it_was_given() {
        for folder in ["", "/tmp", "/tmp/./x"] {
            let path = format!("{folder}/atlatl-recall-{ID}.jsonl");
            assert_eq!(path.parse::<Address>().unwrap().to_string(), path);
        }
    }

    #[test]
    fn v5_upward_relative_and_other_paths_are_no_address() {
        let name = format!("atlatl-recall-{ID}.jsonl");
        for text in [
            String::new(),
            "/etc/passwd".to_owned(),
            "lro:".to_owned(),
            format!("lro:lro:{ID}"),
            format!("lro:../{ID}"),
            format!("../{name}"),
            format!("./{name}"),
            format!("x/{name}"),
            format!("/tmp/../tmp/{name}"),
            format!("/tmp/{name}/.."),
            format!("/tmp/{name}/"),
            format!("/tmp/.part-{name}"),
            format!("/tmp/{name}.meta.json"),
            format!("file:///tmp/{name}"),
            format!("{name}\n"),
        ] {
            assert_eq!(text.parse::<Address>(), Err(NotAnAddress), "{text:?}");
        }
    }
}
