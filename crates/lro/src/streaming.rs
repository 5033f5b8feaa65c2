//! Offloads a result that arrives in chunks.

use lro_core::assess_arrived;
use lro_core::records::Finder;

use crate::call::Call;
use crate::clock::Moment;
use crate::delivered::Delivered;
use crate::offloader::{Beside, Offloader};
use crate::spill_buffer::SpillBuffer;
use crate::truncated::Copies;

/// A payload up to this size stays in memory; a larger one is set aside in the spool.
pub(crate) const MEMORY_CAP: usize = 64 << 20;

/// A result that is arriving, looked through on the way.
///
/// Memory does not grow with it: beyond 64 MiB the payload goes to a file without a name in the
/// spool's directory. Where that fails (the disk is full, say) the rest is kept in memory instead,
/// however large, since it exists nowhere else.
pub struct StreamingOffload<'a> {
    offloader: &'a Offloader,
    call: Call<'a>,
    finder: Finder,
    held: SpillBuffer,
}

/// A result that has arrived.
#[derive(Debug)]
#[non_exhaustive]
pub struct OffloadOutcome {
    /// What the client gets.
    pub delivered: Delivered,
    /// The payload, for whoever has to pass it on: [`Delivered::Inline`] and
    /// [`Delivered::PassedOn`]. It takes memory or disk until it is dropped.
    pub payload: SpillBuffer,
}

impl<'a> StreamingOffload<'a> {
    pub(crate) fn new(offloader: &'a Offloader, call: Call<'a>) -> Self {
        let held = SpillBuffer::new(offloader.memory_cap);
        Self { offloader, call, finder: Finder::surveying(), held }
    }

    /// Takes the next chunk.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.finder.feed(chunk);
        self.held.append(chunk, &**self.offloader.spool());
    }

    /// Ends the payload and delivers it, as [`Offloader::deliver`] does.
    pub fn finish(self, at: Moment) -> OffloadOutcome {
        self.finish_beside(Beside { further: &[], exact: false, copies: Copies::One }, at)
    }

    /// The same for a text, whose white space counts.
    pub fn finish_text(self, further: &[&str], at: Moment) -> OffloadOutcome {
        self.finish_beside(Beside { further, exact: true, copies: Copies::Both }, at)
    }

    /// The same for JSON with texts beside it that say something else.
    pub fn finish_with(self, further: &[&str], at: Moment) -> OffloadOutcome {
        self.finish_beside(Beside { further, exact: false, copies: Copies::Both }, at)
    }

    fn finish_beside(self, beside: Beside<'_>, at: Moment) -> OffloadOutcome {
        let Self { offloader, call, finder, held: payload } = self;
        let rules = offloader.rules_of(call);
        let (found, surveyed) = finder.finish_surveyed();
        let assessment = assess_arrived(&payload, found, call.tool, &rules, offloader.tokenizer());
        let delivered =
            offloader.deliver_assessed(call, &payload, beside, assessment, surveyed, at);
        OffloadOutcome { delivered, payload }
    }
}

impl std::fmt::Debug for StreamingOffload<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arriving").field("held", &self.held).finish_non_exhaustive()
    }
}
