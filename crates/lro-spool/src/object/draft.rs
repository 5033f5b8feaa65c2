//! Drafts in object storage and the uploads of their pieces.
//!
//! A piece smaller than a part is buffered and sent as one PUT at the commit; of a larger piece, parts
//! are uploaded while it is being written. In both cases no object exists before the commit, and the
//! result becomes visible with the index entry, the last object to be created.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use object_store::path::Path;
use object_store::retry::{RetryContext, RetryPolicy};
use object_store::{MultipartUpload, PutMultipartOptions, PutPayload};
use tokio::task::JoinSet;

use super::Shared;
use super::bucket::{CreateOutcome, RequestFailure, RetryBudget, StoreClient};
use super::digest::BlockDigester;
use super::index::{IndexEntry, MAX_ENTRY_BYTES, StoredEntry};
use super::key::Nonce;
use super::options::ObjectOptions;
use crate::address::{Extension, FileName, MAX_PARTS};
use crate::error::{SpoolError, SpoolLimit};
use crate::sidecar::{FurtherPart, Layout, NewResult, PartNumber, PartRole, Sidecar};
use crate::spool::{Draft, ResultInfo};

/// The most pieces finished concurrently.
const MAX_CONCURRENT_PIECES: usize = 4;
/// How long a dropped draft waits for its uploads to be aborted.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);
/// The most concurrent part uploads of a piece.
const MAX_CONCURRENT_PARTS: usize = 3;

pub(super) struct ObjectDraft {
    shared: Arc<Shared>,
    new: NewResult,
    name: FileName,
    nonce: Nonce,
    /// The data, then the parts.
    pieces: Vec<Upload>,
    roles: Vec<PartRole>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// A write failed, so the data is incomplete.
    Failed,
    /// The index entry may exist, so the bytes must remain.
    MayBeVisible,
}

impl ObjectDraft {
    pub(super) fn begin(shared: Arc<Shared>, new: NewResult) -> Result<Self, SpoolError> {
        let (name, nonce) = (new.name(), Nonce::new());
        let pieces = vec![Upload::new(shared.keys.data(new.id, &nonce, 0))];
        shared.begin_draft(&nonce);
        let (roles, state) = (Vec::new(), State::Open);
        let mut draft = Self { shared, new, name, nonce, pieces, roles, state };
        if draft.new.extension == Extension::Jsonl {
            // Spec F1: line 1 is the header.
            let mut line = serde_json::to_vec(&draft.new.header)
                .map_err(|error| draft.write_error(io::Error::other(error)))?;
            line.push(b'\n');
            draft.append(0, &line)?;
        }
        Ok(draft)
    }

    fn write_error(&self, source: io::Error) -> SpoolError {
        SpoolError::io("write", self.name.to_string(), source)
    }

    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    fn append(&mut self, index: usize, bytes: &[u8]) -> Result<(), SpoolError> {
        let mut appended = self.pieces[index].write(&self.shared.client, bytes);
        if appended.is_ok() && self.bytes() > self.shared.quota.max_bytes {
            appended = Err(SpoolError::Full { limit: SpoolLimit::Bytes });
        }
        if appended.is_err() {
            self.state = State::Failed;
        }
        appended
    }

    /// Completes the objects of all pieces, and returns their block digests.
    async fn finish(&mut self) -> Result<Vec<String>, SpoolError> {
        let client = &self.shared.client;
        let finishing = self.pieces.iter_mut().map(|piece| piece.finish(client));
        let mut finished = stream::iter(finishing).buffered(MAX_CONCURRENT_PIECES);
        let mut digests = Vec::new();
        while let Some(piece) = finished.next().await {
            digests.push(piece?);
        }
        Ok(digests)
    }

    /// Publishes the result by exclusively creating its index entry.
    async fn publish(&mut self, info: &ResultInfo, digests: Vec<String>) -> Result<(), SpoolError> {
        let client = Arc::clone(&self.shared.client);
        let key = self.shared.keys.index(self.new.id);
        let stored = StoredEntry::new(info, self.nonce.clone(), digests);
        let entry = IndexEntry::Stored(Box::new(stored)).seal();
        if entry.len() as u64 > MAX_ENTRY_BYTES {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "the envelope is too large");
            return Err(self.write_error(source));
        }
        // From the first attempt on, the entry may appear, even after a timeout.
        self.state = State::MayBeVisible;
        let unknown = match client.create(&key, &entry).await {
            Ok(CreateOutcome::Created) => return Ok(()),
            Ok(CreateOutcome::Existing(_)) => {
                self.state = State::Failed;
                return Err(SpoolError::Taken { name: self.name.clone() });
            }
            Err(unknown) => unknown,
        };
        // Only another object in its place prevents a request in flight from making the result
        // visible. If that fails too, the bytes remain, so that a visible result is complete, and a
        // sweep decides.
        let void = IndexEntry::Void(self.nonce.clone()).seal();
        match client.create(&key, &void).await {
            Ok(CreateOutcome::Existing(there)) if there == entry => Ok(()),
            Ok(_) => {
                self.state = State::Failed;
                Err(unknown)
            }
            Err(_) => Err(unknown),
        }
    }
}

impl Draft for ObjectDraft {
    fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.append(0, bytes)
    }

    fn add_part(&mut self, role: PartRole) -> Result<PartNumber, SpoolError> {
        let number = u16::try_from(self.pieces.len()).ok().filter(|n| *n <= MAX_PARTS);
        let number = number.ok_or(SpoolError::Full { limit: SpoolLimit::Files })?;
        let key = self.shared.keys.data(self.new.id, &self.nonce, usize::from(number));
        self.pieces.push(Upload::new(key));
        self.roles.push(role);
        Ok(PartNumber(number))
    }

    fn write_part(&mut self, part: PartNumber, bytes: &[u8]) -> Result<(), SpoolError> {
        let index = usize::from(part.0);
        if index == 0 || index >= self.pieces.len() {
            return Err(SpoolError::NotFound {
                asked: format!("part {} of {}", part.0, self.name),
            });
        }
        self.append(index, bytes)
    }

    fn commit(mut self: Box<Self>, layout: Layout) -> Result<ResultInfo, SpoolError> {
        if self.state != State::Open {
            let source = io::Error::other("an earlier write failed");
            return Err(SpoolError::io("commit", self.name.to_string(), source));
        }
        let shared = Arc::clone(&self.shared);
        shared.make_room(&self.nonce, self.bytes(), self.new.created_at)?;
        let parts = self.roles.iter().zip(&self.pieces[1..]);
        let parts = parts.map(|(role, piece)| FurtherPart::new(*role, piece.bytes)).collect();
        let sidecar = Sidecar::new(&self.new, layout, self.pieces[0].bytes, parts);
        let info = ResultInfo::new(self.name.clone(), None, sidecar);
        shared.client.wait(async {
            let digests = self.finish().await?;
            self.publish(&info, digests).await
        })?;
        Ok(info)
    }
}

impl Drop for ObjectDraft {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        let (pieces, nonce) = (std::mem::take(&mut self.pieces), self.nonce.clone());
        if self.state == State::MayBeVisible {
            // The next listing shows whether it is visible.
            shared.usage.settle(&nonce);
            shared.end_draft(&nonce);
            return;
        }
        shared.usage.release(&nonce, None);
        let client = Arc::clone(&shared.client);
        // Continues in the background if it takes longer; a sweep deletes what a dead process
        // leaves.
        let undoing = client.handle().spawn(async move {
            for piece in pieces {
                let _ = piece.undo(&shared.client).await;
            }
            shared.end_draft(&nonce);
        });
        let _ = client.wait(async { tokio::time::timeout(ABORT_TIMEOUT, undoing).await });
    }
}

struct Upload {
    key: Path,
    bytes: u64,
    digests: BlockDigester,
    buffer: Vec<u8>,
    parts: Option<Parts>,
    /// Whether the object may exist.
    may_exist: bool,
}

struct Parts {
    upload: Box<dyn MultipartUpload>,
    in_flight: JoinSet<Result<(), RequestFailure>>,
}

impl Upload {
    fn new(key: Path) -> Self {
        let (digests, buffer) = (BlockDigester::default(), Vec::new());
        Self { key, bytes: 0, digests, buffer, parts: None, may_exist: false }
    }

    /// Buffers bytes and sends full parts.
    fn write(&mut self, client: &StoreClient, mut bytes: &[u8]) -> Result<(), SpoolError> {
        self.digests.feed(bytes);
        self.bytes += bytes.len() as u64;
        let part = client.options.part_bytes;
        while self.buffer.len() + bytes.len() >= part {
            let (now, later) = bytes.split_at(part - self.buffer.len());
            self.buffer.extend_from_slice(now);
            bytes = later;
            let full = std::mem::take(&mut self.buffer);
            client.wait(self.send(client, full))?;
        }
        if self.parts.is_some() {
            // The buffer will be filled, and growing it would copy.
            self.buffer.reserve_exact(part.saturating_sub(self.buffer.len()));
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    async fn send(&mut self, client: &StoreClient, part: Vec<u8>) -> Result<(), SpoolError> {
        if self.parts.is_none() {
            self.parts = Some(begin_multipart(client, &self.key).await?);
        }
        let Some(Parts { upload, in_flight }) = &mut self.parts else { return Ok(()) };
        while in_flight.len() >= MAX_CONCURRENT_PARTS {
            join_part(in_flight, &self.key).await?;
        }
        let sent = upload.put_part(PutPayload::from(part));
        // The client bounds each attempt, and the retry policy their number.
        let limit = client.options.time_limit * (client.options.retries + 2);
        let sent = async move {
            match tokio::time::timeout(limit, sent).await {
                Ok(answer) => answer.map_err(RequestFailure::Store),
                Err(_) => Err(RequestFailure::Timeout),
            }
        };
        in_flight.spawn_on(sent, client.handle());
        Ok(())
    }

    /// Completes the object, and returns its block digests. An empty piece has no object.
    async fn finish(&mut self, client: &StoreClient) -> Result<String, SpoolError> {
        let rest = std::mem::take(&mut self.buffer);
        if self.parts.is_none() {
            if self.bytes > 0 {
                self.may_exist = true;
                client.put(&self.key, rest.into()).await?;
            }
            return Ok(self.digests.finish());
        }
        if !rest.is_empty() {
            self.send(client, rest).await?;
        }
        if let Some(Parts { upload, in_flight }) = &mut self.parts {
            while !in_flight.is_empty() {
                join_part(in_flight, &self.key).await?;
            }
            self.may_exist = true;
            complete(client, &mut **upload, &self.key, self.bytes).await?;
        }
        self.parts = None;
        Ok(self.digests.finish())
    }

    /// Deletes what was uploaded.
    async fn undo(self, client: &StoreClient) -> Result<(), SpoolError> {
        if let Some(Parts { mut upload, mut in_flight }) = self.parts {
            // A part that arrives after the upload was aborted would remain forever.
            in_flight.shutdown().await;
            let mut attempts = client.attempts();
            loop {
                match attempts.attempt(upload.abort()).await {
                    Err(failure) if attempts.should_retry(&failure).await => {}
                    _ => break,
                }
            }
        }
        if self.may_exist { client.delete(&self.key).await } else { Ok(()) }
    }
}

async fn begin_multipart(client: &StoreClient, key: &Path) -> Result<Parts, SpoolError> {
    let mut attempts = client.attempts();
    let policy = Arc::new(BoundedRetry(client.options.clone()));
    loop {
        let options = PutMultipartOptions::default().with_retry_policy(Arc::clone(&policy) as _);
        match attempts.attempt(client.store.put_multipart_opts(key, options)).await {
            Ok(upload) => return Ok(Parts { upload, in_flight: JoinSet::new() }),
            Err(failure) if attempts.should_retry(&failure).await => {}
            Err(failure) => return Err(failure.into_spool_error("write", key)),
        }
    }
}

/// Waits for one part upload.
async fn join_part(
    parts: &mut JoinSet<Result<(), RequestFailure>>,
    key: &Path,
) -> Result<(), SpoolError> {
    match parts.join_next().await {
        None | Some(Ok(Ok(()))) => Ok(()),
        Some(Ok(Err(failure))) => Err(failure.into_spool_error("write", key)),
        Some(Err(error)) => Err(RequestFailure::Store(error.into()).into_spool_error("write", key)),
    }
}

/// Completes a multipart upload. If the first response was lost, a second request reports an
/// unknown upload although the object exists.
async fn complete(
    client: &StoreClient,
    upload: &mut dyn MultipartUpload,
    key: &Path,
    bytes: u64,
) -> Result<(), SpoolError> {
    let mut attempts = client.attempts();
    loop {
        let Err(failure) = attempts.attempt(upload.complete()).await else { return Ok(()) };
        if client.size(key).await? == Some(bytes) {
            return Ok(());
        }
        if !attempts.should_retry(&failure).await {
            return Err(failure.into_spool_error("write", key));
        }
    }
}

/// The retry policy of part uploads: the same number of attempts and waits as for other requests.
#[derive(Debug)]
struct BoundedRetry(ObjectOptions);

impl RetryPolicy for BoundedRetry {
    fn retry<'a, 'b>(
        &'a self,
        context: RetryContext,
    ) -> std::pin::Pin<Box<dyn Future<Output = bool> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let before = u32::try_from(context.attempt).unwrap_or(u32::MAX).saturating_sub(1);
            RetryBudget::with_retries_used(&self.0, before).wait_for_retry().await
        })
    }
}
