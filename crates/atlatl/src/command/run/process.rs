//! The command as a process: starts it, reads its output, forwards signals, and waits for its end.

use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use lro_spool::OutputStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;

use super::capture::Capture;
use super::signals::{self, Arrived, SignalQueue};
use super::sink::Sinks;
use super::wiring::{Shown, Source, Wiring};

/// The most bytes of a stream that are read in one turn: what a pipe holds. What the command wrote before
/// something else to the other stream is then read before it, and after the end of the command nothing of
/// it is left, although a process that it left behind may write without end.
const MAX_TURN_BYTES: usize = 1 << 20;
/// The time before the next attempt if the system cannot poll.
const POLL_RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// The program that passes on the output of processes that the command left behind.
const RELAY_PROGRAM: &str = "cat";

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// It exited with this status.
    Exited(u8),
    /// This signal ended it.
    Killed(i32),
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
            (None, Some(signal)) => Self::Killed(signal),
            (None, None) => Self::Exited(1),
        }
    }
}

/// A command that ended, and the sources that processes which it left behind still write to.
pub(super) struct Finished {
    pub(super) ended: Ended,
    left: Vec<Source>,
}

impl Finished {
    /// Leaves a process behind that passes on the further output of each source, as if the processes that
    /// write it had the streams of this process.
    pub(super) fn relay(self, sinks: &Sinks) {
        for source in self.left {
            if sinks.is_closed(source.stream) {
                continue;
            }
            let output = sinks.descriptor(source.stream).try_clone_to_owned();
            if let (Ok(output), Ok(input)) = (output, source.into_blocking()) {
                // Without it, these processes learn at their next write that the pipe has no reader.
                let _ = Command::new(RELAY_PROGRAM)
                    .stdin(Stdio::from(input))
                    .stdout(Stdio::from(output))
                    .stderr(Stdio::null())
                    .spawn();
            }
        }
    }
}

/// Runs `command` to its end, or `script` in its place if the system does not know its format. Fails
/// only if neither was started.
pub(super) fn run(
    command: Command,
    script: Option<Command>,
    wiring: Wiring,
    capture: &mut Capture<'_>,
    sinks: &mut Sinks,
) -> io::Result<Finished> {
    let signals = SignalQueue::new()?;
    let (child, sources) = match (start(command, wiring), script) {
        (Err(error), Some(script)) if is_unknown_format(&error) => start(script, wiring)?,
        (started, _) => started?,
    };
    let pid = Pid::from_child(&child);
    let exit = open_exit(pid);
    let mut run = Run { child, pid, exit, sources, signals, wiring };
    let ended = run.finish(capture, sinks);
    Ok(Finished { ended, left: run.sources })
}

/// Starts a command, and returns the readable ends of its output. The writable ends are closed with
/// `command`; otherwise the output would never end.
fn start(mut command: Command, wiring: Wiring) -> io::Result<(Child, Vec<Source>)> {
    let sources = wiring.connect(&mut command)?;
    Ok((command.spawn()?, sources))
}

/// Whether a program could not be executed because its format is unknown: a script without `#!`.
pub(super) fn is_unknown_format(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error())
}

/// A descriptor that becomes readable when the command ends. Without one, only SIGCHLD reports the end,
/// and the process that started this one may have blocked it.
#[cfg(target_os = "linux")]
fn open_exit(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_exit(_: Pid) -> Option<OwnedFd> {
    None
}

struct Run {
    child: Child,
    pid: Pid,
    /// Becomes readable when the command ends, where the system has that.
    exit: Option<OwnedFd>,
    sources: Vec<Source>,
    signals: SignalQueue,
    wiring: Wiring,
}

/// What to poll for.
#[derive(Default)]
struct Ready {
    sources: Vec<bool>,
    signals: bool,
    /// The command has ended.
    exit: bool,
    /// Streams of this process that have no reader any more.
    closed: Vec<OutputStream>,
}

/// The result of reading from a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadOutcome {
    Bytes(usize),
    /// There is nothing at the moment.
    Empty,
    /// Every process that could write has closed it.
    End,
}

impl Run {
    /// Reads output and forwards signals until the command ends.
    fn finish(&mut self, capture: &mut Capture<'_>, sinks: &mut Sinks) -> Ended {
        loop {
            let ready = self.wait(capture.save_timeout(), sinks);
            capture.save_if_due(sinks);
            self.read_turn(&ready.sources, capture, sinks);
            for stream in ready.closed {
                // The command is then told in the usual way when it writes again.
                sinks.close(stream);
                self.sources.retain(|source| source.stream != stream);
            }
            if (ready.signals || ready.exit)
                && let Some(ended) = self.handle_signals(ready.exit)
            {
                self.signals.release();
                self.read_turn(&[true; 2], capture, sinks);
                return ended;
            }
        }
    }

    /// Waits for output, a signal, or the end of `timeout`.
    fn wait(&self, timeout: Option<Duration>, sinks: &Sinks) -> Ready {
        let mut polled = vec![PollFd::new(&self.signals, PollFlags::IN)];
        polled.extend(self.sources.iter().map(|s| PollFd::new(&s.file, PollFlags::IN)));
        // Errors and hang-ups are always reported.
        let watched: Vec<OutputStream> = match self.wiring.shown() {
            Shown::Live => Vec::new(),
            Shown::AtEnd => self.sources.iter().map(|source| source.stream).collect(),
        };
        polled.extend(self.exit.iter().map(|exit| PollFd::new(exit, PollFlags::IN)));
        for stream in &watched {
            polled.push(PollFd::from_borrowed_fd(sinks.descriptor(*stream), PollFlags::empty()));
        }
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        match poll(&mut polled, timeout.as_ref()) {
            // The next call reports the signal that interrupted this one.
            Ok(_) | Err(Errno::INTR) => {}
            // The system is short of memory.
            Err(_) => std::thread::sleep(POLL_RETRY_INTERVAL),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (signals, rest) = polled.split_at(1);
        let (sources, rest) = rest.split_at(self.sources.len());
        let (exit, readers) = rest.split_at(usize::from(self.exit.is_some()));
        let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        Ready {
            signals: signals.iter().any(is_ready),
            exit: exit.iter().any(is_ready),
            sources: sources.iter().map(is_ready).collect(),
            closed: watched
                .into_iter()
                .zip(readers)
                .filter(|(_, fd)| fd.revents().intersects(gone))
                .map(|(stream, _)| stream)
                .collect(),
        }
    }

    /// Forwards signals. Returns how the command ended, if it did. `child_changed` is true if that is
    /// known without a signal.
    fn handle_signals(&mut self, mut child_changed: bool) -> Option<Ended> {
        for signal in self.signals.arrived() {
            match signal {
                Arrived::Child => child_changed = true,
                Arrived::Forward(signal) => signals::forward(signal, self.pid),
                Arrived::WindowSize if self.wiring.shown() == Shown::Live => {
                    self.sources.iter().for_each(Source::update_size);
                    signals::announce_window_size(self.pid);
                }
                Arrived::WindowSize => {}
            }
        }
        if !child_changed {
            return None;
        }
        match self.child.try_wait() {
            Ok(status) => status.map(Ended::from),
            // Another part of the process waited for it, which does not happen.
            Err(_) => Some(Ended::Exited(1)),
        }
    }

    /// Reads what the ready sources have. Standard output goes first: which of two ready streams was
    /// written first is unknown.
    fn read_turn(&mut self, ready: &[bool], capture: &mut Capture<'_>, sinks: &mut Sinks) {
        let mut open = Vec::new();
        for (mut source, is_ready) in self.sources.drain(..).zip(ready) {
            let mut total = 0;
            let mut outcome = ReadOutcome::Empty;
            while *is_ready && total < MAX_TURN_BYTES {
                outcome = read(&mut source, capture, sinks);
                match outcome {
                    ReadOutcome::Bytes(read) => total += read,
                    ReadOutcome::Empty | ReadOutcome::End => break,
                }
            }
            if outcome != ReadOutcome::End {
                open.push(source);
            }
        }
        self.sources = open;
    }
}

/// Reads once from a source.
fn read(source: &mut Source, capture: &mut Capture<'_>, sinks: &mut Sinks) -> ReadOutcome {
    match source.file.read(capture.space()) {
        Ok(0) => ReadOutcome::End,
        Ok(read) => {
            capture.take(source.stream, read, sinks);
            ReadOutcome::Bytes(read)
        }
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => ReadOutcome::Empty,
            // A pseudo-terminal that no process has open any more reports an error.
            _ => ReadOutcome::End,
        },
    }
}
