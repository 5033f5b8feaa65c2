//! Capacity limits: permits owned by the work that uses them, the memory quota, and the database time
//! of a tenant.
//!
//! A client may disconnect while its request runs. The request is dropped then, and with it what it
//! awaits. Work on a blocking thread cannot be dropped after it has started, and a database needs a
//! moment to cancel a statement, so such work holds the permits of the request until it has ended.
//! Otherwise abandoned requests would accumulate threads and statements without bound.
//!
//! Memories are counted periodically and not with every write, since counting takes longer than
//! writing. A tenant may exceed its quota by what all servers write within [`COUNT_TTL`].

use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use atlatl_memory::{StoreError, WorkGuard, with_work_guard};
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use super::tools::response::ToolError;
use crate::auth::{RateLimit, TokenBucket};

/// The maximum number of concurrent reads of stored results by all responses.
const MAX_STREAM_READS: usize = 64;
/// One millisecond per second, in microseconds per minute.
const MICROS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(60_000).expect("not zero");
/// How long a count is used.
const COUNT_TTL: Duration = Duration::from_secs(10);

tokio::task_local! {
    /// The permits of the current request.
    static PERMITS: Arc<Permits>;
}

/// The permits of one request.
struct Permits {
    _server: OwnedSemaphorePermit,
    /// Set after authentication.
    tenant: OnceLock<OwnedSemaphorePermit>,
}

/// Runs a request that holds a permit of the server. Work that it passes to [`blocking`] or starts in
/// a store holds the permit too.
pub(crate) async fn with_permit<T>(
    server: OwnedSemaphorePermit,
    request: impl Future<Output = T>,
) -> T {
    let permits = Arc::new(Permits { _server: server, tenant: OnceLock::new() });
    let request = with_work_guard(Arc::clone(&permits) as WorkGuard, request);
    PERMITS.scope(permits, request).await
}

/// Adds a permit of the tenant to the current request.
pub(crate) fn add_tenant(permit: OwnedSemaphorePermit) {
    // Without a request there is no work that could outlive it.
    let _ = PERMITS.try_with(|permits| permits.tenant.set(permit));
}

/// A blocking task that is not started if its caller is gone.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        // Has no effect on work that has started.
        self.0.abort();
    }
}

/// Runs `work` on a blocking thread with the permits of the current request. If the request is
/// dropped before the work starts, the work is dropped too.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let permits = PERMITS.try_with(Arc::clone).ok();
    run_holding(permits, work).await
}

/// Reads a chunk of a response body. The request has been handled by then, so the read waits for
/// its own permit.
pub(crate) async fn stream_read<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    static READS: LazyLock<Arc<Semaphore>> =
        LazyLock::new(|| Arc::new(Semaphore::new(MAX_STREAM_READS)));
    // The semaphore is never closed.
    let permit = Arc::clone(&READS).acquire_owned().await.ok();
    run_holding(permit, work).await
}

/// Runs `work`, which holds `permit` until it ends.
async fn run_holding<P: Send + 'static, T: Send + 'static>(
    permit: P,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let mut running = AbortOnDrop(spawn_blocking(move || {
        let done = work();
        drop(permit);
        done
    }));
    (&mut running.0).await
}

/// A limit on the number of memories.
#[derive(Default)]
pub(crate) struct MemoryQuota {
    state: Mutex<State>,
    /// Held while the memories are counted, so that concurrent writers count once.
    counting: AsyncMutex<()>,
}

#[derive(Default)]
struct State {
    max: Option<u64>,
    /// The time of the count, and the count with the memories added since.
    counted: Option<(Instant, u64)>,
}

impl MemoryQuota {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the limit.
    pub(crate) fn set_limit(&self, max: Option<u64>) {
        *self.state() = State { max, counted: None };
    }

    /// Reserves one memory. Fails with the limit if it is reached. `count` is awaited if the last
    /// count is too old.
    pub(crate) async fn take(
        &self,
        count: impl Future<Output = Result<u64, StoreError>>,
    ) -> Result<(), ToolError> {
        if let Some(taken) = self.take_counted() {
            return taken;
        }
        let _counting = self.counting.lock().await;
        if let Some(taken) = self.take_counted() {
            return taken;
        }
        let at = Instant::now();
        let counted = count.await?;
        self.state().counted = Some((at, counted));
        self.take_counted().unwrap_or(Ok(()))
    }

    /// Reserves one memory by the last count. Returns `None` if there is none that is recent.
    fn take_counted(&self) -> Option<Result<(), ToolError>> {
        let mut state = self.state();
        let Some(max) = state.max else { return Some(Ok(())) };
        let (at, there) = state.counted.filter(|(at, _)| at.elapsed() < COUNT_TTL)?;
        if there >= max {
            return Some(Err(ToolError::QuotaExceeded(max)));
        }
        state.counted = Some((at, there + 1));
        Some(Ok(()))
    }
}

/// A limit on the bytes of all memories. A tenant may exceed it by what all servers write within
/// [`COUNT_TTL`].
#[derive(Default)]
pub(crate) struct ByteQuota {
    state: Mutex<ByteState>,
    /// Held while the bytes are read, so that concurrent writers read once.
    reading: AsyncMutex<()>,
}

#[derive(Default)]
struct ByteState {
    max: Option<u64>,
    /// When the bytes were read, and how many they were.
    stored: Option<(Instant, u64)>,
}

impl ByteQuota {
    fn state(&self) -> MutexGuard<'_, ByteState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the limit.
    pub(crate) fn set_limit(&self, max: Option<u64>) {
        *self.state() = ByteState { max, stored: None };
    }

    /// Fails with the limit if it is reached. `read` is awaited if the last reading is too old; a
    /// store that does not count bytes has no limit.
    pub(crate) async fn check(
        &self,
        read: impl Future<Output = Result<Option<u64>, StoreError>>,
    ) -> Result<(), ToolError> {
        if let Some(checked) = self.check_recent() {
            return checked;
        }
        let _reading = self.reading.lock().await;
        if let Some(checked) = self.check_recent() {
            return checked;
        }
        let at = Instant::now();
        let stored = read.await?.unwrap_or_default();
        self.state().stored = Some((at, stored));
        self.check_recent().unwrap_or(Ok(()))
    }

    /// Checks by the last reading. Returns `None` if there is none that is recent.
    fn check_recent(&self) -> Option<Result<(), ToolError>> {
        let state = self.state();
        let Some(max) = state.max else { return Some(Ok(())) };
        let (_, stored) = state.stored.filter(|(at, _)| at.elapsed() < COUNT_TTL)?;
        Some(if stored >= max { Err(ToolError::ByteQuotaExceeded(max)) } else { Ok(()) })
    }
}

/// A limit on the database time of one tenant.
///
/// The time of a request is known after it was used. A tenant that used more than its budget of a
/// minute owes the rest, at most the budget of another minute, and is rejected until that has passed.
#[derive(Debug)]
pub struct DatabaseTimeLimit {
    started_at: Instant,
    /// In microseconds.
    bucket: Mutex<TokenBucket>,
}

impl DatabaseTimeLimit {
    /// Allows this many milliseconds per second on average, and the budget of a minute at once.
    pub fn new(ms_per_second: NonZeroU32) -> Self {
        let per_minute = ms_per_second.saturating_mul(MICROS_PER_MINUTE);
        let bucket = TokenBucket::new(RateLimit::per_minute(per_minute, per_minute));
        Self { started_at: Instant::now(), bucket: Mutex::new(bucket) }
    }

    /// Adds time that the tenant used.
    pub fn spend(&self, used: Duration) {
        let micros = u64::try_from(used.as_micros()).unwrap_or(u64::MAX);
        self.bucket().spend(self.started_at.elapsed(), micros);
    }

    /// Returns how long the tenant has to wait, as an error.
    pub(crate) fn check(&self) -> Result<(), Duration> {
        self.bucket().check(self.started_at.elapsed())
    }

    fn bucket(&self) -> MutexGuard<'_, TokenBucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g42_a_tenant_that_used_its_database_time_waits_in_proportion() {
        let limit = DatabaseTimeLimit::new(NonZeroU32::new(100).unwrap());
        limit.spend(Duration::from_secs(5));
        assert_eq!(limit.check(), Ok(()), "the budget of a minute is six seconds");
        limit.spend(Duration::from_secs(2));
        let wait = limit.check().unwrap_err();
        assert!(wait > Duration::from_secs(9) && wait <= Duration::from_secs(10), "{wait:?}");
        limit.spend(Duration::from_hours(1));
        let wait = limit.check().unwrap_err();
        assert!(wait > Duration::from_secs(59) && wait <= Duration::from_mins(1), "{wait:?}");
    }

    fn uncounted() -> impl Future<Output = Result<u64, StoreError>> {
        std::future::poll_fn(|_| unreachable!("there is no limit"))
    }

    #[tokio::test]
    async fn g48_the_quota_of_bytes_is_enforced_and_read_now_and_then() {
        let quota = ByteQuota::default();
        let reads = std::cell::Cell::new(0);
        let read = |stored| {
            let reads = &reads;
            async move {
                reads.set(reads.get() + 1);
                Ok(stored)
            }
        };
        assert!(quota.check(read(Some(9))).await.is_ok());
        assert_eq!(reads.get(), 0, "there is no limit");
        quota.set_limit(Some(10));
        assert!(quota.check(read(Some(9))).await.is_ok());
        assert!(quota.check(read(Some(11))).await.is_ok());
        assert_eq!(reads.get(), 1);
        quota.set_limit(Some(10));
        let full = quota.check(read(Some(10))).await;
        assert!(matches!(full, Err(ToolError::ByteQuotaExceeded(10))));
        quota.set_limit(Some(10));
        assert!(quota.check(read(None)).await.is_ok(), "a store that does not count");
    }

    #[tokio::test]
    async fn the_quota_is_enforced_and_the_store_is_not_counted_each_time() {
        let room = MemoryQuota::default();
        assert!(room.take(uncounted()).await.is_ok());
        room.set_limit(Some(3));
        let asked = std::cell::Cell::new(0);
        let count = |there| {
            let asked = &asked;
            async move {
                asked.set(asked.get() + 1);
                Ok(there)
            }
        };
        assert!(room.take(count(1)).await.is_ok() && room.take(count(9)).await.is_ok());
        assert!(matches!(room.take(count(9)).await, Err(ToolError::QuotaExceeded(3))));
        assert_eq!(asked.get(), 1);
        room.set_limit(Some(0));
        assert!(matches!(room.take(count(0)).await, Err(ToolError::QuotaExceeded(0))));
        room.set_limit(None);
        assert!(room.take(uncounted()).await.is_ok());
    }
}
