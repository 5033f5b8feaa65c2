//! A pause of offloading by hooks and `atlatl run`: `atlatl off`.
//!
//! The pause is a file in the user's state directory with the time of its end, so that agents that run
//! already respect it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use crate::settings::Surroundings;

/// The longest contents of the file that are read, in bytes.
const MAX_FILE_LEN: u64 = 64;

/// The file that stores a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PauseFile(PathBuf);

impl PauseFile {
    /// Whether there is a pause at `now`.
    pub(crate) fn is_active(surroundings: &Surroundings, now: DateTime<Utc>) -> bool {
        let state_dir = surroundings.state_dir.as_deref();
        state_dir.map(Self::in_state_dir).is_some_and(|pause| pause.end(now).is_some())
    }

    /// The file in the state directory of the user.
    pub(crate) fn in_state_dir(state_dir: &Path) -> Self {
        Self(state_dir.join("atlatl/off-until"))
    }

    /// The end of the pause, if it is after `now`.
    pub(crate) fn end(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let metadata = fs::symlink_metadata(&self.0).ok()?;
        if !metadata.is_file() || metadata.len() > MAX_FILE_LEN {
            return None;
        }
        let text = fs::read_to_string(&self.0).ok()?;
        let end = DateTime::parse_from_rfc3339(text.trim()).ok()?.with_timezone(&Utc);
        (end > now).then_some(end)
    }

    /// Pauses until `end`.
    pub(crate) fn set(&self, end: DateTime<Utc>) -> io::Result<()> {
        if let Some(dir) = self.0.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        fs::write(&self.0, format!("{}\n", end.to_rfc3339()))
    }

    /// Ends the pause.
    pub(crate) fn clear(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn a_pause_ends_at_its_time_or_when_it_is_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let file = PauseFile::in_state_dir(dir.path());
        let now = DateTime::UNIX_EPOCH + TimeDelta::days(20_000);
        assert_eq!(file.end(now), None);
        let end = now + TimeDelta::hours(1);
        file.set(end).unwrap();
        assert_eq!(file.end(now), Some(end));
        assert_eq!(file.end(end), None);
        file.clear().unwrap();
        file.clear().unwrap();
        assert_eq!(file.end(now), None);
        fs::write(&file.0, "not a time").unwrap();
        assert_eq!(file.end(now), None);
    }
}
