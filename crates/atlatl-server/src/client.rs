//! The client of a request: its transport, protocol generation and capabilities.

use lro_core::ClientLimit;
use lro_wire::meta::{AppHost, CLIENT_CAPABILITIES, ProtocolGeneration};
use lro_wire::{Message, meta};

/// The tasks extension, from 2026-07-28 on.
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The transport of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// From the parent process, on the same machine.
    Stdio,
    /// From anywhere.
    Http,
}

/// The properties of a client that determine the form of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientInfo {
    /// The protocol generation.
    pub era: ProtocolGeneration,
    /// Spec P2: the client is a proxy that offloads large results itself. Any client may claim
    /// that, since it only changes the form of a response.
    pub proxy: bool,
    /// The transport.
    pub transport: Transport,
    /// Whether it accepts a task as a result (2026-07-28).
    pub tasks: bool,
    /// Whether it shows a page beside the result of a tool.
    pub app_host: Option<AppHost>,
    /// How much of a large result it would show.
    pub result_limit: Option<ClientLimit>,
}

impl ClientInfo {
    /// Creates a client without declared capabilities.
    pub fn new(era: ProtocolGeneration, transport: Transport) -> Self {
        Self { era, proxy: false, transport, tasks: false, app_host: None, result_limit: None }
    }

    /// Determines the client from a request that declares its capabilities.
    pub fn from_request(message: &Message<'_>, transport: Transport) -> Self {
        let capabilities = meta::meta(message).and_then(|meta| meta.at(&[CLIENT_CAPABILITIES]));
        let tasks = capabilities.and_then(|has| has.at(&["extensions", TASKS_EXTENSION])).is_some();
        Self {
            era: ProtocolGeneration::Stateless,
            proxy: meta::is_proxy(message),
            transport,
            tasks,
            app_host: AppHost::from_request(message),
            result_limit: None,
        }
        .with_limit_of(message)
    }

    /// Sets how much of a large result the client would show, by the name in its request.
    pub(crate) fn with_limit_of(mut self, message: &Message<'_>) -> Self {
        self.result_limit =
            meta::client_name(message).and_then(|name| ClientLimit::of_client(&name));
        self
    }

    /// Sets whether the client shows pages.
    pub fn with_app_host(mut self, host: Option<AppHost>) -> Self {
        self.app_host = host;
        self
    }

    /// What a session has to keep of the client, as the text of a session id; `None` for a client
    /// without declared capabilities.
    pub(crate) fn session_state(self) -> Option<&'static str> {
        match (self.proxy, self.app_host) {
            (true, _) => Some("proxy"),
            (false, Some(host)) if host.shows_annotated_tools => Some("app"),
            (false, Some(_)) => Some("app-without-annotations"),
            (false, None) => None,
        }
    }

    /// The same client as in the request that began the session; `None` for an unknown state.
    pub(crate) fn with_session_state(self, state: &str) -> Option<Self> {
        match state {
            "proxy" => Some(self.as_proxy(true)),
            "app" => Some(self.with_app_host(Some(AppHost::new(true)))),
            "app-without-annotations" => Some(self.with_app_host(Some(AppHost::new(false)))),
            _ => None,
        }
    }

    /// Sets whether the client is a proxy.
    pub fn as_proxy(mut self, proxy: bool) -> Self {
        self.proxy = proxy;
        self
    }
}
