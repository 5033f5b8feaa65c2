//! Record lines: the second pass, which writes one compact line per record.
//!
//! Lexemes are copied unchanged; white space between them is removed, so that a record is one line.
//! Statistics about the records are collected here or, for a payload that is likely to be stored,
//! already by the first pass: one scan instead of two. If the first pass also finds no white space
//! within records, and nothing but commas between them (it then notes their lengths) or nothing but
//! line breaks, the second pass only copies.

use std::ops::Range;

use lro_json::{Scanner, TokenKind, TokenVisitor};

use super::first_pass::{CompactLines, FirstPassStats, RecordSpacing, VerbatimLines};
use super::table::TableLines;
use super::text_table::TextTableLines;
use super::{MAP_KEY, PayloadChanged, RecordForm, RecordSet};
use crate::stats::{RecordStats, RecordStatsBuilder};

/// Writes the record lines of a payload, in a second pass over its bytes.
pub struct RecordLines {
    source: Source,
    stats: RecordStatsBuilder,
    /// The range of the records in the payload.
    span: Range<u64>,
    fed: u64,
    expected: u64,
}

enum Source {
    /// JSON that has to be scanned.
    Json {
        scanner: Scanner,
        progress: CopyProgress,
        /// Whether the first pass collected the statistics.
        has_stats: bool,
    },
    /// The members of an object.
    Map {
        scanner: Scanner,
        copier: MapCopier,
    },
    Compact(CompactLines),
    /// Record lines as they are.
    Verbatim(VerbatimLines),
    Table(Box<TableLines>),
    /// The lines that are written are scanned for the statistics.
    TextTable {
        rows: Box<TextTableLines>,
        scanner: Scanner,
    },
}

impl RecordLines {
    /// Prepares to write the records that [`Detector`](super::Detector) detected.
    pub fn new(records: &RecordSet) -> Self {
        let json = |scanner, base| {
            let progress = CopyProgress { base, writing: false, records: 0 };
            Source::Json { scanner, progress, has_stats: false }
        };
        let (source, stats, span) = match &records.form {
            RecordForm::Array { span, .. } => {
                let scanner = Scanner::inside_array(span.start);
                (json(scanner, 1), RecordStatsBuilder::new(1), span.clone())
            }
            RecordForm::Map { span, .. } => {
                // The inside of an object is scanned as an object: the brace before it is fed first.
                let mut scanner = Scanner::new(span.start.saturating_sub(1));
                let mut ignore = Ignore;
                // One brace is always valid.
                let _ = scanner.feed(b"{", &mut ignore);
                let copier = MapCopier::default();
                (Source::Map { scanner, copier }, RecordStatsBuilder::new(1), span.clone())
            }
            RecordForm::Lines { start } => {
                (json(Scanner::new(*start), 0), RecordStatsBuilder::new(0), *start..u64::MAX)
            }
            RecordForm::Table { start, delimiter, columns } => (
                Source::Table(Box::new(TableLines::new(*delimiter, columns))),
                RecordStatsBuilder::for_table(columns, records.count),
                *start..u64::MAX,
            ),
            RecordForm::TextTable { range, layout, columns } => {
                let rows = Box::new(TextTableLines::new(layout, columns));
                let source = Source::TextTable { rows, scanner: Scanner::new(0) };
                (source, RecordStatsBuilder::new(0), range.clone())
            }
        };
        Self { source, stats, span, fed: 0, expected: records.count }
    }

    /// Prepares to write the records that a [`Detector`](super::Detector::with_stats) with statistics
    /// detected.
    pub fn with_stats(records: &RecordSet, first_pass: FirstPassStats) -> Self {
        let mut lines = Self::new(records);
        lines.stats = first_pass.stats;
        match (&mut lines.source, first_pass.spacing) {
            (source @ Source::Json { .. }, RecordSpacing::Commas(lengths)) => {
                *source = Source::Compact(CompactLines::new(lengths));
            }
            (source @ Source::Json { .. }, RecordSpacing::LineBreaks { .. }) => {
                *source = Source::Verbatim(VerbatimLines::new(records));
            }
            (Source::Json { has_stats, .. }, RecordSpacing::Other) => *has_stats = true,
            _ => {}
        }
        lines
    }

    /// Processes the next chunk of the payload and appends its lines to `out`. `out` grows at most by
    /// the length of the chunk, plus the column names of a table.
    pub fn feed(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<(), PayloadChanged> {
        let from = out.len();
        let (chunk, at) = clip(chunk, self.fed, &self.span, &mut self.fed);
        match &mut self.source {
            // An empty chunk would end the table.
            Source::Table(_) | Source::TextTable { .. } if chunk.is_empty() => {}
            Source::Table(table) => self.stats.add(table.feed(chunk, out)?),
            Source::TextTable { rows, scanner } => {
                rows.feed(chunk, out)?;
                scanner.feed(&out[from..], &mut self.stats).map_err(|_| PayloadChanged)?;
            }
            Source::Compact(lines) => {
                if !lines.feed(chunk, out) {
                    return Err(PayloadChanged);
                }
            }
            Source::Verbatim(lines) => lines.feed(chunk, out)?,
            Source::Map { scanner, copier } => {
                let copy = MapVisit { chunk, at, copied: 0, copier, out, stats: &mut self.stats };
                copy.feed(scanner)?;
            }
            Source::Json { scanner, progress, has_stats: false } => {
                let copy = RecordCopier { progress, chunk, at, copied: 0, out };
                let mut both = CopyAndMeasure(copy, &mut self.stats);
                scanner.feed(chunk, &mut both).map_err(|_| PayloadChanged)?;
                both.0.flush(chunk.len());
            }
            Source::Json { scanner, progress, has_stats: true } => {
                let mut copy = RecordCopier { progress, chunk, at, copied: 0, out };
                scanner.feed(chunk, &mut copy).map_err(|_| PayloadChanged)?;
                copy.flush(chunk.len());
            }
        }
        self.stats.add_lines(&out[from..]);
        Ok(())
    }

    /// Ends the payload: appends the rest, and returns the statistics.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<RecordStats, PayloadChanged> {
        let from = out.len();
        match &mut self.source {
            Source::Table(table) => self.stats.add(table.feed(&[], out)?),
            Source::TextTable { rows, scanner } => {
                rows.feed(&[], out)?;
                let stats = &mut self.stats;
                let scanned =
                    scanner.feed(&out[from..], stats).and_then(|()| scanner.finish(stats));
                scanned.map_err(|_| PayloadChanged)?;
            }
            Source::Compact(lines) => {
                if !lines.is_complete() {
                    return Err(PayloadChanged);
                }
            }
            Source::Verbatim(lines) => lines.finish(out)?,
            Source::Map { scanner, copier } => {
                let at = self.fed.min(self.span.end);
                let stats = &mut self.stats;
                let mut copy = MapVisit { chunk: b"}", at, copied: 0, copier, out, stats };
                scanner.feed(b"}", &mut copy).map_err(|_| PayloadChanged)?;
                scanner.finish(&mut copy).map_err(|_| PayloadChanged)?;
            }
            Source::Json { scanner, progress, has_stats } => {
                let at = self.fed.min(self.span.end);
                let copy = RecordCopier { progress, chunk: &[], at, copied: 0, out };
                let mut both = CopyAndMeasure(copy, &mut self.stats);
                let finished = if *has_stats {
                    scanner.finish(&mut both.0)
                } else {
                    scanner.finish(&mut both)
                };
                finished.map_err(|_| PayloadChanged)?;
                // The statistics may be from the first pass.
                if both.0.progress.records != self.expected {
                    return Err(PayloadChanged);
                }
            }
        }
        self.stats.add_lines(&out[from..]);
        let stats = self.stats.finish();
        // Spec F2 depends on this: the number of lines is the count in the header.
        if stats.count == self.expected { Ok(stats) } else { Err(PayloadChanged) }
    }
}

/// The part of `chunk`, which begins at `at`, that is in `span`, and the offset of that part.
fn clip<'a>(chunk: &'a [u8], at: u64, span: &Range<u64>, fed: &mut u64) -> (&'a [u8], u64) {
    *fed = at + chunk.len() as u64;
    let inside = |offset: u64| {
        usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(chunk.len())
    };
    let (from, to) = (inside(span.start), inside(span.end));
    (&chunk[from..to], at + from as u64)
}

/// The progress of copying records.
struct CopyProgress {
    /// The nesting depth of a record.
    base: usize,
    /// Whether the current position is inside a record.
    writing: bool,
    /// The number of records that are copied completely.
    records: u64,
}

/// Copies the significant bytes of records from the current chunk.
struct RecordCopier<'a> {
    progress: &'a mut CopyProgress,
    chunk: &'a [u8],
    /// The offset of the chunk.
    at: u64,
    /// The number of bytes of the chunk that are processed.
    copied: usize,
    out: &'a mut Vec<u8>,
}

impl RecordCopier<'_> {
    fn index(&self, offset: u64) -> usize {
        // Offsets are within the current chunk, so the difference fits its length.
        usize::try_from(offset - self.at).unwrap_or(self.chunk.len())
    }

    fn flush(&mut self, to: usize) {
        if self.progress.writing {
            self.out.extend_from_slice(&self.chunk[self.copied..to]);
        }
        self.copied = to;
    }
}

impl TokenVisitor for RecordCopier<'_> {
    #[inline]
    fn begin(&mut self, _: TokenKind, at: u64, depth: usize) {
        if depth == self.progress.base {
            self.copied = self.index(at);
            self.progress.writing = true;
        }
    }

    #[inline]
    fn end(&mut self, _: TokenKind, end: u64, depth: usize, _: Option<&[u8]>) {
        if depth == self.progress.base {
            self.flush(self.index(end));
            self.out.push(b'\n');
            self.progress.writing = false;
            self.progress.records += 1;
        }
    }

    #[inline]
    fn space(&mut self, start: u64, end: u64) {
        self.flush(self.index(start));
        self.copied = self.index(end);
    }
}

/// Copies records and collects their statistics.
struct CopyAndMeasure<'a>(RecordCopier<'a>, &'a mut RecordStatsBuilder);

impl TokenVisitor for CopyAndMeasure<'_> {
    #[inline]
    fn begin(&mut self, kind: TokenKind, at: u64, depth: usize) {
        self.0.begin(kind, at, depth);
        self.1.begin(kind, at, depth);
    }

    #[inline]
    fn end(&mut self, kind: TokenKind, end: u64, depth: usize, lexeme: Option<&[u8]>) {
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

/// Receives tokens and does nothing.
struct Ignore;

impl TokenVisitor for Ignore {}

/// The state of copying the members of an object: each becomes a record with its key as a member.
#[derive(Default)]
struct MapCopier {
    /// The name of the current member.
    key: Vec<u8>,
    /// Whether the current position is inside a record.
    writing: bool,
    /// Whether the key is written and the first member of the record is not.
    after_key: bool,
}

/// Copies the members of an object from the current chunk.
struct MapVisit<'a> {
    chunk: &'a [u8],
    /// The offset of the chunk.
    at: u64,
    /// The number of bytes of the chunk that are processed.
    copied: usize,
    copier: &'a mut MapCopier,
    out: &'a mut Vec<u8>,
    stats: &'a mut RecordStatsBuilder,
}

impl MapVisit<'_> {
    fn feed(mut self, scanner: &mut Scanner) -> Result<(), PayloadChanged> {
        let chunk = self.chunk;
        scanner.feed(chunk, &mut self).map_err(|_| PayloadChanged)?;
        self.flush(chunk.len());
        Ok(())
    }

    fn index(&self, offset: u64) -> usize {
        // Offsets are within the current chunk, so the difference fits its length.
        usize::try_from(offset - self.at).unwrap_or(self.chunk.len())
    }

    fn flush(&mut self, to: usize) {
        let bytes = &self.chunk[self.copied.min(to)..to];
        if self.copier.writing && !bytes.is_empty() {
            if std::mem::take(&mut self.copier.after_key) && bytes[0] != b'}' {
                self.out.push(b',');
            }
            self.out.extend_from_slice(bytes);
        }
        self.copied = to;
    }
}

impl TokenVisitor for MapVisit<'_> {
    fn begin(&mut self, kind: TokenKind, at: u64, depth: usize) {
        self.stats.begin(kind, at, depth);
        if depth == 1 {
            // The key counts as a member of the record.
            self.stats.key(Some(MAP_KEY.as_bytes()));
            self.stats.begin(TokenKind::String, at, 2);
            self.stats.end(TokenKind::String, at, 2, Some(&self.copier.key));
            self.out.extend_from_slice(b"{\"_key\":\"");
            self.out.extend_from_slice(&self.copier.key);
            self.out.push(b'"');
            self.copier.writing = true;
            self.copier.after_key = true;
            // Without the opening brace.
            self.copied = self.index(at) + 1;
        }
    }

    fn end(&mut self, kind: TokenKind, end: u64, depth: usize, lexeme: Option<&[u8]>) {
        if depth > 0 {
            self.stats.end(kind, end, depth, lexeme);
        }
        if depth == 1 {
            self.flush(self.index(end));
            self.out.push(b'\n');
            self.copier.writing = false;
        }
    }

    fn key(&mut self, lexeme: Option<&[u8]>) {
        if self.copier.writing {
            self.stats.key(lexeme);
        } else {
            self.copier.key.clear();
            // The first pass accepts no name that is too long to keep.
            self.copier.key.extend_from_slice(lexeme.unwrap_or_default());
        }
    }

    fn space(&mut self, start: u64, end: u64) {
        self.flush(self.index(start));
        self.copied = self.index(end);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Content, Detected, Detector, PayloadChanged, RecordForm, RecordLines};
    use super::RecordSpacing;
    use crate::{RecordStats, record_lines};

    fn detect(payload: &str, chunk: usize) -> (Detected, Option<super::FirstPassStats>) {
        let mut detector = Detector::with_stats();
        payload.as_bytes().chunks(chunk).for_each(|chunk| detector.feed(chunk));
        detector.finish_with_stats()
    }

    fn written(payload: &str, chunk: usize) -> Result<(String, RecordStats, bool), PayloadChanged> {
        let (detected, stats) = detect(payload, chunk);
        let stats = stats.expect("records of JSON");
        let compact = !matches!(stats.spacing, RecordSpacing::Other);
        let mut lines = RecordLines::with_stats(detected.records().unwrap(), stats);
        let mut out = Vec::new();
        for chunk in payload.as_bytes().chunks(chunk) {
            lines.feed(chunk, &mut out)?;
        }
        let record_stats = lines.finish(&mut out)?;
        Ok((String::from_utf8(out).unwrap(), record_stats, compact))
    }

    fn record(n: usize) -> String {
        format!(r#"{{"id":"{n}","namespace":"a/{}","t":"x\n\u00e9","more":[{n},[1.5]]}}"#, n % 3)
    }

    #[test]
    fn one_scan_gives_what_two_would() {
        let join = |between: &str| (0..300).map(record).collect::<Vec<_>>().join(between);
        for (payload, compact) in [
            ("[]".to_owned(), true),
            (format!("[{}]", join(",")), true),
            (format!(r#"{{"columns":["a"],"data":{{"rows":[{}]}},"n":1}}"#, join(",")), true),
            (format!(r#"{{"a":[{}],"b":[1]}}"#, join(",")), true),
            ("\u{feff} [1,22,\"x\",[],{},null] ".to_owned(), true),
            (format!("[{}]", join(", ")), false),
            (format!("[{} ]", join(",")), false),
            (format!("[{}]", join(",").replace(":[", ": [")), false),
        ] {
            assert_one_scan_suffices(&payload, compact);
        }
    }

    /// Compares what is written after a first pass with statistics with what is written without, by
    /// a second scan. `compact` says whether the records can be copied.
    fn assert_one_scan_suffices(payload: &str, compact: bool) {
        let whole = Detected::detect(payload.as_bytes());
        let (expected, stats) = record_lines(payload.as_bytes(), &whole, usize::MAX).unwrap();
        for chunk in [1, 7, 1000, usize::MAX] {
            let (detected, first_pass) = detect(payload, chunk);
            assert_eq!(detected, whole, "{chunk}");
            let early = first_pass.expect("records of JSON").record_stats();
            assert_eq!((early.count, &early.shape), (stats.count, &stats.shape));
            assert_eq!(early.top_namespaces, stats.top_namespaces);
            let ours = written(payload, chunk).unwrap();
            assert_eq!(ours, (expected.clone(), stats.clone(), compact), "{chunk}");
        }
    }

    #[test]
    fn one_scan_of_json_lines_gives_what_two_would() {
        let join = |between: &str| (0..300).map(record).collect::<Vec<_>>().join(between);
        let lines = join("\n");
        let arrays = "[1]\n[{\"namespace\":\"n\"},[2]]\n{}\n[]\n";
        for (payload, compact) in [
            (lines.clone(), true),
            (format!("{lines}\n"), true),
            (format!("\u{feff}\n {lines}\n"), true),
            (format!("Here are the rows:\n{lines}\n"), true),
            (format!("{}\n{lines}", record(7).replace('7', &"7".repeat(9000))), true),
            (arrays.to_owned(), true),
            (format!("{arrays}{lines}"), true),
            (format!("[{}]\n{lines}\n", join(",")), true),
            (format!("{lines}\n\n"), false),
            (format!("{lines} "), false),
            (format!("{lines}\r"), false),
            (format!("{lines}\n "), false),
            (format!("{lines} \n"), false),
            (format!("{}\r\n", join("\r\n")), false),
            (join("\r\n"), false),
            (join("\n\n"), false),
            (join("\n "), false),
            (join(" \n"), false),
            (lines.replace(":[", ": ["), false),
            (format!("{{ }}\n{lines}\n"), false),
            (format!("[1\n]\n{lines}\n"), false),
            (format!("{lines}\n[\n1]\n"), false),
        ] {
            let form = Detected::detect(payload.as_bytes()).records().unwrap().form.clone();
            assert!(matches!(form, RecordForm::Lines { .. }), "{form:?}");
            assert_one_scan_suffices(&payload, compact);
        }
        // A single root value is no JSON line.
        assert_one_scan_suffices(&format!("{{\"a\":[{}]}}\n", join(",")), true);
    }

    #[test]
    fn json_lines_are_recognized_while_they_arrive() {
        let mut detector = Detector::with_stats();
        for (chunk, expected) in [
            ("", false),
            ("{\"a\":1}", false),
            ("\n", false),
            ("{", true),
            ("\"a\":\" ", true),
            ("\"}\n[", true),
            ("]", true),
            ("\n", true),
            ("{}", true),
            (" ", false),
            ("\n{}\n", false),
        ] {
            detector.feed(chunk.as_bytes());
            assert_eq!(detector.is_json_lines_so_far(), expected, "{chunk:?}");
        }
        for (payload, expected) in [
            ("{}\n{}", true),
            ("{}\n{}\n", true),
            ("{}\n", false),
            ("[{},{}]", false),
            (" {}\n{}", false),
            ("\u{feff}{}\n{}", false),
            ("{}\r\n{}\r\n", false),
            ("{}\n{ }", false),
            ("{}\n{}\ntext", false),
            ("a,b\n1,2\n3,4\n", false),
        ] {
            for chunk in [1, 7, usize::MAX] {
                let mut detector = Detector::with_stats();
                payload.as_bytes().chunks(chunk).for_each(|chunk| detector.feed(chunk));
                assert_eq!(detector.is_json_lines_so_far(), expected, "{payload:?} {chunk}");
            }
        }
        let mut without_stats = Detector::new();
        without_stats.feed(b"{}\n{}\n");
        assert!(!without_stats.is_json_lines_so_far());
    }

    #[test]
    fn json_lines_after_a_long_one_are_scanned_twice() {
        for (bytes, is_long) in [(96 * 1024 - 1, false), (96 * 1024, true), (200_000, true)] {
            // The second record begins after so many bytes.
            let first = format!("{{\"a\":\"{}\"}}\n", "x".repeat(bytes - 9));
            assert_eq!(first.len(), bytes);
            let payload = format!("{first}{}\n{}\n", record(1), record(2));
            for chunk in [1, 7, 1000, usize::MAX] {
                let (detected, stats) = detect(&payload, chunk);
                assert_eq!(detected.records().unwrap().count, 3);
                assert_eq!(stats.is_none(), is_long, "{bytes} {chunk}");
            }
            if !is_long {
                assert_one_scan_suffices(&payload, true);
            }
        }
    }

    #[test]
    fn the_statistics_are_known_before_the_lines_are_written() {
        let memory = r#"{"id":"a","memory_type":"semantic","created":"2026-01-01","content":"c"}"#;
        let (_, stats) = detect(&format!("[{memory},{memory}]"), 5);
        let stats = stats.unwrap().record_stats();
        assert!(stats.is_of_memories() && stats.count == 2 && stats.head.is_empty());
    }

    #[test]
    fn what_has_no_records_of_json_has_no_statistics() {
        let incomplete = ["{}\n{}\n]", "{}\n{", "[1,]"];
        let others = [r#"{"a":{"b":1}}"#, "a,b\n1,2\n", "text", ""];
        for payload in others.into_iter().chain(incomplete) {
            let (detected, stats) = detect(payload, 3);
            assert!(stats.is_none(), "{payload}");
            assert_eq!(detected, Detected::detect(payload.as_bytes()));
        }
        // A document with an array that is not its record array.
        let document = format!(r#"{{"text":"{}","few":[1]}}"#, "x".repeat(3000));
        let (detected, stats) = detect(&document, 100);
        assert!(detected.content == Content::Document && stats.is_none());
    }

    #[test]
    fn another_payload_than_the_first_is_noticed() {
        for (first, others) in [
            ("[11,22,33]", &["[11,22", "[11,22,", "[1,222,33]", "[11;22,33]", "[1\n,22,33]"][..]),
            ("[11, 22]", &["[11    ]", "[1,2, 3]", "[11,", "[11; 22]"]),
            ("{}\n[1]\n", &["{}\n", "{}\n[1", "{}[11]\n", "{}\n[1]}", "{}\n[1]\n\n"]),
            ("{}\n[1]", &["", "\n{}\n[1]", "{}\n[1]{", "{}\n[]", "\n\n\n{}1"]),
            ("{}\n\n[1]\n", &["{}\n\n", "{}\n[1]\n{}", "{}\n\n[1", "{}[11]\n\n"]),
        ] {
            for other in others {
                let (detected, stats) = detect(first, 100);
                let records = detected.records().unwrap();
                let mut lines = RecordLines::with_stats(records, stats.unwrap());
                let mut out = Vec::new();
                let outcome =
                    lines.feed(other.as_bytes(), &mut out).and_then(|()| lines.finish(&mut out));
                assert!(outcome.is_err(), "{first:?} {other:?}");
            }
        }
    }
}
