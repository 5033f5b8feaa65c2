//! Record lines: the second pass, which writes one compact line per record.
//!
//! Lexemes are copied as they came; only white space between them is left out, so that a record is
//! one line. What a reader of the records wants to know beforehand is surveyed on the way.

use std::ops::Range;

use super::first_pass_stats::{CompactLines, Surveyed};
use super::table::TableLines;
use super::{RecordForm, RecordSet};
use crate::stats::{Survey, SurveyBuilder};
use lro_json::{Events, Kind, Scanner};

/// Writes the record lines of a payload that is fed a second time.
pub struct RecordLines {
    source: Source,
    survey: SurveyBuilder,
    /// The part of the payload that holds the records.
    span: Range<u64>,
    fed: u64,
    expected: u64,
}

enum Source {
    /// `base` containers are open around a record; `writing` while in one.
    Json {
        scanner: Scanner,
        base: usize,
        writing: bool,
        /// Whether the first pass has looked at the records already.
        surveyed: bool,
    },
    Compact(CompactLines),
    Table(Box<TableLines>),
}

/// The bytes of the second pass are not those of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the payload changed between finding its records and writing them")]
pub struct PayloadChanged;

impl RecordLines {
    /// Prepares to write what [`Finder`](super::Finder) found.
    pub fn new(records: &RecordSet) -> Self {
        let json = |scanner, base| Source::Json { scanner, base, writing: false, surveyed: false };
        let (source, survey, span) = match &records.form {
            RecordForm::Array { span, .. } => {
                let scanner = Scanner::inside_array(span.start);
                (json(scanner, 1), SurveyBuilder::new(1), span.clone())
            }
            RecordForm::Lines { start } => {
                (json(Scanner::new(*start), 0), SurveyBuilder::new(0), *start..u64::MAX)
            }
            RecordForm::Table { start, delimiter, columns } => (
                Source::Table(Box::new(TableLines::new(*delimiter, columns))),
                SurveyBuilder::of_table(columns, records.count),
                *start..u64::MAX,
            ),
        };
        Self { source, survey, span, fed: 0, expected: records.count }
    }

    /// Prepares to write what a [surveying](super::Finder::surveying) finder found.
    pub fn surveyed(records: &RecordSet, surveyed: Surveyed) -> Self {
        let mut lines = Self::new(records);
        lines.survey = surveyed.survey;
        match (&mut lines.source, surveyed.lengths) {
            (source, Some(lengths)) => *source = Source::Compact(CompactLines::new(lengths)),
            (Source::Json { surveyed, .. }, None) => *surveyed = true,
            _ => {}
        }
        lines
    }

    /// Takes the next chunk of the payload and appends to `out` what follows from it. `out` grows
    /// by no more than the chunk, a table's labels aside.
    pub fn feed(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<(), PayloadChanged> {
        let from = out.len();
        let (chunk, at) = clip(chunk, self.fed, &self.span, &mut self.fed);
        match &mut self.source {
            // To the table an empty chunk is its end.
            Source::Table(_) if chunk.is_empty() => {}
            Source::Table(table) => self.survey.add(table.feed(chunk, out)?),
            Source::Compact(lines) => {
                if !lines.feed(chunk, out) {
                    return Err(PayloadChanged);
                }
            }
            Source::Json { scanner, base, writing, surveyed: false } => {
                let copy = Copy { base: *base, chunk, at, copied: 0, writing, out };
                let mut both = CopyAndSurvey(copy, &mut self.survey);
                scanner.feed(chunk, &mut both).map_err(|_| PayloadChanged)?;
                both.0.flush(chunk.len());
            }
            Source::Json { scanner, base, writing, surveyed: true } => {
                let mut copy = Copy { base: *base, chunk, at, copied: 0, writing, out };
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
            Source::Table(table) => self.survey.add(table.feed(&[], out)?),
            Source::Compact(lines) => {
                if !lines.is_over() {
                    return Err(PayloadChanged);
                }
            }
            Source::Json { scanner, base, writing, surveyed } => {
                let at = self.fed.min(self.span.end);
                let copy = Copy { base: *base, chunk: &[], at, copied: 0, writing, out };
                let mut both = CopyAndSurvey(copy, &mut self.survey);
                let finished =
                    if *surveyed { scanner.finish(&mut both.0) } else { scanner.finish(&mut both) };
                finished.map_err(|_| PayloadChanged)?;
            }
        }
        self.survey.written(&out[from..]);
        let survey = self.survey.finish();
        // Spec F2 rests on this: as many lines as the header will say.
        if survey.count == self.expected { Ok(survey) } else { Err(PayloadChanged) }
    }
}

/// The part of `chunk`, which begins at `at`, that lies in `span`, and where that part begins.
fn clip<'a>(chunk: &'a [u8], at: u64, span: &Range<u64>, fed: &mut u64) -> (&'a [u8], u64) {
    *fed = at + chunk.len() as u64;
    let inside = |offset: u64| {
        usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(chunk.len())
    };
    let (from, to) = (inside(span.start), inside(span.end));
    (&chunk[from..to], at + from as u64)
}

/// Copies the significant bytes of records from the chunk at hand.
struct Copy<'a> {
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
    fn begin(&mut self, _: Kind, at: u64, depth: usize) {
        if depth == self.base {
            self.copied = self.index(at);
            *self.writing = true;
        }
    }

    #[inline]
    fn end(&mut self, _: Kind, end: u64, depth: usize, _: Option<&[u8]>) {
        if depth == self.base {
            self.flush(self.index(end));
            self.out.push(b'\n');
            *self.writing = false;
        }
    }

    #[inline]
    fn space(&mut self, start: u64, end: u64) {
        self.flush(self.index(start));
        self.copied = self.index(end);
    }
}

/// Copies records that nobody has looked at yet, and surveys them.
struct CopyAndSurvey<'a>(Copy<'a>, &'a mut SurveyBuilder);

impl Events for CopyAndSurvey<'_> {
    #[inline]
    fn begin(&mut self, kind: Kind, at: u64, depth: usize) {
        self.0.begin(kind, at, depth);
        self.1.begin(kind, at, depth);
    }

    #[inline]
    fn end(&mut self, kind: Kind, end: u64, depth: usize, lexeme: Option<&[u8]>) {
        self.1.end(kind, end, depth, lexeme);
        self.0.end(kind, end, depth, lexeme);
    }

    #[inline]
    fn key(&mut self, lexeme: Option<&[u8]>) {
        self.1.key(lexeme);
    }

    #[inline]
    fn space(&mut self, start: u64, end: u64) {
        self.0.space(start, end);
    }
}
