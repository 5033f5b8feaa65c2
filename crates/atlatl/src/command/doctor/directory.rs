//! Directory: whether results can be stored where they should be.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use lro_core::config::ReadableBy;

use super::{finding::Finding, fix::word};

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum There {
    Nothing,
    /// A directory of this owner and with these rights; why nothing can be made or seen in it.
    Directory {
        owner: u32,
        mode: u32,
        unusable: Option<String>,
    },
    /// Something else.
    Other(&'static str),
    /// It cannot be looked at.
    Hidden(String),
}

impl There {
    /// Looks. A link is followed where the store follows it.
    pub(super) fn look(path: &Path, follow: bool) -> Self {
        let there = if follow { fs::metadata(path) } else { fs::symlink_metadata(path) };
        match there {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Nothing,
            Err(error) => Self::Hidden(error.to_string()),
            Ok(there) if there.is_dir() => Self::Directory {
                owner: there.uid(),
                mode: there.mode() & 0o7777,
                unusable: unusable(path),
            },
            Ok(there) if there.is_symlink() => Self::Other("a link"),
            Ok(_) => Self::Other("a file"),
        }
    }
}

/// Why nothing can be made or seen in a directory, if so. What is made for that has no name.
pub(super) fn unusable(path: &Path) -> Option<String> {
    let listed = fs::read_dir(path).map(drop).map_err(|error| format!("cannot be read: {error}"));
    let made = || tempfile::tempfile_in(path).map(drop);
    listed.and_then(|()| made().map_err(|error| format!("cannot be written to: {error}"))).err()
}

/// The directory that the specification names, used as it is.
pub(super) fn output(path: &Path, there: &There) -> Option<Finding> {
    let name = path.display();
    match there {
        There::Nothing => Some(Finding::fault(
            "output-dir",
            name,
            "it is not there, and results of memory operations are stored in it",
            format!("mkdir -p {}", word(path)),
        )),
        There::Directory { unusable: Some(why), .. } | There::Hidden(why) => {
            Some(Finding::fault("output-dir", name, why, other("prompt.offload.output_dir")))
        }
        There::Directory { mode, .. } if mode & 0o002 != 0 && mode & 0o1000 == 0 => {
            Some(Finding::warning(
                "output-dir",
                name,
                "everyone may remove and replace files in it",
                format!("chmod +t {}", word(path)),
            ))
        }
        There::Directory { .. } => None,
        There::Other(what) => Some(Finding::fault(
            "output-dir",
            name,
            format!("it is {what}, not a directory"),
            other("prompt.offload.output_dir"),
        )),
    }
}

/// The directory of our own.
pub(super) fn private(path: &Path, there: &There, uid: u32, by: ReadableBy) -> Option<Finding> {
    let name = path.display();
    match there {
        There::Nothing => {
            let parent = path.parent().unwrap_or(Path::new("/"));
            let why = match There::look(parent, true) {
                There::Directory { unusable: None, .. } => return None,
                There::Directory { unusable: Some(why), .. } | There::Hidden(why) => why,
                There::Nothing => "is not there".to_owned(),
                There::Other(what) => format!("is {what}"),
            };
            Some(Finding::fault(
                "results-dir",
                name,
                format!("it cannot be made: {} {why}", parent.display()),
                if parent.exists() {
                    other("proxy.dir")
                } else {
                    format!("mkdir -p {}", word(parent))
                },
            ))
        }
        There::Directory { owner, .. } if *owner != uid => Some(Finding::fault(
            "results-dir",
            name,
            format!("it belongs to user {owner}, and you are {uid}: nothing is stored in it"),
            // Not to be made one's own: whoever made it may have put anything into it.
            format!(
                "{}; or, as its owner: mv {} {}",
                other("proxy.dir"),
                word(path),
                word(&aside(path))
            ),
        )),
        There::Directory { mode, .. } if is_open(*mode, by) => Some(Finding::fault(
            "results-dir",
            name,
            format!("others have access to it (mode {:o}): nothing is stored in it", mode & 0o777),
            format!("chmod {} {}", if by == ReadableBy::Group { "750" } else { "700" }, word(path)),
        )),
        There::Directory { unusable: Some(why), .. } => {
            Some(Finding::fault("results-dir", name, why, other("proxy.dir")))
        }
        There::Directory { .. } => None,
        There::Other(what) => Some(Finding::fault(
            "results-dir",
            name,
            format!("it is {what}, not a directory"),
            format!("mv {} {}", word(path), word(&aside(path))),
        )),
        There::Hidden(why) => Some(Finding::fault("results-dir", name, why, other("proxy.dir"))),
    }
}

/// The directory that is read besides the one of our own: in a shared place, where another user can
/// have created it.
pub(super) fn planted(path: &Path, there: &There, uid: u32, by: ReadableBy) -> Option<Finding> {
    let says = match there {
        There::Directory { owner, .. } if *owner != uid => format!("it belongs to user {owner}"),
        There::Directory { mode, .. } if is_open(*mode, by) => {
            format!("others have access to it (mode {:o})", mode & 0o777)
        }
        There::Other(what) => format!("it is {what}, not a directory"),
        There::Nothing | There::Directory { .. } | There::Hidden(_) => return None,
    };
    Some(Finding::warning(
        "results-dir",
        path.display(),
        format!("{says}: results in it are not read"),
        format!("find out who created it, then: sudo mv {} {}", word(path), word(&aside(path))),
    ))
}

/// What the store itself refuses: the mode for the group is one of its own.
fn is_open(mode: u32, by: ReadableBy) -> bool {
    let others = if by == ReadableBy::Group { 0o027 } else { 0o077 };
    mode & others != 0 && mode & 0o777 != 0o750
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".aside");
    name.into()
}

fn other(key: &str) -> String {
    format!("name another directory: --set {key}=DIR, or the same in atlatl's config.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(owner: u32, mode: u32) -> There {
        There::Directory { owner, mode, unusable: None }
    }

    #[test]
    fn f07_a_directory_of_another_user_or_with_open_rights_is_a_fault() {
        let path = Path::new("/x/atlatl-7");
        let check = |there: &There, by| private(path, there, 7, by);
        assert_eq!(check(&of(7, 0o700), ReadableBy::Owner), None);
        assert_eq!(check(&of(7, 0o750), ReadableBy::Owner), None, "the store takes it back");
        assert_eq!(check(&of(7, 0o750), ReadableBy::Group), None);
        let fix = |there: &There, by| check(there, by).unwrap().fix;
        assert!(fix(&of(8, 0o700), ReadableBy::Owner).contains("proxy.dir=DIR"));
        assert_eq!(fix(&of(7, 0o755), ReadableBy::Owner), "chmod 700 /x/atlatl-7");
        assert_eq!(fix(&of(7, 0o770), ReadableBy::Group), "chmod 750 /x/atlatl-7");
    }
}
