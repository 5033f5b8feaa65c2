//! `[prompt.offload]`: the specification's own keys, and what the descriptor shows.

use serde::{Deserialize, Serialize};

/// `[prompt]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PromptConfig {
    /// `[prompt.offload]`.
    pub offload: OffloadConfig,
}

/// `[prompt.offload]`.
// Spec C1: names, types and defaults of the first four fields are the specification's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OffloadConfig {
    /// Whether large results are offloaded at all.
    pub enabled: bool,
    /// Memory results above this estimate are offloaded.
    pub threshold_tokens: u32,
    /// How long an offloaded memory result is kept.
    pub ttl_seconds: u64,
    /// Where files are written; empty for the system's temporary directory.
    pub output_dir: String,
    /// How much the descriptor of a memory result says.
    pub descriptor: DescriptorForm,
    /// Room for whole first records in the descriptor; 0 for none.
    pub preview_tokens: u32,
    /// Limit of one extraction reply.
    pub reply_tokens: u32,
    /// Whether HTTP clients can read `output_dir`.
    pub shared_filesystem: bool,
}

impl Default for OffloadConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            threshold_tokens: 1600,
            ttl_seconds: 3600,
            output_dir: String::new(),
            descriptor: DescriptorForm::Full,
            preview_tokens: 300,
            reply_tokens: 1600,
            shared_filesystem: false,
        }
    }
}

/// How much the descriptor of a memory result says (R11).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DescriptorForm {
    /// All of the specification's fields.
    #[default]
    Full,
    /// Reference, path, summary, and guidance in one line.
    Compact,
}
