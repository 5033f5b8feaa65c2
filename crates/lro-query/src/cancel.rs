//! Cancel: a way to say that nobody waits for the answer any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends the queries it was given to. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends them: their workers are killed within a few hundredths of a second.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody did.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
