//! TCP and Unix socket listeners.
//!
//! The file of a Unix socket has mode 0600 in a directory where other users cannot create or rename
//! anything, and the peer's user id is checked again when a connection is accepted. So a Unix socket
//! needs no token, and a TCP listener does.

use std::fs::{File, Permissions};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::process::geteuid;

/// The prefix of an address that is the path of a Unix socket.
pub const UNIX_PREFIX: &str = "unix:";
/// The backlog of connections that are not accepted yet; the system may lower it, and the standard
/// library requests 128. The kernel drops connections beyond it, and clients retry after a second.
const LISTEN_BACKLOG: i32 = 4096;
/// The name of a new socket until it is ready; the directory's lock makes its user unique.
const TEMPORARY_NAME: &str = ".atlatl.new";

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// An address and a port. Every user of the machine can reach it, so requests need a token.
    Tcp(TcpListener),
    /// A Unix socket. Only connections of the server's own user are accepted.
    Unix(UnixSocket),
}

/// Errors of creating a listener.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The text is not an address and a port.
    #[error("{text}: expected an address and a port, such as 127.0.0.1:7171, or unix:PATH")]
    NoAddress {
        /// The text.
        text: String,
    },
    /// The local token would be sent over the network.
    #[error("{address} can be reached from other machines, and server.auth is not set")]
    OpenToAll {
        /// The address.
        address: SocketAddr,
    },
    /// The port is in use, or the address does not belong to this machine.
    #[error("{address}: cannot listen on this address")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The Unix socket cannot be created.
    #[error(transparent)]
    Socket(#[from] SocketError),
}

impl Listener {
    /// The address and port; `None` for a Unix socket.
    pub fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Some),
            Self::Unix(_) => Ok(None),
        }
    }

    /// The origin of pages that this listener serves, for CORS.
    pub fn origin(&self) -> Option<String> {
        let address = self.address().ok()??;
        (!address.ip().is_unspecified()).then(|| format!("http://{address}"))
    }

    /// Fails if this is a TCP listener, which every user of the machine can reach, and requests need no
    /// token.
    pub fn require_identity(&self, has_tokens: bool) -> io::Result<()> {
        match self {
            Self::Tcp(_) if !has_tokens => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "a TCP listener needs tokens"))
            }
            _ => Ok(()),
        }
    }
}

/// Listens on an address and port, or at `unix:PATH`. Unless `server.auth` is set (`has_auth`), an
/// address that other machines can reach is refused.
pub fn listen(address: &str, has_auth: bool) -> Result<Listener, ListenError> {
    if let Some(path) = address.strip_prefix(UNIX_PREFIX) {
        return Ok(Listener::Unix(UnixSocket::bind(Path::new(path), LISTEN_BACKLOG)?));
    }
    let invalid = || ListenError::NoAddress { text: address.to_owned() };
    let mut addresses = address.to_socket_addrs().map_err(|_| invalid())?;
    let address = addresses.next().ok_or_else(invalid)?;
    if !has_auth && !address.ip().to_canonical().is_loopback() {
        return Err(ListenError::OpenToAll { address });
    }
    let bind = |source| ListenError::Bind { address, source };
    let listener = TcpListener::bind(address).map_err(bind)?;
    rustix::net::listen(&listener, LISTEN_BACKLOG).map_err(|error| bind(error.into()))?;
    Ok(Listener::Tcp(listener))
}

/// Errors of creating a Unix socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Another user could replace the socket.
    #[error("{path}: other users can write to this directory, or own it")]
    OpenDirectory {
        /// The directory, which is the socket's or one above it.
        path: PathBuf,
    },
    /// Another kind of file exists at this path; it is not removed.
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
    /// An operation of the file system failed.
    #[error("{path}: cannot use this socket")]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
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
    /// Device and inode, so that a file that another process put there is not removed.
    id: (u64, u64),
}

impl UnixSocket {
    /// Listens at `path`; replaces a stale socket on which no server listens.
    pub fn bind(path: &Path, backlog: i32) -> Result<Self, SocketError> {
        let path = check_socket_path(path)?;
        let failed = |source| SocketError::Io { path: path.clone(), source };
        let directory = path.parent().unwrap_or(&path);
        // Two servers that start at the same time must not both replace a stale socket.
        let lock = File::open(directory).map_err(failed)?;
        lock.lock().map_err(failed)?;
        match fs::symlink_metadata(&path) {
            Ok(existing) if !existing.file_type().is_socket() || existing.uid() != user_id() => {
                return Err(SocketError::NotOurSocket { path });
            }
            Ok(_) if UnixStream::connect(&path).is_ok() => return Err(SocketError::InUse { path }),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let temporary = directory.join(TEMPORARY_NAME);
        if fs::symlink_metadata(&temporary).is_ok_and(|existing| existing.file_type().is_socket()) {
            fs::remove_file(&temporary).map_err(failed)?;
        }
        let listener = UnixListener::bind(&temporary).map_err(failed)?;
        let id = (|| {
            fs::set_permissions(&temporary, Permissions::from_mode(0o600))?;
            rustix::net::listen(&listener, backlog)?;
            let created = fs::symlink_metadata(&temporary)?;
            fs::rename(&temporary, &path)?;
            Ok((created.dev(), created.ino()))
        })()
        .map_err(failed)?;
        Ok(Self { listener, file: SocketFile { path, id } })
    }

    /// The path of the socket, without symbolic links.
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
        let current = fs::symlink_metadata(&self.path);
        if current.is_ok_and(|current| (current.dev(), current.ino()) == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The effective user id of this process.
pub fn user_id() -> u32 {
    geteuid().as_raw()
}

/// Checks that no other user can create a socket at `path`, and returns it without symbolic links in its
/// directory. Neither the directory nor one above it may be writable for or owned by another user. A
/// sticky directory above, such as `/tmp`, is allowed, since other users cannot replace its entries.
pub fn check_socket_path(path: &Path) -> Result<PathBuf, SocketError> {
    let failed = |source| SocketError::Io { path: path.to_owned(), source };
    let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let directory = fs::canonicalize(directory).map_err(failed)?;
    for (above, part) in directory.ancestors().enumerate() {
        let metadata = fs::metadata(part).map_err(failed)?;
        let trusted_owner = metadata.uid() == user_id() || metadata.uid() == 0;
        let closed = metadata.mode() & 0o022 == 0;
        let sticky = above > 0 && metadata.mode() & 0o1000 != 0;
        if !trusted_owner || !(closed || sticky) {
            return Err(SocketError::OpenDirectory { path: part.to_owned() });
        }
    }
    Ok(directory.join(name))
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn many_may_come_at_once() {
        let listener = listen("127.0.0.1:0", false).unwrap();
        let address = listener.address().unwrap().unwrap();
        // No connection is accepted: all of them stay in the backlog.
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(1));
        let waiting: Result<Vec<_>, _> = (0..300).map(connect).collect();
        assert_eq!(waiting.unwrap().len(), 300);
    }

    #[test]
    fn only_a_unix_socket_does_without_tokens() {
        let dir = tempfile::tempdir().unwrap();
        let socket = listen(&format!("{UNIX_PREFIX}{}/s", dir.path().display()), false).unwrap();
        assert!(socket.require_identity(false).is_ok());
        assert_eq!(socket.origin(), None);
        let tcp = listen("127.0.0.1:0", false).unwrap();
        assert!(tcp.require_identity(true).is_ok());
        assert!(tcp.require_identity(false).is_err());
        assert_eq!(tcp.origin(), Some(format!("http://{}", tcp.address().unwrap().unwrap())));
    }

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
        drop(UnixListener::bind(dir.path().join(TEMPORARY_NAME)).unwrap());
        let socket = UnixSocket::bind(&path, BACKLOG).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        // A file that replaced the socket is not removed with it.
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
        assert!(matches!(check_socket_path(Path::new("/")), Err(SocketError::Io { .. })));
    }
}
