//! Reads a range.

use lro_query::read::{Piece, ReadRequest, ReadUnit, read};
use lro_query::{Offset, Total};
use lro_spool::{PositionedRead, StoredResult, records_offset};

use super::Extractor;
use crate::extract_error::ExtractError;
use crate::query::{Query, Reply, ReplyUnit, body_budget, cost};
use crate::query_source::{has_records, selected_text};

/// The bytes per token that a read fetches for one reply; few tokens are longer.
const READ_BYTES_PER_TOKEN: u64 = 16;

impl Extractor {
    /// Reads a range of the data, of a further text or of the original.
    pub(super) fn read(
        &self,
        stored: &dyn StoredResult,
        query: &Query,
        unit: ReadUnit,
        start: Offset,
        end: Option<u64>,
        most: u64,
    ) -> Result<Reply, ExtractError> {
        let request = ReadRequest::new(unit, start, end, 0).limit(most);
        if let Some(text) = selected_text(stored, query)? {
            // Such a text has no header line.
            return self.read_text(&*text, 0, request);
        }
        let begin = if has_records(stored) { records_offset(stored)? } else { 0 };
        self.read_text(stored, begin, request)
    }

    fn read_text(
        &self,
        text: &dyn PositionedRead,
        begin: u64,
        mut request: ReadRequest,
    ) -> Result<Reply, ExtractError> {
        let budget = body_budget(self.reply_limit);
        let max_len = budget.saturating_mul(READ_BYTES_PER_TOKEN);
        request.max_bytes = usize::try_from(max_len).unwrap_or(usize::MAX);
        // If each character takes several tokens, read again with a lower limit.
        loop {
            let piece = read(text, begin, &request)?;
            let fits = cost(&piece.text, budget, &*self.tokenizer).is_some();
            if fits || request.max_bytes <= 1 {
                return Ok(reply(piece, &request));
            }
            request.max_bytes = request.max_bytes.min(piece.text.len()) * 3 / 4;
        }
    }
}

fn reply(piece: Piece, request: &ReadRequest) -> Reply {
    let unit = match request.unit {
        ReadUnit::Characters => ReplyUnit::Characters,
        ReadUnit::Lines => ReplyUnit::Lines,
        _ => ReplyUnit::Records,
    };
    let mut notes = Vec::new();
    if matches!(request.start, Offset::FromEnd(_)) {
        notes.push(format!("from start={}", piece.given.start));
    }
    if piece.total > 0 && piece.given.start >= piece.total {
        // As many as were requested; the start of the piece is within the text.
        let start = match request.start {
            Offset::FromStart(start) => start,
            Offset::FromEnd(_) => piece.given.start,
        };
        let count = request.end.map_or(1, |end| end.saturating_sub(start)).clamp(1, piece.total);
        let last = piece.total - 1;
        notes.push(format!("the last of them is start={last}. Call again with start=-{count}"));
    }
    if let Some(cut) = piece.cut {
        notes.push(format!(
            "the line is longer than a reply; it continues at character {}",
            cut.next_character
        ));
    }
    if piece.not_text > 0 {
        notes.push(format!("{} bytes are not text and are shown as U+FFFD", piece.not_text));
    }
    let more_requested = request.end.is_none_or(|end| piece.given.end < end);
    Reply {
        given: piece.given.end - piece.given.start,
        total: Total::Exactly(piece.total),
        unit,
        body: piece.text,
        next: piece.next.filter(|_| more_requested),
        notes,
    }
}
