//! Options: limits of time, memory and disk for results in object storage.

use std::path::PathBuf;
use std::time::Duration;

/// What S3 takes at least for a part that is not the last.
pub(super) const LEAST_PART: usize = 5 << 20;

/// How to use a bucket.
#[derive(Debug, Clone)]
pub struct ObjectOptions {
    pub(super) local_dir: PathBuf,
    pub(super) local_bytes: u64,
    pub(super) local_free_bytes: u64,
    pub(super) time_limit: Duration,
    pub(super) retries: u32,
    pub(super) backoff: Duration,
    pub(super) part_bytes: usize,
    pub(super) grace: Duration,
    pub(super) orphan_after: Duration,
    pub(super) remember: Duration,
}

impl ObjectOptions {
    /// Usual limits; whole copies and what is put aside lie in `local_dir`, in files without names.
    pub fn new(local_dir: impl Into<PathBuf>) -> Self {
        Self {
            local_dir: local_dir.into(),
            local_bytes: 2 << 30,
            local_free_bytes: 0,
            time_limit: Duration::from_secs(30),
            retries: 5,
            backoff: Duration::from_millis(100),
            part_bytes: 8 << 20,
            grace: Duration::from_mins(10),
            orphan_after: Duration::from_hours(24),
            remember: Duration::from_hours(24),
        }
    }

    /// How much may lie in the local directory at a time, copies and what is put aside together,
    /// and how much must stay free on its file system.
    pub fn local(self, max_bytes: u64, min_free_bytes: u64) -> Self {
        Self { local_bytes: max_bytes, local_free_bytes: min_free_bytes, ..self }
    }

    /// How long one attempt at a request may take, its body included.
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// How often a request that failed is made again, and how long is waited before the first of
    /// these; each further wait is twice as long, 400 ms at most, so that what is
    /// there again is soon used again.
    pub fn retries(self, retries: u32, backoff: Duration) -> Self {
        Self { retries, backoff, ..self }
    }

    /// How large the parts of a large result are: 5 MiB at least, which is also what is kept in
    /// memory of it, a few times.
    pub fn part_bytes(self, part_bytes: usize) -> Self {
        Self { part_bytes: part_bytes.max(LEAST_PART), ..self }
    }

    /// How long readers in other processes can go on with a result that was removed or has expired.
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// How old bytes without a result must be before a sweep removes them. Longer than any commit
    /// takes, differences between clocks included.
    pub fn orphan_after(self, orphan_after: Duration) -> Self {
        Self { orphan_after, ..self }
    }

    /// How long other processes are told that a result has expired, rather than that there is none.
    pub fn remember(self, remember: Duration) -> Self {
        Self { remember, ..self }
    }
}
