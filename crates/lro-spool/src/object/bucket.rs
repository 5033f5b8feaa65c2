//! The object store client: requests with bounded retries.

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload,
};
use tokio::runtime::{Builder, Handle, Runtime};

use super::index::MAX_ENTRY_BYTES;
use super::local_cache::LocalCache;
use super::options::{ObjectOptions, RequestSink};
use crate::error::{Damage, RemoteError, RemoteKind, SpoolError};

/// The longest wait between two attempts.
const MAX_BACKOFF: Duration = Duration::from_millis(400);

/// The most objects in one request to delete: Azure's limit. S3 accepts 1,000.
pub(super) const MAX_DELETED_OBJECTS: usize = 256;

/// An object store with a prefix. Clones share it, its connections and its local directory.
#[derive(Debug, Clone)]
pub struct Bucket(pub(super) Arc<StoreClient>);

pub(super) struct StoreClient {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) prefix: Path,
    pub(super) options: ObjectOptions,
    pub(super) local: Arc<LocalCache>,
    /// Drives the requests. Two threads, so that verifying one block does not delay all other
    /// requests.
    runtime: Option<Runtime>,
}

/// The result of an exclusive creation.
#[derive(Debug)]
pub(super) enum CreateOutcome {
    Created,
    /// Another process created the object, with this content.
    Existing(Bytes),
}

/// Objects that could not be deleted, and why.
#[derive(Debug)]
pub(super) struct Undeleted {
    pub(super) keys: BTreeSet<Path>,
    pub(super) error: SpoolError,
}

impl Bucket {
    /// Uses the objects below `prefix`. The store must support conditional creation
    /// (`If-None-Match`) and be strongly consistent. Sends no request.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        options: ObjectOptions,
    ) -> Result<Self, SpoolError> {
        let prefix = Path::parse(prefix).map_err(|error| {
            RequestFailure::Store(error.into()).into_spool_error("use the prefix", prefix)
        })?;
        let local = LocalCache::open(&options)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("object-storage")
            .enable_all()
            .build()
            .map_err(|error| SpoolError::io("start threads for", &options.local_dir, error))?;
        let runtime = Some(runtime);
        Ok(Self(Arc::new(StoreClient { store, prefix, options, local, runtime })))
    }

    /// Drops the local copies of results that were not used since the last call. Call it periodically:
    /// copies of results that other processes deleted remain otherwise until their space is needed.
    pub fn drop_unused_copies(&self) {
        self.0.local.drop_unused();
    }
}

impl StoreClient {
    pub(super) fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("there until it is dropped").handle()
    }

    /// Blocks the calling thread on `future`.
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        let _inside = self.handle().enter();
        // `Runtime::block_on` panics on a thread of another runtime. There, a cooperative budget
        // would also be consumed and never refilled.
        pollster::block_on(tokio::task::unconstrained(future))
    }

    pub(super) fn attempts(&self) -> RetryBudget {
        RetryBudget::new(&self.options)
    }

    /// Reads an object of at most `cap` bytes; `None` if there is none.
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
                Ok(Some(_)) => RequestFailure::Truncated,
                Ok(None) => {
                    let (name, why) = (key.to_string(), Damage::Changed);
                    return Err(SpoolError::Damaged { name, why });
                }
                Err(failure) if failure.is_missing() => return Ok(None),
                Err(failure) => failure,
            };
            if !attempts.should_retry(&failure).await {
                return Err(failure.into_spool_error("read", key));
            }
        }
    }

    /// Reads exactly this range of an object, in one attempt.
    pub(super) async fn range(
        &self,
        attempts: &RetryBudget,
        key: &Path,
        range: Range<u64>,
    ) -> Result<Bytes, RequestFailure> {
        let asked = range.end - range.start;
        let options =
            GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
        let bytes = attempts
            .attempt(async {
                let got = self.store.get_opts(key, options).await?;
                // Another range is not accepted: it may be of any length.
                if got.range == range { got.bytes().await } else { Ok(Bytes::new()) }
            })
            .await?;
        if bytes.len() as u64 == asked { Ok(bytes) } else { Err(RequestFailure::Truncated) }
    }

    /// Writes an object that no other process writes.
    pub(super) async fn put(&self, key: &Path, payload: PutPayload) -> Result<(), SpoolError> {
        let mut attempts = self.attempts();
        loop {
            let put = self.store.put_opts(key, payload.clone(), PutOptions::default());
            match attempts.attempt(put).await {
                Ok(_) => return Ok(()),
                Err(failure) if attempts.should_retry(&failure).await => {}
                Err(failure) => return Err(failure.into_spool_error("write", key)),
            }
        }
    }

    /// Creates an object unless it exists. If a response was lost, the content of the object tells
    /// who created it, since no two entries are equal.
    ///
    /// An error means that the outcome is unknown: the object may exist, or appear later.
    pub(super) async fn create(
        &self,
        key: &Path,
        bytes: &Bytes,
    ) -> Result<CreateOutcome, SpoolError> {
        let mut attempts = self.attempts();
        loop {
            let options = PutOptions::from(PutMode::Create);
            let put = self.store.put_opts(key, bytes.clone().into(), options);
            let Err(failure) = attempts.attempt(put).await else {
                return Ok(CreateOutcome::Created);
            };
            // A conflict without an object: it was deleted meanwhile, or two concurrent creations
            // both failed.
            let is_conflict = failure.is_conflict();
            if !is_conflict && attempts.should_retry(&failure).await {
                continue;
            }
            match self.get(key, MAX_ENTRY_BYTES).await {
                Ok(Some(there)) if there == *bytes => return Ok(CreateOutcome::Created),
                Ok(Some(there)) => return Ok(CreateOutcome::Existing(there)),
                Err(SpoolError::Damaged { .. }) => {
                    return Ok(CreateOutcome::Existing(Bytes::new()));
                }
                Ok(None) if is_conflict && attempts.wait_for_retry().await => {}
                Ok(None) | Err(_) => return Err(failure.into_spool_error("create", key)),
            }
        }
    }

    /// Deletes an object, existing or not.
    pub(super) async fn delete(&self, key: &Path) -> Result<(), SpoolError> {
        let mut attempts = self.attempts();
        loop {
            match attempts.attempt(self.store.delete(key)).await {
                Ok(()) => return Ok(()),
                Err(failure) if failure.is_missing() => return Ok(()),
                Err(failure) if attempts.should_retry(&failure).await => {}
                Err(failure) => return Err(failure.into_spool_error("remove", key)),
            }
        }
    }

    /// Deletes objects, existing or not, with as few requests as the store allows. Returns those that may
    /// still exist.
    pub(super) async fn delete_all(&self, keys: &[Path]) -> Vec<Undeleted> {
        let mut undeleted = Vec::new();
        for batch in keys.chunks(MAX_DELETED_OBJECTS) {
            let mut left: BTreeSet<Path> = batch.iter().cloned().collect();
            let mut attempts = self.attempts();
            loop {
                let outcome = attempts.attempt(self.delete_once(&left)).await;
                let failure = match outcome {
                    Ok((deleted, failure)) => {
                        left.retain(|key| !deleted.contains(key));
                        failure.map_or(RequestFailure::Truncated, RequestFailure::Store)
                    }
                    Err(failure) => failure,
                };
                let Some(first) = left.first().cloned() else { break };
                if !attempts.should_retry(&failure).await {
                    let error = failure.into_spool_error("remove", first);
                    undeleted.push(Undeleted { keys: left, error });
                    break;
                }
            }
        }
        undeleted
    }

    /// Makes one attempt: what was deleted, and the first failure. An error if nothing was deleted.
    async fn delete_once(
        &self,
        keys: &BTreeSet<Path>,
    ) -> object_store::Result<(BTreeSet<Path>, Option<Error>)> {
        let all: Vec<Path> = keys.iter().cloned().collect();
        let locations = stream::iter(all.clone()).map(Ok::<_, Error>).boxed();
        let answers: Vec<object_store::Result<Path>> =
            self.store.delete_stream(locations).collect().await;
        // A request that fails as a whole has one error for all of its objects.
        let is_per_object = answers.len() == all.len();
        let mut deleted = BTreeSet::new();
        let mut failure: Option<Error> = None;
        for (n, answer) in answers.into_iter().enumerate() {
            match (answer, all.get(n)) {
                (Ok(key), _) => {
                    deleted.insert(key);
                }
                (Err(Error::NotFound { .. }), Some(key)) if is_per_object => {
                    deleted.insert(key.clone());
                }
                (Err(error), _) => {
                    failure.get_or_insert(error);
                }
            }
        }
        match failure {
            Some(error) if deleted.is_empty() => Err(error),
            failure => Ok((deleted, failure)),
        }
    }

    /// The size of an object; `None` if there is none.
    pub(super) async fn size(&self, key: &Path) -> Result<Option<u64>, SpoolError> {
        let mut attempts = self.attempts();
        loop {
            match attempts.attempt(self.store.head(key)).await {
                Ok(meta) => return Ok(Some(meta.size)),
                Err(failure) if failure.is_missing() => return Ok(None),
                Err(failure) if attempts.should_retry(&failure).await => {}
                Err(failure) => return Err(failure.into_spool_error("look at", key)),
            }
        }
    }

    /// Lists all objects below this prefix.
    pub(super) async fn list(&self, prefix: &Path) -> Result<Vec<ObjectMeta>, SpoolError> {
        self.list_some(prefix, usize::MAX).await
    }

    /// Lists at most `limit` objects below this prefix. A failed listing restarts from the beginning,
    /// because not every store lists in an order that allows resuming.
    pub(super) async fn list_some(
        &self,
        prefix: &Path,
        limit: usize,
    ) -> Result<Vec<ObjectMeta>, SpoolError> {
        let mut attempts = self.attempts();
        loop {
            let (mut list, mut some) = (self.store.list(Some(prefix)), Vec::new());
            let failure = loop {
                if some.len() >= limit {
                    return Ok(some);
                }
                match attempts.attempt(list.try_next()).await {
                    Ok(Some(meta)) => some.push(meta),
                    Ok(None) => return Ok(some),
                    Err(failure) => break failure,
                }
            };
            if !attempts.should_retry(&failure).await {
                return Err(failure.into_spool_error("list", prefix));
            }
        }
    }
}

impl Drop for StoreClient {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its threads would panic on a thread of another runtime.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for StoreClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Why one attempt at a request failed.
#[derive(Debug)]
pub(super) enum RequestFailure {
    /// It timed out.
    Timeout,
    /// The response was shorter than requested.
    Truncated,
    /// The store returned an error.
    Store(Error),
    /// The client library panicked, for example on credentials that no header can carry.
    Panicked,
}

impl RequestFailure {
    fn is_final(&self) -> bool {
        match self {
            Self::Timeout | Self::Truncated => false,
            Self::Store(error) => !matches!(error, Error::Generic { .. } | Error::JoinError { .. }),
            Self::Panicked => true,
        }
    }

    /// Why the store did not do its work, in words without addresses and names; `None` if it answered.
    fn outage(&self) -> Option<&'static str> {
        match self {
            Self::Timeout => Some("request timed out"),
            Self::Truncated => Some("incomplete response"),
            Self::Panicked => Some("the client library panicked"),
            Self::Store(Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) => {
                Some("access denied")
            }
            Self::Store(Error::Generic { .. } | Error::JoinError { .. }) => {
                Some("cannot be reached, or failed")
            }
            Self::Store(_) => None,
        }
    }

    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Store(Error::NotFound { .. }))
    }

    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Store(Error::AlreadyExists { .. } | Error::Precondition { .. }))
    }

    /// Converts the failure for the caller.
    pub(super) fn into_spool_error(
        self,
        op: &'static str,
        key: impl std::fmt::Display,
    ) -> SpoolError {
        let (kind, text) = match &self {
            Self::Timeout => (RemoteKind::Time, String::new()),
            Self::Truncated => (RemoteKind::Failed, "incomplete response".to_owned()),
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

/// The remaining attempts at one request, each with a time limit.
pub(super) struct RetryBudget {
    limit: Duration,
    left: u32,
    wait: Duration,
    requests: Option<RequestSink>,
}

impl RetryBudget {
    pub(super) fn new(options: &ObjectOptions) -> Self {
        Self {
            limit: options.time_limit,
            left: options.retries,
            wait: options.backoff,
            requests: options.requests.clone(),
        }
    }

    /// A budget of which `before` retries are already used.
    pub(super) fn with_retries_used(options: &ObjectOptions, before: u32) -> Self {
        let new = Self::new(options);
        let wait = new.wait.saturating_mul(2u32.saturating_pow(before)).min(MAX_BACKOFF);
        Self { left: new.left.saturating_sub(before), wait, ..new }
    }

    /// Makes one attempt.
    pub(super) async fn attempt<T>(
        &self,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, RequestFailure> {
        let began = Instant::now();
        let caught = AssertUnwindSafe(request).catch_unwind();
        let answer = match tokio::time::timeout(self.limit, caught).await {
            Ok(Ok(answer)) => answer.map_err(RequestFailure::Store),
            Ok(Err(_)) => Err(RequestFailure::Panicked),
            Err(_) => Err(RequestFailure::Timeout),
        };
        if let Some(sink) = &self.requests {
            let failure = answer.as_ref().err().and_then(RequestFailure::outage);
            sink.report(failure.map_or(Ok(()), Err), began.elapsed());
        }
        answer
    }

    /// Whether to retry after `failure`; waits first.
    pub(super) async fn should_retry(&mut self, failure: &RequestFailure) -> bool {
        !failure.is_final() && self.wait_for_retry().await
    }

    pub(super) async fn wait_for_retry(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        tokio::time::sleep(self.wait).await;
        self.wait = (self.wait * 2).min(MAX_BACKOFF);
        true
    }
}
