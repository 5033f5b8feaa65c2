//! The mapping of request ids between clients and a server process.
//!
//! All clients count their requests from 1. If clients share a process, the proxy replaces the id and the
//! progress token of each request on the way to the server and restores them on the way back.

use lro_wire::edit::Edits;
use lro_wire::{Id, IdKey, Message, Object, protocol};
use serde_json::value::RawValue;

/// `_meta` key: the request that a notification belongs to (2026-07-28).
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The client's id of a request, in its original spelling.
#[derive(Debug, Clone)]
pub(super) struct ClientRequestId {
    pub(super) id: Id,
    /// The progress token.
    pub(super) token: Option<String>,
}

impl ClientRequestId {
    pub(super) fn from_message(message: &Message<'_>) -> Option<Self> {
        let id = message.id().filter(|_| message.is_request())?;
        Some(Self { id, token: protocol::progress_token(message).map(str::to_owned) })
    }
}

/// Replaces the id and the progress token of a request with `number`.
pub(super) fn replace_id(text: &str, number: u64) -> Option<String> {
    let message = Message::read(text)?;
    let mut edits = Edits::new(text);
    edits.replace(message.id?.get(), number.to_string());
    if let Some(token) = protocol::progress_token(&message) {
        edits.replace(token, number.to_string());
    }
    Some(edits.applied().into_owned())
}

/// Restores the client's id and progress token in a message of the server.
pub(super) fn restore_id(text: &str, request_id: &ClientRequestId) -> Option<String> {
    let message = Message::read(text)?;
    let mut edits = Edits::new(text);
    if message.method.is_none() {
        edits.replace(message.id?.get(), request_id.id.as_json());
    }
    if let Some(params) = message.params() {
        if let (Some(token), Some(original)) = (params.get("progressToken"), &request_id.token) {
            edits.replace(token.get(), original.as_str());
        }
        let meta = params.at(&["_meta"]);
        if let Some(id) = meta.and_then(|meta| meta.get(SUBSCRIPTION)) {
            edits.replace(id.get(), request_id.id.as_json());
        }
    }
    // The result of a subscription contains its id.
    let result = message.result.and_then(|result| Object::read(result.get()));
    let meta = result.and_then(|result| result.at(&["_meta"]));
    if let Some(id) = meta.and_then(|meta| meta.get(SUBSCRIPTION)) {
        edits.replace(id.get(), request_id.id.as_json());
    }
    Some(edits.applied().into_owned())
}

/// The request that a message of the server belongs to. Clients choose ids and progress tokens
/// independently, so an id may equal a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MessageTarget {
    /// The request with this id.
    Request(IdKey),
    /// The request with this progress token.
    Progress(IdKey),
}

impl MessageTarget {
    /// The target of `message`, if it names one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_numbered_and_its_messages_are_named_again() {
        let text = r#"{"jsonrpc":"2.0","id":"a\"1","method":"tools/call","params":{"name":"id","_meta":{"progressToken":7.0}}}"#;
        let request_id = ClientRequestId::from_message(&Message::read(text).unwrap()).unwrap();
        assert_eq!(
            replace_id(text, 42).unwrap(),
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
            let (MessageTarget::Request(belongs) | MessageTarget::Progress(belongs)) =
                MessageTarget::from_message(&message).unwrap();
            assert_eq!(belongs, key, "{came}");
            assert_eq!(restore_id(came, &request_id).unwrap(), goes);
        }
    }
}
