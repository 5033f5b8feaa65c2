//! The object store client: requests with bounded retries, and the options of a bucket.

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload,
};
use tokio::runtime::{Builder, Handle, Runtime};

use super::index::ENTRY_CAP;
use super::local_cache::Local;
use crate::error::{Damage, RemoteError, RemoteKind, SpoolError};

/// No wait between two attempts is longer.
const LONGEST_WAIT: Duration = Duration::from_millis(400);
/// What S3 takes at least for a part that is not the last.
pub(super) const LEAST_PART: usize = 5 << 20;

/// An object store with a prefix. Clones share it, its connections and its local directory.
#[derive(Debug, Clone)]
pub struct Bucket(pub(super) Arc<Remote>);

pub(super) struct Remote {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) prefix: Path,
    pub(super) options: ObjectOptions,
    pub(super) local: Arc<Local>,
    /// Drives the requests. Two threads: checking one block does not hold up all other requests.
    runtime: Option<Runtime>,
}

/// What became of an object that only one may create.
#[derive(Debug)]
pub(super) enum Created {
    ByUs,
    /// By someone else, with these bytes.
    ByOthers(Bytes),
}

impl Bucket {
    /// Results go below `prefix` of this store. It must take a PUT that only creates, and show what
    /// was written at once; nothing is asked of it yet.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        options: ObjectOptions,
    ) -> Result<Self, SpoolError> {
        let prefix = Path::parse(prefix)
            .map_err(|error| Failure::Store(error.into()).doing("use the prefix", prefix))?;
        let local = Local::open(&options)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("object-storage")
            .enable_all()
            .build()
            .map_err(|error| SpoolError::io("start threads for", &options.local_dir, error))?;
        let runtime = Some(runtime);
        Ok(Self(Arc::new(Remote { store, prefix, options, local, runtime })))
    }
}

impl Remote {
    pub(super) fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("there until it is dropped").handle()
    }

    /// Waits for `future` on the calling thread.
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        let _inside = self.handle().enter();
        // `block_on` of a runtime panics on a thread of another one. There, too, a budget would be
        // counted that is never filled up again.
        pollster::block_on(tokio::task::unconstrained(future))
    }

    pub(super) fn attempts(&self) -> Attempts {
        Attempts::new(&self.options)
    }

    /// A whole object that is no larger than `cap`; `None` where there is none.
    pub(super) async fn get(&self, key: &Path, cap: u64) -> Result<Option<Bytes>, SpoolError> {
        let mut attempts = self.attempts();
        loop {
            let got = attempts.attempt(async {
                let got = self.store.get_opts(key, GetOptions::default()).await?;
                let size = got.meta.size;
                if size > cap { Ok(None) } else { Ok(Some((size, got.bytes().await?))) }
            });
            let failure = match got.await {
                Ok(Some((size, bytes))) if bytes.len() as u64 == size => return Ok(Some(bytes)),
                Ok(Some(_)) => Failure::Short,
                Ok(None) => {
                    let (name, why) = (key.to_string(), Damage::Changed);
                    return Err(SpoolError::Damaged { name, why });
                }
                Err(failure) if failure.is_missing() => return Ok(None),
                Err(failure) => failure,
            };
            if !attempts.again(&failure).await {
                return Err(failure.doing("read", key));
            }
        }
    }

    /// Exactly these bytes of an object, in one attempt.
    pub(super) async fn range(
        &self,
        attempts: &Attempts,
        key: &Path,
        range: Range<u64>,
    ) -> Result<Bytes, Failure> {
        let asked = range.end - range.start;
        let options =
            GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
        let bytes = attempts
            .attempt(async {
                let got = self.store.get_opts(key, options).await?;
                // Another range is not taken: it may be of any length.
                if got.range == range { got.bytes().await } else { Ok(Bytes::new()) }
            })
            .await?;
        if bytes.len() as u64 == asked { Ok(bytes) } else { Err(Failure::Short) }
    }

    /// Writes an object that nobody else writes.
    pub(super) async fn put(&self, key: &Path, payload: PutPayload) -> Result<(), SpoolError> {
        let mut attempts = self.attempts();
        loop {
            let put = self.store.put_opts(key, payload.clone(), PutOptions::default());
            match attempts.attempt(put).await {
                Ok(_) => return Ok(()),
                Err(failure) if attempts.again(&failure).await => {}
                Err(failure) => return Err(failure.doing("write", key)),
            }
        }
    }

    /// Creates an object unless there is one. Where an answer got lost the object itself says whose
    /// it is: the bytes of no two are the same.
    ///
    /// An error says that nothing is known: the object may be there, or come yet.
    pub(super) async fn create(&self, key: &Path, bytes: &Bytes) -> Result<Created, SpoolError> {
        let mut attempts = self.attempts();
        loop {
            let options = PutOptions::from(PutMode::Create);
            let put = self.store.put_opts(key, bytes.clone().into(), options);
            let Err(failure) = attempts.attempt(put).await else { return Ok(Created::ByUs) };
            // Taken, and then not there: gone meanwhile, or two at the same moment and neither has it.
            let is_taken = failure.is_taken();
            if !is_taken && attempts.again(&failure).await {
                continue;
            }
            match self.get(key, ENTRY_CAP).await {
                Ok(Some(there)) if there == *bytes => return Ok(Created::ByUs),
                Ok(Some(there)) => return Ok(Created::ByOthers(there)),
                Err(SpoolError::Damaged { .. }) => return Ok(Created::ByOthers(Bytes::new())),
                Ok(None) if is_taken && attempts.once_more().await => {}
                Ok(None) | Err(_) => return Err(failure.doing("create", key)),
            }
        }
    }

    /// Removes an object, there or not.
    pub(super) async fn delete(&self, key: &Path) -> Result<(), SpoolError> {
        let mut attempts = self.attempts();
        loop {
            match attempts.attempt(self.store.delete(key)).await {
                Ok(()) => return Ok(()),
                Err(failure) if failure.is_missing() => return Ok(()),
                Err(failure) if attempts.again(&failure).await => {}
                Err(failure) => return Err(failure.doing("remove", key)),
            }
        }
    }

    /// The size of an object; `None` where there is none.
    pub(super) async fn size(&self, key: &Path) -> Result<Option<u64>, SpoolError> {
        let mut attempts = self.attempts();
        loop {
            match attempts.attempt(self.store.head(key)).await {
                Ok(meta) => return Ok(Some(meta.size)),
                Err(failure) if failure.is_missing() => return Ok(None),
                Err(failure) if attempts.again(&failure).await => {}
                Err(failure) => return Err(failure.doing("look at", key)),
            }
        }
    }

    /// All objects whose keys begin with this. A list that breaks off begins anew: not every store
    /// lists in an order in which it could be continued.
    pub(super) async fn list(&self, prefix: &Path) -> Result<Vec<ObjectMeta>, SpoolError> {
        let mut attempts = self.attempts();
        loop {
            let (mut list, mut all) = (self.store.list(Some(prefix)), Vec::new());
            let failure = loop {
                match attempts.attempt(list.try_next()).await {
                    Ok(Some(meta)) => all.push(meta),
                    Ok(None) => return Ok(all),
                    Err(failure) => break failure,
                }
            };
            if !attempts.again(&failure).await {
                return Err(failure.doing("list", prefix));
            }
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its threads would panic on a thread of another runtime.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// One attempt that failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// It took too long.
    Time,
    /// Fewer bytes came than were asked for.
    Short,
    /// The store said so.
    Store(Error),
    /// The client library panicked: with credentials that no request can carry, for example.
    Panicked,
}

impl Failure {
    fn is_final(&self) -> bool {
        match self {
            Self::Time | Self::Short => false,
            Self::Store(error) => !matches!(error, Error::Generic { .. } | Error::JoinError { .. }),
            Self::Panicked => true,
        }
    }

    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Store(Error::NotFound { .. }))
    }

    pub(super) fn is_taken(&self) -> bool {
        matches!(self, Self::Store(Error::AlreadyExists { .. } | Error::Precondition { .. }))
    }

    /// What it means for the caller.
    pub(super) fn doing(self, op: &'static str, key: impl std::fmt::Display) -> SpoolError {
        let (kind, text) = match &self {
            Self::Time => (RemoteKind::Time, String::new()),
            Self::Short => (RemoteKind::Failed, "fewer bytes came than were asked for".to_owned()),
            Self::Panicked => {
                let said = "the client library panicked; check the credentials for line breaks";
                (RemoteKind::Failed, said.to_owned())
            }
            Self::Store(error) => {
                let kind = match error {
                    Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                        RemoteKind::Refused
                    }
                    Error::NotSupported { .. }
                    | Error::NotImplemented { .. }
                    | Error::InvalidPath { .. }
                    | Error::UnknownConfigurationKey { .. } => RemoteKind::Misused,
                    _ => RemoteKind::Failed,
                };
                (kind, error.to_string())
            }
        };
        let source = RemoteError::new(kind, &text);
        SpoolError::Remote { op, key: key.to_string(), source }
    }
}

/// The attempts at one request: each bounded in time, all of them in number.
pub(super) struct Attempts {
    limit: Duration,
    left: u32,
    wait: Duration,
}

impl Attempts {
    pub(super) fn new(options: &ObjectOptions) -> Self {
        Self { limit: options.time_limit, left: options.retries, wait: options.backoff }
    }

    /// When so many were made again already.
    pub(super) fn after(options: &ObjectOptions, before: u32) -> Self {
        let new = Self::new(options);
        let wait = new.wait.saturating_mul(2u32.saturating_pow(before)).min(LONGEST_WAIT);
        Self { left: new.left.saturating_sub(before), wait, ..new }
    }

    /// Makes one.
    pub(super) async fn attempt<T>(
        &self,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        let caught = AssertUnwindSafe(request).catch_unwind();
        match tokio::time::timeout(self.limit, caught).await {
            Ok(Ok(answer)) => answer.map_err(Failure::Store),
            Ok(Err(_)) => Err(Failure::Panicked),
            Err(_) => Err(Failure::Time),
        }
    }

    /// Whether to make another one after this; waits first.
    pub(super) async fn again(&mut self, failure: &Failure) -> bool {
        !failure.is_final() && self.once_more().await
    }

    pub(super) async fn once_more(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        tokio::time::sleep(self.wait).await;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        true
    }
}

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
