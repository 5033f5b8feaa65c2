//! Outbound requests: their metadata, and the headers that 2026-07-28 requires.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method};
use lro_http::header::{encode, mirror};
use lro_wire::protocol::ProtocolGeneration;
use lro_wire::{Id, Message, Messages, Object, protocol};
use serde_json::value::RawValue;

use crate::relay::Relay;
use crate::relay::pending::Serial;
use crate::upstream::http::client::HttpRequest;

/// How deep a schema is searched for header parameters.
const MAX_SCHEMA_DEPTH: usize = 8;

/// A message from the client, with what sending it depends on.
#[derive(Debug)]
pub(super) struct OutboundRequest {
    pub(super) body: Bytes,
    /// The pending requests in the message.
    pub(super) requests: Vec<(Id, Serial)>,
    pub(super) protocol: ProtocolGeneration,
    /// The method of a single message.
    pub(super) method: Option<String>,
    /// The tool of a `tools/call`.
    pub(super) tool: Option<String>,
    /// The request that the message cancels.
    pub(super) cancelled: Option<Id>,
}

impl OutboundRequest {
    /// Parses `body`, which the relay has just registered. A message that does not show its protocol
    /// generation belongs to a session.
    pub(super) fn new(body: Vec<u8>, relay: &Relay) -> Self {
        let mut out = Self {
            body: body.into(),
            requests: Vec::new(),
            protocol: ProtocolGeneration::Sessions,
            method: None,
            tool: None,
            cancelled: None,
        };
        let body = out.body.clone();
        // The server rejects a body that is not text.
        let Ok(text) = std::str::from_utf8(&body) else { return out };
        let pending = |message: &Message<'_>| {
            let id = message.id().filter(|_| message.is_request())?;
            relay.serial(&id).map(|serial| (id, serial))
        };
        match Messages::read(text) {
            Some(Messages::One(message)) => {
                out.requests = pending(&message).into_iter().collect();
                out.set_message(&message);
            }
            Some(Messages::Batch(batch)) => {
                let messages = batch.iter().filter_map(|(_, message)| message.as_ref());
                out.requests = messages.filter_map(pending).collect();
            }
            _ => {}
        }
        out
    }

    fn set_message(&mut self, message: &Message<'_>) {
        self.protocol =
            ProtocolGeneration::from_request(message).unwrap_or(ProtocolGeneration::Sessions);
        self.method = message.method.as_deref().map(str::to_owned);
        match self.method.as_deref() {
            Some("tools/call") => {
                self.tool = protocol::tool(message).map(std::borrow::Cow::into_owned);
            }
            Some("notifications/cancelled") => {
                let id = message.params().and_then(|params| params.get("requestId"));
                self.cancelled = id.map(Id::from_raw);
            }
            _ => {}
        }
    }

    /// Whether this is a single message with this `method`.
    pub(super) fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }

    /// The HTTP request, with the headers of the session.
    pub(super) fn to_http(&self, session_headers: HeaderMap, relay: &Relay) -> HttpRequest {
        let headers = match self.protocol {
            // It begins a session and has no session headers.
            _ if self.is("initialize") => HeaderMap::new(),
            ProtocolGeneration::Stateless => self.mirrored_headers(relay),
            _ => session_headers,
        };
        let unlimited = self.is("subscriptions/listen");
        HttpRequest { method: Method::POST, headers, body: self.body.clone(), unlimited }
    }

    fn mirrored_headers(&self, relay: &Relay) -> HeaderMap {
        let text = std::str::from_utf8(&self.body).unwrap_or_default();
        let Some(message) = Message::read(text) else { return HeaderMap::new() };
        let mut headers = mirror(&message);
        let schema = self.tool.as_deref().and_then(|tool| relay.input_schema(tool));
        if let Some(schema) = schema {
            let arguments = message.params().and_then(|params| params.get("arguments"));
            headers.extend(param_headers(&schema, arguments));
        }
        headers
    }
}

/// The headers for `arguments` that a tool's input schema asks for with `x-mcp-header` (2026-07-28).
pub(crate) fn param_headers(schema: &RawValue, arguments: Option<&RawValue>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    // Most schemas ask for none and are not parsed.
    if Object::may_mention(schema.get(), "header")
        && let (Some(schema), Some(arguments)) =
            (Object::read(schema.get()), arguments.and_then(|json| Object::read(json.get())))
    {
        collect(schema, &arguments, MAX_SCHEMA_DEPTH, &mut headers);
    }
    headers
}

fn collect(schema: Object<'_>, arguments: &Object<'_>, depth: usize, headers: &mut HeaderMap) {
    let Some(properties) = schema.at(&["properties"]) else { return };
    for (name, property) in &properties.members {
        let Some(argument) = arguments.get(name) else { continue };
        let Some(property) = Object::read(property.get()) else { continue };
        if let Some(header) = property.text("x-mcp-header") {
            let name = HeaderName::try_from(format!("mcp-param-{header}"));
            if let (Ok(name), Some(value)) = (name, header_text(argument)) {
                headers.insert(name, encode(&value));
            }
        } else if depth > 0
            && let Some(inner) = Object::read(argument.get())
        {
            collect(property, &inner, depth - 1, headers);
        }
    }
}

/// A scalar value as the text of a header.
fn header_text(argument: &RawValue) -> Option<String> {
    let json = argument.get();
    match json.as_bytes().first()? {
        b'"' => serde_json::from_str(json).ok(),
        b'n' | b'{' | b'[' => None,
        _ => Some(json.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn arguments_stand_in_the_headers_that_are_asked_for() {
        let schema = raw(r#"{"type":"object","properties":{
                "region":{"type":"string","x-mcp-header":"Region"},
                "count":{"type":"integer","x-mcp-header":"Count"},
                "deep":{"type":"object","properties":{"flag":{"type":"boolean","x-mcp-header":"Flag"}}},
                "odd":{"type":"string","x-mcp-header":"no header\n"},
                "none":{"type":"string","x-mcp-header":"None"},
                "other":{"type":"string"}}}"#);
        let arguments = raw(
            r#"{"region":"größer","count":12345678901234567890,"deep":{"flag":true},"odd":"x","none":null,"other":"y"}"#,
        );
        let headers = param_headers(&schema, Some(&arguments));
        assert_eq!(headers.len(), 3);
        assert_eq!(headers["mcp-param-region"], "=?base64?Z3LDtsOfZXI=?=");
        assert_eq!(headers["mcp-param-count"], "12345678901234567890");
        assert_eq!(headers["mcp-param-flag"], "true");
        assert!(param_headers(&schema, None).is_empty());
    }
}
