//! The client of a request: its transport, protocol generation and capabilities.

use lro_wire::meta::{CLIENT_CAPABILITIES, ProtocolGeneration};
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
}

impl ClientInfo {
    /// Creates a client without declared capabilities.
    pub fn new(era: ProtocolGeneration, transport: Transport) -> Self {
        Self { era, proxy: false, transport, tasks: false }
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
        }
    }

    /// Sets whether the client is a proxy.
    pub fn as_proxy(mut self, proxy: bool) -> Self {
        self.proxy = proxy;
        self
    }
}
