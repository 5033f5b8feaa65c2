//! Offloads results that need not fit into memory: a stream of chunks, or a file.
//!
//! [`StreamingOffload`] takes chunks and keeps them in a [`SpillBuffer`]. [`ScannedPayload`] is the
//! first pass over a payload that can be read more than once.

use std::io;
use std::io::Write;

use lro_core::payload::{Payload, Unreadable, each_piece};
use lro_core::records::{Content, Detected, Detector, FirstPassStats};
use lro_core::{LinesError, assess_payload, payload_record_lines};
use lro_spool::{Scratch, Spool};

use super::delivery::{Delivered, IdSeed, ToolCall};
use super::offloader::{Offloader, PayloadContext};
use super::truncated::Copies;

/// An offload of a result that arrives in chunks.
///
/// Memory is bounded: beyond 64 MiB the payload spills to an unlinked file in the spool's directory.
/// If that fails (the disk is full, for example), the rest stays in memory, however large, because it
/// exists nowhere else.
pub struct StreamingOffload<'a> {
    offloader: &'a Offloader,
    call: ToolCall<'a>,
    detector: Detector,
    payload: SpillBuffer,
}

/// The outcome of a [`StreamingOffload`].
#[derive(Debug)]
#[non_exhaustive]
pub struct OffloadOutcome {
    /// What the client gets.
    pub delivered: Delivered,
    /// The payload, which the caller sends for [`Delivered::Inline`] and [`Delivered::PassedOn`]. It
    /// uses memory or disk until it is dropped.
    pub payload: SpillBuffer,
}

impl<'a> StreamingOffload<'a> {
    fn new(offloader: &'a Offloader, call: ToolCall<'a>) -> Self {
        let payload = SpillBuffer::new(offloader.memory_cap);
        Self { offloader, call, detector: Detector::with_stats(), payload }
    }

    /// Adds the next chunk.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.detector.feed(chunk);
        self.payload.append(chunk, &**self.offloader.spool());
    }

    /// Ends the payload and delivers it, as [`Offloader::deliver_result`] does.
    pub fn finish(self, seed: IdSeed) -> OffloadOutcome {
        self.finish_in_context(
            PayloadContext {
                further_texts: &[],
                addresses: &[],
                exact: false,
                copies: Copies::One,
            },
            seed,
        )
    }

    /// The same for a text, whose white space is content, with further texts.
    pub fn finish_text(self, further_texts: &[&str], seed: IdSeed) -> OffloadOutcome {
        self.finish_in_context(
            PayloadContext { further_texts, addresses: &[], exact: true, copies: Copies::Both },
            seed,
        )
    }

    /// The same for JSON, with further texts.
    pub fn finish_with_texts(self, further_texts: &[&str], seed: IdSeed) -> OffloadOutcome {
        self.finish_in_context(
            PayloadContext { further_texts, addresses: &[], exact: false, copies: Copies::Both },
            seed,
        )
    }

    fn finish_in_context(self, context: PayloadContext<'_>, seed: IdSeed) -> OffloadOutcome {
        let Self { offloader, call, detector, payload } = self;
        let rules = offloader.rules_for(call);
        let (detected, stats) = detector.finish_with_stats();
        let assessment =
            assess_payload(&payload, detected, call.tool, &rules, offloader.tokenizer());
        let delivered =
            offloader.deliver_assessed(call, &payload, context, assessment, stats, seed);
        OffloadOutcome { delivered, payload }
    }
}

impl std::fmt::Debug for StreamingOffload<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamingOffload").field("payload", &self.payload).finish_non_exhaustive()
    }
}

/// The bytes read or written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// A buffer that spills from memory to a scratch file of the spool.
///
/// The first bytes may be in an unlinked file, which is freed with the buffer. Bytes that cannot be
/// written to the file stay in memory, however many: no byte is ever lost.
pub struct SpillBuffer {
    /// The beginning of the payload, spilled.
    scratch: Option<Box<dyn Scratch>>,
    /// The rest of the payload.
    memory: Vec<u8>,
    memory_cap: usize,
    /// Whether spilling failed; it is not tried again.
    spill_failed: bool,
}

impl SpillBuffer {
    /// An empty buffer, which spills beyond `memory_cap` bytes.
    pub fn new(memory_cap: usize) -> Self {
        Self { scratch: None, memory: Vec::new(), memory_cap, spill_failed: false }
    }

    /// Appends a chunk, and spills to `spool` beyond the memory cap.
    pub fn append(&mut self, chunk: &[u8], spool: &dyn Spool) {
        for piece in chunk.chunks(PIECE_BYTES) {
            self.memory.extend_from_slice(piece);
            let cap = if self.scratch.is_some() {
                PIECE_BYTES.min(self.memory_cap)
            } else {
                self.memory_cap
            };
            if self.memory.len() > cap && !self.spill_failed {
                self.spill(spool);
            }
        }
    }

    /// Writes the memory part to the spool, or notes that this failed.
    fn spill(&mut self, spool: &dyn Spool) {
        if self.scratch.is_none() {
            self.scratch = spool.scratch().ok();
        }
        let Some(scratch) = &mut self.scratch else {
            self.spill_failed = true;
            return;
        };
        // A failed append writes nothing, so its piece stays in memory.
        let mut written = 0;
        for piece in self.memory.chunks(PIECE_BYTES) {
            if scratch.append(piece).is_err() {
                self.spill_failed = true;
                break;
            }
            written += piece.len();
        }
        self.memory.drain(..written);
        // Free the capacity, which is not needed again.
        self.memory.shrink_to(PIECE_BYTES + PIECE_BYTES);
    }

    fn spilled_bytes(&self) -> u64 {
        self.scratch.as_ref().map_or(0, |scratch| scratch.len())
    }

    /// The size in bytes.
    pub fn bytes(&self) -> u64 {
        self.spilled_bytes() + self.memory.len() as u64
    }

    /// The bytes in memory; all of them if spilling failed.
    pub fn memory_bytes(&self) -> usize {
        self.memory.len()
    }

    /// All bytes, if they are in memory.
    pub fn whole(&self) -> Option<&[u8]> {
        (self.spilled_bytes() == 0).then_some(&self.memory)
    }

    /// All bytes, if they are in memory and within the cap; otherwise the buffer itself.
    pub fn into_memory(self) -> Result<Vec<u8>, Self> {
        if self.scratch.is_none() && self.memory.len() <= self.memory_cap {
            Ok(self.memory)
        } else {
            Err(self)
        }
    }

    /// Writes all bytes to `out`.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let (mut at, mut space) = (0, Vec::new());
        loop {
            let chunk = self.chunk_at(at, &mut space).map_err(io::Error::other)?;
            if chunk.is_empty() {
                return Ok(());
            }
            out.write_all(chunk)?;
            at += chunk.len() as u64;
        }
    }
}

impl Payload for SpillBuffer {
    fn bytes(&self) -> u64 {
        self.bytes()
    }

    fn whole(&self) -> Option<&[u8]> {
        self.whole()
    }

    fn chunk_at<'a>(&'a self, at: u64, space: &'a mut Vec<u8>) -> Result<&'a [u8], Unreadable> {
        let scratch = match &self.scratch {
            Some(scratch) if at < scratch.len() => scratch,
            _ => {
                let from = usize::try_from(at - self.spilled_bytes()).ok();
                return Ok(from.and_then(|from| self.memory.get(from..)).unwrap_or_default());
            }
        };
        space.resize(PIECE_BYTES, 0);
        let read = scratch.read_at(at, space).map_err(|error| Unreadable(error.into()))?;
        if read == 0 {
            // The file is shorter than the bytes written to it.
            return Err(Unreadable(io::Error::from(io::ErrorKind::UnexpectedEof).into()));
        }
        Ok(&space[..read])
    }
}

impl std::fmt::Debug for SpillBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never print contents.
        f.debug_struct("SpillBuffer")
            .field("bytes", &self.bytes())
            .field("spilled_bytes", &self.spilled_bytes())
            .finish_non_exhaustive()
    }
}

/// The outcome of the first pass over a payload.
///
/// For a payload that is not in memory and need not be copied, such as an open file. The pass does
/// not depend on the tool, so a caller can inspect the outcome and then choose an [`Offloader`].
#[derive(Debug)]
pub struct ScannedPayload {
    detected: Detected,
    stats: Option<FirstPassStats>,
}

/// Whether white space between the values of a payload is content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a yes or a no")]
pub enum WhiteSpace {
    /// The payload is the text of a content block.
    Significant,
    /// The payload is JSON, or a file.
    Insignificant,
}

impl ScannedPayload {
    /// Runs the first pass over `payload`.
    pub fn read(payload: &dyn Payload) -> Result<Self, Unreadable> {
        let mut detector = Detector::with_stats();
        each_piece(payload, PIECE_BYTES, |piece| {
            detector.feed(piece);
            Ok::<_, Unreadable>(())
        })?;
        Ok(Self::from_detector(detector))
    }

    /// The first pass by `detector`, which was fed with all of a payload.
    pub fn from_detector(detector: Detector) -> Self {
        let (detected, stats) = detector.finish_with_stats();
        Self { detected, stats }
    }

    /// The format of the payload.
    pub fn detected(&self) -> &Detected {
        &self.detected
    }

    /// Whether the records are memories. `payload` must be the payload of the first pass.
    pub fn is_of_memories(&self, payload: &dyn Payload) -> Result<bool, LinesError> {
        if !matches!(self.detected.content, Content::Records(_)) {
            return Ok(false);
        }
        match &self.stats {
            Some(stats) => Ok(stats.record_stats().is_of_memories()),
            None => Ok(payload_record_lines(payload, &self.detected, 0)?.1.is_of_memories()),
        }
    }
}

impl Offloader {
    /// Begins a streaming offload of the result of `call`.
    ///
    /// ```
    /// use lro::{Delivered, IdSeed, ToolCall};
    ///
    /// # let spool = std::sync::Arc::new(lro_spool::MemorySpool::default());
    /// # let offloader = lro::Offloader::new(spool, &lro_core::config::Config::default());
    /// let mut stream = offloader.receive(ToolCall::new("read_log"));
    /// for line in 0..9 {
    ///     stream.feed(format!("line {line}\n").as_bytes());
    /// }
    /// let outcome = stream.finish(IdSeed::from_system());
    /// assert!(matches!(outcome.delivered, Delivered::Inline(_)));
    /// assert!(outcome.payload.whole().unwrap().starts_with(b"line 0\n"));
    /// ```
    pub fn receive<'a>(&'a self, call: ToolCall<'a>) -> StreamingOffload<'a> {
        StreamingOffload::new(self, call)
    }

    /// Delivers a payload of which `scanned` is the first pass, as
    /// [`deliver_result`](Self::deliver_result) does.
    pub fn deliver_scanned(
        &self,
        call: ToolCall<'_>,
        payload: &dyn Payload,
        scanned: ScannedPayload,
        white_space: WhiteSpace,
        seed: IdSeed,
    ) -> Delivered {
        let ScannedPayload { detected, stats } = scanned;
        let rules = self.rules_for(call);
        let assessment = assess_payload(payload, detected, call.tool, &rules, self.tokenizer());
        let exact = white_space == WhiteSpace::Significant;
        let context =
            PayloadContext { further_texts: &[], addresses: &[], exact, copies: Copies::One };
        self.deliver_assessed(call, payload, context, assessment, stats, seed)
    }
}
