//! All printing: data to standard output, everything else to standard error.

mod amount;
mod facts;
mod indent;
mod progress;
mod waiting;

use std::{
    borrow::Cow,
    fmt::{Display, Write as _},
    io::{self, BufWriter, IsTerminal, Stderr, Stdout, Write},
};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use lro_core::payload::{Payload, Unreadable, each_piece};
use serde::Serialize;

pub(crate) use self::{
    amount::{counted, distance, grouped, size},
    facts::Facts,
    indent::indent,
    progress::{ByteProgress, Progress},
    waiting::Waiting,
};
use crate::error::{Error, Status};

/// The form of the data that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// For a person at a terminal
    #[value(alias = "table")]
    Human,
    /// For a program
    Json,
    /// A JSON value per line; `extract` only
    Jsonl,
    /// For a spreadsheet; `extract` only
    Csv,
}

/// For whom the data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A person.
    Human,
    /// A program.
    Json,
}

/// How much of a payload is printed at a time.
const FOREIGN_PIECE: usize = 1 << 20;

/// Why a payload was not printed to its end.
struct PayloadOutput(io::Error);

impl From<io::Error> for PayloadOutput {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

impl From<Unreadable> for PayloadOutput {
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
    form: Form,
    /// Whether somebody asked for that form.
    asked: bool,
    data: AutoStream<Stdout>,
    rest: AutoStream<Stderr>,
}

impl Output {
    /// With the form that was asked for, or the one which fits where the output goes.
    pub(crate) fn new(asked: Option<Form>) -> Self {
        let fitting = if io::stdout().is_terminal() { Form::Human } else { Form::Json };
        Self {
            form: asked.unwrap_or(fitting),
            asked: asked.is_some(),
            data: anstream::stdout(),
            rest: anstream::stderr(),
        }
    }

    /// The form that a command's data should have.
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// For whom a command's data is.
    pub(crate) fn mode(&self) -> Mode {
        if self.form == Form::Human { Mode::Human } else { Mode::Json }
    }

    /// Whether a person sits at a terminal, and left it to us how data is shown.
    pub(crate) fn is_interactive(&self) -> bool {
        !self.asked && io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Whether data may have colours.
    pub(crate) fn has_colours(&self) -> bool {
        self.data.current_choice() != ColorChoice::Never
    }

    /// One line of data.
    pub(crate) fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.data, "{}", printable(&text.to_string()))
    }

    /// Data with its own line ends.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.data.write_all(text.as_bytes())
    }

    /// Data as it is, byte for byte.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Not through the stream that follows the terminal: it would take escape sequences out.
        let mut data = self.data.as_inner().lock();
        data.write_all(bytes)?;
        data.flush()
    }

    /// Data as JSON, whatever the mode.
    pub(crate) fn json<T: Serialize + ?Sized>(&mut self, data: &T) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(data)?;
        text.push('\n');
        self.bytes(lro_core::escape_hidden(&text).as_bytes())
    }

    /// JSON with its own lexemes, which a value that is written again may lose; indented.
    pub(crate) fn lexemes(&mut self, json: &str) -> io::Result<()> {
        let mut text = indent(json);
        text.push('\n');
        self.bytes(lro_core::escape_hidden(&text).as_bytes())
    }

    /// Asks a person, who answers no by not answering yes; nothing where no person is.
    pub(crate) fn confirmed(&mut self, question: impl Display) -> io::Result<Option<bool>> {
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Ok(None);
        }
        // In one piece: what a fast hand types is echoed between two.
        self.rest.write_all(format!("{} [y/N] ", printable(&question.to_string())).as_bytes())?;
        self.rest.flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")))
    }

    /// Somebody else's text as it is, byte for byte; made harmless where a person looks at it.
    pub(crate) fn foreign(&mut self, bytes: &[u8]) -> io::Result<()> {
        match str::from_utf8(bytes) {
            Ok(text) if io::stdout().is_terminal() => {
                self.bytes(lro_core::neutralise(text).as_bytes())
            }
            _ => self.bytes(bytes),
        }
    }

    /// Somebody else's text that is too much to hold, as [`foreign`](Self::foreign) prints it.
    /// On a terminal a byte that is no UTF-8 shows as U+FFFD.
    pub(crate) fn foreign_payload(&mut self, payload: &dyn Payload) -> io::Result<()> {
        let terminal = io::stdout().is_terminal();
        let mut rest = Vec::new();
        each_piece(payload, FOREIGN_PIECE, |piece| {
            if !terminal {
                return Ok(self.bytes(piece)?);
            }
            rest.extend_from_slice(piece);
            // A character that is cut at the end waits for the next piece.
            let end = match str::from_utf8(&rest) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => rest.len(),
            };
            let text = String::from_utf8_lossy(&rest[..end]);
            self.bytes(lro_core::neutralise(&text).as_bytes())?;
            rest.drain(..end);
            Ok::<_, PayloadOutput>(())
        })
        .map_err(|PayloadOutput(error)| error)?;
        self.bytes(lro_core::neutralise(&String::from_utf8_lossy(&rest)).as_bytes())
    }

    /// Where data goes that is too much to hold.
    pub(crate) fn writer(&mut self) -> impl Write {
        BufWriter::new(self.data.as_inner().lock())
    }

    /// Data in aligned columns.
    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        self.data.write_all(table.to_string().as_bytes())
    }

    /// Data as labelled facts.
    pub(crate) fn facts(&mut self, facts: &Facts) -> io::Result<()> {
        self.data.write_all(facts.to_string().as_bytes())
    }

    /// A remark that is no data. Where it cannot be printed nobody is left to tell, and the data
    /// must not suffer for it.
    pub(crate) fn note(&mut self, text: impl Display) {
        let _ = labelled(&mut self.rest, NOTE, "note", &text.to_string());
    }

    /// A remark from beside a command that runs on, which has the output itself.
    pub(crate) fn remark(text: impl Display) {
        let mut stream = anstream::stderr();
        let _ = labelled(&mut stream, NOTE, "note", &text.to_string());
    }

    /// Says what went wrong, and what to do about it.
    pub(crate) fn error(&mut self, error: &Error) -> Status {
        for report in error.reports() {
            // Nobody is left to tell when even this cannot be printed; the status still says it.
            let _ = labelled(&mut self.rest, ERROR, "error", &report.message);
            if let Some(hint) = &report.hint {
                let _ = labelled(&mut self.rest, HINT, "hint", hint);
            }
        }
        error.status()
    }
}

fn labelled(to: &mut impl Write, style: Style, label: &str, text: &str) -> io::Result<()> {
    writeln!(to, "{style}{label}:{style:#} {}", printable(text))
}

/// Columns of text, each under its heading.
pub(crate) struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: impl IntoIterator<Item: AsRef<str>>) -> Self {
        let headings = headings.into_iter().map(|name| printable(name.as_ref()).into_owned());
        Self { headings: headings.collect(), rows: Vec::new() }
    }

    /// Adds a row: as many cells as there are headings.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.headings.len(), "one cell per heading");
        self.rows.push(cells.iter().map(|cell| printable(cell).into_owned()).collect());
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let headings = self.headings.iter().enumerate();
        headings.map(|(column, heading)| width(column).max(heading.chars().count())).collect()
    }
}

impl Display for Table {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let widths = self.widths();
        let padded = |cells: &[String]| {
            let mut line = String::new();
            for (cell, width) in cells.iter().zip(&widths) {
                // A String takes everything: the result says nothing.
                let _ = write!(line, "{cell:width$}  ");
            }
            line.truncate(line.trim_end().len());
            line
        };
        writeln!(formatter, "{HEADING}{}{HEADING:#}", padded(&self.headings))?;
        for row in &self.rows {
            writeln!(formatter, "{}", padded(row))?;
        }
        Ok(())
    }
}

/// The text with everything escaped that would steer the terminal or reorder what it shows:
/// keys, values and paths come from files that somebody else may have written.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let shown = lro_core::neutralise(text);
    if shown.contains(['\n', '\t']) {
        return Cow::Owned(shown.replace('\n', "\\n").replace('\t', "\\t"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_not_steered() {
        assert_eq!(printable("plain ключ 鍵"), "plain ключ 鍵");
        assert_eq!(printable("\u{1b}[2J\n\u{9b}1m\u{202e}"), "<U+001B>[2J\\n<U+009B>1m<U+202E>");
    }

    #[test]
    fn tables_align_by_characters() {
        let mut table = Table::new(["KEY", "VALUE", "ORIGIN"]);
        table.row(["é".to_owned(), "12345678".to_owned(), "x".to_owned()]);
        table.row(["long".to_owned(), String::new(), String::new()]);
        let plain = anstream::adapter::strip_str(&table.to_string()).to_string();
        assert_eq!(plain, "KEY   VALUE     ORIGIN\né     12345678  x\nlong\n");
    }
}
