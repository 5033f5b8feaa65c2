//! Opening configuration files: owner, mode, kind and size are checked on the open handle.
//!
//! Each layer has its own rule. The file named with `--config` was chosen by the user and is read
//! as it is. The system's and the user's file have to belong to the user or to root, and other
//! users must not be able to write to them. The same holds for a project's file, which in
//! addition must not be a symbolic link: a clone could otherwise point it at a file that the user
//! trusts elsewhere, or at one that is none of its business.

use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use super::{origin::FileLayer, sources::SourceFile};

/// The largest configuration file that is read.
const MAX_FILE_LEN: u64 = 1 << 20;
/// The permission bit that lets every user write.
const OTHERS_WRITE: u32 = 0o002;

/// What opening a file came to.
#[derive(Debug)]
pub(super) enum Opened {
    /// Its contents.
    Contents(Vec<u8>),
    /// There is no such file.
    Absent,
    /// It is there, and is not used.
    Refused(Refusal),
}

/// Why a configuration file that exists is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It belongs to another user.
    ForeignOwner { owner: u32 },
    /// Every user can write to it.
    WorldWritable,
    /// A project's file is a symbolic link.
    SymbolicLink,
    /// A directory, a FIFO, a socket or a device.
    NotAFile,
    /// It is larger than a configuration file may be.
    TooLarge,
    /// The system refused.
    Unreadable(String),
}

impl Refusal {
    /// What to do about it.
    pub(crate) fn hint(&self, path: &str) -> Option<String> {
        match self {
            Self::ForeignOwner { .. } | Self::SymbolicLink => {
                Some(format!("if you trust its author: --config {path}"))
            }
            Self::WorldWritable => Some(format!("chmod o-w {path}")),
            Self::NotAFile | Self::TooLarge | Self::Unreadable(_) => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignOwner { owner } => {
                write!(formatter, "it belongs to another user (uid {owner})")
            }
            Self::WorldWritable => formatter.write_str("every user can write to it"),
            Self::SymbolicLink => formatter.write_str("it is a symbolic link"),
            Self::NotAFile => formatter.write_str("it is not a regular file"),
            Self::TooLarge => write!(formatter, "it is larger than {} KiB", MAX_FILE_LEN >> 10),
            Self::Unreadable(error) => write!(formatter, "cannot be read: {error}"),
        }
    }
}

/// Reads a file for the user `uid`, if the rule of its layer permits it.
pub(super) fn read(file: &SourceFile, uid: u32) -> Opened {
    let opened = match file.layer {
        FileLayer::Named => File::open(&file.path),
        FileLayer::System | FileLayer::User => open(&file.path, OFlags::empty()),
        FileLayer::Project => open(&file.path, OFlags::NOFOLLOW),
    };
    let contents = opened.map_err(|error| of_opening(&error, file.layer)).and_then(|handle| {
        if file.layer != FileLayer::Named {
            examine(&handle, uid)?;
        }
        contents(&handle)
    });
    match contents {
        Ok(contents) => Opened::Contents(contents),
        Err(Some(refusal)) => Opened::Refused(refusal),
        Err(None) => Opened::Absent,
    }
}

/// Opens without waiting: `open` of a FIFO would wait for a writer.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// `None` where there is no file.
fn of_opening(error: &io::Error, layer: FileLayer) -> Option<Refusal> {
    // `NotADirectory`: a home such as /dev/null says that there is none.
    let absent = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    if absent && layer != FileLayer::Named {
        return None;
    }
    let is_link =
        layer == FileLayer::Project && error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
    Some(if is_link { Refusal::SymbolicLink } else { Refusal::Unreadable(error.to_string()) })
}

/// Checks kind, owner, mode and length of what was opened.
fn examine(handle: &File, uid: u32) -> Result<(), Option<Refusal>> {
    let found = handle.metadata().map_err(|error| Some(Refusal::Unreadable(error.to_string())))?;
    if !found.is_file() {
        return Err(Some(Refusal::NotAFile));
    }
    if found.uid() != uid && found.uid() != 0 {
        return Err(Some(Refusal::ForeignOwner { owner: found.uid() }));
    }
    if found.mode() & OTHERS_WRITE != 0 {
        return Err(Some(Refusal::WorldWritable));
    }
    Ok(())
}

fn contents(handle: &File) -> Result<Vec<u8>, Option<Refusal>> {
    let mut contents = Vec::new();
    handle
        .take(MAX_FILE_LEN + 1)
        .read_to_end(&mut contents)
        .map_err(|error| Some(Refusal::Unreadable(error.to_string())))?;
    if contents.len() as u64 > MAX_FILE_LEN { Err(Some(Refusal::TooLarge)) } else { Ok(contents) }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use tempfile::TempDir;

    use super::*;

    fn refusal(path: &Path, layer: FileLayer, uid: u32) -> Option<Refusal> {
        match read(&SourceFile { layer, path: path.to_owned() }, uid) {
            Opened::Refused(refusal) => Some(refusal),
            Opened::Contents(_) | Opened::Absent => None,
        }
    }

    #[test]
    fn g01_owner_mode_kind_and_size_are_checked_on_the_open_file() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("atlatl.toml");
        let me = rustix::process::geteuid().as_raw();
        let stranger = 65_534;
        let checked = [FileLayer::System, FileLayer::User, FileLayer::Project];
        let all = |path: &Path| checked.map(|layer| refusal(path, layer, me));

        fs::write(&path, "").unwrap();
        assert_eq!(all(&path), [None, None, None]);
        if me == 0 {
            std::os::unix::fs::chown(&path, Some(stranger), None).unwrap();
            let foreign = Some(Refusal::ForeignOwner { owner: stranger });
            assert_eq!(all(&path), [foreign.clone(), foreign.clone(), foreign]);
            assert_eq!(refusal(&path, FileLayer::Named, me), None);
            // Root's files serve everyone.
            std::os::unix::fs::chown(&path, Some(0), None).unwrap();
            assert_eq!(refusal(&path, FileLayer::Project, stranger), None);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o646)).unwrap();
        let writable = Some(Refusal::WorldWritable);
        assert_eq!(all(&path), [writable.clone(), writable.clone(), writable]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        assert_eq!(all(&path), [None, None, None]);

        File::create(&path).unwrap().set_len(MAX_FILE_LEN + 1).unwrap();
        let large = Some(Refusal::TooLarge);
        assert_eq!(all(&path), [large.clone(), large.clone(), large]);
    }

    #[test]
    fn g01_links_are_not_followed_for_a_project_and_a_fifo_is_not_waited_for() {
        let dir = TempDir::new().unwrap();
        let (target, path) = (dir.path().join("target"), dir.path().join("atlatl.toml"));
        let me = rustix::process::geteuid().as_raw();
        fs::write(&target, "").unwrap();
        symlink(&target, &path).unwrap();
        assert_eq!(refusal(&path, FileLayer::Project, me), Some(Refusal::SymbolicLink));
        assert_eq!(refusal(&path, FileLayer::User, me), None);
        fs::remove_file(&path).unwrap();

        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        for layer in [FileLayer::System, FileLayer::User, FileLayer::Project] {
            assert_eq!(refusal(&path, layer, me), Some(Refusal::NotAFile));
        }
    }
}
