//! Relay: a message in, what becomes of it out.
//!
//! No stream, no process, no clock of its own: what a session does with real bytes, a test does with
//! texts. Both directions run at the same time and share only [`ConnectionState`].
//!
//! Where many clients ask one server, each conversation has a relay: request ids are its own. The
//! [`RelayConfig`] is common to all.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lro::Moment;
use lro::mcp::{Interceptor, Tools};
use lro_query::Cancel;
use lro_spool::Spool;
use lro_wire::{INTERNAL_ERROR, Id, IdKey, JsonRpcError};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::local_tools::LocalToolCall;
use crate::pending::{PendingRequests, Serial};
use crate::reference::Passing;
use crate::task_table::TaskTable;

/// What the relay does with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forward {
    /// It goes on as the bytes that came.
    AsItCame,
    /// This goes on instead; no line break at its end.
    Changed(String),
    /// Nothing goes on.
    Nothing,
}

/// What the relay does with a line from the client.
#[derive(Debug)]
pub struct FromClient {
    /// What goes to the server.
    pub forward: Forward,
    /// Calls of our own tools, to be answered here.
    pub calls: Vec<LocalToolCall>,
    /// What the client is told at once; no line breaks at their ends.
    pub replies: Vec<String>,
}

/// Decides what becomes of each message.
pub struct Relay {
    pub(crate) config: Arc<RelayConfig>,
    known: Arc<Mutex<UpstreamCatalog>>,
    state: Mutex<ConnectionState>,
    strict: bool,
}

/// What every relay before the same server has.
pub(crate) struct RelayConfig {
    pub(crate) interceptor: Interceptor,
    pub(crate) tools: Option<Tools>,
    /// The definitions of our own tools.
    pub(crate) own: Vec<Value>,
    pub(crate) passing: Option<Passing>,
    /// How the server is told from others.
    pub(crate) server: String,
    clock: Box<dyn Fn() -> Moment + Send + Sync>,
}

/// What was learned of the server.
#[derive(Debug, Default)]
pub(crate) struct UpstreamCatalog {
    pub(crate) tasks: TaskTable,
    /// The server's tools with their input schemas, as far as they were listed.
    pub(crate) listed: HashMap<String, Option<Arc<RawValue>>>,
    /// The names under which tools of the server are listed, where they have others.
    pub(crate) renamed: BTreeSet<String>,
}

/// What the two directions have to know of each other.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    pub(crate) requests: PendingRequests,
    /// Calls of our own tools that are running.
    pub(crate) running: HashMap<IdKey, (Id, Cancel)>,
    /// Whether all tools were listed once.
    pub(crate) listed: bool,
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
        let config = RelayConfig {
            interceptor,
            tools: None,
            own: Vec::new(),
            passing: None,
            server: server.into(),
            clock: Box::new(clock),
        };
        Self {
            config: Arc::new(config),
            known: Arc::default(),
            state: Mutex::default(),
            strict: false,
        }
    }

    /// A relay for another conversation with the same server; where it is `of_the_same` kind, with
    /// all that was learned of the server.
    pub(crate) fn another(&self, of_the_same: bool) -> Self {
        Self {
            config: Arc::clone(&self.config),
            known: if of_the_same { Arc::clone(&self.known) } else { Arc::default() },
            state: Mutex::default(),
            strict: self.strict,
        }
    }

    /// Lets nothing pass as an answer that answers nothing: over HTTP the same answer may come twice,
    /// when a stream is asked for again.
    pub(crate) fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Before it is shared: what is set up then is common to all.
    fn set_up(&mut self) -> &mut RelayConfig {
        Arc::get_mut(&mut self.config).expect("a relay is set up before it is shared")
    }

    /// Offers `tools` beside the server's own.
    pub fn with_tools(mut self, tools: Tools) -> Self {
        let config = self.set_up();
        config.own = tools.definitions();
        config.tools = Some(tools);
        self
    }

    /// Lets references be arguments.
    pub fn with_passing(mut self, passing: Passing) -> Self {
        self.set_up().passing = Some(passing);
        self
    }

    /// Where results are stored.
    pub(crate) fn spool(&self) -> Arc<dyn Spool> {
        self.config.interceptor.offloader("").spool().clone()
    }

    /// Which request waits for an answer under `id`.
    pub(crate) fn serial(&self, id: &Id) -> Option<Serial> {
        self.state().requests.serial(id)
    }

    /// Nobody waits for an answer to the request called `id` any more.
    pub(crate) fn forget(&self, id: &Id) {
        self.state().requests.answered(id);
    }

    /// Whether what answers nothing is dropped.
    pub(crate) fn is_strict(&self) -> bool {
        self.strict
    }

    /// Whether the server listed a tool of that name.
    pub(crate) fn knows(&self, tool: &str) -> bool {
        self.known().listed.contains_key(tool)
    }

    /// The input schema of a tool that was listed.
    pub(crate) fn schema_of(&self, tool: &str) -> Option<Arc<RawValue>> {
        self.known().listed.get(tool).cloned().flatten()
    }

    /// The server is gone: what it will not answer any more is answered here.
    pub fn server_gone(&self, why: &str) -> Vec<String> {
        let failure = JsonRpcError::new(INTERNAL_ERROR, why);
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
        (self.config.clock)()
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, UpstreamCatalog> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ConnectionState> {
        // Every change is one call: nothing in it is ever half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Forward {
    pub(crate) fn from_change(changed: Option<String>) -> Self {
        changed.map_or(Self::AsItCame, Self::Changed)
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("server", &self.config.server).finish_non_exhaustive()
    }
}
