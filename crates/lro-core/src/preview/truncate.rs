//! Truncates a record to a limit, with its hidden characters visible.

use lro_json::truncate;

use crate::sanitize::escape_invisible;

pub(crate) use lro_json::TruncateLimits as Limits;

/// A record line within `limits`. `None` where it is nested too deeply to be put in a message.
pub(crate) fn show(line: &str, limits: Limits) -> Option<String> {
    truncate(line, limits, escape_invisible)
}
