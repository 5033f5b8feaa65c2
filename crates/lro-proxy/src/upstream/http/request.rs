//! An outbound request and its metadata.

use bytes::Bytes;
use http::{HeaderMap, Method};
use lro_http::header::mirrored;
use lro_wire::protocol::{self, ProtocolGeneration};
use lro_wire::{Id, Message, Messages};

use super::client::Ask;
use super::header_params::param_headers;
use crate::pending::Serial;
use crate::relay::Relay;

/// A message on its way.
#[derive(Debug)]
pub(super) struct OutboundRequest {
    pub(super) body: Bytes,
    /// The requests in it.
    pub(super) requests: Vec<(Id, Serial)>,
    pub(super) era: ProtocolGeneration,
    /// The method, where it is one message that has one.
    pub(super) method: Option<String>,
    /// The tool that is called.
    pub(super) tool: Option<String>,
    /// The request that is not wanted any more.
    pub(super) cancelled: Option<Id>,
}

impl OutboundRequest {
    /// What `body` is, which went through the relay just now. A message that shows no era is of the
    /// older one, where not every message does.
    pub(super) fn new(body: Vec<u8>, relay: &Relay) -> Self {
        let mut out = Self {
            body: body.into(),
            requests: Vec::new(),
            era: ProtocolGeneration::Sessions,
            method: None,
            tool: None,
            cancelled: None,
        };
        let body = out.body.clone();
        // What is no text is the server's business.
        let Ok(text) = std::str::from_utf8(&body) else { return out };
        let waiting = |message: &Message<'_>| {
            let id = message.id().filter(|_| message.is_request())?;
            relay.serial(&id).map(|serial| (id, serial))
        };
        match Messages::read(text) {
            Some(Messages::One(message)) => {
                out.requests = waiting(&message).into_iter().collect();
                out.one(&message);
            }
            Some(Messages::Batch(batch)) => {
                let messages = batch.iter().filter_map(|(_, message)| message.as_ref());
                out.requests = messages.filter_map(waiting).collect();
            }
            _ => {}
        }
        out
    }

    fn one(&mut self, message: &Message<'_>) {
        self.era = ProtocolGeneration::from_request(message).unwrap_or(ProtocolGeneration::Sessions);
        self.method = message.method.as_deref().map(str::to_owned);
        match self.method.as_deref() {
            Some("tools/call") => self.tool = protocol::tool(message).map(std::borrow::Cow::into_owned),
            Some("notifications/cancelled") => {
                let id = message.params().and_then(|params| params.get("requestId"));
                self.cancelled = id.map(Id::from_raw);
            }
            _ => {}
        }
    }

    pub(super) fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }

    /// As a request of HTTP, with what was `agreed` upon.
    pub(super) fn ask(&self, agreed: HeaderMap, relay: &Relay) -> Ask {
        let headers = match self.era {
            // The first one agrees upon what all others bring along.
            _ if self.is("initialize") => HeaderMap::new(),
            ProtocolGeneration::Stateless => self.mirrored(relay),
            _ => agreed,
        };
        let patient = self.is("subscriptions/listen");
        Ask { method: Method::POST, headers, body: self.body.clone(), patient }
    }

    fn mirrored(&self, relay: &Relay) -> HeaderMap {
        let text = std::str::from_utf8(&self.body).unwrap_or_default();
        let Some(message) = Message::read(text) else { return HeaderMap::new() };
        let mut headers = mirrored(&message);
        let schema = self.tool.as_deref().and_then(|tool| relay.schema_of(tool));
        if let Some(schema) = schema {
            let arguments = message.params().and_then(|params| params.get("arguments"));
            headers.extend(param_headers(&schema, arguments));
        }
        headers
    }
}
