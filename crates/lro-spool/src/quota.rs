//! Quota: how much a spool may hold.

use crate::error::Limit;

/// What a spool may hold, all of it taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The bytes of all files.
    pub max_bytes: u64,
    /// The number of results.
    pub max_files: u64,
    /// What must stay free on the file system.
    pub min_free_bytes: u64,
}

impl Quota {
    /// No limit but the file system's own.
    pub const NONE: Self = Self { max_bytes: u64::MAX, max_files: u64::MAX, min_free_bytes: 0 };

    /// Whether anything is counted against it.
    pub(crate) fn counts(&self) -> bool {
        self.max_bytes < u64::MAX || self.max_files < u64::MAX
    }

    /// Which limit this much would break.
    pub(crate) fn broken_by(&self, usage: Usage) -> Option<Limit> {
        if usage.bytes > self.max_bytes {
            Some(Limit::Bytes)
        } else if usage.files > self.max_files {
            Some(Limit::Files)
        } else if usage.free < self.min_free_bytes {
            Some(Limit::FreeSpace)
        } else {
            None
        }
    }
}

impl Default for Quota {
    /// The defaults of `[spool]`.
    fn default() -> Self {
        Self::from(&lro_core::config::SpoolConfig::default())
    }
}

impl From<&lro_core::config::SpoolConfig> for Quota {
    fn from(config: &lro_core::config::SpoolConfig) -> Self {
        Self {
            max_bytes: config.max_bytes,
            max_files: config.max_files,
            min_free_bytes: config.min_free_bytes,
        }
    }
}

/// What a spool holds, drafts included, and what is left around it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) free: u64,
}
