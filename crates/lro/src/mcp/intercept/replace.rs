//! Replaces the payload of a tool result.

use crate::Truncated;
use lro_core::tool_result::ToolResult;
use lro_wire::Object;
use lro_wire::edit::Edits;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What stands in the place of the payload.
pub(super) enum Replacement<'a> {
    /// A descriptor.
    Descriptor(&'a str),
    /// Fewer memories, since they could not be stored.
    Truncated(&'a Truncated),
}

/// `result`, which reads as `read`, with a descriptor in the place of its payload. Where its text is
/// one block, as nearly always, what was read says where that lies, and no byte is read again.
pub(super) fn described(result: &str, read: &ToolResult<'_>, descriptor: &str) -> Option<String> {
    let Some(text) = read.only_text.filter(|_| descriptor.starts_with('{')) else {
        return replaced(result, &Replacement::Descriptor(descriptor));
    };
    let mut edits = Edits::new(result);
    match read.structured {
        Some(there) => edits.replace(there, descriptor),
        None => edits.add_member(result, "structuredContent", descriptor),
    }
    edits.replace(text, Value::from(descriptor).to_string());
    Some(edits.applied().into_owned())
}

/// `result` with the replacement in both forms, saying the same: as text and as
/// `structuredContent`. f13, f14: images, links and whatever else stands beside the payload stay,
/// in their order and as they are spelled. `None` where there is no place for it.
pub(super) fn replaced(result: &str, replacement: &Replacement<'_>) -> Option<String> {
    let object = Object::read(result)?;
    let mut edits = Edits::new(result);
    let json = replacement.json();
    let structured = is_object(json);
    match object.get("structuredContent") {
        Some(there) if structured => edits.replace(there.get(), json),
        Some(_) => return None,
        None if structured => edits.add_member(result, "structuredContent", json),
        None => {}
    }
    let content = object.get("content").map(RawValue::get);
    // Null is as good as nothing, but may not stand there twice.
    let there = content.filter(|content| *content != "null").unwrap_or("[]");
    let blocks = with_text(there, json, replacement.warning().as_deref())?;
    match content {
        Some(content) => edits.replace(content, blocks),
        None => edits.add_member(result, "content", &blocks),
    }
    Some(edits.applied().into_owned())
}

/// Whether `json` may stand in `structuredContent`: before 2026-07-28 nothing but an object may, and
/// several objects on lines are none.
pub(super) fn is_object(json: &str) -> bool {
    json.starts_with('{') && serde_json::from_str::<&RawValue>(json).is_ok()
}

impl Replacement<'_> {
    fn json(&self) -> &str {
        match self {
            Self::Descriptor(json) => json,
            Self::Truncated(truncated) => &truncated.json,
        }
    }

    /// f05: a warning is a block of its own, never part of the data.
    fn warning(&self) -> Option<String> {
        match self {
            Self::Descriptor(_) => None,
            Self::Truncated(truncated) => Some(truncated.warning.to_string()),
        }
    }
}

/// The blocks with the first text block saying `text`, and no other.
fn with_text(content: &str, text: &str, warning: Option<&str>) -> Option<String> {
    let blocks: Vec<&RawValue> = serde_json::from_str(content).ok()?;
    let mut told = false;
    let mut out: Vec<String> =
        warning.map(|warning| text_block(warning).to_string()).into_iter().collect();
    for block in blocks {
        let object = Object::read(block.get())?;
        match object.get("text") {
            Some(there) if object.text("type").as_deref() == Some("text") => {
                if !std::mem::replace(&mut told, true) {
                    let mut edits = Edits::new(block.get());
                    edits.replace(there.get(), Value::from(text).to_string());
                    out.push(edits.applied().into_owned());
                }
            }
            _ => out.push(block.get().to_owned()),
        }
    }
    if !told {
        // Behind the warning, before everything that was there.
        out.insert(usize::from(warning.is_some()), text_block(text).to_string());
    }
    Some(format!("[{}]", out.join(",")))
}

pub(super) fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}
