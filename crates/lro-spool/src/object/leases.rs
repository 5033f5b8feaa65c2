//! Leases of readers, and pending deletions, in this process.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use lro_core::ResultId;

/// Shared by the spools of one tenant.
#[derive(Debug, Default)]
pub(super) struct Holds {
    state: Mutex<State>,
    removed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    readers: HashMap<ResultId, usize>,
    removing: HashSet<ResultId>,
}

/// While it is there, nothing in this process removes the result.
#[derive(Debug)]
pub(super) struct Hold(Arc<Holds>, ResultId);

/// While it is there, nothing in this process opens the result.
#[derive(Debug)]
pub(super) struct Removal<'a>(&'a Holds, ResultId);

/// Why a result cannot be removed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Busy {
    Read,
    BeingRemoved,
}

impl Holds {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one insert or remove.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Protects a result, there or not. Where it is just being removed, waits for the end of that.
    pub(super) fn hold(self: &Arc<Self>, id: ResultId) -> Hold {
        let mut state = self.state();
        while state.removing.contains(&id) {
            state = self.removed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        *state.readers.entry(id).or_default() += 1;
        Hold(Arc::clone(self), id)
    }

    pub(super) fn remove(&self, id: ResultId) -> Result<Removal<'_>, Busy> {
        let mut state = self.state();
        if state.readers.contains_key(&id) {
            return Err(Busy::Read);
        }
        if !state.removing.insert(id) {
            return Err(Busy::BeingRemoved);
        }
        Ok(Removal(self, id))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Some(readers) = state.readers.get_mut(&self.1) {
            *readers -= 1;
            if *readers == 0 {
                state.readers.remove(&self.1);
            }
        }
    }
}

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        self.0.state().removing.remove(&self.1);
        self.0.removed.notify_all();
    }
}
