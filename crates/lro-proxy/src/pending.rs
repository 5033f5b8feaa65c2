//! Requests that the server has not answered yet.

use std::collections::{HashMap, VecDeque};

use lro_wire::protocol::ProtocolGeneration;
use lro_wire::{Id, IdKey};

use crate::tool_call::ToolCallInfo;

/// What an answer will be, by the request it answers.
#[derive(Debug)]
pub(crate) enum PendingRequest {
    /// `initialize` or `server/discover`.
    Greeting,
    /// `tools/list`.
    Listing { era: ProtocolGeneration },
    /// `tools/call`.
    Call(ToolCallInfo),
    /// `tasks/result` (2025-11-25): a finished task's result.
    TaskResult(String),
    /// `tasks/get`: a task, which may hold its result (2026-07-28).
    Task(String),
    /// Nothing we look at.
    Other,
}

/// All requests that are under way.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    waiting: HashMap<IdKey, (Id, PendingRequest, Serial)>,
    last: u64,
    /// Calls that were answered not long ago: a stream that is asked for again says it once more.
    answered: VecDeque<(IdKey, ToolCallInfo)>,
}

/// Of so many calls is remembered that they were answered.
const REMEMBERED: usize = 64;

/// Which of the requests that were called alike: a client may use an id again when it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Serial(u64);

impl PendingRequests {
    pub(crate) fn await_answer(&mut self, id: Id, awaited: PendingRequest) {
        self.last += 1;
        self.waiting.insert(id.key(), (id, awaited, Serial(self.last)));
    }

    /// Which request waits under `id`.
    pub(crate) fn serial(&self, id: &Id) -> Option<Serial> {
        self.waiting.get(&id.key()).map(|(_, _, serial)| *serial)
    }

    /// The request that `id` answers; it is answered by that.
    pub(crate) fn answered(&mut self, id: &Id) -> Option<PendingRequest> {
        let (_, awaited, _) = self.waiting.remove(&id.key())?;
        if let PendingRequest::Call(called) = &awaited {
            if self.answered.len() == REMEMBERED {
                self.answered.pop_front();
            }
            self.answered.push_back((id.key(), called.clone()));
        }
        Some(awaited)
    }

    /// The call that `id` answered before.
    pub(crate) fn answered_before(&self, id: &Id) -> Option<ToolCallInfo> {
        let key = id.key();
        let found = self.answered.iter().rev().find(|(known, _)| *known == key);
        found.map(|(_, called)| called.clone())
    }

    /// All that will not be answered any more.
    pub(crate) fn take_all(&mut self) -> Vec<Id> {
        self.waiting.drain().map(|(_, (id, _, _))| id).collect()
    }
}
