//! Options of a bucket.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The smallest part size of S3, except for the last part.
const MIN_PART_BYTES: usize = 5 << 20;

/// Receives the outcome of each request to the store and how long it took: `Ok` if the store answered, with
/// whatever answer, or why not.
#[derive(Clone)]
pub struct RequestSink(Arc<SinkFn>);

type SinkFn = dyn Fn(Result<(), &str>, Duration) + Send + Sync;

impl RequestSink {
    /// Calls `sink` for each request. It must not block.
    pub fn new(sink: impl Fn(Result<(), &str>, Duration) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    pub(super) fn report(&self, outcome: Result<(), &str>, took: Duration) {
        (self.0)(outcome, took);
    }
}

impl fmt::Debug for RequestSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestSink").finish_non_exhaustive()
    }
}

/// Options of a bucket: limits of time, memory and disk.
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
    pub(super) requests: Option<RequestSink>,
}

impl ObjectOptions {
    /// Default limits; full copies and scratch files are unnamed files in `local_dir`.
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
            requests: None,
        }
    }

    /// Limits the size of copies and scratch files in the local directory, and sets the minimum
    /// free space of its file system.
    pub fn local(self, max_bytes: u64, min_free_bytes: u64) -> Self {
        Self { local_bytes: max_bytes, local_free_bytes: min_free_bytes, ..self }
    }

    /// Reports the outcome of each request.
    pub fn requests(self, sink: RequestSink) -> Self {
        Self { requests: Some(sink), ..self }
    }

    /// Limits the time of one attempt at a request, including its body.
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Sets the number of retries and the first wait between them. Each further wait is twice as
    /// long, up to 400 ms, so that a recovered service is used soon.
    pub fn retries(self, retries: u32, backoff: Duration) -> Self {
        Self { retries, backoff, ..self }
    }

    /// Sets the part size of multipart uploads, at least 5 MiB. A few parts per draft are held in
    /// memory.
    pub fn part_bytes(self, part_bytes: usize) -> Self {
        Self { part_bytes: part_bytes.max(MIN_PART_BYTES), ..self }
    }

    /// How long readers in other processes can still read a result that was removed or has expired.
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// How old bytes without a result must be before a sweep deletes them. Must be longer than any
    /// commit, including clock differences.
    pub fn orphan_after(self, orphan_after: Duration) -> Self {
        Self { orphan_after, ..self }
    }

    /// How long other processes report that a result has expired, instead of that it does not
    /// exist.
    pub fn remember(self, remember: Duration) -> Self {
        Self { remember, ..self }
    }
}
