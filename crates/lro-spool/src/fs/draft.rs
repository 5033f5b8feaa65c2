//! Results and scratch files while they are being written.
//!
//! A draft is written under hidden names, synced, and then renamed; the data file is renamed last. A
//! scratch file has no name at all.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, thread};

use lro_core::{Operation, ResultId};

use super::Shared;
use super::checked_dir::{LockOutcome, MAX_HEADER_BYTES, MAX_SIDECAR_BYTES};
use super::os::{Lock, Os, retry_interrupted};
use super::usage_log::PendingOp;
use crate::address::{Extension, FileName, MAX_PARTS, ResultFile};
use crate::error::{SpoolError, SpoolLimit};
use crate::sidecar::{FurtherPart, Layout, NewResult, PartNumber, PartRole, Sidecar};
use crate::spool::{Draft, PositionedRead, ResultInfo, Scratch};

/// The number of bytes between two quota checks.
const QUOTA_CHECK_BYTES: u64 = 64 << 20;
/// The number of bytes after which the kernel is asked to begin writeback.
const SYNC_AHEAD_BYTES: u64 = 4 << 20;
/// The most files synced at the same time.
const MAX_CONCURRENT_SYNCS: usize = 8;
/// The most attempts to lock a new file before a sweeper deletes it.
const MAX_CREATE_ATTEMPTS: usize = 16;
/// Scratch files are readable only by their owner, whatever the sharing of results.
const SCRATCH_MODE: u32 = 0o600;
/// The number of bytes between two checks of the free space.
const FREE_SPACE_CHECK_BYTES: u64 = 64 << 20;
/// The most names tried where the system has no unnamed files.
const MAX_NAME_ATTEMPTS: usize = 16;

pub(super) struct DirDraft {
    shared: Arc<Shared>,
    new: NewResult,
    name: FileName,
    /// The data, then the parts, then the sidecar: the order in which a failed draft deletes them.
    files: Vec<PieceFile>,
    roles: Vec<PartRole>,
    unchecked: u64,
    /// The number of bytes recorded in the usage log.
    claimed: u64,
    committed: bool,
    /// A write failed, so the data is incomplete.
    failed: bool,
}

struct PieceFile {
    piece: ResultFile,
    file: OwnedFd,
    bytes: u64,
    /// The offset up to which writeback was requested.
    synced_to: u64,
    stage: Stage,
    adopted: Option<Adopted>,
}

/// A file that another writer wrote under its own name.
struct Adopted {
    name: String,
    /// The empty draft in its place.
    _placeholder: OwnedFd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Under its draft name.
    Draft,
    /// Under its final name.
    Published,
}

impl DirDraft {
    pub(super) fn begin(shared: Arc<Shared>, new: NewResult) -> Result<Self, SpoolError> {
        let name = new.name();
        if shared.free()? < shared.options.quota.min_free_bytes {
            shared.make_room(new.created_at)?;
        }
        let (files, roles) = (Vec::new(), Vec::new());
        let mut draft = Self {
            shared,
            new,
            name,
            files,
            roles,
            unchecked: 0,
            claimed: 0,
            committed: false,
            failed: false,
        };
        // Logged before the first file exists, so that a dead writer is detected.
        if let Some(usage_log) = &draft.shared.usage_log {
            let pending = PendingOp::new(&draft.name, draft.shared.options.scope);
            usage_log.begin(&pending, draft.expires_at());
        }
        draft.add(ResultFile::Data)?;
        if draft.new.extension == Extension::Jsonl {
            // Spec F1: line 1 is the header.
            let mut line = json(&draft.new.header);
            line.push(b'\n');
            let line = draft.check_len(ResultFile::Data, line, MAX_HEADER_BYTES)?;
            draft.append(0, &line)?;
        }
        Ok(draft)
    }

    /// When the result expires, in milliseconds.
    fn expires_at(&self) -> i64 {
        let ttl = i64::try_from(self.new.ttl.as_millis()).unwrap_or(i64::MAX);
        self.new.created_at.timestamp_millis().saturating_add(ttl)
    }

    /// Records what was written since the last claim, and makes room for it.
    fn claim(&mut self, files: u64) -> Result<(), SpoolError> {
        let written: u64 = self.files.iter().map(|file| file.bytes).sum();
        if let Some(usage_log) = &self.shared.usage_log {
            usage_log.claim(&self.new.id.to_string(), written - self.claimed, files);
            self.claimed = written;
        }
        self.shared.make_room(self.new.created_at)
    }

    /// Creates a file exclusively, and locks it so that no sweeper takes it for a leftover.
    fn add(&mut self, piece: ResultFile) -> Result<(), SpoolError> {
        let (folder, mode) = (&self.shared.folder, self.shared.options.file_mode());
        let draft = piece.draft_name(&self.name);
        let io = |op, error| SpoolError::io(op, folder.at(&draft), error);
        for _ in 0..MAX_CREATE_ATTEMPTS {
            let file = retry_interrupted(|| folder.os.create(folder.fd.as_fd(), &draft, mode))
                .map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => SpoolError::Taken { name: self.name.clone() },
                    _ => io("create", error),
                })?;
            // From here on, dropping the draft deletes the file.
            self.files.push(PieceFile {
                piece,
                file,
                bytes: 0,
                synced_to: 0,
                stage: Stage::Draft,
                adopted: None,
            });
            let file = &self.files[self.files.len() - 1].file;
            if folder.lock_file(file, &draft, Lock::Exclusive)? == LockOutcome::Acquired {
                // The umask may have reduced the mode.
                return retry_interrupted(|| folder.os.set_mode(file.as_fd(), mode))
                    .map_err(|error| io("set permissions of", error));
            }
            self.files.pop();
        }
        Err(io("lock", io::Error::from(io::ErrorKind::WouldBlock)))
    }

    /// Takes a locked file of the same directory as the data (0) or as a part, without a copy. The file
    /// keeps its name, and its owner deletes it, until it is published.
    pub(super) fn adopt(
        &mut self,
        index: usize,
        name: String,
        file: OwnedFd,
        bytes: u64,
    ) -> Result<(), SpoolError> {
        let (folder, mode) = (&self.shared.folder, self.shared.options.file_mode());
        retry_interrupted(|| folder.os.set_mode(file.as_fd(), mode))
            .map_err(|error| SpoolError::io("set permissions of", folder.at(&name), error))?;
        let place = &mut self.files[index];
        // The empty draft stays, locked: it shows other processes that this writer is alive.
        let placeholder = std::mem::replace(&mut place.file, file);
        place.adopted = Some(Adopted { name, _placeholder: placeholder });
        (place.bytes, place.synced_to) = (bytes, bytes);
        if self.files.iter().map(|f| f.bytes).sum::<u64>() > self.shared.options.quota.max_bytes {
            return Err(SpoolError::Full { limit: SpoolLimit::Bytes });
        }
        Ok(())
    }

    fn append(&mut self, index: usize, bytes: &[u8]) -> Result<(), SpoolError> {
        let appended = self.try_append(index, bytes);
        self.failed |= appended.is_err();
        appended
    }

    fn try_append(&mut self, index: usize, mut bytes: &[u8]) -> Result<(), SpoolError> {
        let shared = &self.shared;
        let PieceFile { piece, file, bytes: total, synced_to, .. } = &mut self.files[index];
        while !bytes.is_empty() {
            let written = retry_interrupted(|| shared.options.os.write(file.as_fd(), bytes))
                .and_then(|n| if n == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(n) })
                .map_err(|e| {
                    SpoolError::io("write", shared.folder.at(&piece.file_name(&self.name)), e)
                })?;
            bytes = &bytes[written..];
            *total += written as u64;
            self.unchecked += written as u64;
        }
        if *total - *synced_to >= SYNC_AHEAD_BYTES {
            // Otherwise the disk would idle until the last byte, and the commit would wait for all
            // of them. Only a hint: the commit syncs in any case.
            let _ = shared.options.os.begin_sync(file.as_fd(), *synced_to);
            *synced_to = *total;
        }
        if self.files.iter().map(|f| f.bytes).sum::<u64>() > shared.options.quota.max_bytes {
            return Err(SpoolError::Full { limit: SpoolLimit::Bytes });
        }
        if self.unchecked >= QUOTA_CHECK_BYTES {
            self.unchecked = 0;
            self.claim(0)?;
        }
        Ok(())
    }

    /// Fails if the bytes would be too long to be read back.
    fn check_len(
        &self,
        piece: ResultFile,
        bytes: Vec<u8>,
        cap: usize,
    ) -> Result<Vec<u8>, SpoolError> {
        if bytes.len() < cap {
            return Ok(bytes);
        }
        let source = io::Error::new(io::ErrorKind::InvalidInput, "header or envelope too large");
        Err(SpoolError::io("write", self.shared.folder.at(&piece.file_name(&self.name)), source))
    }

    /// Syncs all files, then renames them: the data last, so that it is never visible without its
    /// sidecar.
    ///
    /// Adopted files come just before the data. Until then a killed process leaves them under the names
    /// of their owners; after that, the next start renames the data, see `complete_results`.
    fn publish(&mut self) -> Result<(), SpoolError> {
        for batch in self.files.chunks(MAX_CONCURRENT_SYNCS) {
            sync_together(&*self.shared.folder.os, batch)
                .map_err(|(piece, e)| self.publish_error("sync", piece, e))?;
        }
        let (adopted, own): (Vec<usize>, Vec<usize>) =
            (1..self.files.len()).rev().partition(|index| self.files[*index].adopted.is_some());
        for index in own {
            self.publish_file(index)?;
        }
        // Other writers count the name of the sidecar and the line in the usage log: of several
        // concurrent writers, the last one to record its claim sees the sizes of all others.
        self.claim(1)?;
        for index in adopted.into_iter().chain([0]) {
            self.publish_file(index)?;
        }
        let folder = &self.shared.folder;
        for file in self.files.iter().filter(|file| file.adopted.is_some()) {
            let draft = file.piece.draft_name(&self.name);
            // What remains after a failure is an empty leftover.
            let _ = retry_interrupted(|| folder.os.unlink(folder.fd.as_fd(), &draft));
        }
        retry_interrupted(|| folder.os.sync_dir(folder.fd.as_fd()))
            .map_err(|e| self.publish_error("sync", ResultFile::Data, e))
    }

    /// Gives a file its final name. The draft in the place of an adopted file stays until the data has
    /// its name as well: it shows that the file was adopted.
    fn publish_file(&mut self, index: usize) -> Result<(), SpoolError> {
        let folder = &self.shared.folder;
        let PieceFile { piece, adopted, .. } = &self.files[index];
        let (draft, to) = (piece.draft_name(&self.name), piece.file_name(&self.name));
        let from = adopted.as_ref().map_or(&draft, |adopted| &adopted.name);
        retry_interrupted(|| folder.os.rename(folder.fd.as_fd(), from, &to))
            .map_err(|e| self.publish_error("rename", *piece, e))?;
        self.files[index].stage = Stage::Published;
        Ok(())
    }

    fn publish_error(&self, op: &'static str, piece: ResultFile, error: io::Error) -> SpoolError {
        match error.kind() {
            io::ErrorKind::AlreadyExists => SpoolError::Taken { name: self.name.clone() },
            _ => SpoolError::io(op, self.shared.folder.at(&piece.file_name(&self.name)), error),
        }
    }
}

impl Draft for DirDraft {
    fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.append(0, bytes)
    }

    fn add_part(&mut self, role: PartRole) -> Result<PartNumber, SpoolError> {
        let number = u16::try_from(self.files.len()).ok().filter(|n| *n <= MAX_PARTS);
        let number = number.ok_or(SpoolError::Full { limit: SpoolLimit::Files })?;
        self.add(ResultFile::Part(number))?;
        self.roles.push(role);
        Ok(PartNumber(number))
    }

    fn write_part(&mut self, part: PartNumber, bytes: &[u8]) -> Result<(), SpoolError> {
        let index = usize::from(part.0);
        if index == 0 || index >= self.files.len() {
            return Err(SpoolError::NotFound {
                asked: ResultFile::Part(part.0).file_name(&self.name),
            });
        }
        self.append(index, bytes)
    }

    fn commit(mut self: Box<Self>, layout: Layout) -> Result<ResultInfo, SpoolError> {
        if self.failed {
            let source = io::Error::other("an earlier write failed");
            return Err(SpoolError::io(
                "commit",
                self.shared.folder.at(&self.name.to_string()),
                source,
            ));
        }
        let parts = self.roles.iter().zip(&self.files[1..]);
        let parts = parts.map(|(role, file)| FurtherPart::new(*role, file.bytes)).collect();
        let sidecar = Sidecar::new(&self.new, layout, self.files[0].bytes, parts);
        let written = self.check_len(ResultFile::Sidecar, json(&sidecar), MAX_SIDECAR_BYTES)?;
        self.add(ResultFile::Sidecar)?;
        self.append(self.files.len() - 1, &written)?;
        self.publish()?;
        self.committed = true;
        if let Some(usage_log) = &self.shared.usage_log {
            usage_log.end(&self.new.id.to_string());
        }
        let path = self.shared.folder.at(&self.name.to_string());
        Ok(ResultInfo::new(self.name.clone(), Some(path), sidecar))
    }
}

impl Drop for DirDraft {
    fn drop(&mut self) {
        let folder = &self.shared.folder;
        if self.committed {
            return;
        }
        let unlink =
            |name: &str| match retry_interrupted(|| folder.os.unlink(folder.fd.as_fd(), name)) {
                Ok(()) => true,
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            };
        // Before anything is deleted, so that a kill does not make a log an orphan.
        for PieceFile { piece, stage, adopted, .. } in &self.files {
            if let (Stage::Published, Some(adopted)) = (stage, adopted) {
                let published = piece.file_name(&self.name);
                // Without its name, the owner can read the file until it closes it.
                let _ = retry_interrupted(|| {
                    folder.os.rename(folder.fd.as_fd(), &published, &adopted.name)
                });
            }
        }
        let mut gone = true;
        for PieceFile { piece, stage, adopted, .. } in &self.files {
            // What remains is hidden or an orphan, now unlocked, and the next start deletes it.
            if *stage == Stage::Published {
                gone &= unlink(&piece.file_name(&self.name));
            }
            if *stage == Stage::Draft || adopted.is_some() {
                gone &= unlink(&piece.draft_name(&self.name));
            }
        }
        if let Some(usage_log) = &self.shared.usage_log
            && gone
        {
            usage_log.abandon(&self.new.id.to_string());
        }
    }
}

/// Syncs several files concurrently: the file system then commits its journal once, and that commit
/// is what a small result waits for.
fn sync_together(os: &dyn Os, files: &[PieceFile]) -> Result<(), (ResultFile, io::Error)> {
    let sync = |file: &PieceFile| {
        retry_interrupted(|| os.sync_data(file.file.as_fd())).map_err(|error| (file.piece, error))
    };
    let Some((first, others)) = files.split_first() else { return Ok(()) };
    thread::scope(|scope| {
        let others: Vec<_> = others
            .iter()
            .map(|file| (file, thread::Builder::new().spawn_scoped(scope, move || sync(file))))
            .collect();
        let mut synced = sync(first);
        for (file, thread) in others {
            let other = match thread {
                Ok(thread) => thread.join().expect("a call to the system does not panic"),
                // Without a thread, syncs one after the other.
                Err(_) => sync(file),
            };
            synced = synced.and(other);
        }
        synced
    })
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("text, numbers and times have a JSON form")
}

pub(super) struct DirScratch {
    shared: Arc<Shared>,
    file: OwnedFd,
    bytes: u64,
    unchecked: u64,
}

impl DirScratch {
    pub(super) fn begin(shared: Arc<Shared>) -> Result<Self, SpoolError> {
        let folder = &shared.folder;
        let io = |op, error| SpoolError::io(op, &folder.path, error);
        let file = match retry_interrupted(|| {
            folder.os.create_unnamed(folder.fd.as_fd(), SCRATCH_MODE)
        }) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => create_then_unlink(&shared),
            other => other.map_err(|error| io("create a file in", error)),
        }?;
        // The umask may have reduced the mode.
        retry_interrupted(|| folder.os.set_mode(file.as_fd(), SCRATCH_MODE))
            .map_err(|error| io("set permissions in", error))?;
        let scratch = Self { shared, file, bytes: 0, unchecked: 0 };
        scratch.check_free_space()?;
        Ok(scratch)
    }

    fn check_free_space(&self) -> Result<(), SpoolError> {
        if self.shared.free()? < self.shared.options.quota.min_free_bytes {
            return Err(SpoolError::Full { limit: SpoolLimit::FreeSpace });
        }
        Ok(())
    }
}

/// Creates a file under a draft name and unlinks it at once. Should the process die in between, a
/// sweep deletes it; a concurrent sweep may also be faster.
fn create_then_unlink(shared: &Shared) -> Result<OwnedFd, SpoolError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = &shared.folder;
    let operation = Operation::from_tool("scratch");
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..MAX_NAME_ATTEMPTS {
        // Unique enough, since the name is free again immediately.
        let next = u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let id = ResultId::new(0, u128::from(std::process::id()) << 48 | next);
        let name = ResultFile::Data.draft_name(&FileName::new(&operation, id, Extension::Bin));
        let io = |op, error| SpoolError::io(op, folder.at(&name), error);
        match retry_interrupted(|| folder.os.create(folder.fd.as_fd(), &name, SCRATCH_MODE)) {
            Ok(file) => {
                let unlink = || retry_interrupted(|| folder.os.unlink(folder.fd.as_fd(), &name));
                return match unlink() {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        // Tries once more, because the name would otherwise remain until the next
                        // sweep.
                        let _ = unlink();
                        Err(io("remove", error))
                    }
                    _ => Ok(file),
                };
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(io("create", error)),
        }
    }
    Err(SpoolError::io("create a file in", &folder.path, taken))
}

impl Scratch for DirScratch {
    fn append(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        let io = |error| SpoolError::io("write to a file in", &self.shared.folder.path, error);
        let mut at = self.bytes;
        let mut rest = bytes;
        while !rest.is_empty() {
            // At an offset, so that it overwrites what a failed write left behind the end.
            let written =
                retry_interrupted(|| self.shared.options.os.write_at(self.file.as_fd(), rest, at))
                    .and_then(|n| if n == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(n) })
                    .map_err(io)?;
            rest = &rest[written..];
            at += written as u64;
        }
        self.unchecked += bytes.len() as u64;
        if self.unchecked >= FREE_SPACE_CHECK_BYTES {
            self.unchecked = 0;
            self.check_free_space()?;
        }
        self.bytes = at;
        Ok(())
    }
}

impl PositionedRead for DirScratch {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        let left = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = left.min(buf.len());
        retry_interrupted(|| {
            self.shared.options.os.read_at(self.file.as_fd(), &mut buf[..wanted], offset)
        })
        .map_err(|error| SpoolError::io("read from a file in", &self.shared.folder.path, error))
    }
}
