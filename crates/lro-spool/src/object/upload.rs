//! Upload: one piece of a draft on its way into the store.
//!
//! Up to the size of a part it waits in memory and goes as one PUT at the commit; beyond that, parts
//! go while the rest still comes. Either way there is no object before the commit.

use std::sync::Arc;

use object_store::path::Path;
use object_store::retry::{RetryContext, RetryPolicy};
use object_store::{MultipartUpload, PutMultipartOptions, PutPayload};
use tokio::task::JoinSet;

use super::block_digests::Digests;
use super::bucket::Remote;
use super::failure::{Attempts, Failure};
use super::options::ObjectOptions;
use crate::error::SpoolError;

/// How many parts of a piece are under way at a time.
const TOGETHER: usize = 3;

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
        while under_way.len() >= TOGETHER {
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
