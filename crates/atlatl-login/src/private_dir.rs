//! A private directory, opened without following links, and the files in it.

use std::{
    fs::{DirBuilder, File},
    io::{self, Read as _, Write as _},
    os::{fd::OwnedFd, unix::fs::DirBuilderExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};

use crate::error::LoginError;
use crate::sanitize::quoted;

/// A login takes two kilobytes; more than this was not written by us.
const LARGEST: u64 = 256 * 1024;

/// An open directory that only its owner can enter.
#[derive(Debug)]
pub(crate) struct PrivateDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl PrivateDir {
    /// Opens it; nothing where there is none.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, LoginError> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = match fs::open(path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
                return Err(foreign(path, "is no directory of ours", &remove(path)));
            }
            Err(errno) => return Err(failed(path, errno.into())),
        };
        check(&fd, path, FileType::Directory, "700")?;
        Ok(Some(Self { fd, path: path.to_owned() }))
    }

    /// Opens it, and makes it where there is none.
    pub(crate) fn make(path: &Path) -> Result<Self, LoginError> {
        // What is in its place, if it is no directory, is told below in better words.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        if let Err(source) = made
            && source.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(failed(path, source));
        }
        Self::open(path)?.ok_or_else(|| failed(path, io::ErrorKind::NotFound.into()))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The names in it.
    pub(crate) fn names(&self) -> Result<Vec<String>, LoginError> {
        let failed = |errno: rustix::io::Errno| failed(&self.path, errno.into());
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.fd).map_err(failed)? {
            if let Ok(name) = entry.map_err(failed)?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// The content of a file; nothing where there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, LoginError> {
        // Not waiting: a pipe in its place would never answer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let Some(file) = self.open_file(name, flags)? else { return Ok(None) };
        let mut content = Vec::new();
        let read = File::from(file).take(LARGEST).read_to_end(&mut content);
        read.map_err(|source| failed(&self.path(name), source))?;
        Ok(Some(content))
    }

    /// Opens a file that is there and private.
    pub(crate) fn open_file(
        &self,
        name: &str,
        flags: OFlags,
    ) -> Result<Option<OwnedFd>, LoginError> {
        let path = self.path(name);
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::LOOP) => {
                return Err(foreign(&path, "is a link", &remove(&path)));
            }
            Err(errno) => return Err(failed(&path, errno.into())),
        };
        check(&fd, &path, FileType::RegularFile, "600")?;
        Ok(Some(fd))
    }

    /// Writes a file as a whole: whoever reads sees the old content or the new one, also after a
    /// crash. `part` is its name until then.
    pub(crate) fn replace(&self, name: &str, part: &str, content: &[u8]) -> Result<(), LoginError> {
        let failed = |errno: rustix::io::Errno| failed(&self.path(name), errno.into());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = fs::openat(&self.fd, part, flags, mode).map_err(failed)?;
        let written = || -> io::Result<()> {
            fs::fchmod(&fd, mode)?;
            let mut file = File::from(fd);
            file.write_all(content)?;
            file.sync_all()?;
            fs::renameat(&self.fd, part, &self.fd, name)?;
            // The new name, too, has to outlive a crash.
            Ok(fs::fsync(&self.fd)?)
        };
        written().map_err(|source| {
            let _ = self.remove(part);
            LoginError::File { path: self.path(name), source }
        })
    }

    /// Removes a file; whether there was one.
    pub(crate) fn remove(&self, name: &str) -> Result<bool, LoginError> {
        match fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(errno) => Err(failed(&self.path(name), errno.into())),
        }
    }
}

fn check(fd: &OwnedFd, path: &Path, kind: FileType, mode: &str) -> Result<(), LoginError> {
    let stat = fs::fstat(fd).map_err(|errno| failed(path, errno.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != kind {
        return Err(foreign(path, "is of another kind", &remove(path)));
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(foreign(path, "belongs to another user", &format!("rm -r {}", word(path))));
    }
    if stat.st_mode & 0o077 != 0 {
        return Err(foreign(
            path,
            "is open to other users",
            &format!("chmod {mode} {}", word(path)),
        ));
    }
    Ok(())
}

fn foreign(path: &Path, why: &'static str, mend: &str) -> LoginError {
    LoginError::NotPrivate { path: path.to_owned(), why, mend: format!("run `{mend}`") }
}

fn remove(path: &Path) -> String {
    format!("rm {}", word(path))
}

fn word(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

fn failed(path: &Path, source: io::Error) -> LoginError {
    LoginError::File { path: path.to_owned(), source }
}
