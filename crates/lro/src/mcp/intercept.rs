//! Intercepts serialized tool results and offloads large ones.
//!
//! Spec A2: it works on the serialized response, independently of the service, and is the same for a
//! server and for a proxy. It changes nothing but what it replaces, not even white space.
//!
//! The result of a tool that reads or writes one memory begins with the id and the status of that
//! memory, also if the memory itself is stored as a large result.

mod streamed;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use lro_core::Operation;
use lro_core::outline::{Node, OutlineKind};
use lro_core::payload::Payload;
use lro_core::tokens::Estimate;
use lro_core::tool_result::ToolResult;
use lro_wire::Object;
use lro_wire::edit::Edits;
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub use self::streamed::{LargeFile, LargePayload};
use self::streamed::{Main, PartError, Parts};
use super::RangeEdits;
use super::listing::cost;
use crate::{Delivered, IdSeed, OffloadOutcome, Offloader, ResultBody, ToolCall, Truncated};

/// Offloads tool results that are too large for a client.
#[derive(Debug)]
pub struct Interceptor {
    memory: Offloader,
    other: Offloader,
    /// The last page whose tokens were counted: clients list the same tools repeatedly.
    last_listing: Mutex<Option<ListingCost>>,
}

/// A tool result that replaces a larger one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplacementResult {
    /// The result to send.
    pub result: String,
    /// What happened to the original result.
    pub fate: Disposition,
}

/// What happened to a result that was too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// It is stored.
    Stored,
    /// Spec L3: it could not be stored, and is truncated.
    Truncated,
}

/// The additional tokens of a page of tools.
#[derive(Debug)]
struct ListingCost {
    original: String,
    listed: String,
    added: Estimate,
}

impl Interceptor {
    /// An interceptor that uses `memory` for memory operations and `other` for all other tools.
    pub fn new(memory: Offloader, other: Offloader) -> Self {
        Self { memory, other, last_listing: Mutex::default() }
    }

    /// The offloader for results of `tool`.
    pub fn offloader(&self, tool: &str) -> &Offloader {
        if Operation::of_tool(tool).is_memory() { &self.memory } else { &self.other }
    }

    /// Whether any result of `tool` can be replaced.
    pub fn may_replace(&self, tool: &str) -> bool {
        self.offloader(tool).may_offload(tool)
    }

    /// Publishes the additional tokens of `listed`, a page of the tools of `server`, compared with the
    /// `original` page.
    pub fn tools_listed(&self, server: &str, original: &str, listed: &str, now: DateTime<Utc>) {
        let definitions = self.added_tokens(original, listed);
        if definitions.tokens.0 > 0 {
            self.other.tools_listed(server, definitions, now);
        }
    }

    fn added_tokens(&self, original: &str, listed: &str) -> Estimate {
        let mut last_listing = self.last_listing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &*last_listing
            && last.original == original
            && last.listed == listed
        {
            return last.added;
        }
        let tokenizer = self.other.tokenizer();
        let mut added = cost(listed, tokenizer);
        let before = cost(original, tokenizer);
        added.tokens.0 = added.tokens.0.saturating_sub(before.tokens.0);
        let (original, listed) = (original.to_owned(), listed.to_owned());
        *last_listing = Some(ListingCost { original, listed, added });
        added
    }

    /// The result to send instead of `result` of `call`; `None` to send `result` itself.
    ///
    /// f11: errors, requests for input, tasks and anything that is not a tool result are never
    /// replaced.
    pub fn result(&self, call: ToolCall<'_>, result: &str, seed: IdSeed) -> Option<String> {
        self.instead(call, result, seed).map(|instead| instead.result)
    }

    /// The same, with the disposition of the original result.
    pub fn instead(
        &self,
        call: ToolCall<'_>,
        result: &str,
        seed: IdSeed,
    ) -> Option<ReplacementResult> {
        let offloader = self.offloader(call.tool);
        // A payload is never longer than its result.
        if offloader.is_always_inline(call, result.len() as u64) {
            return None;
        }
        let read = ToolResult::read(result)?;
        if read.is_error || !read.complete || read.payload().is_none() {
            return None;
        }
        match offloader.deliver_result(call, ResultBody::ToolResult(&read), seed) {
            Delivered::Offloaded(offloaded) => {
                let payload = read.payload().map_or("", |part| &part.payload);
                let descriptor = with_leading_members(call.tool, payload, &offloaded.descriptor);
                let result = described(result, &read, &descriptor)?;
                Some(ReplacementResult { result, fate: Disposition::Stored })
            }
            Delivered::Truncated(truncated) => {
                let result = replaced(result, &Replacement::Truncated(&truncated))?;
                Some(ReplacementResult { result, fate: Disposition::Truncated })
            }
            _ => None,
        }
    }

    /// The same for a result that is not in memory: the edits to `message`, of which `result` is the
    /// outline. `None` if nothing changes.
    pub fn long_result(
        &self,
        call: ToolCall<'_>,
        message: &dyn Payload,
        result: &Node,
        seed: IdSeed,
    ) -> Option<RangeEdits> {
        let offloader = self.offloader(call.tool);
        let bytes = result.range.end - result.range.start;
        if offloader.is_always_inline(call, bytes) {
            return None;
        }
        let mut parts = Parts::parse(message, result).ok()??;
        let outcome = match receive(offloader, call, message, &parts, seed) {
            Err(PartError::LoneSurrogate) => {
                // A lone surrogate has no UTF-8, so the string itself is the content.
                let Main::Text(string) = parts.main else { return None };
                parts.main = Main::Json(string);
                receive(offloader, call, message, &parts, seed)
            }
            outcome => outcome,
        };
        let json = match outcome.ok()?.delivered {
            Delivered::Offloaded(offloaded) => offloaded.descriptor,
            Delivered::Truncated(truncated) if is_object(&truncated.json) => truncated.json,
            _ => return None,
        };
        Some(edits(result, &parts, &json))
    }
}

fn receive(
    offloader: &Offloader,
    call: ToolCall<'_>,
    message: &dyn Payload,
    parts: &Parts,
    seed: IdSeed,
) -> Result<OffloadOutcome, PartError> {
    let mut stream = offloader.receive(call);
    parts.main.each(message, |part| stream.feed(part))?;
    let texts: Vec<&str> = parts.further_texts.iter().map(String::as_str).collect();
    Ok(match parts.main {
        Main::Text(_) => stream.finish_text(&texts, seed),
        Main::Json(_) => stream.finish_with_texts(&texts, seed),
    })
}

/// The edits that replace the payload by `json`, in both forms.
fn edits(result: &Node, parts: &Parts, json: &str) -> RangeEdits {
    let block = text_block(json).to_string();
    let mut edits = RangeEdits::new();
    let (open, close) = (result.range.start + 1, result.range.end - 1);
    match result.get("structuredContent") {
        Some(structured) => edits.push((structured.range.clone(), json.to_owned())),
        None => {
            // A result without members has no payload, so there is a member before.
            edits.push((close..close, format!(r#","structuredContent":{json}"#)));
        }
    }
    match (result.get("content"), parts.text_blocks.split_first()) {
        // Not a list of blocks.
        (Some(content), _) if content.form != OutlineKind::Array => {
            edits.push((content.range.clone(), format!("[{block}]")));
        }
        (Some(content), Some((first, others))) => {
            edits.push((first.clone(), block));
            for other in others {
                edits.push((with_comma(content, other), String::new()));
            }
        }
        (Some(content), None) => {
            let at = content.range.start + 1;
            let comma = if content.children.is_empty() { "" } else { "," };
            edits.push((at..at, format!("{block}{comma}")));
        }
        (None, _) => edits.push((open..open, format!(r#""content":[{block}],"#))),
    }
    edits.sort_by_key(|(range, _)| range.start);
    edits
}

/// The range of an element that is not the first, with the comma before it.
fn with_comma(array: &Node, element: &Range<u64>) -> Range<u64> {
    let before = array.children.iter().map(|child| child.range.end);
    let start = before.filter(|end| *end <= element.start).max().unwrap_or(element.start);
    start..element.end
}

/// Tools whose result is about one memory.
const SINGLE_MEMORY_TOOLS: [&str; 4] =
    ["capture_memory", "get_memory", "update_memory", "delete_memory"];

/// Members that identify the memory and the outcome, in the order they are shown.
const LEADING_MEMBERS: [&str; 6] = ["id", "status", "captured", "updated", "deleted", "title"];

/// The maximum length of a leading member, which is data from the result.
const MAX_MEMBER_CHARS: usize = 120;

/// `descriptor` of a `payload` of `tool`, after the members that identify the memory.
fn with_leading_members<'a>(tool: &str, payload: &str, descriptor: &'a str) -> Cow<'a, str> {
    let unchanged = Cow::Borrowed(descriptor);
    if !SINGLE_MEMORY_TOOLS.contains(&tool) {
        return unchanged;
    }
    let (Some(object), Some(rest)) = (Object::read(payload), descriptor.strip_prefix('{')) else {
        return unchanged;
    };
    let memory = object.clone().at(&["memory"]);
    let mut json = String::from("{");
    for name in LEADING_MEMBERS {
        let inside = || memory.as_ref().and_then(|memory| memory.get(name));
        if let Some(value) = object.get(name).or_else(inside).and_then(scalar_to_json) {
            let _ = write!(json, r#""{name}":{value},"#);
        }
    }
    Cow::Owned(json + rest)
}

/// A scalar, with a string truncated and escaped; `None` for anything else.
fn scalar_to_json(value: &RawValue) -> Option<String> {
    match serde_json::from_str(value.get()).ok()? {
        Value::String(text) => {
            Some(Value::from(lro_core::excerpt(&text, MAX_MEMBER_CHARS)).to_string())
        }
        scalar @ (Value::Bool(_) | Value::Number(_)) => Some(scalar.to_string()),
        _ => None,
    }
}

/// The replacement of a payload.
enum Replacement<'a> {
    /// A descriptor.
    Descriptor(&'a str),
    /// Fewer memories, because they could not be stored.
    Truncated(&'a Truncated),
}

/// `result`, parsed as `read`, with its payload replaced by a descriptor. If its text is one block, as
/// nearly always, `read` has the positions, and nothing is parsed again.
fn described(result: &str, read: &ToolResult<'_>, descriptor: &str) -> Option<String> {
    let Some(text) = read.only_text.filter(|_| descriptor.starts_with('{')) else {
        return replaced(result, &Replacement::Descriptor(descriptor));
    };
    let mut edits = Edits::new(result);
    match read.structured {
        Some(existing) => edits.replace(existing, descriptor),
        None => edits.add_member(result, "structuredContent", descriptor),
    }
    edits.replace(text, Value::from(descriptor).to_string());
    Some(edits.applied().into_owned())
}

/// `result` with the replacement in both forms: as text and as `structuredContent`. f13, f14: images,
/// links and other content stay unchanged and in order. `None` if the replacement does not fit.
fn replaced(result: &str, replacement: &Replacement<'_>) -> Option<String> {
    let object = Object::read(result)?;
    let mut edits = Edits::new(result);
    let json = replacement.json();
    let structured = is_object(json);
    match object.get("structuredContent") {
        Some(existing) if structured => edits.replace(existing.get(), json),
        Some(_) => return None,
        None if structured => edits.add_member(result, "structuredContent", json),
        None => {}
    }
    let content = object.get("content").map(RawValue::get);
    // Null counts as missing, but must not occur twice.
    let existing = content.filter(|content| *content != "null").unwrap_or("[]");
    let blocks = with_text(existing, json, replacement.warning().as_deref())?;
    match content {
        Some(content) => edits.replace(content, blocks),
        None => edits.add_member(result, "content", &blocks),
    }
    Some(edits.applied().into_owned())
}

/// Whether `json` is one object. Before 2026-07-28, `structuredContent` must be an object.
fn is_object(json: &str) -> bool {
    json.starts_with('{') && serde_json::from_str::<&RawValue>(json).is_ok()
}

impl Replacement<'_> {
    fn json(&self) -> &str {
        match self {
            Self::Descriptor(json) => json,
            Self::Truncated(truncated) => &truncated.json,
        }
    }

    /// f05: a warning is a separate block, never part of the data.
    fn warning(&self) -> Option<String> {
        match self {
            Self::Descriptor(_) => None,
            Self::Truncated(truncated) => Some(truncated.warning.to_string()),
        }
    }
}

/// The blocks with `text` in the first text block, and without other text blocks.
fn with_text(content: &str, text: &str, warning: Option<&str>) -> Option<String> {
    let blocks: Vec<&RawValue> = serde_json::from_str(content).ok()?;
    let mut replaced = false;
    let mut out: Vec<String> =
        warning.map(|warning| text_block(warning).to_string()).into_iter().collect();
    for block in blocks {
        let object = Object::read(block.get())?;
        match object.get("text") {
            Some(existing) if object.text("type").as_deref() == Some("text") => {
                if !std::mem::replace(&mut replaced, true) {
                    let mut edits = Edits::new(block.get());
                    edits.replace(existing.get(), Value::from(text).to_string());
                    out.push(edits.applied().into_owned());
                }
            }
            _ => out.push(block.get().to_owned()),
        }
    }
    if !replaced {
        // After the warning, before all existing blocks.
        out.insert(usize::from(warning.is_some()), text_block(text).to_string());
    }
    Some(format!("[{}]", out.join(",")))
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}
