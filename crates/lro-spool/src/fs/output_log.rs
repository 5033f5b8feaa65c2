//! The log of a command's output, which survives the death of its writer.
//!
//! The output is written to `.output-{ulid}.log` while the command runs, and the order of its streams to
//! `.output-{ulid}.order` once there are two. The writer holds a lock on the log. A log without a lock
//! is the output of a command whose `atlatl run` was killed: [`DirSpool::abandoned_logs`] finds it, and
//! a sweep deletes it when its time to live has passed. A complete log is stored through [`LogSpool`],
//! which renames the file instead of copying it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use lro_core::ResultId;
use lro_core::payload::{Payload, Unreadable};

use super::checked_dir::{CheckedDir, LockOutcome};
use super::draft::DirDraft;
use super::os::{Lock, retry_interrupted};
use super::{DirSpool, Shared};
use crate::address::Address;
use crate::error::{SpoolError, SpoolLimit};
use crate::output::{OutputRuns, OutputStream, order_line};
use crate::sidecar::{Layout, NewResult, PartNumber, PartRole};
use crate::spool::{Draft, PositionedRead, ResultInfo, Scratch, Spool, StoredResult, SweepReport};

const PREFIX: &str = ".output-";
const LOG_SUFFIX: &str = ".log";
const ORDER_SUFFIX: &str = ".order";
/// A log is readable by its owner only, until it is stored.
const LOG_MODE: u32 = 0o600;
/// The most attempts to lock a new log before another process takes it for an abandoned one.
const MAX_CREATE_ATTEMPTS: usize = 16;
/// The number of bytes between two checks of the free space.
const FREE_SPACE_CHECK_BYTES: u64 = 64 << 20;
/// The number of bytes after which the kernel is asked to begin writeback.
const SYNC_AHEAD_BYTES: u64 = 8 << 20;
/// The bytes of a log that are read at a time.
const READ_CHUNK_BYTES: usize = 1 << 20;
/// The most runs of a stream that are kept in memory, 24 bytes each.
const MAX_INDEXED_RUNS: usize = 1 << 20;

/// The log of a command's output. Dropping it deletes it, unless it was stored.
pub struct OutputLog {
    shared: Arc<Shared>,
    id: ResultId,
    file: OwnedFd,
    order: Option<OrderFile>,
    bytes: u64,
    bytes_by_stream: [u64; 2],
    stream: OutputStream,
    synced_to: u64,
    /// Whether early writeback is left out.
    is_sync_deferred: bool,
    unchecked: u64,
    /// Whether the files stay when this is dropped.
    kept: AtomicBool,
}

/// The order of the streams of a log.
struct OrderFile {
    shared: Arc<Shared>,
    file: OwnedFd,
    bytes: u64,
}

impl DirSpool {
    /// Creates the log of a command's output.
    pub fn create_log(&self, id: ResultId) -> Result<OutputLog, SpoolError> {
        let shared = Arc::clone(&self.0);
        check_free_space(&shared)?;
        let name = log_name(id);
        for _ in 0..MAX_CREATE_ATTEMPTS {
            let file = create(&shared, &name)?;
            match shared.folder.lock_file(&file, &name, Lock::Exclusive) {
                Ok(LockOutcome::Acquired) => return Ok(OutputLog::new(shared, id, file)),
                Ok(_) => {}
                Err(error) => {
                    unlink(&shared.folder, &name);
                    return Err(error);
                }
            }
        }
        let busy = io::Error::from(io::ErrorKind::WouldBlock);
        Err(SpoolError::io("lock", shared.folder.at(&name), busy))
    }

    /// The logs of this scope whose writers died, oldest first. Each is locked until it is dropped, which
    /// deletes it.
    pub fn abandoned_logs(&self) -> Result<Vec<OutputLog>, SpoolError> {
        let mut ids: Vec<ResultId> =
            self.0.folder.names()?.iter().filter_map(|name| parse(name, LOG_SUFFIX)).collect();
        ids.sort();
        Ok(ids.into_iter().filter_map(|id| self.abandoned_log(id).ok().flatten()).collect())
    }

    fn abandoned_log(&self, id: ResultId) -> Result<Option<OutputLog>, SpoolError> {
        let folder = &self.0.folder;
        let name = log_name(id);
        let (file, _) = folder.open_own(&name)?;
        if folder.lock_file(&file, &name, Lock::ExclusiveNow)? != LockOutcome::Acquired {
            return Ok(None);
        }
        let stat = retry_interrupted(|| folder.os.stat(file.as_fd()))
            .map_err(|error| SpoolError::io("look at", folder.at(&name), error))?;
        let order = match folder.open_own(&order_name(id)) {
            Ok((file, stat)) => {
                Some(OrderFile { shared: Arc::clone(&self.0), file, bytes: stat.bytes })
            }
            Err(SpoolError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let mut bytes_by_stream = [0; 2];
        let read = order.as_ref().map(|order| order as &dyn PositionedRead);
        for run in OutputRuns::new(read, stat.bytes) {
            let run = run?;
            bytes_by_stream[run.stream.index()] += run.range.end - run.range.start;
        }
        // Not before everything was read: a dropped log is deleted.
        let mut log = OutputLog::new(Arc::clone(&self.0), id, file);
        (log.order, log.bytes_by_stream) = (order, bytes_by_stream);
        (log.bytes, log.synced_to) = (stat.bytes, stat.bytes);
        Ok(Some(log))
    }
}

impl OutputLog {
    fn new(shared: Arc<Shared>, id: ResultId, file: OwnedFd) -> Self {
        Self {
            shared,
            id,
            file,
            order: None,
            bytes: 0,
            bytes_by_stream: [0; 2],
            stream: OutputStream::Stdout,
            synced_to: 0,
            is_sync_deferred: false,
            unchecked: 0,
            kept: AtomicBool::new(false),
        }
    }

    /// The id that the log was created with.
    pub fn id(&self) -> ResultId {
        self.id
    }

    /// The size of the output in bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes of one stream.
    pub fn stream_len(&self, stream: OutputStream) -> u64 {
        self.bytes_by_stream[stream.index()]
    }

    /// Appends all of the bytes or none: after a failure, the earlier bytes are still readable.
    ///
    /// The bytes are in the page cache when this returns, so they survive the end of this process.
    pub fn append(&mut self, stream: OutputStream, bytes: &[u8]) -> Result<(), SpoolError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = self.bytes + bytes.len() as u64;
        if end > self.shared.options.quota.max_bytes {
            return Err(SpoolError::Full { limit: SpoolLimit::Bytes });
        }
        if stream != self.stream {
            self.change_stream(stream)?;
        }
        write_at(&self.shared, &self.file, bytes, self.bytes)?;
        self.unchecked += bytes.len() as u64;
        if self.unchecked >= FREE_SPACE_CHECK_BYTES {
            self.unchecked = 0;
            check_free_space(&self.shared)?;
        }
        self.bytes = end;
        self.bytes_by_stream[stream.index()] += bytes.len() as u64;
        // With a second stream, the log is a part of the result in any case.
        let is_deferred = self.is_sync_deferred && self.order.is_none();
        if !is_deferred && self.bytes - self.synced_to >= SYNC_AHEAD_BYTES {
            // A hint, so that the commit has less to wait for.
            let _ = self.shared.options.os.begin_sync(self.file.as_fd(), self.synced_to);
            self.synced_to = self.bytes;
        }
        Ok(())
    }

    /// Leaves out early writeback while `is_deferred` is true: for output that is probably stored in
    /// another file, such as JSON lines, so that the log is deleted. When it is false again, writeback
    /// begins for everything.
    pub fn defer_sync(&mut self, is_deferred: bool) {
        self.is_sync_deferred = is_deferred;
    }

    /// Notes that the next bytes are of `stream`, before they are written.
    fn change_stream(&mut self, stream: OutputStream) -> Result<(), SpoolError> {
        if self.order.is_none() {
            let file = create(&self.shared, &order_name(self.id))?;
            self.order = Some(OrderFile { shared: Arc::clone(&self.shared), file, bytes: 0 });
        }
        if let Some(order) = &mut self.order {
            let line = order_line(stream, self.bytes);
            write_at(&self.shared, &order.file, line.as_bytes(), order.bytes)?;
            order.bytes += line.len() as u64;
        }
        self.stream = stream;
        Ok(())
    }

    /// Keeps the files when this is dropped, for a later [`DirSpool::abandoned_logs`].
    pub fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    /// The runs of the output, in the order in which they were read.
    pub fn runs(&self) -> OutputRuns<'_> {
        let order = self.order.as_ref().map(|order| order as &dyn PositionedRead);
        OutputRuns::new(order, self.bytes)
    }

    /// Reads from `offset` and returns the number of bytes read; 0 only at the end.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        let left = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = left.min(buf.len());
        self.shared.read_at(&self.file, &log_name(self.id), offset, &mut buf[..wanted])
    }

    /// Standard output alone, as a payload. `None` if its runs are too many for memory.
    pub fn stdout(self: &Arc<Self>) -> Result<Option<LogPayload>, SpoolError> {
        let (mut runs, mut bytes) = (Vec::new(), 0);
        for run in self.runs() {
            let run = run?;
            if run.stream == OutputStream::Stdout {
                if runs.len() == MAX_INDEXED_RUNS {
                    return Ok(None);
                }
                let length = run.range.end - run.range.start;
                runs.push(StdoutRun { at: bytes, offset: run.range.start, length });
                bytes += length;
            }
        }
        Ok(Some(LogPayload { log: Arc::clone(self), runs: Some(runs), bytes }))
    }

    /// The whole output, as a payload.
    pub fn payload(self: &Arc<Self>) -> LogPayload {
        LogPayload { log: Arc::clone(self), runs: None, bytes: self.bytes }
    }
}

impl std::fmt::Debug for OutputLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never print contents.
        f.debug_struct("OutputLog")
            .field("id", &self.id)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Drop for OutputLog {
    fn drop(&mut self) {
        if *self.kept.get_mut() {
            return;
        }
        // A stored log has another name.
        unlink(&self.shared.folder, &log_name(self.id));
        if self.order.is_some() {
            unlink(&self.shared.folder, &order_name(self.id));
        }
    }
}

impl PositionedRead for OrderFile {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        let left = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = left.min(buf.len());
        self.shared.read_at(&self.file, &"the order of an output", offset, &mut buf[..wanted])
    }
}

/// The payload of a log: the whole output, or standard output alone.
pub struct LogPayload {
    log: Arc<OutputLog>,
    /// The runs of standard output; `None` for the whole output.
    runs: Option<Vec<StdoutRun>>,
    bytes: u64,
}

struct StdoutRun {
    /// The offset in standard output.
    at: u64,
    /// The offset in the log.
    offset: u64,
    length: u64,
}

impl Payload for LogPayload {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn whole(&self) -> Option<&[u8]> {
        None
    }

    fn chunk_at<'a>(&'a self, at: u64, space: &'a mut Vec<u8>) -> Result<&'a [u8], Unreadable> {
        let (offset, length) = match &self.runs {
            None => (at, self.bytes.saturating_sub(at)),
            Some(runs) => {
                let index = runs.partition_point(|run| run.at + run.length <= at);
                let Some(run) = runs.get(index) else { return Ok(&[]) };
                (run.offset + (at - run.at), run.length - (at - run.at))
            }
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(READ_CHUNK_BYTES);
        if length == 0 {
            return Ok(&[]);
        }
        space.resize(length, 0);
        let read = self.log.read_at(offset, space).map_err(|error| Unreadable(error.into()))?;
        if read == 0 {
            return Err(Unreadable(io::Error::from(io::ErrorKind::UnexpectedEof).into()));
        }
        Ok(&space[..read])
    }
}

/// A spool that stores the payload of a log by renaming it.
///
/// A result of any other payload would be stored wrongly: use it for one result only.
pub struct LogSpool {
    spool: DirSpool,
    log: Arc<OutputLog>,
    whole: bool,
}

impl LogSpool {
    /// A spool for `payload`.
    pub fn new(spool: DirSpool, payload: &LogPayload) -> Self {
        Self { spool, log: Arc::clone(&payload.log), whole: payload.runs.is_none() }
    }
}

impl Spool for LogSpool {
    fn create(&self, new: NewResult) -> Result<Box<dyn Draft>, SpoolError> {
        let draft = DirDraft::begin(Arc::clone(&self.spool.0), new)?;
        let log = Arc::clone(&self.log);
        Ok(Box::new(LogDraft { draft, log, whole: self.whole, adopted: false }))
    }

    fn open(
        &self,
        address: &Address,
        now: DateTime<Utc>,
    ) -> Result<Box<dyn StoredResult>, SpoolError> {
        self.spool.open(address, now)
    }

    fn list(&self) -> Result<Vec<ResultInfo>, SpoolError> {
        self.spool.list()
    }

    fn remove(&self, address: &Address) -> Result<ResultInfo, SpoolError> {
        self.spool.remove(address)
    }

    fn sweep(&self, now: DateTime<Utc>) -> Result<SweepReport, SpoolError> {
        self.spool.sweep(now)
    }

    fn scratch(&self) -> Result<Box<dyn Scratch>, SpoolError> {
        self.spool.scratch()
    }
}

struct LogDraft {
    draft: DirDraft,
    log: Arc<OutputLog>,
    /// Whether the payload is the whole log.
    whole: bool,
    /// Whether the log is a file of the draft.
    adopted: bool,
}

impl LogDraft {
    fn adopt(&mut self, part: Option<PartNumber>) -> Result<(), SpoolError> {
        let (shared, name) = (&self.log.shared, log_name(self.log.id));
        let file = self.log.file.try_clone();
        let file = file.map_err(|e| SpoolError::io("open", shared.folder.at(&name), e))?;
        let index = part.map_or(0, |part| usize::from(part.0));
        self.adopted = true;
        self.draft.adopt(index, name, file, self.log.bytes)
    }
}

impl Draft for LogDraft {
    fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.draft.write(bytes)
    }

    fn add_part(&mut self, role: PartRole) -> Result<PartNumber, SpoolError> {
        self.draft.add_part(role)
    }

    fn write_part(&mut self, part: PartNumber, bytes: &[u8]) -> Result<(), SpoolError> {
        self.draft.write_part(part, bytes)
    }

    fn take_payload(&mut self, part: Option<PartNumber>, bytes: u64) -> Result<bool, SpoolError> {
        if !self.whole || self.adopted || bytes != self.log.bytes {
            return Ok(false);
        }
        self.adopt(part)?;
        Ok(true)
    }

    fn commit(mut self: Box<Self>, layout: Layout) -> Result<ResultInfo, SpoolError> {
        let log = Arc::clone(&self.log);
        if let Some(order) = &log.order {
            if !self.adopted {
                let part = self.draft.add_part(PartRole::Output)?;
                self.adopt(Some(part))?;
            }
            let part = self.draft.add_part(PartRole::Order)?;
            let mut chunk = vec![0; READ_CHUNK_BYTES];
            let mut at = 0;
            loop {
                let read = order.read_at(at, &mut chunk)?;
                if read == 0 {
                    break;
                }
                self.draft.write_part(part, &chunk[..read])?;
                at += read as u64;
            }
        }
        let stored = Box::new(self.draft).commit(layout)?;
        // The file of the log may be that of the result now, whose readers must not wait.
        let _ = retry_interrupted(|| log.shared.folder.os.lock(log.file.as_fd(), Lock::Shared));
        Ok(stored)
    }
}

impl CheckedDir {
    /// Deletes the logs of dead writers whose time to live has passed.
    pub(super) fn clear_expired_logs(
        &self,
        ttl: Duration,
        now: DateTime<Utc>,
        swept: &mut SweepReport,
    ) {
        let ttl = TimeDelta::from_std(ttl).unwrap_or(TimeDelta::MAX).num_milliseconds();
        let expired = |id: ResultId| {
            i64::try_from(id.unix_ms()).is_ok_and(|made| {
                made.checked_add(ttl).is_some_and(|end| end <= now.timestamp_millis())
            })
        };
        let Ok(names) = self.names() else { return };
        for id in names.iter().filter_map(|name| parse(name, LOG_SUFFIX)).filter(|id| expired(*id))
        {
            let name = log_name(id);
            let Ok((file, stat)) = self.open_own(&name) else { continue };
            let locked = self.lock_file(&file, &name, Lock::ExclusiveNow);
            if matches!(locked, Ok(LockOutcome::Acquired)) {
                match self.unlink_same(&name, &stat) {
                    Ok(removed) => swept.leftovers += usize::from(removed),
                    Err(error) => swept.failures.push(error),
                }
                unlink(self, &order_name(id));
            }
        }
    }
}

fn log_name(id: ResultId) -> String {
    format!("{PREFIX}{id}{LOG_SUFFIX}")
}

fn order_name(id: ResultId) -> String {
    format!("{PREFIX}{id}{ORDER_SUFFIX}")
}

/// The id in the name of a file that this module wrote.
fn parse(name: &str, suffix: &str) -> Option<ResultId> {
    name.strip_prefix(PREFIX)?.strip_suffix(suffix)?.parse().ok()
}

fn create(shared: &Shared, name: &str) -> Result<OwnedFd, SpoolError> {
    let folder = &shared.folder;
    let io = |op, error| SpoolError::io(op, folder.at(name), error);
    let file = retry_interrupted(|| folder.os.create(folder.fd.as_fd(), name, LOG_MODE))
        .map_err(|error| io("create", error))?;
    // The umask may have reduced the mode.
    retry_interrupted(|| folder.os.set_mode(file.as_fd(), LOG_MODE))
        .map_err(|error| io("set permissions of", error))?;
    Ok(file)
}

/// Deletes an entry; what remains after a failure is deleted by a sweep.
fn unlink(folder: &CheckedDir, name: &str) {
    let _ = retry_interrupted(|| folder.os.unlink(folder.fd.as_fd(), name));
}

fn write_at(
    shared: &Shared,
    file: &OwnedFd,
    mut bytes: &[u8],
    mut at: u64,
) -> Result<(), SpoolError> {
    while !bytes.is_empty() {
        // At an offset, so that it overwrites what a failed write left behind the end.
        let written = retry_interrupted(|| shared.options.os.write_at(file.as_fd(), bytes, at))
            .and_then(|n| if n == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(n) })
            .map_err(|error| SpoolError::io("write to a log in", &shared.folder.path, error))?;
        bytes = &bytes[written..];
        at += written as u64;
    }
    Ok(())
}

fn check_free_space(shared: &Shared) -> Result<(), SpoolError> {
    if shared.free()? < shared.options.quota.min_free_bytes {
        return Err(SpoolError::Full { limit: SpoolLimit::FreeSpace });
    }
    Ok(())
}
