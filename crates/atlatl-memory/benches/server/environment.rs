//! What a run depends on beside the program: the load of the machine, and the requested sizes.

use std::{env, fs};

/// The load average of the last minute, since other programs may be running.
pub(crate) fn load_average() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// The numbers of memories in `ATLATL_BENCH_MEMORIES`, with commas between, or the default.
pub(crate) fn sizes(default: &[usize]) -> Vec<usize> {
    let Ok(wanted) = env::var("ATLATL_BENCH_MEMORIES") else { return default.to_vec() };
    wanted.split(',').map(|size| size.trim().parse().expect("a number of memories")).collect()
}
