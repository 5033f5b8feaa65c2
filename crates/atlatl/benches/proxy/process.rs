//! Process: what a running one takes of memory.

use std::fs;

use serde_json::{Value, json};

/// The resident memory of these processes together, now and at most, in KiB.
pub(crate) fn memory_kib(processes: &[u32]) -> Value {
    let sum = |field: &str| processes.iter().map(|id| kib(*id, field)).sum::<Option<u64>>();
    json!({"now": sum("VmRSS:"), "peak": sum("VmHWM:")})
}

fn kib(process: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}
