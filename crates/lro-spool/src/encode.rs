//! Encodes a payload as header and record lines, or stores it unchanged.
//!
//! Companion specification §12. The payload is fed a second time, in chunks of any size; memory
//! does not grow with it. Large payloads are written on a background thread: finding record lines
//! keeps one core busy and copying them into the page cache another, so that doing both in turn would
//! add up.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use chrono::{DateTime, Utc};
use lro_core::payload::{Payload, Unreadable, each_piece};
use lro_core::records::{
    Envelope, Found, PayloadChanged, RecordForm, RecordLines, RecordSet, Surveyed,
};
use lro_core::{Detail, LinesError, OffloadHeader, Operation, ResultId, Survey, Tokens, payload};

use crate::address::Extension;
use crate::error::SpoolError;
use crate::sidecar::{PartRole, StoredForm};
use crate::spool::{Draft, Listed, NewResult, PartNumber, Spool};

/// What may stand around a record array and still be kept in the sidecar. Around more, the payload
/// is kept as it came, so that neither memory nor sidecar grow with it.
const ENVELOPE_CAP: u64 = 1 << 20;
/// A longer query is cut: the header is one line that every reader takes into memory.
const QUERY_CAP: usize = 8192;
/// In which pieces a payload is fed that has arrived.
const PIECE: usize = 256 * 1024;
/// From so many bytes on a thread is worth its start.
const BEHIND_FROM: u64 = 4 << 20;
/// How many chunks may wait: few enough that they are still in the cache when they are written.
const WAITING: usize = 8;

/// What is to be stored, besides the payload itself.
#[derive(Debug, Clone)]
pub struct StoreRequest<'a> {
    /// The identity it gets.
    pub id: ResultId,
    /// The tool as its server calls it.
    pub tool: &'a str,
    /// The server whose tool it is, where there are several.
    pub server: Option<&'a str>,
    /// Whether the payload is a text, whose white space counts: it is kept beside the records where
    /// they alone do not give it again.
    pub exact: bool,
    /// The query, where there was one; its first 8,192 characters are kept.
    pub query: Option<String>,
    /// The detail level of the records.
    pub detail: Detail,
    /// What the first pass found.
    pub found: &'a Found,
    /// The tokens it would have taken.
    pub estimated: Tokens,
    /// The time now.
    pub created_at: DateTime<Utc>,
    /// How long it shall live.
    pub ttl: Duration,
}

/// Why a payload was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The spool refused.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The second pass saw other bytes than the first: find the records again.
    #[error(transparent)]
    PayloadChanged(#[from] PayloadChanged),
    /// The payload could not be read for the second pass.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl From<LinesError> for StoreError {
    fn from(error: LinesError) -> Self {
        match error {
            LinesError::Unreadable(error) => Self::Unreadable(error),
            _ => Self::PayloadChanged(PayloadChanged),
        }
    }
}

/// A payload on its way into a spool. Dropped before [`finish`](Self::finish) it leaves nothing.
pub struct StoreWriter {
    writing: Writing,
    form: StoredForm,
    records: Option<(RecordSet, Box<RecordLines>)>,
    /// The bytes outside a record array, white space and all.
    around: Option<Vec<u8>>,
    original: Option<PartNumber>,
    fed: u64,
    expected: u64,
    /// What the record lines come to.
    lines: u64,
    out: Vec<u8>,
}

impl StoreWriter {
    /// Begins to store a payload.
    pub fn begin(spool: &dyn Spool, what: StoreRequest<'_>) -> Result<Self, StoreError> {
        Self::begin_surveyed(spool, what, None)
    }

    /// Begins to store a payload whose records may have been surveyed when they were found.
    pub fn begin_surveyed(
        spool: &dyn Spool,
        what: StoreRequest<'_>,
        surveyed: Option<Surveyed>,
    ) -> Result<Self, StoreError> {
        let form = StoredForm::from_content(&what.found.content).ok_or(PayloadChanged)?;
        let records = what.found.records();
        let extension = match form {
            _ if form.has_records() => Extension::Jsonl,
            StoredForm::Document => Extension::Json,
            StoredForm::Text => Extension::Txt,
            _ => Extension::Bin,
        };
        let operation = Operation::of_tool(what.tool);
        let header = OffloadHeader::new(
            &operation,
            what.query.map(|query| query.chars().take(QUERY_CAP).collect()),
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
            extension,
            header,
            created_at: what.created_at,
            ttl: what.ttl,
        })?;
        let expected = what.found.measure.bytes;
        let around = match records.map(|records| &records.form) {
            Some(RecordForm::Array { span, .. }) => {
                Some(expected.saturating_sub(span.end - span.start))
            }
            _ => None,
        };
        let kept = around.is_some_and(|bytes| bytes <= ENVELOPE_CAP);
        let original = if form == StoredForm::Table || (around.is_some() && !kept) {
            Some(draft.add_part(PartRole::Original)?)
        } else {
            None
        };
        let lines = |records| match surveyed {
            Some(surveyed) => RecordLines::surveyed(records, surveyed),
            None => RecordLines::new(records),
        };
        Ok(Self {
            writing: Writing::new(draft),
            form,
            records: records.map(|records| (records.clone(), Box::new(lines(records)))),
            around: kept.then(Vec::new),
            original,
            fed: 0,
            expected,
            lines: 0,
            out: Vec::new(),
        })
    }

    /// Takes the next chunk of the payload.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        // Several pieces may wait to be written: they are small, whatever the caller's are.
        chunk.chunks(PIECE).try_for_each(|piece| self.feed_piece(piece))
    }

    fn feed_piece(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        if self.original.is_some() {
            self.out.extend_from_slice(chunk);
            self.writing.write(self.original, &mut self.out)?;
        }
        if let Some((records, lines)) = &mut self.records {
            if let (Some(around), RecordForm::Array { span, .. }) =
                (&mut self.around, &records.form)
            {
                let cut = |at: u64| {
                    let inside = usize::try_from(at.saturating_sub(self.fed));
                    inside.unwrap_or(usize::MAX).min(chunk.len())
                };
                around.extend_from_slice(&chunk[..cut(span.start)]);
                around.extend_from_slice(&chunk[cut(span.end)..]);
            }
            lines.feed(chunk, &mut self.out)?;
            self.lines += self.out.len() as u64;
            self.writing.write(None, &mut self.out)?;
        } else {
            self.out.extend_from_slice(chunk);
            self.writing.write(None, &mut self.out)?;
        }
        self.fed += chunk.len() as u64;
        Ok(())
    }

    /// Ends the payload. Once this returns, the result is safe, and may be spoken of.
    pub fn finish(self) -> Result<(Listed, Survey), StoreError> {
        self.finish_with(&[])
    }

    /// The same, with texts of the same tool result that say something else.
    pub fn finish_with(self, texts: &[&str]) -> Result<(Listed, Survey), StoreError> {
        self.finish_exact(texts, None)
    }

    /// The same, with the payload again where the records alone must give every byte of it.
    fn finish_exact(
        mut self,
        texts: &[&str],
        exact: Option<&dyn Payload>,
    ) -> Result<(Listed, Survey), StoreError> {
        if self.fed != self.expected {
            return Err(PayloadChanged.into());
        }
        let (mut envelope, mut survey) = (None, Survey::default());
        if let Some((mut records, lines)) = self.records {
            survey = lines.finish(&mut self.out)?;
            self.lines += self.out.len() as u64;
            self.writing.write(None, &mut self.out)?;
            if let Some(around) = self.around {
                if let RecordForm::Array { span, .. } = &mut records.form {
                    // The records are cut out already: what is left of their place is its start.
                    span.end = span.start;
                }
                envelope = Some(Envelope::parse(&around, &records).ok_or(PayloadChanged)?);
            }
        }
        let mut draft = self.writing.finish()?;
        if let Some(payload) = exact
            && self.original.is_none()
            && !gives_again(payload, self.form, self.lines, envelope.as_ref())?
        {
            let part = draft.add_part(PartRole::Original)?;
            each_piece(payload, PIECE, |piece| {
                Ok::<_, StoreError>(draft.write_part(part, piece)?)
            })?;
        }
        for text in texts {
            let part = draft.add_part(PartRole::Text)?;
            draft.write_part(part, text.as_bytes())?;
        }
        Ok((draft.commit(self.form, envelope)?, survey))
    }
}

/// Stores a payload that lies in memory, with further texts of the same tool result.
pub fn store(
    spool: &dyn Spool,
    what: StoreRequest<'_>,
    payload: &[u8],
    texts: &[&str],
) -> Result<(Listed, Survey), StoreError> {
    store_arrived(spool, what, &payload, texts, None)
}

/// Stores a payload that lies anywhere, and whose records may have been surveyed.
pub fn store_arrived(
    spool: &dyn Spool,
    what: StoreRequest<'_>,
    payload: &dyn Payload,
    texts: &[&str],
    surveyed: Option<Surveyed>,
) -> Result<(Listed, Survey), StoreError> {
    let exact = what.exact.then_some(payload);
    let mut storing = StoreWriter::begin_surveyed(spool, what, surveyed)?;
    each_piece(payload, PIECE, |piece| storing.feed(piece))?;
    storing.finish_exact(texts, exact)
}

/// Whether the stored form gives every byte of `payload` again. White space is all that ever gets
/// lost, so sizes tell.
fn gives_again(
    payload: &dyn Payload,
    form: StoredForm,
    lines: u64,
    envelope: Option<&Envelope>,
) -> Result<bool, Unreadable> {
    Ok(match (form, envelope) {
        // The break behind the last line stands for no comma.
        (StoredForm::Array, Some(envelope)) => {
            let records = lines.saturating_sub(1);
            payload.bytes() == envelope.json.len() as u64 + records
        }
        // A break that was not there would hide a space that was.
        (StoredForm::Lines, _) => {
            let bytes = payload.bytes();
            bytes == lines && payload::part(payload, bytes.saturating_sub(1)..bytes)? == b"\n"
        }
        (StoredForm::Array | StoredForm::Table | StoredForm::Records, _) => false,
        _ => true,
    })
}

/// Where the bytes of a draft go.
pub(crate) struct Writing {
    way: Way,
    written: u64,
}

enum Way {
    Directly(Box<dyn Draft>),
    Behind(Behind),
    /// A write failed, and the draft is gone.
    Over,
}

struct Behind {
    chunks: Option<SyncSender<Chunk>>,
    used: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<Result<Box<dyn Draft>, SpoolError>>>,
}

struct Chunk {
    part: Option<PartNumber>,
    bytes: Vec<u8>,
}

impl Writing {
    pub(crate) fn new(draft: Box<dyn Draft>) -> Self {
        Self { way: Way::Directly(draft), written: 0 }
    }

    /// Appends `bytes` to the data or a part, and empties them.
    pub(crate) fn write(
        &mut self,
        part: Option<PartNumber>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), SpoolError> {
        self.written += bytes.len() as u64;
        if self.written > BEHIND_FROM && matches!(self.way, Way::Directly(_)) {
            self.way = match std::mem::replace(&mut self.way, Way::Over) {
                Way::Directly(draft) => Behind::start(draft),
                other => other,
            };
        }
        match &mut self.way {
            Way::Directly(draft) => {
                write(&mut **draft, part, bytes)?;
                bytes.clear();
                Ok(())
            }
            Way::Behind(behind) => behind.send(part, bytes),
            Way::Over => Err(over()),
        }
    }

    /// Waits until everything is written, and gives the draft back.
    pub(crate) fn finish(self) -> Result<Box<dyn Draft>, SpoolError> {
        match self.way {
            Way::Directly(draft) => Ok(draft),
            Way::Behind(mut behind) => behind.join(),
            Way::Over => Err(over()),
        }
    }
}

impl Behind {
    fn start(draft: Box<dyn Draft>) -> Way {
        let (chunks, taken) = sync_channel::<Chunk>(WAITING);
        let (give_back, used) = channel();
        // The draft must survive a thread that could not be started.
        let (hand_over, handed) = channel();
        let thread = thread::Builder::new().name("spool_writer".to_owned()).spawn(move || {
            let draft = handed.recv().map_err(|_| over())?;
            write_all(draft, &taken, &give_back)
        });
        match thread {
            Ok(thread) => {
                // The thread is waiting for it.
                let _ = hand_over.send(draft);
                Way::Behind(Self { chunks: Some(chunks), used, thread: Some(thread) })
            }
            Err(_) => Way::Directly(draft),
        }
    }

    fn send(&mut self, part: Option<PartNumber>, bytes: &mut Vec<u8>) -> Result<(), SpoolError> {
        let next = self.used.try_recv().unwrap_or_default();
        let chunk = Chunk { part, bytes: std::mem::replace(bytes, next) };
        match &self.chunks {
            Some(chunks) if chunks.send(chunk).is_ok() => Ok(()),
            // The thread ends before its time only when it failed.
            _ => self.join().and(Err(over())),
        }
    }

    fn join(&mut self) -> Result<Box<dyn Draft>, SpoolError> {
        drop(self.chunks.take());
        let thread = self.thread.take().ok_or_else(over)?;
        thread.join().expect("writing a draft does not panic")
    }
}

/// A draft leaves nothing behind once its owner is gone, so that waits for the thread.
impl Drop for Behind {
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
    give_back: &Sender<Vec<u8>>,
) -> Result<Box<dyn Draft>, SpoolError> {
    for Chunk { part, mut bytes } in chunks {
        write(&mut *draft, part, &bytes)?;
        bytes.clear();
        // Nobody may be left to use it again.
        let _ = give_back.send(bytes);
    }
    Ok(draft)
}

fn write(draft: &mut dyn Draft, part: Option<PartNumber>, bytes: &[u8]) -> Result<(), SpoolError> {
    match part {
        None => draft.write(bytes),
        Some(part) => draft.write_part(part, bytes),
    }
}

fn over() -> SpoolError {
    let source = std::io::Error::other("an earlier write failed");
    SpoolError::Io { op: "write", path: std::path::PathBuf::new(), source }
}
