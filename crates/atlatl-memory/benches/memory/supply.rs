//! An endless supply of memories, generated on demand.

use std::collections::VecDeque;

use mif::Memory;
use testkit::corpus;

/// The number of memories per lot. Each lot has the same months, so that a million of them do not
/// span a century.
const LOT: usize = 10_000;

pub(crate) struct Supply {
    lot: VecDeque<Memory>,
    lots: u64,
    taken: usize,
}

impl Supply {
    pub(crate) fn new() -> Self {
        Self { lot: VecDeque::new(), lots: 0, taken: 0 }
    }

    /// Returns the next `n`.
    pub(crate) fn take(&mut self, n: usize) -> Vec<Memory> {
        self.taken += n;
        let mut taken = Vec::new();
        while taken.len() < n {
            if self.lot.is_empty() {
                self.lots += 1;
                self.lot = corpus::memories(LOT, self.lots).into();
            }
            let some = self.lot.len().min(n - taken.len());
            taken.extend(self.lot.drain(..some));
        }
        taken
    }

    /// The number of memories taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// Returns some of the stored memories, from the first lot.
    pub(crate) fn stored() -> Vec<Memory> {
        corpus::memories(LOT, 1)
    }
}
