//! `[spool]`: where large results are kept, and how much of them.

use serde::{Deserialize, Serialize};

/// `[spool]`. The oldest expired results go first; after that a new one is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SpoolConfig {
    /// Quota of bytes.
    pub max_bytes: u64,
    /// Quota of files.
    pub max_files: u64,
    /// What must stay free on the file system.
    pub min_free_bytes: u64,
    /// Who may read stored files beside their owner.
    pub readable_by: ReadableBy,
    /// Object storage instead of a directory; empty for the directory.
    pub url: String,
}

/// Who may read stored files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ReadableBy {
    /// Their owner alone.
    #[default]
    Owner,
    /// The owner's group as well: for a client that runs as another user.
    Group,
}

impl Default for SpoolConfig {
    fn default() -> Self {
        Self {
            max_bytes: 10 << 30,
            max_files: 10_000,
            min_free_bytes: 1 << 30,
            readable_by: ReadableBy::default(),
            url: String::new(),
        }
    }
}
