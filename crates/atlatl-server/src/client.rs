//! Client: who asks, and what that says about the form of the answer.

use lro_wire::Message;
use lro_wire::meta::{self, CLIENT_CAPABILITIES, Era};

/// The extension of tasks, from 2026-07-28 on.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Where a request came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// From the process that started us, on the same machine.
    Stdio,
    /// From anywhere.
    Http,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Client {
    /// How it speaks.
    pub era: Era,
    /// Spec P2: it stands between, and keeps large results itself. Anyone may say so: it changes the
    /// form of an answer and nothing else.
    pub proxy: bool,
    /// Where it is.
    pub transport: Transport,
    /// Whether it takes a task for an answer (2026-07-28).
    pub tasks: bool,
}

impl Client {
    /// A client that has said nothing yet.
    pub fn new(era: Era, transport: Transport) -> Self {
        Self { era, proxy: false, transport, tasks: false }
    }

    /// A client that says in every request who it is.
    pub fn of_request(message: &Message<'_>, transport: Transport) -> Self {
        let capabilities = meta::meta(message).and_then(|meta| meta.at(&[CLIENT_CAPABILITIES]));
        let tasks = capabilities.and_then(|has| has.at(&["extensions", TASKS])).is_some();
        Self { era: Era::Modern, proxy: meta::is_proxy(message), transport, tasks }
    }

    /// The same client, known as a proxy or not.
    pub fn as_proxy(mut self, proxy: bool) -> Self {
        self.proxy = proxy;
        self
    }
}
