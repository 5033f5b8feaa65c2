//! Drafts in object storage and the uploads of their pieces.
//!
//! A piece smaller than a part is buffered and sent as one PUT at the commit; of a larger piece, parts
//! are uploaded while it is being written. In both cases no object exists before the commit, and the
//! result becomes visible with the index entry, the last object to be created.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use lro_core::records::Envelope;
use object_store::path::Path;
use object_store::retry::{RetryContext, RetryPolicy};
use object_store::{MultipartUpload, PutMultipartOptions, PutPayload};
use tokio::task::JoinSet;

use super::Shared;
use super::blocks::Digests;
use super::bucket::{Attempts, Created, Failure, ObjectOptions, Remote};
use super::index::{ENTRY_CAP, Entry, Stored};
use super::key::Nonce;
use crate::address::{Extension, FileName, PART_CAP};
use crate::error::{Limit, SpoolError};
use crate::sidecar::{FurtherPart, PartRole, Sidecar, StoredForm};
use crate::spool::{Draft, Listed, NewResult, PartNumber};

/// How many pieces are finished at the same time.
const MAX_CONCURRENT_PIECES: usize = 4;
/// How long a draft that is given up waits for what it sent to be taken back.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);
/// How many parts of a piece are under way at a time.
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
    /// A write failed, so the bytes are not all there.
    Failed,
    /// What was sent stays: it is a result, or may become one yet.
    Kept,
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
                .map_err(|error| draft.refused(io::Error::other(error)))?;
            line.push(b'\n');
            draft.append(0, &line)?;
        }
        Ok(draft)
    }

    fn refused(&self, source: io::Error) -> SpoolError {
        SpoolError::io("write", self.name.to_string(), source)
    }

    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    fn append(&mut self, index: usize, bytes: &[u8]) -> Result<(), SpoolError> {
        let mut appended = self.pieces[index].write(&self.shared.remote, bytes);
        if appended.is_ok() && self.bytes() > self.shared.quota.max_bytes {
            appended = Err(SpoolError::Full { limit: Limit::Bytes });
        }
        if appended.is_err() {
            self.state = State::Failed;
        }
        appended
    }

    /// Makes the objects of all pieces; what their blocks are.
    async fn finish(&mut self) -> Result<Vec<String>, SpoolError> {
        let remote = &self.shared.remote;
        let finishing = self.pieces.iter_mut().map(|piece| piece.finish(remote));
        let mut finished = stream::iter(finishing).buffered(MAX_CONCURRENT_PIECES);
        let mut digests = Vec::new();
        while let Some(piece) = finished.next().await {
            digests.push(piece?);
        }
        Ok(digests)
    }

    /// Makes the result visible, by the one object that only one may create.
    async fn show(&mut self, listed: &Listed, digests: Vec<String>) -> Result<(), SpoolError> {
        let remote = Arc::clone(&self.shared.remote);
        let key = self.shared.keys.index(self.new.id);
        let stored = Stored::new(listed, self.nonce.clone(), digests);
        let entry = Entry::Stored(Box::new(stored)).seal();
        if entry.len() as u64 > ENTRY_CAP {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "the envelope is too large");
            return Err(self.refused(source));
        }
        // From the first attempt on it may become visible, even after it was given up.
        self.state = State::Kept;
        let unknown = match remote.create(&key, &entry).await {
            Ok(Created::ByUs) => return Ok(()),
            Ok(Created::ByOthers(_)) => {
                self.state = State::Failed;
                return Err(SpoolError::Taken { name: self.name.clone() });
            }
            Err(unknown) => unknown,
        };
        // Only another object in its place keeps a request that is still under way from making it
        // visible. Where even that fails the bytes stay, so that what becomes visible is whole, and
        // a sweep decides.
        let void = Entry::Void(self.nonce.clone()).seal();
        match remote.create(&key, &void).await {
            Ok(Created::ByOthers(there)) if there == entry => Ok(()),
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
        let number = u16::try_from(self.pieces.len()).ok().filter(|n| *n <= PART_CAP);
        let number = number.ok_or(SpoolError::Full { limit: Limit::Files })?;
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

    fn commit(
        mut self: Box<Self>,
        form: StoredForm,
        envelope: Option<Envelope>,
    ) -> Result<Listed, SpoolError> {
        if self.state != State::Open {
            let source = io::Error::other("an earlier write failed");
            return Err(SpoolError::io("commit", self.name.to_string(), source));
        }
        let shared = Arc::clone(&self.shared);
        shared.make_room(&self.nonce, self.bytes(), self.new.created_at)?;
        let parts = self.roles.iter().zip(&self.pieces[1..]);
        let parts = parts.map(|(role, piece)| FurtherPart::new(*role, piece.bytes)).collect();
        let sidecar = Sidecar::new(&self.new, form, envelope, self.pieces[0].bytes, parts);
        let listed = Listed::new(self.name.clone(), None, sidecar);
        shared.remote.wait(async {
            let digests = self.finish().await?;
            self.show(&listed, digests).await
        })?;
        Ok(listed)
    }
}

impl Drop for ObjectDraft {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        let (pieces, nonce) = (std::mem::take(&mut self.pieces), self.nonce.clone());
        if self.state == State::Kept {
            // Visible or not, the next listing knows.
            shared.usage.settle(&nonce);
            shared.end_draft(&nonce);
            return;
        }
        shared.usage.release(&nonce, None);
        let remote = Arc::clone(&shared.remote);
        // Goes on behind us where it takes longer; what a dead process leaves is the sweeper's.
        let undoing = remote.handle().spawn(async move {
            for piece in pieces {
                let _ = piece.undo(&shared.remote).await;
            }
            shared.end_draft(&nonce);
        });
        let _ = remote.wait(async { tokio::time::timeout(ABORT_TIMEOUT, undoing).await });
    }
}

pub(super) struct Upload {
    pub(super) key: Path,
    pub(super) bytes: u64,
    digests: Digests,
    buffer: Vec<u8>,
    parts: Option<Parts>,
    /// Whether there may be an object.
    begun: bool,
}

struct Parts {
    upload: Box<dyn MultipartUpload>,
    under_way: JoinSet<Result<(), Failure>>,
}

impl Upload {
    pub(super) fn new(key: Path) -> Self {
        let (digests, buffer) = (Digests::default(), Vec::new());
        Self { key, bytes: 0, digests, buffer, parts: None, begun: false }
    }

    /// Takes over bytes; whole parts are sent.
    pub(super) fn write(&mut self, remote: &Remote, mut bytes: &[u8]) -> Result<(), SpoolError> {
        self.digests.feed(bytes);
        self.bytes += bytes.len() as u64;
        let part = remote.options.part_bytes;
        while self.buffer.len() + bytes.len() >= part {
            let (now, later) = bytes.split_at(part - self.buffer.len());
            self.buffer.extend_from_slice(now);
            bytes = later;
            let full = std::mem::take(&mut self.buffer);
            remote.wait(self.send(remote, full))?;
        }
        if self.parts.is_some() {
            // It will be filled; growing it would copy.
            self.buffer.reserve_exact(part.saturating_sub(self.buffer.len()));
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    async fn send(&mut self, remote: &Remote, part: Vec<u8>) -> Result<(), SpoolError> {
        if self.parts.is_none() {
            self.parts = Some(begin(remote, &self.key).await?);
        }
        let Some(Parts { upload, under_way }) = &mut self.parts else { return Ok(()) };
        while under_way.len() >= MAX_CONCURRENT_PARTS {
            joined(under_way, &self.key).await?;
        }
        let sent = upload.put_part(PutPayload::from(part));
        // Each attempt at it is bounded by the client, and their number by the policy.
        let limit = remote.options.time_limit * (remote.options.retries + 2);
        let sent = async move {
            match tokio::time::timeout(limit, sent).await {
                Ok(answer) => answer.map_err(Failure::Store),
                Err(_) => Err(Failure::Time),
            }
        };
        under_way.spawn_on(sent, remote.handle());
        Ok(())
    }

    /// Makes the object, and says what its blocks are. A piece without bytes has none.
    pub(super) async fn finish(&mut self, remote: &Remote) -> Result<String, SpoolError> {
        let rest = std::mem::take(&mut self.buffer);
        if self.parts.is_none() {
            if self.bytes > 0 {
                self.begun = true;
                remote.put(&self.key, rest.into()).await?;
            }
            return Ok(self.digests.finish());
        }
        if !rest.is_empty() {
            self.send(remote, rest).await?;
        }
        if let Some(Parts { upload, under_way }) = &mut self.parts {
            while !under_way.is_empty() {
                joined(under_way, &self.key).await?;
            }
            self.begun = true;
            complete(remote, &mut **upload, &self.key, self.bytes).await?;
        }
        self.parts = None;
        Ok(self.digests.finish())
    }

    /// Takes back what was sent.
    pub(super) async fn undo(self, remote: &Remote) -> Result<(), SpoolError> {
        if let Some(Parts { mut upload, mut under_way }) = self.parts {
            // A part that arrives after the end of its upload would stay for ever.
            under_way.shutdown().await;
            let mut attempts = remote.attempts();
            loop {
                match attempts.attempt(upload.abort()).await {
                    Err(failure) if attempts.again(&failure).await => {}
                    _ => break,
                }
            }
        }
        if self.begun { remote.delete(&self.key).await } else { Ok(()) }
    }
}

async fn begin(remote: &Remote, key: &Path) -> Result<Parts, SpoolError> {
    let mut attempts = remote.attempts();
    let policy = Arc::new(Bounded(remote.options.clone()));
    loop {
        let options = PutMultipartOptions::default().with_retry_policy(Arc::clone(&policy) as _);
        match attempts.attempt(remote.store.put_multipart_opts(key, options)).await {
            Ok(upload) => return Ok(Parts { upload, under_way: JoinSet::new() }),
            Err(failure) if attempts.again(&failure).await => {}
            Err(failure) => return Err(failure.doing("write", key)),
        }
    }
}

/// Waits for one part.
async fn joined(parts: &mut JoinSet<Result<(), Failure>>, key: &Path) -> Result<(), SpoolError> {
    match parts.join_next().await {
        None | Some(Ok(Ok(()))) => Ok(()),
        Some(Ok(Err(failure))) => Err(failure.doing("write", key)),
        Some(Err(error)) => Err(Failure::Store(error.into()).doing("write", key)),
    }
}

/// Makes an object of the parts. A second request finds no upload where the first one's answer got
/// lost; then the object is there.
async fn complete(
    remote: &Remote,
    upload: &mut dyn MultipartUpload,
    key: &Path,
    bytes: u64,
) -> Result<(), SpoolError> {
    let mut attempts = remote.attempts();
    loop {
        let Err(failure) = attempts.attempt(upload.complete()).await else { return Ok(()) };
        if remote.size(key).await? == Some(bytes) {
            return Ok(());
        }
        if !attempts.again(&failure).await {
            return Err(failure.doing("write", key));
        }
    }
}

/// The same number of attempts and the same waits as for any other request.
#[derive(Debug)]
struct Bounded(ObjectOptions);

impl RetryPolicy for Bounded {
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
            Attempts::after(&self.0, before).once_more().await
        })
    }
}
