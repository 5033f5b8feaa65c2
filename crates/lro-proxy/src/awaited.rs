//! Awaited: requests that the server has not answered yet.

use std::collections::HashMap;

use lro_wire::meta::Era;
use lro_wire::{Id, IdKey};

use crate::called::Called;

/// What an answer will be, by the request it answers.
#[derive(Debug)]
pub(crate) enum Awaited {
    /// `initialize` or `server/discover`.
    Greeting,
    /// `tools/list`.
    Listing {
        /// Whether it is the first page.
        first: bool,
        era: Era,
    },
    /// `tools/call`.
    Call(Called),
    /// `tasks/result` (2025-11-25): a finished task's result.
    TaskResult(String),
    /// `tasks/get`: a task, which may hold its result (2026-07-28).
    Task(String),
    /// Nothing we look at.
    Other,
}

/// All requests that are under way.
#[derive(Debug, Default)]
pub(crate) struct Requests(HashMap<IdKey, (Id, Awaited)>);

impl Requests {
    pub(crate) fn await_answer(&mut self, id: Id, awaited: Awaited) {
        self.0.insert(id.key(), (id, awaited));
    }

    /// The request that `id` answers; it is answered by that.
    pub(crate) fn answered(&mut self, id: &Id) -> Option<Awaited> {
        self.0.remove(&id.key()).map(|(_, awaited)| awaited)
    }

    /// All that will not be answered any more.
    pub(crate) fn take_all(&mut self) -> Vec<Id> {
        self.0.drain().map(|(_, (id, _))| id).collect()
    }
}
