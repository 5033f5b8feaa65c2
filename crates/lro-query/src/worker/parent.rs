//! The parent side of a worker: starts the process, sends the job, reads the answer, kills it.
//!
//! The parent trusts nothing that a worker sends. Whatever ends a worker (a deadline, a signal, a
//! panic) becomes a [`QueryError`] of the matching class. A [`Semaphore`] bounds the number of
//! concurrent workers.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::child::{EXIT_PANICKED, EXIT_SETUP_FAILED};
use super::sandbox::WorkerLimits;
use super::{Program, WORKER, protocol};
use crate::engine::{
    Completion, FRAME_DONE, FRAME_FAULT, FRAME_HEADER_LEN, FRAME_LINES, Fault, MAX_BODY_LEN,
    parse_frame_header,
};
use crate::error::{QueryError, sanitize_message};
use crate::limits::Limits;
use crate::page::Cancel;
use crate::query::Answer;

/// A running worker process. Dropping it kills the process and releases the permit once it exited.
pub(super) struct WorkerProcess {
    /// Taken only by `drop`.
    process: Option<(Child, Permit)>,
    socket: Option<UnixStream>,
    stdout: ChildStdout,
    stderr: ChildStderr,
}

/// The interval at which waiting callers check for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long a caller waits for a killed worker to exit; then a thread takes over.
const REAP_TIMEOUT: Duration = Duration::from_millis(50);
/// The maximum number of bytes of standard error that are kept.
const MAX_STDERR_LEN: usize = 4096;
/// The size of a read from a pipe in bytes.
const CHUNK_LEN: usize = 64 * 1024;

impl WorkerProcess {
    /// Starts `program` as a worker with an empty environment in `/`.
    pub(super) fn start(
        program: &Program,
        limits: WorkerLimits,
        permit: Permit,
    ) -> Result<Self, QueryError> {
        let failed = |source| QueryError::Worker { doing: "be started", source };
        let (socket, child_end) = UnixStream::pair().map_err(failed)?;
        let mut child = Command::new(program.path())
            .arg0(WORKER)
            .args(limits.arguments())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(child_end)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let pipes = child.stdout.take().zip(child.stderr.take());
        let (stdout, stderr) = pipes.expect("both pipes were requested");
        Ok(Self { process: Some((child, permit)), socket: Some(socket), stdout, stderr })
    }

    /// Sends the job and the descriptors of its sources.
    pub(super) fn send_job(
        &mut self,
        job: &[u8],
        sources: &[BorrowedFd<'_>],
        timeout: Duration,
    ) -> Result<(), QueryError> {
        // The socket is closed afterwards, so that a worker that waits for more reads an end of file.
        let Some(socket) = self.socket.take() else { return Ok(()) };
        let sent = socket
            .set_write_timeout(Some(timeout))
            .and_then(|()| protocol::send(&socket, job, sources));
        match sent {
            // The worker exited before it read the job; its exit status says why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => {
                other.map_err(|source| QueryError::Worker { doing: "receive the query", source })
            }
        }
    }

    /// Reads frames until the answer is complete, the worker exits or the deadline passes.
    pub(super) fn read_answer(
        mut self,
        deadline: Instant,
        limits: &Limits,
        memory: u64,
        cancel: &Cancel,
    ) -> Result<Answer, QueryError> {
        let mut reader = FrameReader::new(limits.output);
        let mut message = Vec::new();
        let (mut stdout_open, mut stderr_open) = (true, true);
        let mut buf = vec![0; CHUNK_LEN];
        while stdout_open {
            if cancel.is_cancelled() {
                return Err(QueryError::Cancelled);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(QueryError::Time { wall: limits.effective_wall() });
            }
            let stderr = stderr_open.then(|| self.stderr.as_fd());
            let ready = poll_pipes(self.stdout.as_fd(), stderr, left.min(POLL_INTERVAL));
            let (stdout_ready, stderr_ready) = ready.map_err(protocol_error)?;
            if stdout_ready {
                let read = self.stdout.read(&mut buf).map_err(protocol_error)?;
                stdout_open = read > 0;
                reader.feed(&buf[..read])?;
                if let Some(final_frame) = reader.final_frame.take() {
                    return final_frame.into_answer(reader.lines, limits, memory);
                }
            }
            if stderr_ready {
                let read = self.stderr.read(&mut buf).map_err(protocol_error)?;
                stderr_open = read > 0;
                let free = MAX_STDERR_LEN - message.len();
                message.extend_from_slice(&buf[..read.min(free)]);
            }
        }
        while stderr_open && message.len() < MAX_STDERR_LEN {
            // The worker is about to exit, so the pipe is closed or holds its last message. But a process
            // that the worker started may keep the pipe open and write nothing.
            let left = deadline.saturating_duration_since(Instant::now());
            if cancel.is_cancelled() {
                return Err(QueryError::Cancelled);
            }
            if left.is_zero() {
                break;
            }
            let (ready, _) = poll_pipes(self.stderr.as_fd(), None, left.min(POLL_INTERVAL))
                .map_err(protocol_error)?;
            if !ready {
                if self.has_exited() {
                    break;
                }
                continue;
            }
            let read = self.stderr.read(&mut buf).map_err(protocol_error)?;
            stderr_open = read > 0;
            let free = MAX_STDERR_LEN - message.len();
            message.extend_from_slice(&buf[..read.min(free)]);
        }
        let status = self.wait_until(deadline);
        Err(death_cause(status, &message, limits, memory))
    }

    fn has_exited(&mut self) -> bool {
        self.process.as_mut().is_some_and(|(child, _)| matches!(child.try_wait(), Ok(Some(_))))
    }

    /// Waits until the deadline for a worker that closed its output.
    fn wait_until(&mut self, deadline: Instant) -> Option<ExitStatus> {
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

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let Some((mut child, permit)) = self.process.take() else { return };
        // Killing fails if the process has already exited.
        let _ = child.kill();
        let until = Instant::now() + REAP_TIMEOUT;
        while let Ok(None) = child.try_wait() {
            if Instant::now() >= until {
                // The kernel needs long to free gigabytes. The caller does not wait for it, but the
                // permit stays taken.
                std::thread::spawn(move || {
                    let _ = child.wait();
                    drop(permit);
                });
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

fn protocol_error(source: io::Error) -> QueryError {
    QueryError::Worker { doing: "return a valid answer", source }
}

/// Whether each of the two pipes is readable.
fn poll_pipes(
    stdout: BorrowedFd<'_>,
    stderr: Option<BorrowedFd<'_>>,
    timeout: Duration,
) -> io::Result<(bool, bool)> {
    let mut both =
        [stdout, stderr.unwrap_or(stdout)].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let count = if stderr.is_some() { 2 } else { 1 };
    // The timeout is below a second, so the nanoseconds are all of it.
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().max(1).into() };
    match poll(&mut both[..count], Some(&timeout)) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok((false, false)),
        Err(error) => return Err(error.into()),
    }
    let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
    Ok((ready(&both[0]), stderr.is_some() && ready(&both[1])))
}

/// Assembles frames from the output of a worker and rejects those that exceed their limits.
struct FrameReader {
    pending: Vec<u8>,
    lines: Vec<u8>,
    output: u64,
    final_frame: Option<FinalFrame>,
}

enum FinalFrame {
    Completion(Completion),
    Fault(Fault),
}

impl FrameReader {
    fn new(output: u64) -> Self {
        Self { pending: Vec::new(), lines: Vec::new(), output, final_frame: None }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), QueryError> {
        self.pending.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(head) = self.pending[at..].first_chunk::<FRAME_HEADER_LEN>() {
            let (letter, length) = parse_frame_header(*head);
            let free = self.output.saturating_sub(self.lines.len() as u64);
            let fits = match letter {
                FRAME_LINES => length as u64 <= free,
                FRAME_DONE | FRAME_FAULT => length <= MAX_BODY_LEN,
                _ => false,
            };
            if !fits {
                return Err(protocol_error(io::Error::other("invalid frame")));
            }
            let Some(body) =
                self.pending.get(at + FRAME_HEADER_LEN..at + FRAME_HEADER_LEN + length)
            else {
                break;
            };
            match letter {
                FRAME_LINES => self.lines.extend_from_slice(body),
                FRAME_DONE => self.final_frame = Some(FinalFrame::Completion(parse_body(body)?)),
                _ => self.final_frame = Some(FinalFrame::Fault(parse_body(body)?)),
            }
            at += FRAME_HEADER_LEN + length;
        }
        self.pending.drain(..at);
        Ok(())
    }
}

fn parse_body<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, QueryError> {
    serde_json::from_slice(body).map_err(|error| protocol_error(error.into()))
}

impl FinalFrame {
    fn into_answer(
        self,
        lines: Vec<u8>,
        limits: &Limits,
        memory: u64,
    ) -> Result<Answer, QueryError> {
        let fault = match self {
            Self::Completion(completion) => {
                let completion = completion.sanitized();
                return Ok(Answer {
                    lines,
                    given: completion.returned,
                    total: completion.total,
                    records_read: completion.records_read,
                    failed: completion.failed,
                    kept_as_text: completion.kept_as_text,
                    unknown_fields: completion.unknown_fields,
                });
            }
            Self::Fault(fault) => fault.sanitized(),
        };
        Err(match fault {
            Fault::Time => QueryError::Time { wall: limits.effective_wall() },
            Fault::Memory => QueryError::Memory { bytes: memory },
            Fault::Output => QueryError::Output { bytes: limits.output },
            Fault::Depth => QueryError::Depth,
            Fault::Syntax { message, about } => QueryError::Syntax { message, about },
            Fault::Runtime { message, record } => QueryError::Runtime { message, record },
        })
    }
}

/// Derives the error from the exit status and standard error of a worker.
///
/// The runtime aborts both on a stack overflow and on a failed allocation, and has no hook for
/// either; only the messages differ. A test produces both.
fn death_cause(
    status: Option<ExitStatus>,
    stderr: &[u8],
    limits: &Limits,
    memory: u64,
) -> QueryError {
    let mentions = |what: &str| String::from_utf8_lossy(stderr).contains(what);
    let signal = status.and_then(|status| status.signal()).and_then(Signal::from_named_raw);
    match (signal, status.and_then(|status| status.code())) {
        (Some(Signal::ABORT | Signal::SEGV | Signal::BUS), _)
            if mentions("overflowed its stack") =>
        {
            QueryError::Depth
        }
        (Some(Signal::SEGV), _) => QueryError::Depth,
        // The out-of-memory killer sends SIGKILL.
        (Some(Signal::ABORT | Signal::KILL | Signal::BUS), _) => {
            QueryError::Memory { bytes: memory }
        }
        (Some(Signal::XCPU), _) | (None, None) => {
            QueryError::Time { wall: limits.effective_wall() }
        }
        (_, Some(EXIT_PANICKED))
            if mentions("memory allocation") || mentions("capacity overflow") =>
        {
            QueryError::Memory { bytes: memory }
        }
        (_, Some(EXIT_PANICKED)) => QueryError::Runtime {
            message: "the engine failed on this query".to_owned(),
            record: None,
        },
        (_, Some(EXIT_SETUP_FAILED)) => {
            let source = io::Error::other(sanitize_message(&String::from_utf8_lossy(stderr)));
            QueryError::Worker { doing: "apply its limits or read the query", source }
        }
        _ => QueryError::Worker {
            doing: "answer: the program is not a query worker",
            source: io::ErrorKind::UnexpectedEof.into(),
        },
    }
}

/// A counting semaphore with a deadline. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Semaphore(Arc<(Mutex<usize>, Condvar)>);

/// A permit to run a worker, released on drop.
#[derive(Debug)]
pub(super) struct Permit(Semaphore);

/// The reason why no permit was acquired.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AcquireError {
    Busy,
    Cancelled,
}

impl Semaphore {
    pub(super) fn new(permits: usize) -> Self {
        Self(Arc::new((Mutex::new(permits.max(1)), Condvar::new())))
    }

    pub(super) fn acquire(&self, until: Instant, cancel: &Cancel) -> Result<Permit, AcquireError> {
        let mut free = self.free();
        loop {
            if cancel.is_cancelled() {
                return Err(AcquireError::Cancelled);
            }
            if *free > 0 {
                *free -= 1;
                return Ok(Permit(self.clone()));
            }
            if Instant::now() >= until {
                return Err(AcquireError::Busy);
            }
            let waited = self.0.1.wait_timeout(free, POLL_INTERVAL);
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn free(&self) -> MutexGuard<'_, usize> {
        // Nothing panics while the lock is locked.
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.0.free() += 1;
        self.0.0.1.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::write_frame;

    #[test]
    fn frames_come_in_any_pieces() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, FRAME_LINES, b"1\n2\n").unwrap();
        write_frame(&mut bytes, FRAME_DONE, &serde_json::to_vec(&Completion::default()).unwrap())
            .unwrap();
        for size in 1..bytes.len() {
            let mut reader = FrameReader::new(4);
            for piece in bytes.chunks(size) {
                reader.feed(piece).unwrap();
            }
            assert_eq!(reader.lines, b"1\n2\n");
            assert!(reader.final_frame.is_some());
        }
    }

    #[test]
    fn n5_a_worker_that_says_more_than_it_may_is_not_believed() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, FRAME_LINES, b"12345").unwrap();
        assert!(FrameReader::new(4).feed(&bytes).is_err());
        assert!(FrameReader::new(4).feed(b"X\0\0\0\0").is_err());
        assert!(FrameReader::new(1 << 40).feed(b"D\xff\xff\xff\xff").is_err());
    }

    #[test]
    fn g39_a_worker_that_keeps_its_stderr_open_is_not_waited_for_beyond_the_deadline() {
        use std::os::unix::fs::PermissionsExt as _;

        use super::Semaphore;

        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("worker");
        // The first keeps it open, the second leaves it to a process that outlives it.
        for body in ["exec 1>&-; sleep 20", "sleep 20 1>&- & exit 3"] {
            std::fs::write(&script, format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
            let (cancel, began) = (Cancel::default(), Instant::now());
            let permit = Semaphore::new(1).acquire(began, &cancel).unwrap();
            let worker_limits = WorkerLimits { memory: 1 << 30, cpu_seconds: 10, threads: 1 };
            let process =
                WorkerProcess::start(&Program::at(&script), worker_limits, permit).unwrap();
            let limits = Limits::from_config(&lro_core::config::QueryConfig::default());
            let deadline = began + Duration::from_millis(700);
            assert!(process.read_answer(deadline, &limits, 1 << 30, &cancel).is_err());
            assert!(began.elapsed() < Duration::from_secs(8), "{body}: {:?}", began.elapsed());
        }
    }

    #[test]
    fn a_slot_is_free_again_when_it_is_dropped() {
        let semaphore = Semaphore::new(1);
        let cancel = Cancel::default();
        let soon = || Instant::now() + Duration::from_millis(30);
        let first = semaphore.acquire(soon(), &cancel).unwrap();
        assert_eq!(semaphore.acquire(soon(), &cancel).unwrap_err(), AcquireError::Busy);
        drop(first);
        assert!(semaphore.acquire(soon(), &cancel).is_ok());
        cancel.cancel();
        assert_eq!(semaphore.acquire(soon(), &cancel).unwrap_err(), AcquireError::Cancelled);
    }
}
