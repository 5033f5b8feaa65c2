//! Draft: a result on its way into object storage, visible by the last of its objects.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use lro_core::records::Envelope;

use super::Shared;
use super::bucket::Created;
use super::index_entry::{ENTRY_CAP, Entry, Stored};
use super::key::Nonce;
use super::upload::Upload;
use crate::error::{Limit, SpoolError};
use crate::name::{Extension, FileName, PART_CAP};
use crate::sidecar::{FurtherPart, PartRole, Sidecar, StoredForm};
use crate::spool::{Draft, Listed, NewResult, PartNumber};

/// How many pieces are finished at the same time.
const TOGETHER: usize = 4;
/// How long a draft that is given up waits for what it sent to be taken back.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);

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
        let mut finished = stream::iter(finishing).buffered(TOGETHER);
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
