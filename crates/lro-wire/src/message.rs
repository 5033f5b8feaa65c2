//! Message: the few members of a JSON-RPC message that a relay looks at.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::id::Id;
use lro_json::{Object, Text};

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
    /// What a request came to.
    pub result: Option<&'a RawValue>,
    /// Why a request failed.
    pub error: Option<&'a RawValue>,
}

/// What stands on a line.
#[derive(Debug)]
#[non_exhaustive]
pub enum Messages<'a> {
    /// One message, as nearly always.
    One(Message<'a>),
    /// Several in an array, each with its text (MCP 2025-03-26).
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
    /// Reads `json`; `None` where it is not plainly a message, a member that stands twice included:
    /// what two readers may read differently is nothing to act upon.
    pub fn read(json: &'a str) -> Option<Self> {
        // An array would be read as the members in their order.
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

    /// Whether it is a request: it has a method and wants an answer.
    pub fn is_request(&self) -> bool {
        self.method.is_some() && self.id.is_some()
    }

    /// The parameters, where they are an object.
    pub fn params(&self) -> Option<Object<'a>> {
        Object::read(self.params?.get())
    }
}

impl<'a> Messages<'a> {
    /// Reads a line; `None` where it holds no message.
    pub fn read(line: &'a str) -> Option<Self> {
        if !line.trim_start().starts_with('[') {
            return Message::read(line).map(Self::One);
        }
        let members: Vec<&'a RawValue> = serde_json::from_str(line).ok()?;
        let read = |raw: &'a RawValue| (raw.get(), Message::read(raw.get()));
        Some(Self::Batch(members.into_iter().map(read).collect()))
    }
}
