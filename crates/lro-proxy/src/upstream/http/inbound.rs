//! An inbound message of any size.

use std::sync::Arc;

use lro::SpillBuffer;
use lro_spool::Spool;
use lro_wire::MAX_IN_MEMORY_LINE_LEN;

use crate::oversize_spill::{Aside, TooLong};

/// A message, which is a line with its line break.
pub(crate) enum InboundMessage {
    /// All of it.
    Whole(Vec<u8>),
    /// One that is too long to be held.
    Long(SpillBuffer),
}

/// What is no longer is not stored, as a rule.
const SMALL: usize = 8 << 10;

impl InboundMessage {
    /// Whether it is dealt with at once. What is large is stored, which takes a disk's time.
    pub(crate) fn is_small(&self) -> bool {
        matches!(self, Self::Whole(line) if line.len() <= SMALL)
    }
}

/// A message whose pieces come one after the other.
pub(crate) struct Gathering {
    whole: Vec<u8>,
    long: Option<Aside>,
    spool: Arc<dyn Spool>,
}

impl Gathering {
    pub(crate) fn new(spool: Arc<dyn Spool>) -> Self {
        Self { whole: Vec::new(), long: None, spool }
    }

    /// So many bytes will come, as somebody says.
    pub(crate) fn expect(&mut self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // One more for the line break.
        self.whole.reserve_exact(bytes.min(MAX_IN_MEMORY_LINE_LEN) + 1);
    }

    /// Takes the next piece. Line breaks in JSON are white space, and a message is a line.
    pub(crate) fn append(&mut self, piece: &[u8]) -> Result<(), TooLong> {
        let from = self.whole.len();
        self.whole.extend_from_slice(piece);
        if memchr::memchr2(b'\n', b'\r', piece).is_some() {
            for byte in &mut self.whole[from..] {
                if matches!(byte, b'\n' | b'\r') {
                    *byte = b' ';
                }
            }
        }
        if self.long.is_none() && self.whole.len() <= MAX_IN_MEMORY_LINE_LEN {
            return Ok(());
        }
        let long = self.long.get_or_insert_with(|| Aside::new(Arc::clone(&self.spool)));
        let set = long.append(&self.whole);
        self.whole.clear();
        set
    }

    /// What was gathered; `None` for nothing but white space.
    pub(crate) fn take(&mut self) -> Option<InboundMessage> {
        let mut whole = std::mem::take(&mut self.whole);
        match self.long.take() {
            Some(mut long) => {
                // It is a line; that it has become too long by this one byte is no matter.
                let _ = long.append(b"\n");
                Some(InboundMessage::Long(long.held()))
            }
            None if whole.trim_ascii().is_empty() => None,
            None => {
                whole.push(b'\n');
                Some(InboundMessage::Whole(whole))
            }
        }
    }
}
