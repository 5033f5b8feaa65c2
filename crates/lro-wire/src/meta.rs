//! Meta: who speaks which version, in the form of either era.
//!
//! Until 2025-11-25 a client introduces itself once, in `initialize`. From 2026-07-28 on every
//! request says it again, under `_meta`.

use std::borrow::Cow;

use crate::message::Message;
use lro_json::Object;

/// `_meta`: the version of the protocol that a request speaks.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// `_meta`: who sends a request.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// `_meta`: what the sender of a request can do.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The extension by which our proxies and servers know each other.
pub const EXTENSION: &str = "dev.atlatl/lro";

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Era {
    /// With `initialize` and a session: up to 2025-11-25.
    Legacy,
    /// Every request for itself: from 2026-07-28 on.
    Modern,
}

impl Era {
    /// The era that a request shows by itself; `None` for what both eras have.
    pub fn of_request(message: &Message<'_>) -> Option<Self> {
        match message.method.as_deref()? {
            "initialize" => Some(Self::Legacy),
            "server/discover" => Some(Self::Modern),
            _ => meta(message)?.get(PROTOCOL_VERSION).map(|_| Self::Modern),
        }
    }
}

/// The `_meta` of a request or a notification.
pub fn meta<'a>(message: &Message<'a>) -> Option<Object<'a>> {
    message.params()?.at(&["_meta"])
}

/// Whether the sender of `message` says that it is a proxy (companion specification §11).
pub fn is_proxy(message: &Message<'_>) -> bool {
    let (info, capabilities) = match message.method.as_deref() {
        Some("initialize") => (
            message.params().and_then(|params| params.at(&["clientInfo"])),
            message.params().and_then(|params| params.at(&["capabilities"])),
        ),
        _ => (
            meta(message).and_then(|meta| meta.at(&[CLIENT_INFO])),
            meta(message).and_then(|meta| meta.at(&[CLIENT_CAPABILITIES])),
        ),
    };
    let says = |object: Option<Object<'_>>| {
        object.and_then(|object| object.get("proxy")).is_some_and(|value| value.get() == "true")
    };
    let extension = |under: &str| {
        says(capabilities.clone().and_then(|capabilities| capabilities.at(&[under, EXTENSION])))
    };
    says(info) || extension("extensions") || extension("experimental")
}

/// The token under which the sender of a request wants to hear of its progress, as it is spelled.
pub fn progress_token<'a>(message: &Message<'a>) -> Option<&'a str> {
    let token = meta(message)?.get("progressToken")?.get();
    (token != "null").then_some(token)
}

/// The name of the tool that a `tools/call` calls.
pub fn tool<'a>(message: &Message<'a>) -> Option<Cow<'a, str>> {
    message.params()?.text("name")
}
