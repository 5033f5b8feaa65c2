//! Stdio: the server as a process, and whatever it starts.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// How long a process may take to end after it was asked to.
const AFTER_TERM: Duration = Duration::from_millis(200);
/// How often is looked.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A server that runs in a process group of its own, so that nothing it started stays behind:
/// `npx` and its like put several processes between us and the server.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Option<Pid>,
}

impl Process {
    /// Starts `command` and gives its two streams. Its standard error is ours.
    pub fn start(command: Command) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        Self::start_with(command, Stdio::inherit())
    }

    /// The same, with somewhere else for its standard error to go.
    pub fn start_with(
        mut command: Command,
        error: Stdio,
    ) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(error);
        let mut child = command.process_group(0).spawn()?;
        let streams = child.stdin.take().zip(child.stdout.take());
        let (input, output) = streams.ok_or(io::ErrorKind::BrokenPipe)?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok((Self { child, group }, input, output))
    }

    /// Waits for the server to end by itself, at most so long.
    pub fn wait(&mut self, most: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + most;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= until {
                return None;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Ends the server and all that it started, first kindly. Its input should be closed before.
    pub fn stop(&mut self) -> Option<ExitStatus> {
        self.signal(Signal::TERM);
        let until = Instant::now() + AFTER_TERM;
        let mut status = None;
        while Instant::now() < until {
            status = status.or(self.child.try_wait().ok().flatten());
            // The group is there as long as anyone of it is.
            if status.is_some() && !self.group_is_there() {
                return status;
            }
            thread::sleep(POLL_INTERVAL);
        }
        self.signal(Signal::KILL);
        status.or_else(|| self.child.wait().ok())
    }

    fn group_is_there(&self) -> bool {
        self.group.is_some_and(|group| test_kill_process_group(group).is_ok())
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It may be gone already.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// The exit code that says the same as `status`, as a shell would have it.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
