//! A user of the program on a pseudo-terminal: keys in, screen contents out.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::program::{Program, terminal};

/// The time limit for an expected screen, for busy machines.
pub(crate) const SCREEN_TIMEOUT: Duration = Duration::from_secs(30);

/// The sequences that enter and leave the alternate screen.
pub(crate) const ENTERED: &str = "\u{1b}[?1049h";
pub(crate) const LEFT: &str = "\u{1b}[?1049l";

/// The columns and rows of a usual terminal.
const USUAL: (u16, u16) = (80, 24);

/// A user of the program on a pseudo-terminal.
pub(crate) struct Person {
    pub(crate) hand: File,
    pub(crate) terminal: File,
    pub(crate) child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    size: (u16, u16),
}

impl Person {
    pub(crate) fn at(program: &Program, args: &[&str]) -> Self {
        Self::with_term(program, args, "xterm-256color")
    }

    /// With another value of `TERM`.
    pub(crate) fn with_term(program: &Program, args: &[&str], term: &str) -> Self {
        Self::start(program, args, term, USUAL)
    }

    /// At a terminal with this number of columns and rows.
    pub(crate) fn with_size(program: &Program, args: &[&str], size: (u16, u16)) -> Self {
        Self::start(program, args, "xterm-256color", size)
    }

    fn start(program: &Program, args: &[&str], term: &str, size: (u16, u16)) -> Self {
        let (hand, terminal) = terminal();
        let winsize = Winsize { ws_row: size.1, ws_col: size.0, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, winsize).unwrap();
        let end = || Stdio::from(terminal.try_clone().unwrap());
        let child = program
            .command(args)
            .env("TERM", term)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut eye, into) = (hand.try_clone().unwrap(), Arc::clone(&shown));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = eye.read(&mut buffer) {
                into.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        Self { hand, terminal, child, shown, size }
    }

    /// The output so far.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// The lines on the screen, as they are.
    pub(crate) fn lines(&self) -> String {
        lines(&self.shown(), self.size).join("\n").trim_end().to_owned() + "\n"
    }

    /// Waits for the end of a command that prints and ends, and returns the lines on the screen.
    pub(crate) fn prints(mut self) -> String {
        self.child.wait().unwrap();
        // What it wrote last may still be in the pseudo-terminal.
        let mut shown = self.shown();
        loop {
            thread::sleep(Duration::from_millis(100));
            let later = self.shown();
            if later == shown {
                return self.lines();
            }
            shown = later;
        }
    }

    /// Waits until `text` is on the screen.
    pub(crate) fn sees(&mut self, text: &str) {
        self.waits(|screen| screen.contains(text), text);
    }

    /// Waits until `text` is on a screen of any size.
    pub(crate) fn sees_anywhere(&mut self, text: &str) {
        self.waits_for_lines(|lines| lines.contains(text));
    }

    /// Waits until the lines of the screen are as expected.
    pub(crate) fn waits_for_lines(&mut self, met: impl Fn(&str) -> bool) {
        let since = Instant::now();
        while !met(&self.lines()) {
            assert!(since.elapsed() < SCREEN_TIMEOUT, "not on the screen:\n{}", self.lines());
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn waits(&mut self, met: impl Fn(&str) -> bool, what: &str) {
        let since = Instant::now();
        loop {
            let screen = screen(&self.shown());
            if met(&screen) {
                return;
            }
            assert!(since.elapsed() < SCREEN_TIMEOUT, "{what:?} is not on the screen:\n{screen}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn presses(&mut self, keys: &str) {
        self.hand.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        !modes.contains(LocalModes::ICANON) && !modes.contains(LocalModes::ECHO)
    }

    /// Waits for the exit, and checks that the terminal is restored.
    pub(crate) fn leaves(mut self) -> std::process::ExitStatus {
        let since = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(since.elapsed() < SCREEN_TIMEOUT, "it does not end");
            thread::sleep(Duration::from_millis(20));
        };
        assert!(!self.is_raw(), "the terminal is still raw");
        self.sees_end();
        status
    }

    fn sees_end(&self) {
        let since = Instant::now();
        while since.elapsed() < SCREEN_TIMEOUT {
            let shown = self.shown();
            if shown.contains(LEFT) && shown.ends_with("\u{1b}[?25h") {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("the terminal was not given back: {:?}", self.shown());
    }
}

/// What is on a screen of the usual size after this was written to it: its lines, with one space where there
/// are several.
pub(crate) fn screen(written: &str) -> String {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    lines(written, USUAL).iter().map(|line| words(line)).collect::<Vec<_>>().join("\n")
}

/// The lines of a screen of this size after this was written to it.
fn lines(written: &str, (columns, rows): (u16, u16)) -> Vec<String> {
    let size = |cells| NonZeroU16::new(cells).unwrap();
    let mut terminal = vt100::Parser::new(size(rows), size(columns), 0);
    terminal.process(written.as_bytes());
    let lines = terminal.screen().rows(0, columns);
    lines.map(|line| line.trim_end().to_owned()).collect()
}
