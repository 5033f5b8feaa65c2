//! Encodes a payload as header and record lines, or stores it unchanged.
//!
//! Companion specification §12. The payload is fed a second time, in chunks of any size; memory
//! does not grow with it. Large payloads are written on a background thread: finding record lines
//! keeps one core busy and copying them into the page cache another, so that doing both in turn would
//! add up.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use chrono::{DateTime, Utc};
use lro_core::payload::{Payload, Unreadable, each_piece};
use lro_core::records::{
    Detected, Envelope, FirstPassStats, PayloadChanged, RecordLines, RecordSet, SiblingTable,
};
use lro_core::{
    Detail, LinesError, OffloadHeader, Operation, RecordStats, ResultId, TableStats, Tokens,
    payload,
};

use crate::address::Extension;
use crate::error::SpoolError;
use crate::sidecar::{Layout, NewResult, PartNumber, PartRole, StoredForm, StoredTable};
use crate::spool::{Draft, ResultInfo, Spool};

/// The most bytes around a record array that are kept in the sidecar. With more, the payload is
/// stored unchanged, so that neither memory nor the sidecar grows with it.
const MAX_ENVELOPE_BYTES: u64 = 1 << 20;
/// A longer query is truncated: the header is one line that every reader loads into memory.
const MAX_QUERY_CHARS: usize = 8192;
/// The size of the pieces in which a payload is read.
const PIECE_BYTES: usize = 256 * 1024;
/// Payloads larger than this are written on a background thread.
const BACKGROUND_THRESHOLD_BYTES: u64 = 4 << 20;
/// The length of the write queue: short enough that chunks are still in the CPU cache when they are
/// written.
const MAX_QUEUED_CHUNKS: usize = 8;

/// The metadata of a payload to be stored.
#[derive(Debug, Clone)]
pub struct StoreRequest<'a> {
    /// The id of the result.
    pub id: ResultId,
    /// The name of the tool, as its server spells it.
    pub tool: &'a str,
    /// The server that the tool belongs to, if there are several.
    pub server: Option<&'a str>,
    /// A digest of the arguments, without values that may be secret.
    pub arguments: Option<&'a str>,
    /// Whether white space is significant: if the record lines cannot restore the payload byte for
    /// byte, a copy is stored beside them.
    pub exact: bool,
    /// The query, if any; its first 8,192 characters are stored.
    pub query: Option<String>,
    /// The detail level of the records.
    pub detail: Detail,
    /// The result of content detection, the first pass.
    pub found: &'a Detected,
    /// The estimated number of tokens of the payload.
    pub estimated: Tokens,
    /// The current time.
    pub created_at: DateTime<Utc>,
    /// The time to live.
    pub ttl: Duration,
}

/// Why a payload could not be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The spool failed.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The second pass read other bytes than the first: detect the records again.
    #[error(transparent)]
    PayloadChanged(#[from] PayloadChanged),
    /// The payload could not be read for the second pass.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl From<LinesError> for EncodeError {
    fn from(error: LinesError) -> Self {
        match error {
            LinesError::Unreadable(error) => Self::Unreadable(error),
            _ => Self::PayloadChanged(PayloadChanged),
        }
    }
}

/// Writes the record lines of a table besides the main one.
struct TableWriter {
    table: SiblingTable,
    part: PartNumber,
    lines: Box<RecordLines>,
    bytes: u64,
}

/// The file that a draft took the payload into, see [`Draft::take_payload`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Nowhere,
    Data,
    Original,
}

/// Writes a payload to a spool. Dropping it before [`finish`](Self::finish) leaves nothing behind.
pub struct StoreWriter {
    writer: DraftWriter,
    form: StoredForm,
    records: Option<(RecordSet, Box<RecordLines>)>,
    /// The bytes of the JSON outside the records, including white space.
    around: Option<Vec<u8>>,
    /// The range of the JSON or the table in the payload.
    main_range: Range<u64>,
    tables: Vec<TableWriter>,
    original: Option<PartNumber>,
    /// The file that has the payload without a copy.
    taken: Taken,
    fed: u64,
    expected: u64,
    /// The size of the record lines written so far.
    lines: u64,
    out: Vec<u8>,
}

impl StoreWriter {
    /// Begins a result.
    pub fn begin(spool: &dyn Spool, what: StoreRequest<'_>) -> Result<Self, EncodeError> {
        Self::begin_with_stats(spool, what, None)
    }

    /// Begins a result whose records may already have been measured during detection.
    pub fn begin_with_stats(
        spool: &dyn Spool,
        what: StoreRequest<'_>,
        stats: Option<FirstPassStats>,
    ) -> Result<Self, EncodeError> {
        let form = StoredForm::from_content(&what.found.content).ok_or(PayloadChanged)?;
        let records = what.found.records();
        let extension = match form {
            _ if form.has_records() => Extension::Jsonl,
            StoredForm::Document => Extension::Json,
            StoredForm::Text => Extension::Txt,
            _ => Extension::Bin,
        };
        let operation = Operation::from_tool(what.tool);
        let header = OffloadHeader::new(
            &operation,
            what.query.map(|query| query.chars().take(MAX_QUERY_CHARS).collect()),
            records.map_or(0, |records| records.count),
            what.estimated,
            what.detail,
            what.created_at,
        );
        let mut draft = spool.create(NewResult {
            id: what.id,
            operation,
            tool: what.tool.to_owned(),
            server: what.server.map(str::to_owned),
            arguments: what.arguments.filter(|digest| !digest.is_empty()).map(str::to_owned),
            extension,
            header,
            created_at: what.created_at,
            ttl: what.ttl,
        })?;
        let expected = what.found.measure.bytes;
        let main_range = what.found.main_range.clone().unwrap_or(0..expected);
        let span = records.and_then(|records| records.form.span());
        let around = span
            .map(|span| (main_range.end - main_range.start).saturating_sub(span.end - span.start));
        let kept = around.is_some_and(|bytes| bytes <= MAX_ENVELOPE_BYTES);
        let keep_original = form == StoredForm::Table
            || (around.is_some() && !kept)
            || what.found.main_range.is_some();
        let original = if keep_original { Some(draft.add_part(PartRole::Original)?) } else { None };
        let taken = if original.is_some() {
            if draft.take_payload(original, expected)? { Taken::Original } else { Taken::Nowhere }
        } else if !form.has_records() && draft.take_payload(None, expected)? {
            Taken::Data
        } else {
            Taken::Nowhere
        };
        let mut tables = Vec::new();
        for table in &what.found.tables {
            let part = draft.add_part(PartRole::Table)?;
            let lines = Box::new(RecordLines::new(&table.records));
            tables.push(TableWriter { table: table.clone(), part, lines, bytes: 0 });
        }
        let lines = |records| match stats {
            Some(stats) => RecordLines::with_stats(records, stats),
            None => RecordLines::new(records),
        };
        Ok(Self {
            writer: DraftWriter::new(draft),
            form,
            records: records.map(|records| (records.clone(), Box::new(lines(records)))),
            around: kept.then(Vec::new),
            main_range,
            tables,
            original,
            taken,
            fed: 0,
            expected,
            lines: 0,
            out: Vec::new(),
        })
    }

    /// Appends the next chunk of the payload.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), EncodeError> {
        // Several pieces may be queued, so each is small regardless of the size of `chunk`.
        chunk.chunks(PIECE_BYTES).try_for_each(|piece| self.feed_piece(piece))
    }

    fn feed_piece(&mut self, chunk: &[u8]) -> Result<(), EncodeError> {
        if self.original.is_some() && self.taken != Taken::Original {
            self.out.extend_from_slice(chunk);
            self.writer.write(self.original, &mut self.out)?;
        }
        if let Some((records, lines)) = &mut self.records {
            if let (Some(around), Some(span)) = (&mut self.around, records.form.span()) {
                around.extend_from_slice(clip(chunk, self.fed, self.main_range.start..span.start));
                around.extend_from_slice(clip(chunk, self.fed, span.end..self.main_range.end));
            }
            lines.feed(chunk, &mut self.out)?;
            self.lines += self.out.len() as u64;
            self.writer.write(None, &mut self.out)?;
        } else if self.taken != Taken::Data {
            self.out.extend_from_slice(clip(chunk, self.fed, self.main_range.clone()));
            self.writer.write(None, &mut self.out)?;
        }
        for table in &mut self.tables {
            table.lines.feed(chunk, &mut self.out)?;
            table.bytes += self.out.len() as u64;
            self.writer.write(Some(table.part), &mut self.out)?;
        }
        self.fed += chunk.len() as u64;
        Ok(())
    }

    /// Completes the result. When this returns, it is durable and visible.
    pub fn finish(self) -> Result<(ResultInfo, RecordStats), EncodeError> {
        self.finish_with(&[])
    }

    /// Completes the result, with additional texts of the same tool result.
    pub fn finish_with(self, texts: &[&str]) -> Result<(ResultInfo, RecordStats), EncodeError> {
        self.finish_exact(texts, None)
    }

    /// Completes the result; `exact` is the payload if every byte of it must be restorable.
    fn finish_exact(
        mut self,
        texts: &[&str],
        exact: Option<&dyn Payload>,
    ) -> Result<(ResultInfo, RecordStats), EncodeError> {
        if self.fed != self.expected {
            return Err(PayloadChanged.into());
        }
        let (mut envelope, mut stats) = (None, RecordStats::default());
        let mut records_range = None;
        if let Some((records, lines)) = self.records {
            stats = lines.finish(&mut self.out)?;
            self.lines += self.out.len() as u64;
            self.writer.write(None, &mut self.out)?;
            if let (Some(around), Some(span)) = (self.around, records.form.span()) {
                // The records are already cut out, so their span is empty.
                let at = span.start - self.main_range.start;
                envelope = Some(Envelope::parse(&around, &(at..at)).ok_or(PayloadChanged)?);
            }
            records_range = records.form.span().filter(|_| self.original.is_some()).cloned();
        }
        let mut tables = Vec::new();
        for TableWriter { table, part, lines, mut bytes } in self.tables {
            let table_stats = lines.finish(&mut self.out)?;
            bytes += self.out.len() as u64;
            self.writer.write(Some(part), &mut self.out)?;
            tables.push(StoredTable { name: table.name.clone(), count: table_stats.count });
            stats.tables.push(TableStats::new(&table, bytes, table_stats));
        }
        let mut draft = self.writer.finish()?;
        if let Some(payload) = exact
            && self.original.is_none()
            && !restores_exactly(payload, self.form, self.lines, envelope.as_ref())?
        {
            let part = draft.add_part(PartRole::Original)?;
            if !draft.take_payload(Some(part), payload.bytes())? {
                each_piece(payload, PIECE_BYTES, |piece| {
                    Ok::<_, EncodeError>(draft.write_part(part, piece)?)
                })?;
            }
        }
        let mut layout = Layout { envelope, records_range, tables, ..self.form.into() };
        if !texts.is_empty() {
            let part = draft.add_part(PartRole::Texts)?;
            for text in texts {
                draft.write_part(part, text.as_bytes())?;
                layout.texts.push(text.len() as u64);
            }
        }
        Ok((draft.commit(layout)?, stats))
    }
}

/// Stores a payload that is in memory, with additional texts of the same tool result.
pub fn store(
    spool: &dyn Spool,
    what: StoreRequest<'_>,
    payload: &[u8],
    texts: &[&str],
) -> Result<(ResultInfo, RecordStats), EncodeError> {
    store_payload(spool, what, &payload, texts, None)
}

/// Stores a payload from any source, whose records may already have been measured.
pub fn store_payload(
    spool: &dyn Spool,
    what: StoreRequest<'_>,
    payload: &dyn Payload,
    texts: &[&str],
    stats: Option<FirstPassStats>,
) -> Result<(ResultInfo, RecordStats), EncodeError> {
    let exact = what.exact.then_some(payload);
    let mut storing = StoreWriter::begin_with_stats(spool, what, stats)?;
    if storing.taken == Taken::Data && storing.tables.is_empty() {
        // There is nothing to write.
        storing.fed = payload.bytes();
    } else {
        each_piece(payload, PIECE_BYTES, |piece| storing.feed(piece))?;
    }
    storing.finish_exact(texts, exact)
}

/// The part of `chunk`, which begins at `at`, that is in `range`.
fn clip(chunk: &[u8], at: u64, range: Range<u64>) -> &[u8] {
    let inside = |offset: u64| {
        usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(chunk.len())
    };
    let (from, to) = (inside(range.start), inside(range.end));
    &chunk[from.min(to)..to]
}

/// Whether the stored form restores every byte of `payload`. Only white space is ever lost, so
/// comparing sizes is enough.
fn restores_exactly(
    payload: &dyn Payload,
    form: StoredForm,
    lines: u64,
    envelope: Option<&Envelope>,
) -> Result<bool, Unreadable> {
    Ok(match (form, envelope) {
        // The line break after the last record corresponds to no comma.
        (StoredForm::Array, Some(envelope)) => {
            let records = lines.saturating_sub(1);
            payload.bytes() == envelope.json.len() as u64 + records
        }
        // A missing line break at the end would hide a space elsewhere.
        (StoredForm::Lines, _) => {
            let bytes = payload.bytes();
            bytes == lines && payload::part(payload, bytes.saturating_sub(1)..bytes)? == b"\n"
        }
        (StoredForm::Array | StoredForm::Map | StoredForm::Table | StoredForm::Records, _) => false,
        _ => true,
    })
}

/// Writes to a draft, directly or on a background thread.
struct DraftWriter {
    state: WriterState,
    written: u64,
}

enum WriterState {
    Direct(Box<dyn Draft>),
    Background(BackgroundWriter),
    /// A write failed and the draft was dropped.
    Failed,
}

struct BackgroundWriter {
    chunks: Option<SyncSender<Chunk>>,
    used: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<Result<Box<dyn Draft>, SpoolError>>>,
}

struct Chunk {
    part: Option<PartNumber>,
    bytes: Vec<u8>,
}

impl DraftWriter {
    fn new(draft: Box<dyn Draft>) -> Self {
        Self { state: WriterState::Direct(draft), written: 0 }
    }

    /// Appends `bytes` to the data or to a part, and clears the buffer.
    fn write(&mut self, part: Option<PartNumber>, bytes: &mut Vec<u8>) -> Result<(), SpoolError> {
        self.written += bytes.len() as u64;
        if self.written > BACKGROUND_THRESHOLD_BYTES && matches!(self.state, WriterState::Direct(_))
        {
            self.state = match std::mem::replace(&mut self.state, WriterState::Failed) {
                WriterState::Direct(draft) => BackgroundWriter::start(draft),
                other => other,
            };
        }
        match &mut self.state {
            WriterState::Direct(draft) => {
                write(&mut **draft, part, bytes)?;
                bytes.clear();
                Ok(())
            }
            WriterState::Background(behind) => behind.send(part, bytes),
            WriterState::Failed => Err(earlier_write_failed()),
        }
    }

    /// Waits until everything is written, and returns the draft.
    fn finish(self) -> Result<Box<dyn Draft>, SpoolError> {
        match self.state {
            WriterState::Direct(draft) => Ok(draft),
            WriterState::Background(mut behind) => behind.join(),
            WriterState::Failed => Err(earlier_write_failed()),
        }
    }
}

impl BackgroundWriter {
    fn start(draft: Box<dyn Draft>) -> WriterState {
        let (chunks, taken) = sync_channel::<Chunk>(MAX_QUEUED_CHUNKS);
        let (recycle, used) = channel();
        // Sent separately, so that the draft is not lost if the thread cannot be started.
        let (hand_over, handed) = channel();
        let thread = thread::Builder::new().name("spool_writer".to_owned()).spawn(move || {
            let draft = handed.recv().map_err(|_| earlier_write_failed())?;
            write_all(draft, &taken, &recycle)
        });
        match thread {
            Ok(thread) => {
                // The thread is receiving.
                let _ = hand_over.send(draft);
                WriterState::Background(Self { chunks: Some(chunks), used, thread: Some(thread) })
            }
            Err(_) => WriterState::Direct(draft),
        }
    }

    fn send(&mut self, part: Option<PartNumber>, bytes: &mut Vec<u8>) -> Result<(), SpoolError> {
        let next = self.used.try_recv().unwrap_or_default();
        let chunk = Chunk { part, bytes: std::mem::replace(bytes, next) };
        match &self.chunks {
            Some(chunks) if chunks.send(chunk).is_ok() => Ok(()),
            // The thread ends early only after a failure.
            _ => self.join().and(Err(earlier_write_failed())),
        }
    }

    fn join(&mut self) -> Result<Box<dyn Draft>, SpoolError> {
        drop(self.chunks.take());
        let thread = self.thread.take().ok_or_else(earlier_write_failed)?;
        thread.join().expect("writing a draft does not panic")
    }
}

/// Joins the thread: a dropped draft must leave nothing behind.
impl Drop for BackgroundWriter {
    fn drop(&mut self) {
        drop(self.chunks.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_all(
    mut draft: Box<dyn Draft>,
    chunks: &Receiver<Chunk>,
    recycle: &Sender<Vec<u8>>,
) -> Result<Box<dyn Draft>, SpoolError> {
    for Chunk { part, mut bytes } in chunks {
        write(&mut *draft, part, &bytes)?;
        bytes.clear();
        // The sender of the chunk may be gone.
        let _ = recycle.send(bytes);
    }
    Ok(draft)
}

fn write(draft: &mut dyn Draft, part: Option<PartNumber>, bytes: &[u8]) -> Result<(), SpoolError> {
    match part {
        None => draft.write(bytes),
        Some(part) => draft.write_part(part, bytes),
    }
}

fn earlier_write_failed() -> SpoolError {
    let source = std::io::Error::other("an earlier write failed");
    SpoolError::Io { op: "write", path: std::path::PathBuf::new(), source }
}
