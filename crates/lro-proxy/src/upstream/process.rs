//! A server process and its process group.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// How long a process group may take to exit after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_millis(200);
/// How often the process is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A server in its own process group, so that all its children are stopped with it. Launchers such as
/// `npx` put several processes between the proxy and the server.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Option<Pid>,
}

impl Process {
    /// Starts `command` and returns its two streams. It inherits the standard error stream.
    pub fn start(command: Command) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        Self::start_with(command, Stdio::inherit())
    }

    /// Starts `command` with another standard error stream.
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

    /// Waits for the server to exit, for at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Stops the process group, first with SIGTERM, then with SIGKILL. Close the server's input before.
    pub fn stop(&mut self) -> Option<ExitStatus> {
        self.signal(Signal::TERM);
        let deadline = Instant::now() + TERM_TIMEOUT;
        let mut status = None;
        while Instant::now() < deadline {
            status = status.or(self.child.try_wait().ok().flatten());
            // The group exists as long as any of its processes.
            if status.is_some() && !self.group_exists() {
                return status;
            }
            thread::sleep(POLL_INTERVAL);
        }
        self.signal(Signal::KILL);
        status.or_else(|| self.child.wait().ok())
    }

    fn group_exists(&self) -> bool {
        self.group.is_some_and(|group| test_kill_process_group(group).is_ok())
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The group may have exited already.
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

/// Converts `status` to an exit code as a shell does.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
