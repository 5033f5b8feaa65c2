//! Keeps a stored result longer than its time to live.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use chrono::{DateTime, Utc};

use super::checked_dir::{CheckedDir, LockOutcome, MAX_SIDECAR_BYTES, OpenedResult};
use super::os::{Lock, retry_interrupted};
use super::{DirSpool, Shared};
use crate::address::{Address, FileName, ResultFile};
use crate::error::SpoolError;
use crate::sidecar::Sidecar;
use crate::spool::ResultInfo;

/// The most attempts to lock a new file before another process deletes it.
const MAX_CREATE_ATTEMPTS: usize = 16;

impl DirSpool {
    /// Lets a result expire at `expires_at`, unless it expires later anyway.
    ///
    /// For its owner, never for a tool: a result belongs to a quota until it expires. The sidecar is
    /// replaced in one step. A result without a sidecar cannot be kept.
    pub fn keep_until(
        &self,
        address: &Address,
        expires_at: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<ResultInfo, SpoolError> {
        let found = self.0.find(address)?;
        // Until the end: no sweep deletes the result meanwhile.
        if self.0.folder.lock(&found, Lock::Shared)? != LockOutcome::Acquired {
            return Err(self.0.not_found(address));
        }
        let OpenedResult { mut info, .. } = found;
        if info.sidecar.is_expired(info.id(), now) {
            return Err(info.expired_error());
        }
        info.sidecar = self.0.postpone(&info.name, expires_at)?;
        Ok(info)
    }
}

impl Shared {
    /// Writes the sidecar of a locked result with a later expiry, and returns it.
    fn postpone(&self, name: &FileName, to: DateTime<Utc>) -> Result<Sidecar, SpoolError> {
        let folder = &self.folder;
        let draft = ResultFile::Sidecar.draft_name(name);
        let file = folder.create_locked(&draft, name, self.options.file_mode())?;
        let created = retry_interrupted(|| folder.os.stat(file.as_fd()))
            .map_err(|error| SpoolError::io("look at", folder.at(&draft), error))?;
        // Read now: the draft excludes other processes that replace it.
        let written = folder.sidecar(name).and_then(|mut sidecar| {
            if sidecar.expires_at < to {
                sidecar.expires_at = to;
                folder.replace(&file, &draft, &sidecar, name)?;
            }
            Ok(sidecar)
        });
        // It has another name after a replacement. What remains after a failure is an unlocked leftover.
        let _ = folder.unlink_same(&draft, &created);
        written
    }
}

impl CheckedDir {
    /// Creates a hidden file exclusively, and locks it so that no sweeper takes it for a leftover.
    fn create_locked(
        &self,
        draft: &str,
        name: &FileName,
        mode: u32,
    ) -> Result<OwnedFd, SpoolError> {
        let io = |op, error| SpoolError::io(op, self.at(draft), error);
        for _ in 0..MAX_CREATE_ATTEMPTS {
            match retry_interrupted(|| self.os.create(self.fd.as_fd(), draft, mode)) {
                Ok(file) => {
                    // Waits for a sweeper that takes the new file for a leftover, and deletes it.
                    if self.lock_file(&file, draft, Lock::Exclusive)? == LockOutcome::Acquired {
                        retry_interrupted(|| self.os.set_mode(file.as_fd(), mode))
                            .map_err(|error| io("set permissions of", error))?;
                        return Ok(file);
                    }
                }
                // Left by a process that died, or another process keeps the same result.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    match self.clear_draft(draft) {
                        Ok(true) | Err(SpoolError::NotFound { .. }) => {}
                        Ok(false) => return Err(SpoolError::InUse { name: name.clone() }),
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => return Err(io("create", error)),
            }
        }
        Err(io("lock", io::ErrorKind::WouldBlock.into()))
    }

    /// Replaces the sidecar of a result by this one, in one step.
    fn replace(
        &self,
        file: &OwnedFd,
        draft: &str,
        sidecar: &Sidecar,
        name: &FileName,
    ) -> Result<(), SpoolError> {
        let io = |op, error| SpoolError::io(op, self.at(draft), error);
        let json = serde_json::to_vec(sidecar).expect("text, numbers and times have a JSON form");
        if json.len() >= MAX_SIDECAR_BYTES {
            return Err(io("write", io::Error::new(io::ErrorKind::InvalidInput, "too large")));
        }
        let mut bytes = &*json;
        while !bytes.is_empty() {
            match retry_interrupted(|| self.os.write(file.as_fd(), bytes)) {
                Ok(0) => return Err(io("write", io::ErrorKind::WriteZero.into())),
                Ok(written) => bytes = &bytes[written..],
                Err(error) => return Err(io("write", error)),
            }
        }
        retry_interrupted(|| self.os.sync_data(file.as_fd())).map_err(|e| io("sync", e))?;
        let to = ResultFile::Sidecar.file_name(name);
        retry_interrupted(|| self.os.replace(self.fd.as_fd(), draft, &to))
            .map_err(|error| io("rename", error))?;
        retry_interrupted(|| self.os.sync_dir(self.fd.as_fd())).map_err(|e| io("sync", e))
    }
}
