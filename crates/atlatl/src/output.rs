//! All printing: data to standard output, everything else to standard error.

mod indent;
mod layout;
mod progress;

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stderr, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use lro_core::payload::{Payload, Unreadable, each_piece};
use serde::Serialize;

pub(crate) use self::indent::indent;
pub(crate) use self::layout::{
    Facts, Table, distance, emphasized, expiry, grouped, pluralize, pluralize as counted,
    printable, size,
};
pub(crate) use self::progress::{ByteProgress, Progress, Spinner, Spinner as Waiting};
use crate::error::{Error, Status};

/// The value of `--output`, the former spelling of `--json` and of `extract --format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FormerFormat {
    #[value(alias = "table")]
    Human,
    Json,
    Jsonl,
    Csv,
}

/// What the user said about the output of any command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OutputOptions {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) former: Option<FormerFormat>,
}

/// Whether the data is for a person or for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A person.
    Human,
    /// A program.
    Json,
}

/// Whether the user wants no notes, for code that does not have the command's `Output`.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Whether notes of such code are lines of the log.
static LOGGED: AtomicBool = AtomicBool::new(false);

/// The columns below which nothing is laid out: lines wrap there.
const MIN_WIDTH: usize = 40;
/// The bytes of a payload that are read and printed at a time.
const PAYLOAD_CHUNK_LEN: usize = 1 << 20;

/// An error while reading or printing a payload.
struct PayloadOutputError(io::Error);

impl From<io::Error> for PayloadOutputError {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

impl From<Unreadable> for PayloadOutputError {
    fn from(error: Unreadable) -> Self {
        Self(io::Error::other(error))
    }
}

const HEADING: Style = Style::new().bold();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();
const NOTE: Style = AnsiColor::Yellow.on_default().bold();

/// Standard output and standard error. Colours follow the terminal and `NO_COLOR`.
pub(crate) struct Output {
    options: OutputOptions,
    stdout: AutoStream<Stdout>,
    stderr: AutoStream<Stderr>,
}

impl Output {
    /// Prints text for people, or JSON if the user says so.
    pub(crate) fn new(options: OutputOptions) -> Self {
        QUIET.store(options.quiet, Ordering::Relaxed);
        Self { options, stdout: anstream::stdout(), stderr: anstream::stderr() }
    }

    /// Whether a command's data is for a person or for a program.
    pub(crate) fn mode(&self) -> Mode {
        let former = matches!(self.options.former, Some(FormerFormat::Json));
        if self.options.json || former { Mode::Json } else { Mode::Human }
    }

    /// The value of `--output`.
    pub(crate) fn former_format(&self) -> Option<FormerFormat> {
        self.options.former
    }

    /// Whether data goes to a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.stdout.as_inner().is_terminal()
    }

    /// Whether nothing reads standard output any more.
    pub(crate) fn is_closed(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut stdout = [PollFd::new(self.stdout.as_inner(), PollFlags::empty())];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut stdout, Some(&now)).is_ok_and(|ready| {
            ready > 0 && stdout[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
        })
    }

    /// Whether input and output are a terminal and the user chose no format.
    pub(crate) fn is_interactive(&self) -> bool {
        let is_plain = !self.options.json && self.options.former.is_none();
        is_plain && io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// The columns of the terminal; `None` if data does not go to one.
    pub(crate) fn width(&self) -> Option<usize> {
        let size = rustix::termios::tcgetwinsize(self.stdout.as_inner()).ok()?;
        Some(usize::from(size.ws_col).max(MIN_WIDTH)).filter(|_| size.ws_col > 0)
    }

    /// Whether data may have colours.
    pub(crate) fn has_colours(&self) -> bool {
        self.stdout.current_choice() != ColorChoice::Never
    }

    /// Prints one line of data.
    pub(crate) fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.stdout, "{}", printable(&text.to_string()))
    }

    /// Prints data that has its own line ends.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.stdout.write_all(text.as_bytes())
    }

    /// Prints data byte for byte.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        // The auto stream would remove escape sequences.
        let mut stdout = self.stdout.as_inner().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    /// Prints data as JSON, in any mode.
    pub(crate) fn json<T: Serialize + ?Sized>(&mut self, data: &T) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(data)?;
        text.push('\n');
        self.bytes(lro_core::escape_invisible_json(&text).as_bytes())
    }

    /// Prints JSON text indented, without changing its literals. Parsing and serializing it again could
    /// change numbers.
    pub(crate) fn lexemes(&mut self, json: &str) -> io::Result<()> {
        let mut text = indent(json);
        text.push('\n');
        self.bytes(lro_core::escape_invisible_json(&text).as_bytes())
    }

    /// Asks a yes/no question on the terminal. Any answer but yes is no. `None` if there is no terminal.
    pub(crate) fn confirmed(&mut self, question: impl Display) -> io::Result<Option<bool>> {
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Ok(None);
        }
        // In one write: input that is typed ahead would be echoed between two.
        self.stderr.write_all(format!("{} [y/N] ", printable(&question.to_string())).as_bytes())?;
        self.stderr.flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")))
    }

    /// Prints untrusted text byte for byte, or with control characters escaped on a terminal.
    pub(crate) fn foreign(&mut self, bytes: &[u8]) -> io::Result<()> {
        match str::from_utf8(bytes) {
            Ok(text) if io::stdout().is_terminal() => {
                self.bytes(lro_core::escape_invisible(text).as_bytes())
            }
            _ => self.bytes(bytes),
        }
    }

    /// Prints an untrusted payload that is too large for memory, as [`foreign`](Self::foreign) does. On a
    /// terminal, bytes that are not UTF-8 show as U+FFFD.
    pub(crate) fn foreign_payload(&mut self, payload: &dyn Payload) -> io::Result<()> {
        let is_terminal = io::stdout().is_terminal();
        let mut rest = Vec::new();
        each_piece(payload, PAYLOAD_CHUNK_LEN, |piece| {
            if !is_terminal {
                return Ok(self.bytes(piece)?);
            }
            rest.extend_from_slice(piece);
            // An incomplete character at the end waits for the next piece.
            let end = match str::from_utf8(&rest) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => rest.len(),
            };
            let text = String::from_utf8_lossy(&rest[..end]);
            self.bytes(lro_core::escape_invisible(&text).as_bytes())?;
            rest.drain(..end);
            Ok::<_, PayloadOutputError>(())
        })
        .map_err(|PayloadOutputError(error)| error)?;
        self.bytes(lro_core::escape_invisible(&String::from_utf8_lossy(&rest)).as_bytes())
    }

    /// A writer for data that is too large for memory.
    pub(crate) fn writer(&mut self) -> impl Write {
        BufWriter::new(self.stdout.as_inner().lock())
    }

    /// Prints data in aligned columns.
    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        self.stdout.write_all(table.render(self.width()).as_bytes())
    }

    /// Prints data as labelled facts.
    pub(crate) fn facts(&mut self, facts: &Facts) -> io::Result<()> {
        self.stdout.write_all(facts.render(self.width()).as_bytes())
    }

    /// Prints a note to standard error. A failure to do so is ignored: the data matters more.
    pub(crate) fn note(&mut self, text: impl Display) {
        if self.options.quiet {
            return;
        }
        let _ = labelled(&mut self.stderr, NOTE, "note", &text.to_string());
    }

    /// Prints a note that the user needs, also with `--quiet`.
    pub(crate) fn warning(&mut self, text: impl Display) {
        let _ = labelled(&mut self.stderr, NOTE, "note", &text.to_string());
    }

    /// Prints a hint to standard error: what to do next.
    pub(crate) fn hint(&mut self, text: impl Display) {
        if self.options.quiet {
            return;
        }
        let _ = labelled(&mut self.stderr, HINT, "hint", &text.to_string());
    }

    /// Makes [`remark`](Self::remark) write to the log of the server.
    pub(crate) fn log_remarks() {
        LOGGED.store(true, Ordering::Relaxed);
    }

    /// Prints a note from code that does not have the command's `Output`.
    pub(crate) fn remark(text: impl Display) {
        if LOGGED.load(Ordering::Relaxed) {
            tracing::info!("{text}");
            return;
        }
        if QUIET.load(Ordering::Relaxed) {
            return;
        }
        let mut stream = anstream::stderr();
        let _ = labelled(&mut stream, NOTE, "note", &text.to_string());
    }

    /// Prints an error with its hints, and returns the exit status.
    pub(crate) fn error(&mut self, error: &Error) -> Status {
        for report in error.reports() {
            // If this cannot be printed, the exit status still reports the failure.
            let _ = labelled(&mut self.stderr, ERROR, "error", &report.message);
            if let Some(hint) = &report.hint {
                let _ = labelled(&mut self.stderr, HINT, "hint", hint);
            }
        }
        error.status()
    }
}

fn labelled(to: &mut impl Write, style: Style, label: &str, text: &str) -> io::Result<()> {
    writeln!(to, "{style}{label}:{style:#} {}", printable(text))
}
