//! Header: what a message says of itself in the headers that carry it.
//!
//! From 2026-07-28 on a request's version, method and subject stand in headers too, so that whoever
//! stands between need not read the body. The two must say the same.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use lro_wire::meta::{self, PROTOCOL_VERSION};
use lro_wire::{HEADER_MISMATCH, JsonRpcError, Message};

/// The version of the protocol.
pub const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of a request.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// What a request is about: a tool, a prompt, a resource, a task.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The session of a client of the older era.
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Where a stream broke off.
pub const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// What a value that is no plain text is wrapped in.
const WRAPPED: (&str, &str) = ("=?base64?", "?=");

/// The value of a header that is there exactly once.
pub fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.to_str().ok())?
}

/// The same without the white space around it, which is the transport's.
pub fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    one(headers, name).map(str::trim)
}

/// The value of a header that stands for `text`.
pub fn encoded(text: &str) -> HeaderValue {
    let (before, behind) = WRAPPED;
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        && text.trim() == text
        && !(text.starts_with(before) && text.ends_with(behind));
    let wrapped = || format!("{before}{}{behind}", STANDARD.encode(text));
    let value = if plain { Cow::Borrowed(text) } else { Cow::Owned(wrapped()) };
    // Both forms are visible characters.
    HeaderValue::from_str(&value).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// What a header stands for; `None` where it claims a form that it does not have.
pub fn decoded(value: &str) -> Option<Cow<'_, str>> {
    let (before, behind) = WRAPPED;
    let inner = value.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
    let Some(inner) = inner else { return Some(Cow::Borrowed(value)) };
    let bytes = STANDARD.decode(inner).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// What a request of the newer era says of itself in headers.
pub fn mirrored(message: &Message<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(version) = meta::meta(message).and_then(|meta| meta.text(PROTOCOL_VERSION)) {
        headers.insert(VERSION, encoded(&version));
    }
    if let Some(method) = &message.method {
        headers.insert(METHOD, encoded(method));
    }
    let subject = named(message).and_then(|named| message.params()?.text(named));
    if let Some(subject) = subject {
        headers.insert(NAME, encoded(&subject));
    }
    headers
}

/// The parameter that says what a request is about.
fn named(message: &Message<'_>) -> Option<&'static str> {
    match message.method.as_deref()? {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// Whether the headers say the method and the subject that the body says.
pub fn agree(message: &Message<'_>, headers: &HeaderMap) -> Result<(), JsonRpcError> {
    if text(headers, &METHOD) != message.method.as_deref() {
        return Err(differs(&METHOD));
    }
    let Some(named) = named(message) else { return Ok(()) };
    let in_body = message.params().and_then(|params| params.text(named));
    match (in_body, text(headers, &NAME).map(decoded)) {
        // What the body lacks is the method's to say.
        (None, None) => Ok(()),
        (Some(body), Some(Some(header))) if body == header => Ok(()),
        _ => Err(differs(&NAME)),
    }
}

/// A header does not say what the body says.
pub fn differs(name: &HeaderName) -> JsonRpcError {
    JsonRpcError::new(HEADER_MISMATCH, format!("the header {name} does not say what the body says"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_goes_through_a_header() {
        for text in [
            "plain",
            "with space",
            "tab\tinside",
            " before",
            "behind ",
            "",
            "naïve",
            "日本",
            "line\nbreak",
            "=?base64?SGk=?=",
            "=?base64?SGk=",
            "\u{7f}",
            "\u{0}",
        ] {
            let value = encoded(text);
            let value = value.to_str().unwrap();
            assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')), "{text:?}");
            assert_eq!(decoded(value).as_deref(), Some(text), "{text:?}");
        }
        assert_eq!(decoded("=?base64?SGVsbG8?="), None);
        assert_eq!(decoded("=?base64?SGVs!!!bG8=?="), None);
        assert_eq!(decoded("=?base64?SGVsbG8=").as_deref(), Some("=?base64?SGVsbG8="));
    }

    #[test]
    fn what_is_mirrored_agrees() {
        for body in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"größer"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#,
        ] {
            let message = Message::read(body).unwrap();
            let mut headers = mirrored(&message);
            assert_eq!(agree(&message, &headers), Ok(()), "{body}");
            headers.insert(METHOD, encoded("tools/other"));
            assert_eq!(agree(&message, &headers), Err(differs(&METHOD)), "{body}");
        }
    }
}
