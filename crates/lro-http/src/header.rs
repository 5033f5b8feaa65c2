//! MCP headers that repeat parts of a message.
//!
//! From 2026-07-28 on a request repeats its version, method and subject in headers, so that
//! intermediaries need not parse the body. Headers and body must agree.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use lro_wire::protocol::{self, PROTOCOL_VERSION};
use lro_wire::{HEADER_MISMATCH, JsonRpcError, Message};

/// The protocol version.
pub const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of a request.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The subject of a request: a tool, a prompt, a resource or a task.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The session id, up to 2025-11-25.
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The last event that a client received prefix its stream was interrupted.
pub const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// The prefix and suffix of a value in base64, for text that a header cannot contain.
const BASE64_WRAPPER: (&str, &str) = ("=?base64?", "?=");

/// The value of a header that occurs exactly once.
pub fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.to_str().ok())?
}

/// The value of a header that occurs exactly once, without surrounding white space.
pub fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    single(headers, name).map(str::trim)
}

/// Encodes `text` as a header value, in base64 if necessary.
pub fn encode(text: &str) -> HeaderValue {
    let (prefix, suffix) = BASE64_WRAPPER;
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        && text.trim() == text
        && !(text.starts_with(prefix) && text.ends_with(suffix));
    let wrapped = || format!("{prefix}{}{suffix}", STANDARD.encode(text));
    let value = if plain { Cow::Borrowed(text) } else { Cow::Owned(wrapped()) };
    // Both forms consist of visible characters.
    HeaderValue::from_str(&value).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Decodes a header value. Returns `None` if it is marked as base64 and is not.
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    let (prefix, suffix) = BASE64_WRAPPER;
    let inner = value.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix));
    let Some(inner) = inner else { return Some(Cow::Borrowed(value)) };
    let bytes = STANDARD.decode(inner).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// The headers that a request from 2026-07-28 on must have.
pub fn mirror(message: &Message<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(version) = protocol::meta(message).and_then(|meta| meta.text(PROTOCOL_VERSION)) {
        headers.insert(VERSION, encode(&version));
    }
    if let Some(method) = &message.method {
        headers.insert(METHOD, encode(method));
    }
    let subject = subject_param(message).and_then(|param| message.params()?.text(param));
    if let Some(subject) = subject {
        headers.insert(NAME, encode(&subject));
    }
    headers
}

/// The parameter that names the subject of a request.
fn subject_param(message: &Message<'_>) -> Option<&'static str> {
    match message.method.as_deref()? {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// Checks that the headers repeat the method and the subject of the body.
pub fn check(message: &Message<'_>, headers: &HeaderMap) -> Result<(), JsonRpcError> {
    if text(headers, &METHOD) != message.method.as_deref() {
        return Err(mismatch(&METHOD));
    }
    let Some(param) = subject_param(message) else { return Ok(()) };
    let in_body = message.params().and_then(|params| params.text(param));
    match (in_body, text(headers, &NAME).map(decode)) {
        // The method's own checks report a missing parameter.
        (None, None) => Ok(()),
        (Some(body), Some(Some(header))) if body == header => Ok(()),
        _ => Err(mismatch(&NAME)),
    }
}

/// The error for a header that does not match the body.
pub fn mismatch(name: &HeaderName) -> JsonRpcError {
    JsonRpcError::new(HEADER_MISMATCH, format!("the header {name} does not match the body"))
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
            let value = encode(text);
            let value = value.to_str().unwrap();
            assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')), "{text:?}");
            assert_eq!(decode(value).as_deref(), Some(text), "{text:?}");
        }
        assert_eq!(decode("=?base64?SGVsbG8?="), None);
        assert_eq!(decode("=?base64?SGVs!!!bG8=?="), None);
        assert_eq!(decode("=?base64?SGVsbG8=").as_deref(), Some("=?base64?SGVsbG8="));
    }

    #[test]
    fn what_is_mirrored_agrees() {
        for body in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"größer"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#,
        ] {
            let message = Message::read(body).unwrap();
            let mut headers = mirror(&message);
            assert_eq!(check(&message, &headers), Ok(()), "{body}");
            headers.insert(METHOD, encode("tools/other"));
            assert_eq!(check(&message, &headers), Err(mismatch(&METHOD)), "{body}");
        }
    }
}
