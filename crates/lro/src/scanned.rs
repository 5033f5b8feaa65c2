//! Scanned: a payload that can be read more than once, after its first pass.

use lro_core::payload::{Payload, Unreadable, each_piece};
use lro_core::records::{Content, Finder, Found, Surveyed};
use lro_core::{LinesError, assess_arrived, lines_arrived};

use crate::call::Call;
use crate::clock::Moment;
use crate::delivered::Delivered;
use crate::offloader::{Beside, Offloader};
use crate::truncated::Copies;

/// How much of a payload is read at a time.
const PIECE: usize = 1 << 20;

/// What the first pass over a payload found.
///
/// For a payload that is not in memory and need not be copied, such as an open file. The pass does
/// not depend on the tool, so a caller can look at the outcome and then choose an [`Offloader`].
#[derive(Debug)]
pub struct Scanned {
    found: Found,
    surveyed: Option<Surveyed>,
}

/// Whether the white space between the values of a payload is content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it is or it is not")]
pub enum WhiteSpace {
    /// It is: the payload is the text of a content block.
    Significant,
    /// It is not: the payload is JSON, or a file as it came.
    Insignificant,
}

impl Scanned {
    /// Reads all of `payload` once.
    pub fn read(payload: &dyn Payload) -> Result<Self, Unreadable> {
        let mut finder = Finder::surveying();
        each_piece(payload, PIECE, |piece| {
            finder.feed(piece);
            Ok::<_, Unreadable>(())
        })?;
        let (found, surveyed) = finder.finish_surveyed();
        Ok(Self { found, surveyed })
    }

    /// What the payload is.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// Whether the records of `payload`, which is the one that was read, are memories.
    pub fn is_of_memories(&self, payload: &dyn Payload) -> Result<bool, LinesError> {
        if !matches!(self.found.content, Content::Records(_)) {
            return Ok(false);
        }
        match &self.surveyed {
            Some(surveyed) => Ok(surveyed.survey().is_of_memories()),
            None => Ok(lines_arrived(payload, &self.found, 0)?.1.is_of_memories()),
        }
    }
}

impl Offloader {
    /// Delivers a payload of which `scanned` is the first pass, as [`deliver`](Self::deliver) does.
    pub fn deliver_scanned(
        &self,
        call: Call<'_>,
        payload: &dyn Payload,
        scanned: Scanned,
        white_space: WhiteSpace,
        at: Moment,
    ) -> Delivered {
        let Scanned { found, surveyed } = scanned;
        let rules = self.rules_of(call);
        let assessment = assess_arrived(payload, found, call.tool, &rules, self.tokenizer());
        let exact = white_space == WhiteSpace::Significant;
        let beside = Beside { further: &[], exact, copies: Copies::One };
        self.deliver_assessed(call, payload, beside, assessment, surveyed, at)
    }
}
