//! Signals: those that `atlatl run` forwards to the command, and the one that ended it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Resource, Rlimit, Signal, getpgrp, getpid, kill_process, setrlimit};
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
use signal_hook::{flag, low_level};

/// Signals that end or inform a process. They are forwarded to the command.
const FORWARDED: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
/// Signals that only inform. After the command has ended, there is nothing to inform about.
const INFORMING: [i32; 2] = [SIGUSR1, SIGUSR2];
/// Signals that a terminal sends to its foreground process group, which the command is in.
const FROM_KEYBOARD: [i32; 2] = [SIGINT, SIGQUIT];

/// The signals of this process, as a descriptor that can be polled.
pub(super) struct SignalQueue {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    /// Whether the signals have their default action again.
    released: Arc<AtomicBool>,
}

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrived {
    /// A child changed its state.
    Child,
    /// The terminal has another size.
    WindowSize,
    /// A signal for the command.
    Forward(i32),
}

impl SignalQueue {
    /// Catches the signals that matter. Those that this process was started with as ignored stay
    /// ignored, in the command as well: `nohup`, and background jobs of a shell.
    pub(super) fn new() -> io::Result<Self> {
        let ignored = ignored_signals();
        let is_ignored = |signal: &&i32| ignored & (1 << (**signal - 1)) != 0;
        let forwarded = FORWARDED.iter().filter(|signal| !is_ignored(signal));
        let released = Arc::default();
        for signal in forwarded.clone().filter(|signal| !INFORMING.contains(signal)) {
            flag::register_conditional_default(*signal, Arc::clone(&released))?;
        }
        let (read, write) = UnixStream::pair()?;
        let signals = forwarded.chain(&[SIGCHLD, SIGWINCH]);
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, signals)?;
        Ok(Self { delivery, released })
    }

    /// Gives the signals that end a process their default action back: the command has ended, and they
    /// are for this process. The others are ignored: this process is storing the output.
    pub(super) fn release(&self) {
        self.released.store(true, Ordering::Relaxed);
    }

    /// The signals since the last call. Does not wait.
    pub(super) fn arrived(&mut self) -> Vec<Arrived> {
        let arrived = self.delivery.pending().map(|signal| match signal {
            SIGCHLD => Arrived::Child,
            SIGWINCH => Arrived::WindowSize,
            other => Arrived::Forward(other),
        });
        arrived.collect()
    }
}

impl AsFd for SignalQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }
}

/// Sends a signal to the command, unless the terminal has sent it there.
pub(super) fn forward(signal: i32, command: Pid) {
    if FROM_KEYBOARD.contains(&signal) && may_come_from_keyboard() {
        return;
    }
    if let Some(signal) = Signal::from_named_raw(signal) {
        // The command may have ended meanwhile.
        let _ = kill_process(command, signal);
    }
}

/// Tells the command that the terminal has another size.
pub(super) fn announce_window_size(command: Pid) {
    let _ = kill_process(command, Signal::WINCH);
}

/// Whether the keyboard of the terminal sends signals to this process: it is in the foreground process
/// group, and the terminal is not in raw mode, in which only a program can have sent the signal.
fn may_come_from_keyboard() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp())
        && tcgetattr(&terminal).is_ok_and(|modes| modes.local_modes.contains(LocalModes::ISIG))
}

/// The set of ignored signals: bit 0 is signal 1. Empty where the system does not tell.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Ends this process by the signal that ended the command, without a core file of its own. Returns if
/// the signal does not end this process.
pub(super) fn die_by(signal: i32) {
    // No signal ends the first process of a container, and the emulation would abort.
    if getpid().is_init() {
        return;
    }
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, none);
    let _ = low_level::emulate_default_handler(signal);
    // Signals without a name are not emulated, and have their default action here.
    let _ = low_level::raise(signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_informs_does_not_end_a_process_that_stores_output() {
        let mut queue = SignalQueue::new().unwrap();
        low_level::raise(SIGUSR1).unwrap();
        assert!(queue.arrived().contains(&Arrived::Forward(SIGUSR1)));
        queue.release();
        // The default action would end this test.
        for signal in INFORMING {
            low_level::raise(signal).unwrap();
        }
    }
}
