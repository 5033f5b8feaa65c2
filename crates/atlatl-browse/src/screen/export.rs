//! Writing the visible records to a file, in steps.

use std::io::{self, Write};

use super::{Filter, Job, Screen};
use crate::lines::{RowContent, fill};
use crate::rows::RowSet;
use crate::text::{grouped, harmless};

/// The most bytes written per step.
const EXPORT_STEP_BYTES: u64 = 4 << 20;
/// The read size: a longer line is read in pieces, so that it is written whole.
const PIECE_BYTES: usize = 256 << 10;

/// The file of an export, provided by the caller of a screen.
///
/// # Contract
///
/// No file exists under its path before [`finish`](Self::finish) succeeds. Dropped before that, it
/// leaves no file: Ctrl-C, a signal and a closed terminal end a screen in the middle of an export.
///
/// The screen calls [`finish`](Self::finish) once, after the last line, and then drops the file.
pub trait ExportFile: Write + Send {
    /// Makes the file visible under its path, complete.
    fn finish(&mut self) -> io::Result<()>;
}

/// An export in progress.
pub(super) struct ExportJob {
    file: Box<dyn ExportFile>,
    /// The name of the file, for messages.
    name: String,
    pub(super) done: usize,
}

impl ExportJob {
    /// Tells why a key does nothing during the export.
    pub(super) fn notice(&self) -> String {
        format!("{} is being written: Esc stops it", self.name)
    }
}

impl Screen {
    /// The name that an export is offered.
    pub(super) fn export_name(&self) -> String {
        let id = self.about.reference.rsplit(':').next().unwrap_or_default();
        let id: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
        let extension = if self.row_set().content == RowContent::Records { "jsonl" } else { "txt" };
        format!("{}.{extension}", if id.is_empty() { "result" } else { &id })
    }

    /// Writes the visible records, in their order and each on a line, to `file`, which messages call
    /// `path`. The file is dropped unfinished if the export ends early. While other work runs, the export
    /// is refused with a message.
    pub fn begin_export(&mut self, file: Box<dyn ExportFile>, path: &str) {
        if let Some(why) = self.export_refusal() {
            self.message = Some(why);
            return;
        }
        let name = harmless(path).into_owned();
        self.job = Some(Job::Export(ExportJob { file, name, done: 0 }));
    }

    /// Says why nothing is exported.
    pub fn export_failed(&mut self, why: &str) {
        self.message = Some(harmless(why).into_owned());
    }

    /// Why an export cannot begin now: there is one job at a time, and the answer of a query changes the
    /// visible records.
    pub(super) fn export_refusal(&self) -> Option<String> {
        let work = match &self.job {
            _ if self.is_asking() => "a query",
            Some(Job::Search(_)) => "a search",
            Some(Job::Sort(_)) => "a sort",
            Some(Job::Values(_)) => "a count of values",
            Some(Job::Export(export)) => return Some(export.notice()),
            None => return None,
        };
        Some(format!("{work} is running: Esc cancels it"))
    }

    pub(super) fn continue_export(&mut self, mut export: ExportJob) {
        // The number when the export began may be too small: jobs wait for the index.
        let all = self.count();
        let mut bytes = 0;
        while export.done < all && bytes < EXPORT_STEP_BYTES {
            let number = self.number(export.done);
            match copy_line(self.row_set(), number, &mut export.file) {
                Ok(copied) => bytes += copied,
                Err(error) => return self.export_stopped(export, &error.to_string()),
            }
            export.done += 1;
        }
        if export.done < all {
            self.job = Some(Job::Export(export));
            return;
        }
        if let Err(error) = export.file.finish() {
            return self.export_stopped(export, &error.to_string());
        }
        let what = match (self.row_set().content, all) {
            (RowContent::Records, 1) => "record",
            (RowContent::Records, _) => "records",
            (RowContent::Text, 1) => "line",
            (RowContent::Text, _) => "lines",
        };
        let (count, name) = (grouped(all as u64), &export.name);
        self.message = Some(match self.omission() {
            None => format!("wrote {count} {what} to {name}"),
            Some(why) => format!("wrote {count} {what}, not all, to {name}: {why}"),
        });
    }

    /// Why there are more rows than the visible ones, if there are.
    fn omission(&self) -> Option<String> {
        let (lines, mut reasons) = (&self.row_set().lines, Vec::new());
        if let Some(more) = self.filter.as_ref().and_then(Filter::more) {
            let count = grouped(self.count() as u64);
            reasons.push(format!("the query returned {count} of {more} rows"));
        }
        if lines.cut {
            let most = grouped(lines.count() as u64);
            reasons.push(format!("only the first {most} lines are indexed"));
        }
        if lines.is_partial {
            reasons.push("the result cannot be read to its end".to_owned());
        }
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// Drops the file of an export that ends early, and says why it ends.
    pub(super) fn export_stopped(&mut self, export: ExportJob, why: &str) {
        let ExportJob { file, name, done } = export;
        drop(file);
        let [done, all] = [done, self.count()].map(|number| grouped(number as u64));
        // During indexing the number of all lines is unknown.
        let of_all =
            if self.stored.lines.is_finished() { format!(" of {all}") } else { String::new() };
        let why = harmless(why);
        self.message = Some(format!("{name} was not written, {done}{of_all} lines: {why}"));
    }
}

/// Writes a line and a line break; returns the number of bytes.
fn copy_line(row_set: &RowSet, number: usize, writer: &mut dyn Write) -> io::Result<u64> {
    let span = row_set.lines.span(number);
    let (mut at, mut buf) = (span.start, Vec::new());
    while at < span.end {
        let left = usize::try_from(span.end - at).unwrap_or(usize::MAX);
        buf.resize(left.min(PIECE_BYTES), 0);
        let read = fill(row_set.source(), at, &mut buf)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        writer.write_all(&buf[..read])?;
        at += read as u64;
    }
    writer.write_all(b"\n")?;
    Ok(span.end - span.start + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{ColorMode, HeaderInfo};

    impl ExportFile for io::Sink {
        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_export_of_an_index_that_is_cut_is_not_said_to_be_complete() {
        let lines = b"{\"n\":1}\n{\"n\":2}\n".to_vec();
        let header = HeaderInfo::default();
        let mut screen =
            Screen::new(Box::new(lines), 0, RowContent::Records, header, ColorMode::Plain);
        while screen.work() {}
        // As if there were more lines: the index of as many takes a quarter of a gigabyte.
        screen.stored.lines.cut = true;
        screen.begin_export(Box::new(io::sink()), "a.jsonl");
        while screen.work() {}
        let expected = "wrote 2 records, not all, to a.jsonl: only the first 2 lines are indexed";
        assert_eq!(screen.message.as_deref(), Some(expected));
    }
}
