//! TODO module doc

use std::io;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::child::{BROKEN, PANICKED};
use super::protocol::{BODY_AT_MOST, DONE, Done, FAULT, Fault, HEAD, LINES, read_head};
use super::sandbox::Bounds;
use super::{Program, WORKER, protocol};
use crate::error::{QueryError, shown};
use crate::limits::Limits;
use crate::page::Cancel;
use crate::query::Answer;

// --- Process: a worker as its parent sees it, and ends it.

/// A worker under way. Dropped it is killed, and its place is free once it is gone.
pub(super) struct Running {
    /// Taken only by `drop`.
    process: Option<(Child, Slot)>,
    socket: Option<UnixStream>,
    out: ChildStdout,
    errors: ChildStderr,
}

/// How soon a cancellation is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long a dead worker's memory may take to be given back before nobody waits for it.
const FAREWELL: Duration = Duration::from_millis(50);
/// The last words of a worker that are looked at.
const WORDS: usize = 4096;
const CHUNK: usize = 64 * 1024;

impl Running {
    pub(super) fn start(program: &Program, bounds: Bounds, slot: Slot) -> Result<Self, QueryError> {
        let failed = |source| QueryError::Worker { doing: "be started", source };
        let (socket, theirs) = UnixStream::pair().map_err(failed)?;
        let mut child = Command::new(program.path())
            .arg0(WORKER)
            .args(bounds.arguments())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let pipes = child.stdout.take().zip(child.stderr.take());
        let (out, errors) = pipes.expect("both were asked for");
        Ok(Self { process: Some((child, slot)), socket: Some(socket), out, errors })
    }

    pub(super) fn tell(
        &mut self,
        order: &[u8],
        sources: &[BorrowedFd<'_>],
        patience: Duration,
    ) -> Result<(), QueryError> {
        // Closed when told: a worker that waits for more finds an end.
        let Some(socket) = self.socket.take() else { return Ok(()) };
        let sent = socket
            .set_write_timeout(Some(patience))
            .and_then(|()| protocol::send(&socket, order, sources));
        match sent {
            // It died before it listened; its last words say why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => {
                other.map_err(|source| QueryError::Worker { doing: "receive the query", source })
            }
        }
    }

    pub(super) fn answer(
        mut self,
        deadline: Instant,
        limits: &Limits,
        memory: u64,
        cancel: &Cancel,
    ) -> Result<Answer, QueryError> {
        let mut listener = Listener::new(limits.output);
        let mut words = Vec::new();
        let (mut talking, mut complaining) = (true, true);
        let mut buf = vec![0; CHUNK];
        while talking {
            if cancel.is_cancelled() {
                return Err(QueryError::Cancelled);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(QueryError::Time { wall: limits.wall_used() });
            }
            let errors = complaining.then(|| self.errors.as_fd());
            let ready = wait(self.out.as_fd(), errors, left.min(POLL_INTERVAL));
            let (out_ready, errors_ready) = ready.map_err(unheard)?;
            if out_ready {
                let read = self.out.read(&mut buf).map_err(unheard)?;
                talking = read > 0;
                listener.hear(&buf[..read])?;
                if let Some(end) = listener.end.take() {
                    return end.into_answer(listener.lines, limits, memory);
                }
            }
            if errors_ready {
                let read = self.errors.read(&mut buf).map_err(unheard)?;
                complaining = read > 0;
                let room = WORDS - words.len();
                words.extend_from_slice(&buf[..read.min(room)]);
            }
        }
        while complaining && words.len() < WORDS {
            // Its end is near: the pipe is either closed or holds the last words. But a process that it
            // started may have the pipe too, and say nothing.
            let left = deadline.saturating_duration_since(Instant::now());
            if cancel.is_cancelled() {
                return Err(QueryError::Cancelled);
            }
            if left.is_zero() {
                break;
            }
            let (ready, _) =
                wait(self.errors.as_fd(), None, left.min(POLL_INTERVAL)).map_err(unheard)?;
            if !ready {
                if self.has_ended() {
                    break;
                }
                continue;
            }
            let read = self.errors.read(&mut buf).map_err(unheard)?;
            complaining = read > 0;
            let room = WORDS - words.len();
            words.extend_from_slice(&buf[..read.min(room)]);
        }
        let status = self.end_by(deadline);
        Err(why_it_died(status, &words, limits, memory))
    }

    fn has_ended(&mut self) -> bool {
        self.process.as_mut().is_some_and(|(child, _)| matches!(child.try_wait(), Ok(Some(_))))
    }

    /// Waits for a worker that has closed its output.
    fn end_by(&mut self, deadline: Instant) -> Option<ExitStatus> {
        let (child, _) = self.process.as_mut()?;
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                _ => return None,
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some((mut child, slot)) = self.process.take() else { return };
        // It may be gone already, which is as well.
        let _ = child.kill();
        let until = Instant::now() + FAREWELL;
        while let Ok(None) = child.try_wait() {
            if Instant::now() >= until {
                // Giving gigabytes back takes the system longer than an asker should wait; the
                // place stays taken until it has.
                std::thread::spawn(move || {
                    let _ = child.wait();
                    drop(slot);
                });
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

fn unheard(source: io::Error) -> QueryError {
    QueryError::Worker { doing: "be heard", source }
}

/// Whether there is something to read on each of the two.
fn wait(
    out: BorrowedFd<'_>,
    errors: Option<BorrowedFd<'_>>,
    at_most: Duration,
) -> io::Result<(bool, bool)> {
    let mut both =
        [out, errors.unwrap_or(out)].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let watched = if errors.is_some() { 2 } else { 1 };
    // Below a second, and so within range.
    let timeout = Timespec { tv_sec: 0, tv_nsec: at_most.subsec_nanos().max(1).into() };
    match poll(&mut both[..watched], Some(&timeout)) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok((false, false)),
        Err(error) => return Err(error.into()),
    }
    let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
    Ok((ready(&both[0]), errors.is_some() && ready(&both[1])))
}

/// Puts frames together, and believes none of them to be as long as it likes.
struct Listener {
    pending: Vec<u8>,
    lines: Vec<u8>,
    output: u64,
    end: Option<End>,
}

enum End {
    Done(Done),
    Fault(Fault),
}

impl Listener {
    fn new(output: u64) -> Self {
        Self { pending: Vec::new(), lines: Vec::new(), output, end: None }
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<(), QueryError> {
        self.pending.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(head) = self.pending[at..].first_chunk::<HEAD>() {
            let (letter, length) = read_head(*head);
            let room = self.output.saturating_sub(self.lines.len() as u64);
            let fits = match letter {
                LINES => length as u64 <= room,
                DONE | FAULT => length <= BODY_AT_MOST,
                _ => false,
            };
            if !fits {
                return Err(unheard(io::Error::other("not the answer of a worker")));
            }
            let Some(body) = self.pending.get(at + HEAD..at + HEAD + length) else { break };
            match letter {
                LINES => self.lines.extend_from_slice(body),
                DONE => self.end = Some(End::Done(parse(body)?)),
                _ => self.end = Some(End::Fault(parse(body)?)),
            }
            at += HEAD + length;
        }
        self.pending.drain(..at);
        Ok(())
    }
}

fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, QueryError> {
    serde_json::from_slice(body).map_err(|error| unheard(error.into()))
}

impl End {
    fn into_answer(
        self,
        lines: Vec<u8>,
        limits: &Limits,
        memory: u64,
    ) -> Result<Answer, QueryError> {
        let fault = match self {
            Self::Done(done) => {
                let done = done.cut();
                return Ok(Answer {
                    lines,
                    given: done.given,
                    total: done.total,
                    records_read: done.records_read,
                    failed: done.failed,
                    kept_as_text: done.kept_as_text,
                    unknown_fields: done.unknown_fields,
                });
            }
            Self::Fault(fault) => fault.cut(),
        };
        Err(match fault {
            Fault::Time => QueryError::Time { wall: limits.wall_used() },
            Fault::Memory => QueryError::Memory { bytes: memory },
            Fault::Output => QueryError::Output { bytes: limits.output },
            Fault::Depth => QueryError::Depth,
            Fault::Syntax { message, about } => QueryError::Syntax { message, about },
            Fault::Runtime { message, record } => QueryError::Runtime { message, record },
        })
    }
}

/// Tells from its end what a worker died of.
///
/// The runtime aborts alike on a full stack and on a failed allocation, and offers no hook for
/// either; only its last words differ. A test makes both happen.
fn why_it_died(
    status: Option<ExitStatus>,
    words: &[u8],
    limits: &Limits,
    memory: u64,
) -> QueryError {
    let says = |what: &str| String::from_utf8_lossy(words).contains(what);
    let signal = status.and_then(|status| status.signal()).and_then(Signal::from_named_raw);
    match (signal, status.and_then(|status| status.code())) {
        (Some(Signal::ABORT | Signal::SEGV | Signal::BUS), _) if says("overflowed its stack") => {
            QueryError::Depth
        }
        (Some(Signal::SEGV), _) => QueryError::Depth,
        // The system's own killer looks for the largest.
        (Some(Signal::ABORT | Signal::KILL | Signal::BUS), _) => {
            QueryError::Memory { bytes: memory }
        }
        (Some(Signal::XCPU), _) | (None, None) => QueryError::Time { wall: limits.wall_used() },
        (_, Some(PANICKED)) if says("memory allocation") || says("capacity overflow") => {
            QueryError::Memory { bytes: memory }
        }
        (_, Some(PANICKED)) => QueryError::Runtime {
            message: "the engine failed on this query".to_owned(),
            record: None,
        },
        (_, Some(BROKEN)) => {
            let source = io::Error::other(shown(&String::from_utf8_lossy(words)));
            QueryError::Worker { doing: "bound itself", source }
        }
        _ => QueryError::Worker {
            doing: "answer: the program is no worker",
            source: io::ErrorKind::UnexpectedEof.into(),
        },
    }
}

// --- Bounds the number of concurrent workers.

/// Free places for workers. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Slots(Arc<(Mutex<usize>, Condvar)>);

/// A place, free again when dropped.
#[derive(Debug)]
pub(super) struct Slot(Slots);

/// Why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoSlot {
    Busy,
    Cancelled,
}

impl Slots {
    pub(super) fn new(at_most: usize) -> Self {
        Self(Arc::new((Mutex::new(at_most.max(1)), Condvar::new())))
    }

    pub(super) fn take(&self, until: Instant, cancel: &Cancel) -> Result<Slot, NoSlot> {
        let mut free = self.free();
        loop {
            if cancel.is_cancelled() {
                return Err(NoSlot::Cancelled);
            }
            if *free > 0 {
                *free -= 1;
                return Ok(Slot(self.clone()));
            }
            if Instant::now() >= until {
                return Err(NoSlot::Busy);
            }
            let waited = self.0.1.wait_timeout(free, POLL_INTERVAL);
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn free(&self) -> MutexGuard<'_, usize> {
        // Nothing panics while the lock is held.
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.free() += 1;
        self.0.0.1.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::write_frame;
    use super::*;

    #[test]
    fn frames_come_in_any_pieces() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, LINES, b"1\n2\n").unwrap();
        write_frame(&mut bytes, DONE, &serde_json::to_vec(&Done::default()).unwrap()).unwrap();
        for size in 1..bytes.len() {
            let mut listener = Listener::new(4);
            for piece in bytes.chunks(size) {
                listener.hear(piece).unwrap();
            }
            assert_eq!(listener.lines, b"1\n2\n");
            assert!(listener.end.is_some());
        }
    }

    #[test]
    fn n5_a_worker_that_says_more_than_it_may_is_not_believed() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, LINES, b"12345").unwrap();
        assert!(Listener::new(4).hear(&bytes).is_err());
        assert!(Listener::new(4).hear(b"X\0\0\0\0").is_err());
        assert!(Listener::new(1 << 40).hear(b"D\xff\xff\xff\xff").is_err());
    }

    #[test]
    fn g39_a_worker_that_keeps_its_stderr_open_is_not_waited_for_beyond_the_deadline() {
        use std::os::unix::fs::PermissionsExt as _;

        use super::Slots;

        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("worker");
        // The first keeps it itself, the second leaves it to a process that outlives it.
        for body in ["exec 1>&-; sleep 20", "sleep 20 1>&- & exit 3"] {
            std::fs::write(&script, format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
            let (cancel, began) = (Cancel::default(), Instant::now());
            let slot = Slots::new(1).take(began, &cancel).unwrap();
            let bounds = Bounds { memory: 1 << 30, cpu_seconds: 10, threads: 1 };
            let running = Running::start(&Program::at(&script), bounds, slot).unwrap();
            let limits = Limits::from_config(&lro_core::config::QueryConfig::default());
            let deadline = began + Duration::from_millis(700);
            assert!(running.answer(deadline, &limits, 1 << 30, &cancel).is_err());
            assert!(began.elapsed() < Duration::from_secs(8), "{body}: {:?}", began.elapsed());
        }
    }

    #[test]
    fn a_slot_is_free_again_when_it_is_dropped() {
        let slots = Slots::new(1);
        let cancel = Cancel::default();
        let soon = || Instant::now() + Duration::from_millis(30);
        let first = slots.take(soon(), &cancel).unwrap();
        assert_eq!(slots.take(soon(), &cancel).unwrap_err(), NoSlot::Busy);
        drop(first);
        assert!(slots.take(soon(), &cancel).is_ok());
        cancel.cancel();
        assert_eq!(slots.take(soon(), &cancel).unwrap_err(), NoSlot::Cancelled);
    }
}
