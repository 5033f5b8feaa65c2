//! The directory of logins: a private file per server and issuer, changed under a lock.
//!
//! A refresh token is good for one use. To a strict authorization server, two processes that use the
//! same one look like a thief and its victim, and it revokes both (field finding f40).

use std::fmt::Write as _;
use std::fs::{DirBuilder, File};
use std::io;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};
use url::Url;

use crate::error::{LoginError, shell_quote};
use crate::token::StoredLogin;

/// The name prefix of files that are being written.
const PART_PREFIX: &str = ".part-";
/// The largest login file; a login takes about two kilobytes.
const MAX_FILE_BYTES: u64 = 256 * 1024;
/// Longer than the time limit of a refresh request.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The directory of logins.
#[derive(Debug, Clone)]
pub(crate) struct LoginDir {
    path: PathBuf,
}

/// A login and its file name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoginFile {
    pub(crate) file: String,
    pub(crate) login: StoredLogin,
}

impl LoginDir {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Reads all logins. Does not create the directory.
    pub(crate) fn all(&self) -> Result<Vec<LoginFile>, LoginError> {
        self.read_matching(|name| !name.starts_with(PART_PREFIX))
    }

    /// Reads the logins at `server`, newest first: one, unless a process was killed between two
    /// steps.
    pub(crate) fn at_server(&self, server: &ServerKey) -> Result<Vec<LoginFile>, LoginError> {
        let stem = server.stem();
        let mut found = self.read_matching(|name| name.starts_with(&stem))?;
        found.retain(|found| ServerKey::from_url(&found.login.server) == *server);
        found.sort_by_key(|found| std::cmp::Reverse(found.login.received_at));
        Ok(found)
    }

    fn read_matching(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<LoginFile>, LoginError> {
        let Some(dir) = PrivateDir::open(&self.path)? else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for file in dir.names()? {
            let is_login = Path::new(&file).extension().is_some_and(|end| end == "json");
            if !is_login || !wanted(&file) {
                continue;
            }
            // The file was deleted meanwhile.
            let Some(content) = dir.read(&file)? else { continue };
            let login = serde_json::from_slice(&content)
                .map_err(|_| LoginError::Damaged { path: dir.path(&file) })?;
            all.push(LoginFile { file, login });
        }
        Ok(all)
    }

    /// Creates the directory, and waits for the exclusive lock on the logins at `server`.
    pub(crate) async fn lock(&self, server: &ServerKey) -> Result<LockedLogins, LoginError> {
        let dir = PrivateDir::make(&self.path)?;
        let lock = LoginLock::acquire(&dir, &format!("{}.lock", server.stem())).await?;
        Ok(LockedLogins { dir, server: server.clone(), _lock: lock })
    }
}

/// Exclusive access to the logins at one server.
#[derive(Debug)]
pub(crate) struct LockedLogins {
    dir: PrivateDir,
    server: ServerKey,
    _lock: LoginLock,
}

impl LockedLogins {
    /// Stores a login and replaces any other at the same server.
    pub(crate) fn store(&self, login: &StoredLogin) -> Result<(), LoginError> {
        let file = self.server.file(&login.issuer);
        let stem = self.server.stem();
        let part = format!("{PART_PREFIX}{stem}");
        // Its writer was killed: only the holder of the lock writes.
        self.dir.remove(&part)?;
        let content = serde_json::to_vec_pretty(login).map_err(|error| LoginError::File {
            path: self.dir.path(&file),
            source: error.into(),
        })?;
        self.dir.replace(&file, &part, &content)?;
        for other in self.dir.names()? {
            let is_login = other.starts_with(&format!("{stem}-")) && other != file;
            if is_login {
                self.dir.remove(&other)?;
            }
        }
        Ok(())
    }

    /// Deletes a login; returns whether it existed.
    pub(crate) fn remove(&self, login: &LoginFile) -> Result<bool, LoginError> {
        self.dir.remove(&login.file)
    }
}

/// An open directory that only its owner can access.
#[derive(Debug)]
struct PrivateDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl PrivateDir {
    /// Opens the directory; `None` if it is missing.
    fn open(path: &Path) -> Result<Option<Self>, LoginError> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = match fs::open(path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(foreign(path, "is not a directory", &remove_command(path)));
            }
            Err(errno) => return Err(failed(path, errno.into())),
        };
        check(&fd, path, FileType::Directory, "700")?;
        Ok(Some(Self { fd, path: path.to_owned() }))
    }

    /// Opens the directory, and creates it if it is missing.
    fn make(path: &Path) -> Result<Self, LoginError> {
        // `open` reports anything that is not a directory with a better message.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        if let Err(source) = made
            && source.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(failed(path, source));
        }
        Self::open(path)?.ok_or_else(|| failed(path, io::ErrorKind::NotFound.into()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Lists the file names.
    fn names(&self) -> Result<Vec<String>, LoginError> {
        let failed = |errno: Errno| failed(&self.path, errno.into());
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.fd).map_err(failed)? {
            if let Ok(name) = entry.map_err(failed)?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Reads a file; `None` if it is missing.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, LoginError> {
        // Non-blocking, because a pipe in its place would block forever.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let Some(file) = self.open_file(name, flags)? else { return Ok(None) };
        let mut content = Vec::new();
        let read = File::from(file).take(MAX_FILE_BYTES).read_to_end(&mut content);
        read.map_err(|source| failed(&self.path(name), source))?;
        Ok(Some(content))
    }

    /// Opens an existing private file.
    fn open_file(&self, name: &str, flags: OFlags) -> Result<Option<OwnedFd>, LoginError> {
        let path = self.path(name);
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => {
                return Err(foreign(&path, "is a link", &remove_command(&path)));
            }
            Err(errno) => return Err(failed(&path, errno.into())),
        };
        check(&fd, &path, FileType::RegularFile, "600")?;
        Ok(Some(fd))
    }

    /// Writes a file atomically: readers see the old or the new content, also after a crash. `part`
    /// is its temporary name.
    fn replace(&self, name: &str, part: &str, content: &[u8]) -> Result<(), LoginError> {
        let failed = |errno: Errno| failed(&self.path(name), errno.into());
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
            // Makes the rename durable.
            Ok(fs::fsync(&self.fd)?)
        };
        written().map_err(|source| {
            let _ = self.remove(part);
            LoginError::File { path: self.path(name), source }
        })
    }

    /// Deletes a file; returns whether it existed.
    fn remove(&self, name: &str) -> Result<bool, LoginError> {
        match fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(failed(&self.path(name), errno.into())),
        }
    }
}

fn check(fd: &OwnedFd, path: &Path, kind: FileType, mode: &str) -> Result<(), LoginError> {
    let stat = fs::fstat(fd).map_err(|errno| failed(path, errno.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != kind {
        return Err(foreign(path, "has an unexpected file type", &remove_command(path)));
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(foreign(
            path,
            "belongs to another user",
            &format!("rm -r {}", shell_path(path)),
        ));
    }
    if stat.st_mode & 0o077 != 0 {
        return Err(foreign(
            path,
            "is accessible to other users",
            &format!("chmod {mode} {}", shell_path(path)),
        ));
    }
    Ok(())
}

fn foreign(path: &Path, why: &'static str, command: &str) -> LoginError {
    LoginError::NotPrivate { path: path.to_owned(), why, fix: format!("run `{command}`") }
}

fn remove_command(path: &Path) -> String {
    format!("rm {}", shell_path(path))
}

fn shell_path(path: &Path) -> String {
    shell_quote(&path.to_string_lossy())
}

fn failed(path: &Path, source: io::Error) -> LoginError {
    LoginError::File { path: path.to_owned(), source }
}

/// An exclusive file lock. The kernel releases it when the process is killed.
#[derive(Debug)]
struct LoginLock {
    _fd: OwnedFd,
}

impl LoginLock {
    /// Acquires the lock without blocking a thread. The lock file is never deleted: two processes
    /// could otherwise hold locks on two files of the same name.
    async fn acquire(dir: &PrivateDir, name: &str) -> Result<Self, LoginError> {
        let path = dir.path(name);
        let failed = |errno: Errno| LoginError::File { path: path.clone(), source: errno.into() };
        let fd = dir
            .open_file(name, OFlags::RDWR | OFlags::CREATE)?
            .ok_or_else(|| failed(Errno::NOENT))?;
        let end = Instant::now() + LOCK_TIMEOUT;
        loop {
            match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _fd: fd }),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < end => {
                    sleep(Duration::from_millis(20)).await;
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    return Err(LoginError::Busy { path, seconds: LOCK_TIMEOUT.as_secs() });
                }
                Err(errno) => return Err(failed(errno)),
            }
        }
    }
}

/// The identity of a server: scheme, host, port and path, normalized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerKey(Url);

impl ServerKey {
    pub(crate) fn from_url(server: &Url) -> Self {
        // The parser lower-cased scheme and host and dropped the default port.
        let mut url = server.clone();
        url.set_query(None);
        url.set_fragment(None);
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Self(url)
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }

    /// The prefix of its file names: a digest, because the URL is untrusted.
    pub(crate) fn stem(&self) -> String {
        digest(self.0.as_str())
    }

    /// The file name of its login at `issuer`.
    pub(crate) fn file(&self, issuer: &str) -> String {
        format!("{}-{}.json", self.stem(), digest(issuer))
    }
}

fn digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let mut hex = String::new();
    for byte in digest.iter().take(16) {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_has_one_key() {
        let key = |text: &str| ServerKey::from_url(&text.parse().unwrap());
        let one = key("https://mcp.example.com/a");
        for same in [
            "HTTPS://MCP.example.COM:443/a/",
            "https://mcp.example.com/a?x=1#y",
            "https://mcp.example.com/b/../a",
        ] {
            assert_eq!(key(same), one, "{same}");
            assert_eq!(key(same).stem(), one.stem());
        }
        for other in [
            "http://mcp.example.com/a",
            "https://mcp.example.com:8443/a",
            "https://mcp.example.com/A",
        ] {
            assert_ne!(key(other).stem(), one.stem(), "{other}");
        }
    }

    #[test]
    fn file_names_hold_nothing_of_what_a_server_says() {
        let name = ServerKey::from_url(&"https://x.example/..%2f".parse().unwrap())
            .file("../../etc/passwd\0");
        assert!(
            name.strip_suffix(".json").unwrap().chars().all(|c| c.is_ascii_hexdigit() || c == '-')
        );
        assert_eq!(name.len(), 32 + 1 + 32 + 5);
    }
}
