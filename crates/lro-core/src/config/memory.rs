//! `[memory]`: where memories are kept and how they are compared.

use serde::{Deserialize, Serialize};

/// `[memory]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryConfig {
    /// `sqlite:{file}` or `postgres://…`; empty for `sqlite:{data dir}/memory.db`.
    pub store: String,
    /// Whose memories are meant in a database of many.
    pub tenant: String,
    /// The most connections to a database.
    pub connections: u32,
    /// Whether a database beyond this machine may be reached without encryption.
    pub allow_plain: bool,
    /// `none`, `openai:{url}#{model}` or `local:{directory}`.
    pub embedder: String,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            store: String::new(),
            tenant: "default".to_owned(),
            connections: 8,
            allow_plain: false,
            embedder: "none".to_owned(),
        }
    }
}
