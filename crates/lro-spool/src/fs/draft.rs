//! Results and scratch files while they are being written.
//!
//! A draft is written under hidden names, synced, and then renamed; the data file is renamed last. A
//! scratch file has no name at all.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, thread};

use lro_core::records::Envelope;
use lro_core::{Operation, ResultId};

use super::Shared;
use super::account::Pending;
use super::checked_dir::{HEADER_CAP, Locked, SIDECAR_CAP};
use super::os::{Lock, Os, again};
use crate::address::{Extension, FileName, PART_CAP, Piece};
use crate::error::{Limit, SpoolError};
use crate::sidecar::{FurtherPart, PartRole, Sidecar, StoredForm};
use crate::spool::{Draft, Listed, NewResult, PartNumber, PositionedRead, Scratch};

/// How much is written between two looks at the quotas.
const QUOTA_CHECK_BYTES: u64 = 64 << 20;
/// How much of a file is written before the system is asked to begin with it.
const SYNC_AHEAD: u64 = 4 << 20;
/// How many files are synced at the same time.
const SYNCED_TOGETHER: usize = 8;
/// How often a sweeper may be faster than the lock on a new file.
const CREATE_ATTEMPTS: usize = 16;
/// Nobody but us reads it, whoever may read results.
const MODE: u32 = 0o600;
/// How much is put aside between two looks at the free space.
const FREE_SPACE_CHECK_BYTES: u64 = 64 << 20;
/// How many names may be in use where a file must have one for a moment.
const ATTEMPTS: usize = 16;

pub(super) struct DirDraft {
    shared: Arc<Shared>,
    new: NewResult,
    name: FileName,
    /// The data, then the parts, then the sidecar: the order in which a failure takes them back.
    files: Vec<PieceFile>,
    roles: Vec<PartRole>,
    unchecked: u64,
    /// The bytes that the account knows of.
    claimed: u64,
    committed: bool,
    /// A write failed, so the bytes are not all there.
    failed: bool,
}

struct PieceFile {
    piece: Piece,
    file: OwnedFd,
    bytes: u64,
    /// How much of it the system was asked to make safe.
    begun: u64,
    shown: Shown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Under the name of a draft.
    AsDraft,
    /// Under its final name.
    AsResult,
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
        // Before the first file is there: a writer that dies is known by this.
        if let Some(account) = &draft.shared.account {
            let pending = Pending::new(&draft.name, draft.shared.options.scope);
            account.begin(&pending, draft.expires_at());
        }
        draft.add(Piece::Data)?;
        if draft.new.extension == Extension::Jsonl {
            // Spec F1: line 1 is the header.
            let mut line = json(&draft.new.header);
            line.push(b'\n');
            let line = draft.bounded(Piece::Data, line, HEADER_CAP)?;
            draft.append(0, &line)?;
        }
        Ok(draft)
    }

    /// When the result expires, in milliseconds.
    fn expires_at(&self) -> i64 {
        let ttl = i64::try_from(self.new.ttl.as_millis()).unwrap_or(i64::MAX);
        self.new.created_at.timestamp_millis().saturating_add(ttl)
    }

    /// Claims what was written since the last time, and makes room for it.
    fn claim(&mut self, files: u64) -> Result<(), SpoolError> {
        let written: u64 = self.files.iter().map(|file| file.bytes).sum();
        if let Some(account) = &self.shared.account {
            account.claim(&self.new.id.to_string(), written - self.claimed, files);
            self.claimed = written;
        }
        self.shared.make_room(self.new.created_at)
    }

    /// Creates a file nobody else has, and locks it so that no sweeper takes it for a leftover.
    fn add(&mut self, piece: Piece) -> Result<(), SpoolError> {
        let (folder, mode) = (&self.shared.folder, self.shared.options.file_mode());
        let draft = piece.draft_of(&self.name);
        let io = |op, error| SpoolError::io(op, folder.at(&draft), error);
        for _ in 0..CREATE_ATTEMPTS {
            let file =
                again(|| folder.os.create(folder.fd.as_fd(), &draft, mode)).map_err(|error| {
                    match error.kind() {
                        io::ErrorKind::AlreadyExists => {
                            SpoolError::Taken { name: self.name.clone() }
                        }
                        _ => io("create", error),
                    }
                })?;
            // From here on the file goes with the draft.
            self.files.push(PieceFile { piece, file, bytes: 0, begun: 0, shown: Shown::AsDraft });
            let file = &self.files[self.files.len() - 1].file;
            if folder.lock_file(file, &draft, Lock::Exclusive)? == Locked::ByUs {
                // The umask may have taken from the mode, and shall not decide.
                return again(|| folder.os.set_mode(file.as_fd(), mode))
                    .map_err(|error| io("set permissions of", error));
            }
            self.files.pop();
        }
        Err(io("lock", io::Error::from(io::ErrorKind::WouldBlock)))
    }

    fn append(&mut self, index: usize, bytes: &[u8]) -> Result<(), SpoolError> {
        let appended = self.try_append(index, bytes);
        self.failed |= appended.is_err();
        appended
    }

    fn try_append(&mut self, index: usize, mut bytes: &[u8]) -> Result<(), SpoolError> {
        let shared = &self.shared;
        let PieceFile { piece, file, bytes: total, begun, .. } = &mut self.files[index];
        while !bytes.is_empty() {
            let written = again(|| shared.options.os.write(file.as_fd(), bytes))
                .and_then(|n| if n == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(n) })
                .map_err(|e| SpoolError::io("write", shared.folder.at(&piece.of(&self.name)), e))?;
            bytes = &bytes[written..];
            *total += written as u64;
            self.unchecked += written as u64;
        }
        if *total - *begun >= SYNC_AHEAD {
            // Otherwise the disk would idle until the last byte, and the commit wait for all of
            // them. Only a hint: the commit syncs whatever came of it.
            let _ = shared.options.os.begin_sync(file.as_fd(), *begun);
            *begun = *total;
        }
        if self.files.iter().map(|f| f.bytes).sum::<u64>() > shared.options.quota.max_bytes {
            return Err(SpoolError::Full { limit: Limit::Bytes });
        }
        if self.unchecked >= QUOTA_CHECK_BYTES {
            self.unchecked = 0;
            self.claim(0)?;
        }
        Ok(())
    }

    /// A file that could not be read back is not begun.
    fn bounded(&self, piece: Piece, bytes: Vec<u8>, cap: usize) -> Result<Vec<u8>, SpoolError> {
        if bytes.len() < cap {
            return Ok(bytes);
        }
        let source = io::Error::new(io::ErrorKind::InvalidInput, "header or envelope too large");
        Err(SpoolError::io("write", self.shared.folder.at(&piece.of(&self.name)), source))
    }

    /// Makes all files safe, then gives them their names: the data last, so that it is never seen
    /// without its sidecar.
    fn show(&mut self) -> Result<(), SpoolError> {
        for batch in self.files.chunks(SYNCED_TOGETHER) {
            sync_together(&*self.shared.folder.os, batch)
                .map_err(|(piece, e)| self.shown_error("sync", piece, e))?;
        }
        for index in (0..self.files.len()).rev() {
            let piece = self.files[index].piece;
            if piece == Piece::Data {
                // The sidecar's name is a claim that others count, and so is the line in the
                // account: of several writers the last to make its claim sees those of all the
                // others, and their sizes.
                self.claim(1)?;
            }
            let folder = &self.shared.folder;
            let (from, to) = (piece.draft_of(&self.name), piece.of(&self.name));
            again(|| folder.os.rename(folder.fd.as_fd(), &from, &to))
                .map_err(|e| self.shown_error("rename", piece, e))?;
            self.files[index].shown = Shown::AsResult;
        }
        let folder = &self.shared.folder;
        again(|| folder.os.sync_dir(folder.fd.as_fd()))
            .map_err(|e| self.shown_error("sync", Piece::Data, e))
    }

    fn shown_error(&self, op: &'static str, piece: Piece, error: io::Error) -> SpoolError {
        match error.kind() {
            io::ErrorKind::AlreadyExists => SpoolError::Taken { name: self.name.clone() },
            _ => SpoolError::io(op, self.shared.folder.at(&piece.of(&self.name)), error),
        }
    }
}

impl Draft for DirDraft {
    fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.append(0, bytes)
    }

    fn add_part(&mut self, role: PartRole) -> Result<PartNumber, SpoolError> {
        let number = u16::try_from(self.files.len()).ok().filter(|n| *n <= PART_CAP);
        let number = number.ok_or(SpoolError::Full { limit: Limit::Files })?;
        self.add(Piece::Part(number))?;
        self.roles.push(role);
        Ok(PartNumber(number))
    }

    fn write_part(&mut self, part: PartNumber, bytes: &[u8]) -> Result<(), SpoolError> {
        let index = usize::from(part.0);
        if index == 0 || index >= self.files.len() {
            return Err(SpoolError::NotFound { asked: Piece::Part(part.0).of(&self.name) });
        }
        self.append(index, bytes)
    }

    fn commit(
        mut self: Box<Self>,
        form: StoredForm,
        envelope: Option<Envelope>,
    ) -> Result<Listed, SpoolError> {
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
        let sidecar = Sidecar::new(&self.new, form, envelope, self.files[0].bytes, parts);
        let written = self.bounded(Piece::Sidecar, json(&sidecar), SIDECAR_CAP)?;
        self.add(Piece::Sidecar)?;
        self.append(self.files.len() - 1, &written)?;
        self.show()?;
        self.committed = true;
        if let Some(account) = &self.shared.account {
            account.end(&self.new.id.to_string());
        }
        let path = self.shared.folder.at(&self.name.to_string());
        Ok(Listed::new(self.name.clone(), Some(path), sidecar))
    }
}

impl Drop for DirDraft {
    fn drop(&mut self) {
        let folder = &self.shared.folder;
        if self.committed {
            return;
        }
        let mut gone = true;
        for PieceFile { piece, shown, .. } in &self.files {
            let name = match shown {
                Shown::AsDraft => piece.draft_of(&self.name),
                Shown::AsResult => piece.of(&self.name),
            };
            // What stays is hidden or an orphan, unlocked from now on, and cleared by the next start.
            gone &= match again(|| folder.os.unlink(folder.fd.as_fd(), &name)) {
                Ok(()) => true,
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            };
        }
        if let Some(account) = &self.shared.account
            && gone
        {
            account.abandon(&self.new.id.to_string());
        }
    }
}

/// Makes some files safe at once: a file system that is asked for several at the same time commits
/// its journal once, and each commit is what a small result waits for.
fn sync_together(os: &dyn Os, files: &[PieceFile]) -> Result<(), (Piece, io::Error)> {
    let sync = |file: &PieceFile| {
        again(|| os.sync_data(file.file.as_fd())).map_err(|error| (file.piece, error))
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
                // No thread to be had: one after the other then.
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
        let file = match again(|| folder.os.create_unnamed(folder.fd.as_fd(), MODE)) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => named_for_a_moment(&shared),
            other => other.map_err(|error| io("create a file in", error)),
        }?;
        // The umask may have taken from the mode, and shall not decide.
        again(|| folder.os.set_mode(file.as_fd(), MODE))
            .map_err(|error| io("set permissions in", error))?;
        let scratch = Self { shared, file, bytes: 0, unchecked: 0 };
        scratch.leaves_space()?;
        Ok(scratch)
    }

    fn leaves_space(&self) -> Result<(), SpoolError> {
        if self.shared.free()? < self.shared.options.quota.min_free_bytes {
            return Err(SpoolError::Full { limit: Limit::FreeSpace });
        }
        Ok(())
    }
}

/// Makes a file and takes its name away at once. Its name is that of a draft: a sweep clears it
/// should we die in between, and may as well be faster.
fn named_for_a_moment(shared: &Shared) -> Result<OwnedFd, SpoolError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = &shared.folder;
    let operation = Operation::of_tool("scratch");
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..ATTEMPTS {
        // Unique enough: the name is free again in a moment.
        let next = u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let id = ResultId::new(0, u128::from(std::process::id()) << 48 | next);
        let name = Piece::Data.draft_of(&FileName::new(&operation, id, Extension::Bin));
        let io = |op, error| SpoolError::io(op, folder.at(&name), error);
        match again(|| folder.os.create(folder.fd.as_fd(), &name, MODE)) {
            Ok(file) => {
                let unlink = || again(|| folder.os.unlink(folder.fd.as_fd(), &name));
                return match unlink() {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        // Once more: the name would stay until the next sweep.
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
            // By place: what a failure left behind the end is written over.
            let written = again(|| self.shared.options.os.write_at(self.file.as_fd(), rest, at))
                .and_then(|n| if n == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(n) })
                .map_err(io)?;
            rest = &rest[written..];
            at += written as u64;
        }
        self.unchecked += bytes.len() as u64;
        if self.unchecked >= FREE_SPACE_CHECK_BYTES {
            self.unchecked = 0;
            self.leaves_space()?;
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
        again(|| self.shared.options.os.read_at(self.file.as_fd(), &mut buf[..wanted], offset))
            .map_err(|error| SpoolError::io("read from a file in", &self.shared.folder.path, error))
    }
}
