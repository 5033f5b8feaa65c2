//! `[ledger]`: the record of what was offloaded and extracted, never of what was in it.

use serde::{Deserialize, Serialize};

/// `[ledger]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LedgerConfig {
    /// The file; empty for `{state dir}/ledger.jsonl`.
    pub path: String,
    /// How long an entry is kept.
    pub retention_days: u32,
}

impl Default for LedgerConfig {
    fn default() -> Self {
        Self { path: String::new(), retention_days: 90 }
    }
}
