//! Record lines: the second pass, which writes one compact line per record.
//!
//! Lexemes are copied as they came; only white space between them is left out, so that a record is
//! one line. What a reader of the records wants to know beforehand is surveyed on the way.

use super::table::TableLines;
use super::{RecordForm, RecordSet};
use crate::json::{Events, Kind, Scanner};
use crate::survey::{Survey, SurveyBuilder};

/// Writes the record lines of a payload that is fed a second time.
pub struct RecordLines {
    source: Source,
    survey: SurveyBuilder,
}

enum Source {
    Json { scanner: Scanner, base: usize, fed: u64, start: u64, end: u64, writing: bool },
    Table(Box<TableLines>),
}

/// The bytes of the second pass are not those of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the payload changed between finding its records and writing them")]
pub struct PayloadChanged;

impl RecordLines {
    /// Prepares to write what [`Finder`](super::Finder) found.
    pub fn new(records: &RecordSet) -> Self {
        let json = |scanner, base, start, end| Source::Json {
            scanner,
            base,
            fed: 0,
            start,
            end,
            writing: false,
        };
        let (source, survey) = match &records.form {
            RecordForm::Array { span, .. } => (
                json(Scanner::inside_array(span.start), 1, span.start, span.end),
                SurveyBuilder::new(1),
            ),
            RecordForm::Lines { start } => {
                (json(Scanner::new(*start), 0, *start, u64::MAX), SurveyBuilder::new(0))
            }
            RecordForm::Table { delimiter, columns } => (
                Source::Table(Box::new(TableLines::new(*delimiter, columns))),
                SurveyBuilder::of_table(columns, records.count),
            ),
        };
        Self { source, survey }
    }

    /// Takes the next chunk of the payload and appends to `out` what follows from it. `out` grows
    /// by no more than the chunk, a table's labels aside.
    pub fn feed(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<(), PayloadChanged> {
        let from = out.len();
        match &mut self.source {
            Source::Table(table) => {
                if !chunk.is_empty() {
                    table.feed(chunk, out);
                }
            }
            Source::Json { scanner, base, fed, start, end, writing } => {
                let (chunk, at) = clip(chunk, *fed, *start..*end, fed);
                let mut copy = Copy {
                    survey: &mut self.survey,
                    base: *base,
                    chunk,
                    at,
                    copied: 0,
                    writing,
                    out,
                };
                scanner.feed(chunk, &mut copy).map_err(|_| PayloadChanged)?;
                copy.flush(chunk.len());
            }
        }
        self.survey.written(&out[from..]);
        Ok(())
    }

    /// Ends the payload: appends what was still held back and says what the records are like.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<Survey, PayloadChanged> {
        let from = out.len();
        match &mut self.source {
            Source::Table(table) => table.feed(&[], out),
            Source::Json { scanner, base, fed, end, writing, .. } => {
                let at = (*fed).min(*end);
                let mut copy = Copy {
                    survey: &mut self.survey,
                    base: *base,
                    chunk: &[],
                    at,
                    copied: 0,
                    writing,
                    out,
                };
                scanner.finish(&mut copy).map_err(|_| PayloadChanged)?;
            }
        }
        self.survey.written(&out[from..]);
        Ok(self.survey.finish())
    }
}

/// The part of `chunk`, which begins at `at`, that lies in `span`, and where that part begins.
fn clip<'a>(
    chunk: &'a [u8],
    at: u64,
    span: std::ops::Range<u64>,
    fed: &mut u64,
) -> (&'a [u8], u64) {
    *fed = at + chunk.len() as u64;
    let inside = |offset: u64| {
        usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(chunk.len())
    };
    let (from, to) = (inside(span.start), inside(span.end));
    (&chunk[from..to], at + from as u64)
}

/// Copies the significant bytes of records from the chunk at hand.
struct Copy<'a> {
    survey: &'a mut SurveyBuilder,
    /// How many containers are open around a record.
    base: usize,
    chunk: &'a [u8],
    /// The chunk's offset.
    at: u64,
    /// How much of the chunk is dealt with.
    copied: usize,
    writing: &'a mut bool,
    out: &'a mut Vec<u8>,
}

impl Copy<'_> {
    fn index(&self, offset: u64) -> usize {
        // The scanner speaks only of the chunk at hand, so the difference fits its length.
        usize::try_from(offset - self.at).unwrap_or(self.chunk.len())
    }

    fn flush(&mut self, to: usize) {
        if *self.writing {
            self.out.extend_from_slice(&self.chunk[self.copied..to]);
        }
        self.copied = to;
    }
}

impl Events for Copy<'_> {
    #[inline]
    fn begin(&mut self, kind: Kind, at: u64, depth: usize) {
        if depth == self.base {
            self.copied = self.index(at);
            *self.writing = true;
        }
        self.survey.begin(kind, at, depth);
    }

    #[inline]
    fn end(&mut self, kind: Kind, end: u64, depth: usize, lexeme: Option<&[u8]>) {
        self.survey.end(kind, end, depth, lexeme);
        if depth == self.base {
            self.flush(self.index(end));
            self.out.push(b'\n');
            *self.writing = false;
        }
    }

    #[inline]
    fn key(&mut self, lexeme: Option<&[u8]>) {
        self.survey.key(lexeme);
    }

    #[inline]
    fn space(&mut self, start: u64, end: u64) {
        self.flush(self.index(start));
        self.copied = self.index(end);
    }
}
