//! Sends the values of an answer, and counts the values that do not fit.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;

use super::{Completion, FRAME_DONE, FRAME_FAULT, FRAME_LINES, Fault, write_frame};
use crate::page::Page;

/// Sends the values of one page to the parent as far as they fit, and counts the others within a
/// budget.
pub(crate) struct OutputWriter {
    out: File,
    page: Page,
    /// The maximum size of the answer in bytes.
    max_bytes: u64,
    written_bytes: u64,
    /// The budget for counting values that are not sent.
    budget: CountBudget,
    /// A value of the page did not fit, so that no later value may be sent.
    full: bool,
    values: u64,
    returned: u64,
    /// Whether every value so far was null, or a list of nulls.
    only_nulls: bool,
    buffer: Vec<u8>,
}

/// The counting budget is 16 times the output limit plus twice the input. This is enough for any filter
/// that produces a value or two per record, and ends an infinite generator before the deadline. It
/// depends on the input and the values and not on time, so that an answer depends on the data alone
/// (Spec N6).
const BUDGET_PER_OUTPUT_BYTE: u64 = 16;
const BUDGET_PER_INPUT_BYTE: u64 = 2;

/// The cost of a value in addition to its bytes: small values take time, too.
const VALUE_OVERHEAD: u64 = 64;

/// The size of the buffer in bytes at which it is sent.
const FLUSH_LEN: usize = 64 * 1024;

impl OutputWriter {
    pub(crate) fn new(out: File, page: Page, max_bytes: u64) -> Self {
        Self {
            out,
            page,
            max_bytes,
            written_bytes: 0,
            budget: CountBudget { left: max_bytes.saturating_mul(BUDGET_PER_OUTPUT_BYTE) },
            full: false,
            values: 0,
            returned: 0,
            only_nulls: true,
            buffer: Vec::new(),
        }
    }

    /// A separate budget for a producer that buffers many values before it writes them.
    #[cfg(feature = "jq")]
    pub(crate) fn count_budget(&self) -> CountBudget {
        CountBudget { left: self.max_bytes.saturating_mul(BUDGET_PER_OUTPUT_BYTE) }
    }

    /// Adds input to the counting budget.
    pub(crate) fn record_input(&mut self, records: u64, bytes: u64) {
        self.budget.record_input(records, bytes);
    }

    /// Writes or counts a value, given without line break. Breaks once the budget is exhausted.
    pub(crate) fn write_value(&mut self, line: &[u8]) -> io::Result<ControlFlow<()>> {
        let number = self.values;
        self.values += 1;
        self.only_nulls = self.only_nulls && line.iter().all(|byte| b"null[],".contains(byte));
        if number < self.page.offset {
            return Ok(ControlFlow::Continue(()));
        }
        let bytes = line.len() as u64 + 1;
        let wanted = self.returned < self.page.limit;
        if wanted && !self.full && self.written_bytes + bytes <= self.max_bytes {
            self.written_bytes += bytes;
            self.returned += 1;
            self.buffer.extend_from_slice(line);
            self.buffer.push(b'\n');
            if self.buffer.len() >= FLUSH_LEN {
                self.flush()?;
            }
            return Ok(ControlFlow::Continue(()));
        }
        self.full |= wanted;
        Ok(if self.budget.spend(line.len()) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    /// Whether the first value of the page did not fit.
    fn first_value_too_large(&self) -> bool {
        self.full && self.returned == 0
    }

    /// The number of values so far.
    #[cfg(feature = "jq")]
    pub(crate) fn values(&self) -> u64 {
        self.values
    }

    /// Whether every value so far was null, or a list of nulls.
    #[cfg(feature = "jq")]
    pub(crate) fn only_nulls(&self) -> bool {
        self.only_nulls
    }

    /// Ends the answer; `counted` says whether all values were counted.
    pub(crate) fn finish(mut self, mut completion: Completion, counted: bool) -> io::Result<()> {
        if self.first_value_too_large() {
            return self.finish_with_fault(Fault::Output);
        }
        self.flush()?;
        completion.returned = self.returned;
        completion.total = counted.then_some(self.values);
        write_frame(&mut self.out, FRAME_DONE, &serde_json::to_vec(&completion.sanitized())?)
    }

    /// Ends with an error.
    pub(crate) fn finish_with_fault(mut self, fault: Fault) -> io::Result<()> {
        write_frame(&mut self.out, FRAME_FAULT, &serde_json::to_vec(&fault.sanitized())?)
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            write_frame(&mut self.out, FRAME_LINES, &self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// The budget for counting values that do not fit into the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountBudget {
    left: u64,
}

impl CountBudget {
    /// Adds input to the budget.
    pub(crate) fn record_input(&mut self, records: u64, bytes: u64) {
        let weight = records.saturating_mul(VALUE_OVERHEAD).saturating_add(bytes);
        self.left = self.left.saturating_add(weight.saturating_mul(BUDGET_PER_INPUT_BYTE));
    }

    /// Spends the cost of a value. Returns whether it exceeds the budget.
    pub(crate) fn spend(&mut self, bytes: usize) -> bool {
        let weight = bytes as u64 + VALUE_OVERHEAD;
        let over = weight > self.left;
        self.left = self.left.saturating_sub(weight);
        over
    }
}
