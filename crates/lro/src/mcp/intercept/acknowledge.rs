//! The id and status of a memory in front of the descriptor that stands for it.
//!
//! A caller that reads or writes one memory always learns which one and in which state, also where
//! the memory itself is stored as a large result.

use std::borrow::Cow;
use std::fmt::Write as _;

use lro_wire::Object;
use serde_json::Value;
use serde_json::value::RawValue;

/// Tools whose result is about one memory.
const TOOLS: [&str; 4] = ["capture_memory", "get_memory", "update_memory", "delete_memory"];

/// Members that identify the memory and the outcome, in the order they are shown.
const MEMBERS: [&str; 6] = ["id", "status", "captured", "updated", "deleted", "title"];

/// Characters shown of one member: it is data from the result.
const MAX_CHARS: usize = 120;

/// `descriptor` of a `payload` of `tool`, led by the members that identify the memory.
pub(super) fn acknowledged<'a>(tool: &str, payload: &str, descriptor: &'a str) -> Cow<'a, str> {
    let unchanged = Cow::Borrowed(descriptor);
    if !TOOLS.contains(&tool) {
        return unchanged;
    }
    let (Some(object), Some(rest)) = (Object::read(payload), descriptor.strip_prefix('{')) else {
        return unchanged;
    };
    let memory = object.clone().at(&["memory"]);
    let mut led = String::from("{");
    for name in MEMBERS {
        let inside = || memory.as_ref().and_then(|memory| memory.get(name));
        if let Some(value) = object.get(name).or_else(inside).and_then(shown) {
            let _ = write!(led, r#""{name}":{value},"#);
        }
    }
    Cow::Owned(led + rest)
}

/// A scalar as it is shown; `None` for anything else.
fn shown(value: &RawValue) -> Option<String> {
    match serde_json::from_str(value.get()).ok()? {
        Value::String(text) => Some(Value::from(lro_core::excerpt(&text, MAX_CHARS)).to_string()),
        scalar @ (Value::Bool(_) | Value::Number(_)) => Some(scalar.to_string()),
        _ => None,
    }
}
