//! The terminal while it is ours, and the way back: after an end, an error, a panic or a signal.

use std::{
    io::{self, Stdout, stdout},
    mem::ManuallyDrop,
    panic,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ratatui::{
    Frame, Terminal, TerminalOptions, Viewport,
    backend::CrosstermBackend,
    crossterm::{
        cursor, execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
    layout::Rect,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::{
    consts::{SIGINT, SIGQUIT, SIGTERM},
    flag, low_level,
};

use crate::error::Error;

/// The size of a terminal that does not know its own.
const USUAL: (u16, u16) = (80, 24);

/// The terminal, in raw mode and on its second screen. It is given back when this is dropped.
pub(super) struct SpillBuffer {
    /// Never dropped by itself: it would show the cursor again and, where the terminal has gone, print
    /// that it cannot to one that has gone too.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    size: Option<(u16, u16)>,
}

impl SpillBuffer {
    /// Takes it.
    pub(super) fn taken() -> Result<Self, Error> {
        // The program as released ends in a panic without dropping anything.
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        let taken = || -> io::Result<_> {
            enable_raw_mode()?;
            execute!(stdout(), EnterAlternateScreen, cursor::Hide)?;
            // The size is ours to say: that of the terminal which is written to, also where the
            // process belongs to another one.
            let (width, height) = size();
            let viewport = Viewport::Fixed(Rect::new(0, 0, width, height));
            let backend = CrosstermBackend::new(stdout());
            Terminal::with_options(backend, TerminalOptions { viewport })
        };
        match taken() {
            Ok(terminal) => Ok(Self { terminal: ManuallyDrop::new(terminal), size: None }),
            Err(error) => {
                give_back();
                Err(Error::failure(format!("cannot use the terminal: {error}"))
                    .with_hint("atlatl results show REF --plain"))
            }
        }
    }

    /// Its size, where that is news.
    pub(super) fn resized(&mut self) -> io::Result<Option<(u16, u16)>> {
        let now = size();
        if self.size == Some(now) {
            return Ok(None);
        }
        self.size = Some(now);
        self.terminal.resize(Rect::new(0, 0, now.0, now.1))?;
        Ok(Some(now))
    }

    /// Draws on it.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(|_| ())
    }
}

impl Drop for SpillBuffer {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    // Nobody is left to tell when even this cannot be done.
    let _ = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}

/// Waits until there is something to read, at most so long; whether the terminal has gone.
pub(super) fn is_gone(patience: Duration) -> bool {
    let stdin = io::stdin();
    let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
    let patience = Timespec::try_from(patience).ok();
    // A signal ends it too, and is looked at next.
    let _ = poll(&mut waiting, patience.as_ref());
    waiting[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

fn size() -> (u16, u16) {
    match rustix::termios::tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        _ => USUAL,
    }
}

/// Signals that end a program; here they wait until the terminal is given back. The one that says
/// that there is none any more is not among them.
pub(super) struct Interrupts(Arc<AtomicUsize>);

const NONE: usize = 0;
const ENDING: [i32; 3] = [SIGINT, SIGQUIT, SIGTERM];

impl Interrupts {
    /// Watches for them from now on.
    pub(super) fn watched() -> Result<Self, Error> {
        let came = Arc::new(AtomicUsize::new(NONE));
        for (place, signal) in ENDING.into_iter().enumerate() {
            flag::register_usize(signal, Arc::clone(&came), place + 1)
                .map_err(|error| Error::failure(format!("cannot watch for signals: {error}")))?;
        }
        Ok(Self(came))
    }

    /// Whether one came.
    pub(super) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed) != NONE
    }

    /// Does what the signal would have done, where one came.
    pub(super) fn obey(&self) {
        let place = self.0.load(Ordering::Relaxed);
        if let Some(signal) = place.checked_sub(1).and_then(|place| ENDING.get(place)) {
            // It ends the process, or there is nothing more to be done about it.
            let _ = low_level::emulate_default_handler(*signal);
        }
    }
}
