//! Cache of recently expired results.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lro_core::ResultId;

use crate::error::SpoolError;
use crate::spool::Listed;

/// How many are remembered for whoever asks for one again.
const REMEMBERED: usize = 1024;

/// f24: an expired reference gets a final answer, also after its file is gone.
#[derive(Debug, Default)]
pub(crate) struct Gone(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    remembered: VecDeque<Listed>,
    /// Removed to make room, and not in a sweep's return value yet.
    untold: Vec<Listed>,
}

impl Gone {
    pub(crate) fn expired(&self, id: ResultId) -> Option<SpoolError> {
        self.state().remembered.iter().find(|gone| gone.id() == id).map(Listed::expired)
    }

    /// Keeps the call that made a result, not what stood around its records.
    pub(crate) fn remember(&self, gone: &Listed) {
        let mut gone = gone.clone();
        gone.sidecar.envelope = None;
        let mut state = self.state();
        if state.remembered.len() == REMEMBERED {
            state.remembered.pop_front();
        }
        state.remembered.push_back(gone);
    }

    pub(crate) fn tell_later(&self, gone: Listed) {
        self.state().untold.push(gone);
    }

    pub(crate) fn take_untold(&self) -> Vec<Listed> {
        std::mem::take(&mut self.state().untold)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one push or pop; none leaves the lists half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
