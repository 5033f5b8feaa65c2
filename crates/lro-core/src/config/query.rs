//! `[query]`: bounds of one filter.

use serde::{Deserialize, Serialize};

/// `[query]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct QueryConfig {
    /// Time one filter may take.
    pub wall_ms: u64,
    /// Memory one filter may use; 0 for 256 MiB plus eight times the file.
    pub memory_bytes: u64,
    /// Output one filter may give.
    pub output_bytes: u64,
    /// Filters that run at the same time.
    pub workers: u32,
}

impl Default for QueryConfig {
    fn default() -> Self {
        Self { wall_ms: 5000, memory_bytes: 0, output_bytes: 1 << 20, workers: 4 }
    }
}
