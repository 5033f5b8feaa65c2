//! Aside: a long line, put where there is room for it.

use std::io::Read;

use lro::Held;
use lro_wire::LongLine;

use crate::relay::Relay;

/// A longer line is no message.
const LINE_CAP: u64 = 4 << 30;
/// A line up to this size goes to no disk.
const IN_MEMORY: usize = 48 << 20;
/// A line that finds no room on disk may take so much of memory.
const MEMORY_CAP: usize = 96 << 20;

/// Reads a line to its end; `None` where it has none, or where there is no room for it.
pub(super) fn set_aside<R: Read>(mut line: LongLine<'_, R>, relay: &Relay) -> Option<Held> {
    let spool = relay.interceptor().offloader("").spool().clone();
    let mut held = Held::new(IN_MEMORY);
    // A stream that ends in the middle of a line has said all it will.
    while let Ok(Some(piece)) = line.piece() {
        held.append(piece, &*spool);
        if held.bytes() > LINE_CAP || held.memory_bytes() > MEMORY_CAP {
            return None;
        }
    }
    Some(held)
}
