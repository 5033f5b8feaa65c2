//! Files that an agent has read before in the same session, and that have not changed since.
//!
//! The state directory has one small file per read whose output was stored. Its name is a digest of the
//! session, the arguments and the contents, so a changed file is never taken for the earlier one.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The longest entry that is read, in bytes.
const MAX_ENTRY_LEN: u64 = 1024;
/// How long an entry is kept.
const MAX_AGE: Duration = Duration::from_hours(24);
/// The most entries that are looked at when old ones are removed.
const MAX_REMOVED: usize = 1000;

/// The reads of all sessions.
pub(super) struct ReadIndex(PathBuf);

/// The identity of a read.
pub(super) struct ReadKey(String);

/// An earlier read of the same contents.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EarlierRead {
    /// The reference of the stored output.
    pub(super) reference: String,
    time: DateTime<Utc>,
}

impl EarlierRead {
    /// The text that the model gets instead of the contents.
    pub(super) fn text(&self) -> String {
        let time = self.time.to_rfc3339_opts(SecondsFormat::Secs, true);
        format!("Unchanged since {time}: the same contents are stored as {}.", self.reference)
    }
}

impl ReadKey {
    /// The key of a read of `contents` in a session.
    pub(super) fn new(host: &str, session: &str, arguments: &str, contents: &[u8]) -> Self {
        let mut digest = Sha256::new();
        for field in [host.as_bytes(), session.as_bytes(), arguments.as_bytes()] {
            digest.update((field.len() as u64).to_be_bytes());
            digest.update(field);
        }
        digest.update(contents);
        let mut key = String::new();
        for byte in &digest.finalize()[..16] {
            // Writing to a String cannot fail.
            let _ = write!(key, "{byte:02x}");
        }
        Self(key)
    }
}

impl ReadIndex {
    /// The index in the user's state directory.
    pub(super) fn in_state_dir(state_dir: &Path) -> Self {
        Self(state_dir.join("atlatl/reads"))
    }

    /// The earlier read with the same key.
    pub(super) fn find(&self, key: &ReadKey) -> Option<EarlierRead> {
        let path = self.0.join(&key.0);
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > MAX_ENTRY_LEN {
            return None;
        }
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Adds a read whose output was stored, and removes old ones. A failure only means that the next
    /// read is described again.
    pub(super) fn add(&self, key: &ReadKey, reference: String, now: DateTime<Utc>) {
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        let entry = serde_json::to_vec(&EarlierRead { reference, time: now });
        if let (Ok(()), Ok(entry)) = (created, entry) {
            let _ = fs::write(self.0.join(&key.0), entry);
        }
        let before = SystemTime::from(now).checked_sub(MAX_AGE);
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for entry in entries.take(MAX_REMOVED) {
            let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            if modified < before {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_contents_in_the_same_session_are_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let index = ReadIndex::in_state_dir(dir.path());
        let now = DateTime::from(SystemTime::now());
        let key = |session, arguments, contents| ReadKey::new("h", session, arguments, contents);
        assert!(index.find(&key("s", "{}", b"x")).is_none());
        index.add(&key("s", "{}", b"x"), "lro:1".to_owned(), now);
        let found = index.find(&key("s", "{}", b"x")).unwrap();
        assert!(found.text().ends_with("are stored as lro:1."), "{}", found.text());
        for other in [key("s", "{}", b"y"), key("t", "{}", b"x"), key("s", "{\"a\":1}", b"x")] {
            assert!(index.find(&other).is_none());
        }
        // The fields cannot be shifted into each other.
        assert_ne!(key("ab", "c", b"").0, key("a", "bc", b"").0);
    }
}
