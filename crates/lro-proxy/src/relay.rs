//! The relay: decides what happens to each message between a client and a server.
//!
//! A relay has no stream, process or clock of its own, so tests drive it with texts. Both directions run
//! concurrently and share only [`ConnectionState`].
//!
//! If many clients use one server, each conversation has its own relay, since request ids belong to a
//! conversation. All of them share the [`RelayConfig`].

pub(crate) mod from_client;
pub(crate) mod from_server;
pub(crate) mod lenient;
pub(crate) mod local_tools;
pub(crate) mod oversize;
pub(crate) mod pending;
pub(crate) mod reference;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lro::IdSeed;
use lro::mcp::{Interceptor, Tools};
use lro_core::ClientLimit;
use lro_query::Cancel;
use lro_spool::Spool;
use lro_wire::protocol::{AppHost, ProtocolGeneration, client_name};
use lro_wire::{INTERNAL_ERROR, Id, IdKey, JsonRpcError, Message};
use serde_json::Value;
use serde_json::value::RawValue;

use self::pending::TaskTable;
use crate::relay::local_tools::LocalToolCall;
use crate::relay::pending::{PendingRequests, Serial};
use crate::relay::reference::ReferencePassing;

/// The decision on a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forward {
    /// Forward the original bytes.
    Unchanged,
    /// Forward this text instead; it has no line break at its end.
    Changed(String),
    /// Forward nothing.
    Dropped,
}

/// The decision on a line from the client.
#[derive(Debug)]
pub struct ClientOutcome {
    /// What is forwarded to the server.
    pub forward: Forward,
    /// Calls of extraction tools, which the proxy answers itself.
    pub calls: Vec<LocalToolCall>,
    /// Immediate replies to the client, without line breaks at their ends.
    pub replies: Vec<String>,
}

/// Decides on every message of a conversation between a client and a server.
pub struct Relay {
    pub(crate) config: Arc<RelayConfig>,
    catalog: Arc<Mutex<UpstreamCatalog>>,
    state: Mutex<ConnectionState>,
    strict: bool,
}

/// Configuration shared by all relays in front of the same server.
pub(crate) struct RelayConfig {
    pub(crate) interceptor: Interceptor,
    pub(crate) tools: Option<Tools>,
    /// The definitions of the extraction tools. Pages of the server's cannot call them.
    pub(crate) tool_definitions: Vec<Value>,
    pub(crate) passing: Option<ReferencePassing>,
    /// The label of the server.
    pub(crate) server: String,
    clock: Box<dyn Fn() -> IdSeed + Send + Sync>,
}

/// Tools and tasks of the server, as far as its responses revealed them.
#[derive(Debug, Default)]
pub(crate) struct UpstreamCatalog {
    pub(crate) tasks: TaskTable,
    /// Listed tools with their input schemas.
    pub(crate) tools: HashMap<String, Option<Arc<RawValue>>>,
    /// Listed tools that only the server's pages call.
    pub(crate) page_tools: BTreeSet<String>,
    /// Names under which renamed tools of the server are listed.
    pub(crate) renamed_tools: BTreeSet<String>,
}

/// Whether a client shows pages beside the results of tools (MCP Apps).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum PageSupport {
    /// Another relay received the `initialize` of the client: before the proxy was restarted, or because
    /// the server has no session ids.
    #[default]
    Unknown,
    /// The client shows no pages.
    Unsupported,
    /// The client shows pages.
    Supported(AppHost),
}

/// State shared by the two directions of a conversation.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    pub(crate) requests: PendingRequests,
    /// Running calls of extraction tools.
    pub(crate) local_calls: HashMap<IdKey, (Id, Cancel)>,
    /// Whether the client of a session shows pages.
    pub(crate) page_support: PageSupport,
    /// How much of a large result the client of a session would show.
    pub(crate) client_limit: Option<ClientLimit>,
    /// Whether the client has received a complete tool list.
    pub(crate) tools_listed: bool,
    /// Whether the server is gone and every request was answered.
    pub(crate) closed: bool,
}

impl Relay {
    /// A relay in front of `server`, without extraction tools and without reference passing.
    pub fn new(
        interceptor: Interceptor,
        server: impl Into<String>,
        clock: impl Fn() -> IdSeed + Send + Sync + 'static,
    ) -> Self {
        let config = RelayConfig {
            interceptor,
            tools: None,
            tool_definitions: Vec::new(),
            passing: None,
            server: server.into(),
            clock: Box::new(clock),
        };
        Self {
            config: Arc::new(config),
            catalog: Arc::default(),
            state: Mutex::default(),
            strict: false,
        }
    }

    /// A relay for another conversation with the same server, with or without a shared catalog.
    pub(crate) fn for_conversation(&self, share_catalog: bool) -> Self {
        Self {
            config: Arc::clone(&self.config),
            catalog: if share_catalog { Arc::clone(&self.catalog) } else { Arc::default() },
            state: Mutex::default(),
            strict: self.strict,
        }
    }

    /// Drops responses that answer no pending request. Over HTTP the same response may arrive twice,
    /// when a stream is resumed.
    pub(crate) fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// The configuration, before it is shared with other relays.
    fn config_mut(&mut self) -> &mut RelayConfig {
        Arc::get_mut(&mut self.config).expect("a relay is set up before it is shared")
    }

    /// Offers the extraction tools besides the server's own.
    pub fn with_tools(mut self, tools: Tools) -> Self {
        let config = self.config_mut();
        config.tool_definitions = tools.definitions().into_iter().map(hidden_from_pages).collect();
        config.tools = Some(tools);
        self
    }

    /// Resolves references in tool arguments.
    pub fn with_passing(mut self, passing: ReferencePassing) -> Self {
        self.config_mut().passing = Some(passing);
        self
    }

    /// The spool that results are stored in.
    pub(crate) fn spool(&self) -> Arc<dyn Spool> {
        self.config.interceptor.offloader("").spool().clone()
    }

    /// Whether the sender of a request shows pages.
    pub(crate) fn page_support(&self, message: &Message<'_>) -> PageSupport {
        match ProtocolGeneration::from_request(message) {
            Some(ProtocolGeneration::Sessions | ProtocolGeneration::Stateless) => {
                AppHost::from_request(message)
                    .map_or(PageSupport::Unsupported, PageSupport::Supported)
            }
            _ => self.state().page_support,
        }
    }

    /// Whether the proxy has a page to show.
    pub(crate) fn has_view(&self) -> bool {
        self.config.tools.as_ref().is_some_and(Tools::has_view)
    }

    /// The client of the session, if it shows pages and the proxy has one.
    pub(crate) fn session_host(&self) -> Option<AppHost> {
        self.state().page_support.host().filter(|_| self.has_view())
    }

    /// Forgets what the client declared in `initialize`. If the server begins no session, later requests
    /// go through other relays, so the proxy must not promise what depends on it.
    pub(crate) fn forget_client(&self) {
        self.state().page_support = PageSupport::Unknown;
    }

    /// Whether results of a tool go to a page of the server's, which cannot read a descriptor. A client
    /// that shows no pages may show such a tool to the model.
    pub(crate) fn is_for_page(&self, tool: &str, support: PageSupport) -> bool {
        support.is_possible() && self.catalog().page_tools.contains(tool)
    }

    /// How much of a large result the sender of a request would show.
    pub(crate) fn client_limit(&self, message: &Message<'_>) -> Option<ClientLimit> {
        match ProtocolGeneration::from_request(message) {
            Some(ProtocolGeneration::Sessions | ProtocolGeneration::Stateless) => {
                ClientLimit::of_client(&client_name(message)?)
            }
            _ => self.state().client_limit,
        }
    }

    /// The definitions of the proxy's own tools for a client.
    pub(crate) fn own_definitions(&self, host: Option<AppHost>) -> Vec<Value> {
        let view = self.config.tools.as_ref().map(|tools| tools.view_definitions(host));
        let own = self.config.tool_definitions.iter().cloned();
        own.chain(view.unwrap_or_default()).collect()
    }

    /// The serial number of the pending request with this `id`.
    pub(crate) fn serial(&self, id: &Id) -> Option<Serial> {
        self.state().requests.serial(id)
    }

    /// Removes the pending request with this `id`.
    pub(crate) fn remove_pending(&self, id: &Id) {
        self.state().requests.complete(id);
    }

    /// Whether responses that answer no pending request are dropped.
    pub(crate) fn is_strict(&self) -> bool {
        self.strict
    }

    /// Whether the server has listed this tool.
    pub(crate) fn has_tool(&self, tool: &str) -> bool {
        self.catalog().tools.contains_key(tool)
    }

    /// The input schema of a listed tool.
    pub(crate) fn input_schema(&self, tool: &str) -> Option<Arc<RawValue>> {
        self.catalog().tools.get(tool).cloned().flatten()
    }

    /// Ends the conversation. Returns error responses to all pending requests.
    pub fn close(&self, why: &str) -> Vec<String> {
        let error = JsonRpcError::new(INTERNAL_ERROR, why);
        let mut state = self.state();
        state.closed = true;
        let mut ids = state.requests.take_all();
        for (_, (id, cancel)) in state.local_calls.drain() {
            cancel.cancel();
            ids.push(id);
        }
        drop(state);
        ids.iter().map(|id| error.response(id)).collect()
    }

    pub(crate) fn now(&self) -> IdSeed {
        (self.config.clock)()
    }

    pub(crate) fn catalog(&self) -> MutexGuard<'_, UpstreamCatalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ConnectionState> {
        // Every change is a single call, so a panic leaves no inconsistent state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UpstreamCatalog {
    /// Records a page of the server's tools.
    pub(crate) fn add_tools(
        &mut self,
        tools: Vec<(String, Option<Box<RawValue>>)>,
        for_pages: Vec<String>,
    ) {
        for (name, schema) in tools {
            self.page_tools.remove(&name);
            self.tools.insert(name, schema.map(Arc::from));
        }
        self.page_tools.extend(for_pages);
    }
}

impl PageSupport {
    /// The client, if it shows pages.
    pub(crate) fn host(self) -> Option<AppHost> {
        match self {
            Self::Supported(host) => Some(host),
            Self::Unknown | Self::Unsupported => None,
        }
    }

    /// Whether the client may show pages.
    pub(crate) fn is_possible(self) -> bool {
        !matches!(self, Self::Unsupported)
    }
}

/// Hides an extraction tool from pages, which could query the results of other servers with it. Also if
/// the client is not known to show pages: it may have said so to another relay.
fn hidden_from_pages(definition: Value) -> Value {
    let is_extraction_tool = definition["name"].as_str().is_some_and(Tools::is_name);
    // A companion says itself who calls it.
    if is_extraction_tool { Tools::for_models_only(definition) } else { definition }
}

impl Forward {
    pub(crate) fn from_change(changed: Option<String>) -> Self {
        changed.map_or(Self::Unchanged, Self::Changed)
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("server", &self.config.server).finish_non_exhaustive()
    }
}
