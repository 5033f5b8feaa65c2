//! Raw mode with guaranteed restoration (on exit, error, panic and signal), and translation of
//! keys.

use std::io::{Stdout, Write as _, stdout};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{io, panic};

use atlatl_browse::KeyPress;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::error::Error;

/// The size of a terminal that does not report one.
const FALLBACK_SIZE: (u16, u16) = (80, 24);

/// The terminal in raw mode and on the alternate screen. Dropping it restores the terminal.
pub(in crate::command::results) struct TerminalGuard {
    /// Never dropped: its destructor shows the cursor and, if the terminal has closed, prints an
    /// error to it.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    size: Option<(u16, u16)>,
}

impl TerminalGuard {
    /// Enters raw mode and the alternate screen.
    pub(in crate::command::results) fn acquire() -> Result<Self, Error> {
        // Release builds abort on panic without running destructors.
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore_terminal();
            before(panic);
        }));
        let enter = || -> io::Result<_> {
            enable_raw_mode()?;
            execute!(stdout(), EnterAlternateScreen, cursor::Hide)?;
            // The size of the terminal on standard output, which may differ from the controlling
            // terminal.
            let (width, height) = size();
            let viewport = Viewport::Fixed(Rect::new(0, 0, width, height));
            let backend = CrosstermBackend::new(stdout());
            Terminal::with_options(backend, TerminalOptions { viewport })
        };
        match enter() {
            Ok(terminal) => Ok(Self { terminal: ManuallyDrop::new(terminal), size: None }),
            Err(error) => {
                restore_terminal();
                Err(Error::failure(format!("cannot use the terminal: {error}"))
                    .with_hint("atlatl results show REF --plain"))
            }
        }
    }

    /// The size, if it changed since the last call.
    pub(in crate::command::results) fn resized(&mut self) -> io::Result<Option<(u16, u16)>> {
        let now = size();
        if self.size == Some(now) {
            return Ok(None);
        }
        self.size = Some(now);
        self.terminal.resize(Rect::new(0, 0, now.0, now.1))?;
        Ok(Some(now))
    }

    /// Makes the next call of [`resized`](Self::resized) return the size: another screen is drawn.
    pub(in crate::command::results) fn forget_size(&mut self) {
        self.size = None;
    }

    /// Asks the terminal to put a text into the clipboard (OSC 52). It may ignore that.
    pub(in crate::command::results) fn copy(&mut self, text: &str) -> io::Result<()> {
        let out = self.terminal.backend_mut();
        write!(out, "\x1b]52;c;{}\x07", BASE64_STANDARD.encode(text))?;
        out.flush()
    }

    /// Draws a frame.
    pub(in crate::command::results) fn draw(
        &mut self,
        draw: impl FnOnce(&mut Frame<'_>),
    ) -> io::Result<()> {
        self.terminal.draw(draw).map(|_| ())
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore_terminal();
    }
}

fn restore_terminal() {
    // Errors cannot be reported anywhere.
    let _ = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}

/// Waits for input or until the timeout; returns whether the terminal has closed.
pub(in crate::command::results) fn poll_closed(timeout: Duration) -> bool {
    let stdin = io::stdin();
    let mut descriptors = [PollFd::new(&stdin, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout).ok();
    // A signal interrupts it too, and is checked next.
    let _ = poll(&mut descriptors, timeout.as_ref());
    descriptors[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

fn size() -> (u16, u16) {
    match rustix::termios::tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        _ => FALLBACK_SIZE,
    }
}

/// Termination signals, deferred until the terminal is restored and the file of an unfinished export is
/// removed.
pub(in crate::command::results) struct PendingSignals(Arc<AtomicUsize>);

const NO_SIGNAL: usize = 0;
const TERMINATING_SIGNALS: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

impl PendingSignals {
    /// Registers the handlers.
    pub(in crate::command::results) fn watch() -> Result<Self, Error> {
        let pending = Arc::new(AtomicUsize::new(NO_SIGNAL));
        for (index, signal) in TERMINATING_SIGNALS.into_iter().enumerate() {
            flag::register_usize(signal, Arc::clone(&pending), index + 1)
                .map_err(|error| Error::failure(format!("cannot watch for signals: {error}")))?;
        }
        Ok(Self(pending))
    }

    /// Whether a signal has arrived.
    pub(in crate::command::results) fn is_pending(&self) -> bool {
        self.0.load(Ordering::Relaxed) != NO_SIGNAL
    }

    /// Performs the default action of the signal that arrived, if any.
    pub(in crate::command::results) fn raise(&self) {
        let index = self.0.load(Ordering::Relaxed);
        if let Some(signal) = index.checked_sub(1).and_then(|index| TERMINATING_SIGNALS.get(index))
        {
            // Ends the process; an error cannot be handled.
            let _ = low_level::emulate_default_handler(*signal);
        }
    }
}

/// Translates a terminal event to a key of the browser; `None` if it has no meaning.
pub(in crate::command::results) fn key_press(event: &Event) -> Option<KeyPress> {
    let Event::Key(event) = event else { return None };
    if event.kind == KeyEventKind::Release {
        return None;
    }
    Some(match event.code {
        KeyCode::Char(c) if event.modifiers.contains(KeyModifiers::CONTROL) => {
            KeyPress::Ctrl(c.to_ascii_lowercase())
        }
        KeyCode::Char(_) if event.modifiers.contains(KeyModifiers::ALT) => return None,
        KeyCode::Char(c) => KeyPress::Char(c),
        KeyCode::Up => KeyPress::Up,
        KeyCode::Down => KeyPress::Down,
        KeyCode::Left => KeyPress::Left,
        KeyCode::Right => KeyPress::Right,
        KeyCode::PageUp => KeyPress::PageUp,
        KeyCode::PageDown => KeyPress::PageDown,
        KeyCode::Home => KeyPress::Home,
        KeyCode::End => KeyPress::End,
        KeyCode::Enter => KeyPress::Enter,
        KeyCode::Esc => KeyPress::Esc,
        KeyCode::Backspace => KeyPress::Backspace,
        KeyCode::Delete => KeyPress::Delete,
        _ => return None,
    })
}
