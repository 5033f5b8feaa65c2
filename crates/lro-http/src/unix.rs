//! Unix socket: a listener that only its own user reaches.
//!
//! The file has mode 0600 in a directory where other users cannot create or rename anything, and the
//! peer's user id is checked again when a connection is accepted. So no token is needed.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// What a new socket is called until it is complete; one process at a time holds the directory's lock.
const UNFINISHED: &str = ".atlatl.new";

/// Why there is no socket at a path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Another user could replace the socket.
    #[error("{path}: other users can write to this directory, or own it")]
    OpenDirectory {
        /// The directory, which is the socket's or one above it.
        path: PathBuf,
    },
    /// There is something else at this path, and it is not removed.
    #[error("{path}: this file exists and is not a socket of this user")]
    NotOurSocket {
        /// The path.
        path: PathBuf,
    },
    /// A server is listening there.
    #[error("{path}: a server is already listening on this socket")]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{path}: cannot use this socket")]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A listening socket. Its file is removed when this value is dropped.
#[derive(Debug)]
pub struct UnixSocket {
    pub(crate) listener: UnixListener,
    pub(crate) file: SocketFile,
}

/// The file of a socket.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode: what another process put there is not ours to remove.
    id: (u64, u64),
}

impl UnixSocket {
    /// Listens at `path`, in the place of a socket on which no server listens any more.
    pub fn bind(path: &Path, backlog: i32) -> Result<Self, SocketError> {
        let path = checked(path)?;
        let failed = |source| SocketError::Io { path: path.clone(), source };
        let directory = path.parent().unwrap_or(&path);
        // Two servers that start at once must not both take the place of a third.
        let lock = File::open(directory).map_err(failed)?;
        lock.lock().map_err(failed)?;
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.file_type().is_socket() || found.uid() != user_id() => {
                return Err(SocketError::NotOurSocket { path });
            }
            Ok(_) if UnixStream::connect(&path).is_ok() => return Err(SocketError::InUse { path }),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let unfinished = directory.join(UNFINISHED);
        if fs::symlink_metadata(&unfinished).is_ok_and(|found| found.file_type().is_socket()) {
            fs::remove_file(&unfinished).map_err(failed)?;
        }
        let listener = UnixListener::bind(&unfinished).map_err(failed)?;
        let id = (|| {
            fs::set_permissions(&unfinished, Permissions::from_mode(0o600))?;
            rustix::net::listen(&listener, backlog)?;
            let made = fs::symlink_metadata(&unfinished)?;
            fs::rename(&unfinished, &path)?;
            Ok((made.dev(), made.ino()))
        })()
        .map_err(failed)?;
        Ok(Self { listener, file: SocketFile { path, id } })
    }

    /// Where it is, without links on the way.
    pub fn path(&self) -> &Path {
        &self.file.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let lock = self.path.parent().and_then(|directory| File::open(directory).ok());
        if let Some(lock) = &lock {
            let _ = lock.lock();
        }
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The user that this process runs as.
pub fn user_id() -> u32 {
    geteuid().as_raw()
}

/// `path` without links in its directory, if no other user can put a socket there: neither the directory
/// nor one above it may be written to or owned by another user. As in `/tmp`, a sticky directory above is
/// fine, since its entries belong to those who made them.
pub fn checked(path: &Path) -> Result<PathBuf, SocketError> {
    let failed = |source| SocketError::Io { path: path.to_owned(), source };
    let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let directory = fs::canonicalize(directory).map_err(failed)?;
    for (above, part) in directory.ancestors().enumerate() {
        let found = fs::metadata(part).map_err(failed)?;
        let ours = found.uid() == user_id() || found.uid() == 0;
        let closed = found.mode() & 0o022 == 0;
        let sticky = above > 0 && found.mode() & 0o1000 != 0;
        if !ours || !(closed || sticky) {
            return Err(SocketError::OpenDirectory { path: part.to_owned() });
        }
    }
    Ok(directory.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKLOG: i32 = 8;

    #[test]
    fn a_socket_is_private_and_is_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let socket = UnixSocket::bind(&path, BACKLOG).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(UnixStream::connect(&path).is_ok());
        let again = UnixSocket::bind(&path, BACKLOG);
        assert!(matches!(again, Err(SocketError::InUse { .. })), "{again:?}");
        drop(socket);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_stale_socket_is_replaced_and_no_other_file_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        // Dropping the listener alone leaves the file, as a killed process does.
        drop(UnixListener::bind(&path).unwrap());
        drop(UnixListener::bind(dir.path().join(UNFINISHED)).unwrap());
        let socket = UnixSocket::bind(&path, BACKLOG).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        // What took the place of a socket is not removed with it.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "data").unwrap();
        drop(socket);
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
        let refused = UnixSocket::bind(&path, BACKLOG);
        assert!(matches!(refused, Err(SocketError::NotOurSocket { .. })), "{refused:?}");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let refused = UnixSocket::bind(&link, BACKLOG);
        assert!(matches!(refused, Err(SocketError::NotOurSocket { .. })), "{refused:?}");
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        for (mode, fine) in [(0o700, true), (0o755, true), (0o777, false), (0o1777, false)] {
            fs::set_permissions(&inner, Permissions::from_mode(mode)).unwrap();
            let bound = UnixSocket::bind(&inner.join("s"), BACKLOG);
            assert_eq!(bound.is_ok(), fine, "{mode:o}: {bound:?}");
        }
        fs::set_permissions(&inner, Permissions::from_mode(0o700)).unwrap();
        for (mode, fine) in [(0o755, true), (0o1777, true), (0o777, false)] {
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            let bound = UnixSocket::bind(&inner.join("s"), BACKLOG);
            assert_eq!(bound.is_ok(), fine, "above: {mode:o}: {bound:?}");
        }
        assert!(matches!(checked(Path::new("/")), Err(SocketError::Io { .. })));
    }
}
