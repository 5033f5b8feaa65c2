//! Protocol versions, and the metadata by which a client identifies itself.
//!
//! Up to 2025-11-25 a client identifies itself once, in `initialize`, and has a session. From
//! 2026-07-28 on there is no session: every request carries the metadata in `_meta`.

use std::borrow::Cow;

use lro_json::Object;
use serde_json::json;

use crate::message::{JsonRpcError, Message, UNSUPPORTED_VERSION};

/// `_meta` key: the protocol version of a request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// `_meta` key: the client that sends a request.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// `_meta` key: the capabilities of the client.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The extension by which Atlatl's proxies and servers recognize each other.
pub const EXTENSION: &str = "dev.atlatl/lro";

/// The extension of clients that show a page beside the result of a tool (MCP Apps).
pub const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";
/// The media type of such a page.
pub const APP_MEDIA_TYPE: &str = "text/html;profile=mcp-app";

/// Protocol versions with `initialize` and sessions, the newest first.
pub const SESSION_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Protocol versions without sessions.
pub const STATELESS_VERSIONS: [&str; 1] = ["2026-07-28"];

/// Whether a client uses sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProtocolGeneration {
    /// A handshake with `initialize`, then a session: up to 2025-11-25.
    Sessions,
    /// Every request is self-contained: from 2026-07-28 on.
    Stateless,
}

impl ProtocolGeneration {
    /// Detects the generation from a request. Returns `None` for a request that both generations
    /// have.
    pub fn from_request(message: &Message<'_>) -> Option<Self> {
        match message.method.as_deref()? {
            "initialize" => Some(Self::Sessions),
            "server/discover" => Some(Self::Stateless),
            _ => meta(message)?.get(PROTOCOL_VERSION).map(|_| Self::Stateless),
        }
    }
}

/// The protocol version to answer `initialize` with: the requested one if it is supported, otherwise
/// the newest.
pub fn negotiate(requested: Option<&str>) -> &'static str {
    SESSION_VERSIONS
        .into_iter()
        .find(|supported| requested == Some(supported))
        .unwrap_or(SESSION_VERSIONS[0])
}

/// Whether `version` is a supported version of `generation`.
pub fn is_supported(version: &str, generation: ProtocolGeneration) -> bool {
    match generation {
        ProtocolGeneration::Sessions => SESSION_VERSIONS.contains(&version),
        ProtocolGeneration::Stateless => STATELESS_VERSIONS.contains(&version),
    }
}

/// The error for a request whose version is not one of the `supported` ones.
pub fn unsupported(supported: &[&str], requested: &str) -> JsonRpcError {
    let message = format!("this server speaks {}", supported.join(", "));
    let data = json!({"supported": supported, "requested": requested});
    JsonRpcError::new(UNSUPPORTED_VERSION, message).with(data)
}

/// The `_meta` of a request or a notification.
pub fn meta<'a>(message: &Message<'a>) -> Option<Object<'a>> {
    message.params()?.at(&["_meta"])
}

/// The information about the sender of a request, and its capabilities.
fn sender<'a>(message: &Message<'a>) -> (Option<Object<'a>>, Option<Object<'a>>) {
    match message.method.as_deref() {
        Some("initialize") => (
            message.params().and_then(|params| params.at(&["clientInfo"])),
            message.params().and_then(|params| params.at(&["capabilities"])),
        ),
        _ => (
            meta(message).and_then(|meta| meta.at(&[CLIENT_INFO])),
            meta(message).and_then(|meta| meta.at(&[CLIENT_CAPABILITIES])),
        ),
    }
}

/// A client that shows a page beside the result of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AppHost {
    /// Whether it shows the page of a tool that has annotations. VS Code does not
    /// (microsoft/vscode#336916).
    pub shows_annotated_tools: bool,
}

/// The names of clients that show no page of a tool with annotations begin with this.
const WITHOUT_ANNOTATIONS: &str = "Visual Studio Code";

impl AppHost {
    /// A client that shows pages, also of tools with annotations or not.
    pub fn new(shows_annotated_tools: bool) -> Self {
        Self { shows_annotated_tools }
    }

    /// The sender of `message`, if it declares that it shows pages.
    pub fn from_request(message: &Message<'_>) -> Option<Self> {
        let (info, capabilities) = sender(message);
        let extension = capabilities?.at(&["extensions", UI_EXTENSION])?;
        let media_types: Vec<Cow<'_, str>> =
            serde_json::from_str(extension.get("mimeTypes")?.get()).ok()?;
        if !media_types.iter().any(|media_type| media_type == APP_MEDIA_TYPE) {
            return None;
        }
        let name = info.as_ref().and_then(|info| info.text("name")).unwrap_or_default();
        Some(Self { shows_annotated_tools: !name.starts_with(WITHOUT_ANNOTATIONS) })
    }
}

/// The name by which the sender of a request identifies itself: untrusted text.
pub fn client_name<'a>(message: &Message<'a>) -> Option<Cow<'a, str>> {
    sender(message).0?.text("name")
}

/// Whether the sender of `message` identifies itself as a proxy (companion specification §11).
pub fn is_proxy(message: &Message<'_>) -> bool {
    let (info, capabilities) = sender(message);
    let has_flag = |object: Option<Object<'_>>| {
        object.and_then(|object| object.get("proxy")).is_some_and(|value| value.get() == "true")
    };
    let has_extension = |under: &str| {
        has_flag(capabilities.clone().and_then(|capabilities| capabilities.at(&[under, EXTENSION])))
    };
    has_flag(info) || has_extension("extensions") || has_extension("experimental")
}

/// Whether `message` declares that a program reads its result and not a model:
/// `_meta["dev.atlatl/lro"].caller` is `program`.
pub fn is_program(message: &Message<'_>) -> bool {
    let caller = meta(message).and_then(|meta| meta.at(&[EXTENSION])?.text("caller"));
    caller.as_deref() == Some("program")
}

/// The progress token of a request, in its original spelling.
pub fn progress_token<'a>(message: &Message<'a>) -> Option<&'a str> {
    let token = meta(message)?.get("progressToken")?.get();
    (token != "null").then_some(token)
}

/// The tool that a `tools/call` names.
pub fn tool<'a>(message: &Message<'a>) -> Option<Cow<'a, str>> {
    message.params()?.text("name")
}

#[doc(hidden)]
#[expect(non_upper_case_globals, reason = "former names of the variants")]
impl ProtocolGeneration {
    pub const Legacy: Self = Self::Sessions;
    pub const Modern: Self = Self::Stateless;
}
