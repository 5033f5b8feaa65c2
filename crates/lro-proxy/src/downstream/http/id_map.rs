//! Maps the request ids of many clients to ids for one process.
//!
//! Clients count from 1, all of them. What a request is called, and what its progress is told under,
//! is ours on the way to the server and the client's on the way back.

use http::HeaderMap;
use lro_http::header::{VERSION, text};
use lro_wire::edit::Edits;
use lro_wire::protocol::{self, ProtocolGeneration, PROTOCOL_VERSION};
use lro_wire::protocol::is_supported;
use lro_wire::{Id, IdKey, Message, Object};
use serde_json::value::RawValue;

/// `_meta`: the request that a notification belongs to (2026-07-28).
pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What a client calls a request, as it is spelled.
#[derive(Debug, Clone)]
pub(super) struct Called {
    pub(super) id: Id,
    /// What it wants to hear of progress under.
    pub(super) token: Option<String>,
}

impl Called {
    pub(super) fn from_message(message: &Message<'_>) -> Option<Self> {
        let id = message.id().filter(|_| message.is_request())?;
        Some(Self { id, token: protocol::progress_token(message).map(str::to_owned) })
    }
}

/// A request of a client, called `number` on its way to the server.
pub(super) fn numbered(text: &str, number: u64) -> Option<String> {
    let message = Message::read(text)?;
    let mut edits = Edits::new(text);
    edits.replace(message.id?.get(), number.to_string());
    if let Some(token) = protocol::progress_token(&message) {
        edits.replace(token, number.to_string());
    }
    Some(edits.applied().into_owned())
}

/// A message of the server, called on its way back as the client called it.
pub(super) fn named(text: &str, called: &Called) -> Option<String> {
    let message = Message::read(text)?;
    let mut edits = Edits::new(text);
    if message.method.is_none() {
        edits.replace(message.id?.get(), called.id.as_json());
    }
    if let Some(params) = message.params() {
        if let (Some(token), Some(named)) = (params.get("progressToken"), &called.token) {
            edits.replace(token.get(), named.as_str());
        }
        let meta = params.at(&["_meta"]);
        if let Some(id) = meta.and_then(|meta| meta.get(SUBSCRIPTION)) {
            edits.replace(id.get(), called.id.as_json());
        }
    }
    // The end of a subscription says which one it was.
    let result = message.result.and_then(|result| Object::read(result.get()));
    let meta = result.and_then(|result| result.at(&["_meta"]));
    if let Some(id) = meta.and_then(|meta| meta.get(SUBSCRIPTION)) {
        edits.replace(id.get(), called.id.as_json());
    }
    Some(edits.applied().into_owned())
}

/// How a message of the server names the request that it belongs to. The two kinds of names are
/// the client's to choose, and may be alike.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BelongsTo {
    /// By its id.
    Request(IdKey),
    /// By the token that its progress is told under.
    Progress(IdKey),
}

impl BelongsTo {
    /// Where `message` says so.
    pub(super) fn from_message(message: &Message<'_>) -> Option<Self> {
        let key = |raw: &RawValue| Id::from_raw(raw).key();
        if message.method.is_none() {
            return message.id.map(key).map(Self::Request);
        }
        let params = message.params()?;
        if message.method.as_deref() == Some("notifications/progress") {
            return params.get("progressToken").map(key).map(Self::Progress);
        }
        params.at(&["_meta"])?.get(SUBSCRIPTION).map(key).map(Self::Request)
    }
}

/// Whether a request stands for itself, by its body or by its headers, so that one process can answer
/// all of its kind.
pub(super) fn stands_alone(message: &Message<'_>, headers: &HeaderMap) -> bool {
    let says = protocol::meta(message).is_some_and(|meta| meta.get(PROTOCOL_VERSION).is_some());
    let version = text(headers, &VERSION);
    says || message.method.as_deref() == Some("server/discover")
        || version.is_some_and(|version| is_supported(version, ProtocolGeneration::Stateless))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_numbered_and_its_messages_are_named_again() {
        let text = r#"{"jsonrpc":"2.0","id":"a\"1","method":"tools/call","params":{"name":"id","_meta":{"progressToken":7.0}}}"#;
        let called = Called::from_message(&Message::read(text).unwrap()).unwrap();
        assert_eq!(
            numbered(text, 42).unwrap(),
            r#"{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"id","_meta":{"progressToken":42}}}"#
        );
        for (came, goes) in [
            (r#"{"id":42,"result":{"id":42}}"#, r#"{"id":"a\"1","result":{"id":42}}"#),
            (
                r#"{"method":"notifications/progress","params":{"progressToken":42,"progress":1}}"#,
                r#"{"method":"notifications/progress","params":{"progressToken":7.0,"progress":1}}"#,
            ),
            (
                r#"{"method":"n","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":42}}}"#,
                r#"{"method":"n","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"a\"1"}}}"#,
            ),
        ] {
            let message = Message::read(came).unwrap();
            let forty_two: Box<RawValue> = serde_json::from_str("42").unwrap();
            let key = Id::from_raw(&forty_two).key();
            let (BelongsTo::Request(belongs) | BelongsTo::Progress(belongs)) =
                BelongsTo::from_message(&message).unwrap();
            assert_eq!(belongs, key, "{came}");
            assert_eq!(named(came, &called).unwrap(), goes);
        }
    }
}
