//! JSON-RPC messages, request ids and errors.

use std::borrow::Cow;
use std::fmt;

use lro_json::{Object, Text, text};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// JSON-RPC: the body is not valid JSON.
pub const PARSE_ERROR: i32 = -32700;
/// JSON-RPC: the body is not a valid request.
pub const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC: the method does not exist.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC: the parameters are invalid.
pub const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC: internal error; the caller is not at fault.
pub const INTERNAL_ERROR: i32 = -32603;
/// MCP: a header and the body disagree.
pub const HEADER_MISMATCH: i32 = -32020;
/// MCP: the client lacks a capability that the request needs.
pub const MISSING_CAPABILITY: i32 = -32021;
/// MCP: the protocol version is not supported.
pub const UNSUPPORTED_VERSION: i32 = -32022;

/// A request, a notification or a response, borrowed from its line.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Message<'a> {
    /// The id; absent from a notification.
    pub id: Option<&'a RawValue>,
    /// The method; absent from a response.
    pub method: Option<Cow<'a, str>>,
    /// The parameters of a request or a notification.
    pub params: Option<&'a RawValue>,
    /// The result of a successful request.
    pub result: Option<&'a RawValue>,
    /// The error of a failed request.
    pub error: Option<&'a RawValue>,
}

/// The content of a line: one message or a batch.
#[derive(Debug)]
#[non_exhaustive]
pub enum Messages<'a> {
    /// A single message.
    One(Message<'a>),
    /// A JSON array of messages, each with its text (MCP 2025-03-26).
    Batch(Vec<(&'a str, Option<Message<'a>>)>),
}

#[derive(serde::Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Text<'a>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl<'a> Message<'a> {
    /// Parses `json`. Returns `None` if it is not a message or if it has a duplicate member, which
    /// two parsers may read differently.
    pub fn read(json: &'a str) -> Option<Self> {
        // Serde would deserialize an array as the members in their order.
        if !json.trim_start().starts_with('{') {
            return None;
        }
        let Fields { id, method, params, result, error } = serde_json::from_str(json).ok()?;
        let method = method.map(|Text(method)| method);
        Some(Self { id, method, params, result, error })
    }

    /// The id of a request or a response.
    pub fn id(&self) -> Option<Id> {
        self.id.map(Id::from_raw)
    }

    /// Whether this is a request, which has a method and an id.
    pub fn is_request(&self) -> bool {
        self.method.is_some() && self.id.is_some()
    }

    /// The parameters, if they are an object.
    pub fn params(&self) -> Option<Object<'a>> {
        Object::read(self.params?.get())
    }
}

impl<'a> Messages<'a> {
    /// Parses a line. Returns `None` if it contains no message.
    pub fn read(line: &'a str) -> Option<Self> {
        if !line.trim_start().starts_with('[') {
            return Message::read(line).map(Self::One);
        }
        let members: Vec<&'a RawValue> = serde_json::from_str(line).ok()?;
        let read = |raw: &'a RawValue| (raw.get(), Message::read(raw.get()));
        Some(Self::Batch(members.into_iter().map(read).collect()))
    }
}

/// A request id in its original spelling.
///
/// Servers parse an id and serialize it again: `1.0` may come back as `1`, `"\u0061"` as `"a"`, and
/// a number beyond 2^53 rounded. Two ids are equal if they represent the same value.
#[derive(Debug, Clone)]
pub struct Id(Box<str>);

impl Id {
    /// The id with the JSON text `raw`.
    pub fn from_raw(raw: &RawValue) -> Self {
        Self(raw.get().into())
    }

    /// The JSON text of the id, as the sender spelled it.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// A response with this id and `result`, which is JSON.
    pub fn response(&self, result: impl fmt::Display) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{self},"result":{result}}}"#)
    }

    /// The value of the id, independent of its spelling.
    pub fn key(&self) -> IdKey {
        match self.0.as_bytes().first() {
            Some(b'"') => text(&self.0).map_or_else(
                || IdKey::Invalid(self.0.clone()),
                |text| IdKey::Text(text.into_owned().into()),
            ),
            Some(b'-' | b'0'..=b'9') => self.0.parse::<f64>().map_or_else(
                |_| IdKey::Invalid(self.0.clone()),
                // Adding 0.0 turns -0 into 0.
                |number| IdKey::Number((number + 0.0).to_bits()),
            ),
            _ => IdKey::Invalid(self.0.clone()),
        }
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.key() == other.key()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value of an id, independent of its spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IdKey {
    /// A string.
    Text(Box<str>),
    /// The bits of a double, the type that most servers use for numbers.
    Number(u64),
    /// JSON that is neither a string nor a number.
    Invalid(Box<str>),
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JsonRpcError {
    /// The JSON-RPC error code.
    pub code: i32,
    /// The message for people.
    pub message: String,
    /// Details for programs.
    pub data: Option<Value>,
}

impl JsonRpcError {
    /// An error without data.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Adds details for programs.
    pub fn with(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The error response to the request with this `id`.
    pub fn response(&self, id: &Id) -> String {
        let error = self.error();
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
    }

    /// An error response without an id.
    pub fn without_id(&self) -> String {
        format!(r#"{{"jsonrpc":"2.0","error":{}}}"#, self.error())
    }

    /// The `error` member of a response.
    pub fn error(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }
}
