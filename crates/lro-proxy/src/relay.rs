//! Relay: a message in, what becomes of it out.
//!
//! No stream, no process, no clock of its own: what a session does with real bytes, a test does with
//! texts. Both directions run at the same time and share only [`State`].

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lro::Moment;
use lro_mcp::{Interceptor, Tools};
use lro_query::Cancel;
use lro_wire::{Failure, INTERNAL, Id, IdKey};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::awaited::Requests;
use crate::own::OwnCall;
use crate::reference::Passing;
use crate::tasks::Tasks;

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forward {
    /// It goes on as the bytes that came.
    AsItCame,
    /// This goes on instead; no line break at its end.
    Changed(String),
    /// Nothing goes on.
    Nothing,
}

/// What becomes of a line from the client.
#[derive(Debug)]
pub struct FromClient {
    /// What goes to the server.
    pub forward: Forward,
    /// Calls of our own tools, to be answered here.
    pub calls: Vec<OwnCall>,
    /// What the client is told at once; no line breaks at their ends.
    pub replies: Vec<String>,
}

/// Decides what becomes of each message.
pub struct Relay {
    pub(crate) interceptor: Interceptor,
    pub(crate) tools: Option<Tools>,
    /// The definitions of our own tools.
    pub(crate) own: Vec<Value>,
    pub(crate) passing: Option<Passing>,
    /// How the server is told from others.
    pub(crate) server: String,
    clock: Box<dyn Fn() -> Moment + Send + Sync>,
    state: Mutex<State>,
}

/// What the two directions have to know of each other.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) requests: Requests,
    pub(crate) tasks: Tasks,
    /// The server's tools with their input schemas, as far as they were listed.
    pub(crate) listed: HashMap<String, Option<Box<RawValue>>>,
    /// Names on the pages of the listing that is being read.
    pub(crate) pages: Vec<String>,
    /// Calls of our own tools that are running.
    pub(crate) running: HashMap<IdKey, (Id, Cancel)>,
    /// Everything is answered: nothing the server still says is an answer.
    pub(crate) gone: bool,
}

impl Relay {
    /// A relay in front of `server`, which offers no tools of its own and passes no references.
    pub fn new(
        interceptor: Interceptor,
        server: impl Into<String>,
        clock: impl Fn() -> Moment + Send + Sync + 'static,
    ) -> Self {
        Self {
            interceptor,
            tools: None,
            own: Vec::new(),
            passing: None,
            server: server.into(),
            clock: Box::new(clock),
            state: Mutex::default(),
        }
    }

    /// Offers `tools` beside the server's own.
    pub fn with_tools(mut self, tools: Tools) -> Self {
        self.own = tools.definitions();
        self.tools = Some(tools);
        self
    }

    /// Lets references be arguments.
    pub fn with_passing(mut self, passing: Passing) -> Self {
        self.passing = Some(passing);
        self
    }

    /// The results that are too large go through this.
    pub fn interceptor(&self) -> &Interceptor {
        &self.interceptor
    }

    /// The server is gone: what it will not answer any more is answered here.
    pub fn server_gone(&self, why: &str) -> Vec<String> {
        let failure = Failure::new(INTERNAL, why);
        let mut state = self.state();
        state.gone = true;
        let mut ids = state.requests.take_all();
        for (_, (id, cancel)) in state.running.drain() {
            cancel.cancel();
            ids.push(id);
        }
        drop(state);
        ids.iter().map(|id| failure.response(id)).collect()
    }

    pub(crate) fn now(&self) -> Moment {
        (self.clock)()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one call: nothing in it is ever half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Forward {
    pub(crate) fn of(changed: Option<String>) -> Self {
        changed.map_or(Self::AsItCame, Self::Changed)
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("server", &self.server).finish_non_exhaustive()
    }
}
