//! The rules that the configuration lays down, and the key behind a decision.

use lro_core::{
    Policy, Rules, Threshold,
    config::{Config, key},
    threshold::Reason,
};

/// What decides about a result of a memory operation, or of another tool.
pub(super) fn rules(config: &Config, memory: bool) -> Rules<'_> {
    let offload = &config.prompt.offload;
    let threshold = if memory {
        Threshold::Above(offload.threshold_tokens)
    } else {
        Threshold::From(config.proxy.threshold_tokens)
    };
    Rules { enabled: offload.enabled, threshold, policies: &config.proxy.policy }
}

/// The key to change for another decision, where there is one.
pub(super) fn deciding_key(
    reason: &Reason,
    config: &Config,
    tool: &str,
    memory: bool,
) -> Option<String> {
    let policy = |glob: &str| key("proxy.policy").map(|key| key.entry_name(glob));
    match reason {
        Reason::Disabled => Some("prompt.offload.enabled".to_owned()),
        Reason::Policy { glob } => policy(glob),
        Reason::Bytes { .. } | Reason::Estimate { .. } => {
            match config.proxy.policy.for_tool(tool) {
                Some((glob, Policy::Threshold { .. })) => policy(glob),
                _ if memory => Some("prompt.offload.threshold_tokens".to_owned()),
                _ => Some("proxy.threshold_tokens".to_owned()),
            }
        }
        _ => None,
    }
}
