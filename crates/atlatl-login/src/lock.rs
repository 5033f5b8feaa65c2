//! Locks: one process at a time may change a login.
//!
//! A refresh token is good for one use. Two processes that use the same one look like a thief and
//! its victim, and an authority that is strict logs both out (field finding f40).

use std::{os::fd::OwnedFd, time::Duration};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use tokio::time::{Instant, sleep};

use crate::error::LoginError;
use crate::private_dir::PrivateDir;

/// Longer than an authority may take to answer.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Held while it lives. The kernel releases it too when the process is killed.
#[derive(Debug)]
pub(crate) struct Lock {
    _fd: OwnedFd,
}

impl Lock {
    /// Waits for it, without holding a thread. The file stays: removing it would give two processes
    /// a lock each, on two files of one name.
    pub(crate) async fn acquire(dir: &PrivateDir, name: &str) -> Result<Self, LoginError> {
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
