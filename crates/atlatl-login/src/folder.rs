//! The folder of logins: a file per server and issuer.

use std::path::PathBuf;

use crate::error::LoginError;
use crate::lock::Lock;
use crate::private_dir::PrivateDir;
use crate::server::ServerKey;
use crate::stored_token::Kept;

/// What a file that is being written begins with.
const PART: &str = ".part-";

/// Where logins lie.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    path: PathBuf,
}

/// A login and the file it lies in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) file: String,
    pub(crate) kept: Kept,
}

impl Folder {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// All logins. Reading makes no directory.
    pub(crate) fn all(&self) -> Result<Vec<Found>, LoginError> {
        self.found(|name| !name.starts_with(PART))
    }

    /// Those at `server`, the newest first: one, unless a process was killed between two steps.
    pub(crate) fn of(&self, server: &ServerKey) -> Result<Vec<Found>, LoginError> {
        let stem = server.stem();
        let mut found = self.found(|name| name.starts_with(&stem))?;
        found.retain(|found| ServerKey::from_url(&found.kept.server) == *server);
        found.sort_by_key(|found| std::cmp::Reverse(found.kept.received_at));
        Ok(found)
    }

    fn found(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<Found>, LoginError> {
        let Some(dir) = PrivateDir::open(&self.path)? else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for file in dir.names()? {
            let is_login = std::path::Path::new(&file).extension().is_some_and(|end| end == "json");
            if !is_login || !wanted(&file) {
                continue;
            }
            // One that was removed meanwhile is none.
            let Some(content) = dir.read(&file)? else { continue };
            let kept = serde_json::from_slice(&content)
                .map_err(|_| LoginError::Damaged { path: dir.path(&file) })?;
            all.push(Found { file, kept });
        }
        Ok(all)
    }

    /// Makes the folder, and waits until nobody else changes logins at `server`.
    pub(crate) async fn lock(&self, server: &ServerKey) -> Result<Locked, LoginError> {
        let dir = PrivateDir::make(&self.path)?;
        let lock = Lock::acquire(&dir, &format!("{}.lock", server.stem())).await?;
        Ok(Locked { dir, server: server.clone(), _lock: lock })
    }
}

/// The right to change the logins at one server.
#[derive(Debug)]
pub(crate) struct Locked {
    dir: PrivateDir,
    server: ServerKey,
    _lock: Lock,
}

impl Locked {
    /// Keeps a login, in place of any other at the same server.
    pub(crate) fn keep(&self, kept: &Kept) -> Result<(), LoginError> {
        let file = self.server.file(&kept.issuer);
        let stem = self.server.stem();
        let part = format!("{PART}{stem}");
        // Whoever wrote it was killed: nobody writes beside us.
        self.dir.remove(&part)?;
        let content = serde_json::to_vec_pretty(kept).map_err(|error| LoginError::File {
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

    /// Removes a login; whether it was there.
    pub(crate) fn remove(&self, found: &Found) -> Result<bool, LoginError> {
        self.dir.remove(&found.file)
    }
}
