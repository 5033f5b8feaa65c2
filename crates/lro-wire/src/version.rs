//! Version: the revisions of the protocol, by era.

use serde_json::json;

use crate::error::{JsonRpcError, UNSUPPORTED_VERSION};
use crate::meta::Era;

/// Revisions with `initialize`, the newest first.
pub const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Revisions without.
pub const MODERN: [&str; 1] = ["2026-07-28"];

/// The revision to answer `initialize` with: the one that is asked for where it is known, else the
/// newest.
pub fn negotiated(asked: Option<&str>) -> &'static str {
    LEGACY.into_iter().find(|known| asked == Some(known)).unwrap_or(LEGACY[0])
}

/// Whether `version` is spoken in `era`.
pub fn is_spoken(version: &str, era: Era) -> bool {
    match era {
        Era::Legacy => LEGACY.contains(&version),
        Era::Modern => MODERN.contains(&version),
    }
}

/// What to answer to a request of a version that is not spoken, where `spoken` are.
pub fn unsupported(spoken: &[&str], requested: &str) -> JsonRpcError {
    let said = format!("this server speaks {}", spoken.join(", "));
    let data = json!({"supported": spoken, "requested": requested});
    JsonRpcError::new(UNSUPPORTED_VERSION, said).with(data)
}
