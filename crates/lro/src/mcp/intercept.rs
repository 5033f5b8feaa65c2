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
use lro_core::payload::{self, Payload};
use lro_core::tokens::Estimate;
use lro_core::tool_result::{MAX_SHOWN_RESOURCES, ToolResult};
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
        if Operation::from_tool(tool).is_memory() { &self.memory } else { &self.other }
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
                let descriptor = with_leading_members(call.tool, &offloaded.descriptor, || {
                    leading_members(payload)
                });
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
    ///
    /// Ranges are enough for one payload. A result with several texts is parsed if it is in memory, so
    /// that its parts are the same as those of a short result.
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
        if parts.needs_parsing
            && let Some(text) = in_memory(message, result)
        {
            let replacement = self.instead(call, text, seed)?.result;
            return Some(vec![(result.range.clone(), replacement)]);
        }
        let outcome = match receive(offloader, call, message, &parts, seed) {
            Err(PartError::LoneSurrogate) => {
                // A lone surrogate has no UTF-8, so the string itself is the content.
                let Main::Text(string) = parts.main else { return None };
                parts.main = Main::Json(string);
                receive(offloader, call, message, &parts, seed)
            }
            outcome => outcome,
        };
        let OffloadOutcome { delivered, payload, .. } = outcome.ok()?;
        let json = match delivered {
            Delivered::Offloaded(offloaded) => {
                with_leading_members(call.tool, &offloaded.descriptor, || members_of(&payload))
                    .into_owned()
            }
            Delivered::Truncated(truncated) if is_object(&truncated.json) => {
                // Their texts are not stored.
                parts.resources.clear();
                truncated.json
            }
            _ => return None,
        };
        Some(edits(result, &parts, &json))
    }
}

/// The result in `message`, if all of it is in memory.
fn in_memory<'a>(message: &'a dyn Payload, result: &Node) -> Option<&'a str> {
    let range =
        usize::try_from(result.range.start).ok()?..usize::try_from(result.range.end).ok()?;
    std::str::from_utf8(message.whole()?.get(range)?).ok()
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

/// The edits that replace the payload by `json`, in the forms that the result has.
fn edits(result: &Node, parts: &Parts, json: &str) -> RangeEdits {
    let block = text_block(json).to_string();
    let mut edits = RangeEdits::new();
    let open = result.range.start + 1;
    // g22: a client that prefers `structuredContent` reads the text where there is none.
    if let Some(structured) = result.get("structuredContent")
        && structured.form != OutlineKind::Other
    {
        edits.push((structured.range.clone(), json.to_owned()));
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
    // Their addresses are stored nowhere else.
    let long = |text: &&Range<u64>| text.end - text.start > STORED_RESOURCE.len() as u64;
    for text in parts.resources.iter().filter(long) {
        edits.push((text.clone(), Value::from(STORED_RESOURCE).to_string()));
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
/// Members with longer JSON are not read from a payload that is not in memory.
const MAX_MEMBER_LEN: u64 = 64 * 1024;

/// `descriptor` of a result of `tool`, after the members that identify the memory. `members` returns
/// the JSON of the leading members, each with its name.
fn with_leading_members<'a>(
    tool: &str,
    descriptor: &'a str,
    members: impl FnOnce() -> Vec<(&'static str, String)>,
) -> Cow<'a, str> {
    let Some(rest) = descriptor.strip_prefix('{').filter(|_| SINGLE_MEMORY_TOOLS.contains(&tool))
    else {
        return Cow::Borrowed(descriptor);
    };
    let mut json = String::from("{");
    for (name, value) in members() {
        let _ = write!(json, r#""{name}":{value},"#);
    }
    Cow::Owned(json + rest)
}

/// The leading members of `payload`, or of the memory in it.
fn leading_members(payload: &str) -> Vec<(&'static str, String)> {
    let Some(object) = Object::read(payload) else { return Vec::new() };
    let memory = object.clone().at(&["memory"]);
    let member = |name| {
        let inside = || memory.as_ref().and_then(|memory| memory.get(name));
        let value = object.get(name).or_else(inside)?;
        Some((name, scalar_to_json(value.get())?))
    };
    LEADING_MEMBERS.into_iter().filter_map(member).collect()
}

/// The same for a payload that is not in memory.
fn members_of(payload: &dyn Payload) -> Vec<(&'static str, String)> {
    let enter = |path: &[&str]| matches!(path, [] | ["memory"]);
    let Ok(Some(object)) = Node::parse(payload, enter) else { return Vec::new() };
    let member = |name| {
        let inside = || object.get("memory").and_then(|memory| memory.get(name));
        let value = object.get(name).or_else(inside)?;
        let long = value.range.end - value.range.start > MAX_MEMBER_LEN;
        let json = payload::part(payload, value.range.clone()).ok().filter(|_| !long)?;
        Some((name, scalar_to_json(std::str::from_utf8(&json).ok()?)?))
    };
    LEADING_MEMBERS.into_iter().filter_map(member).collect()
}

/// A scalar, with a string truncated and escaped; `None` for anything else.
fn scalar_to_json(json: &str) -> Option<String> {
    match serde_json::from_str(json).ok()? {
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
    if let Some(existing) = read.structured.filter(|json| *json != "null") {
        edits.replace(existing, descriptor);
    }
    edits.replace(text, Value::from(descriptor).to_string());
    Some(edits.applied().into_owned())
}

/// `result` with the replacement as text, and as `structuredContent` if it has that. g22: a client that
/// prefers `structuredContent` reads the text where there is none. f13, f14: images, links and other
/// content stay unchanged and in order. `None` if the replacement does not fit.
fn replaced(result: &str, replacement: &Replacement<'_>) -> Option<String> {
    let object = Object::read(result)?;
    let mut edits = Edits::new(result);
    let json = replacement.json();
    match object.get("structuredContent").filter(|existing| existing.get() != "null") {
        Some(existing) if is_object(json) => edits.replace(existing.get(), json),
        Some(_) => return None,
        None => {}
    }
    let content = object.get("content").map(RawValue::get);
    // Null counts as missing, but must not occur twice.
    let existing = content.filter(|content| *content != "null").unwrap_or("[]");
    let blocks = with_text(existing, replacement)?;
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

/// In place of the text of an embedded resource that is stored.
const STORED_RESOURCE: &str = "The text of this resource is stored with the result: see lro.ref.";

/// The blocks with the replacement in the first text block, and without other text blocks. The first
/// embedded resources with text keep their address and lose the text if that is stored and long.
fn with_text(content: &str, replacement: &Replacement<'_>) -> Option<String> {
    let blocks: Vec<&RawValue> = serde_json::from_str(content).ok()?;
    let (text, warning) = (replacement.json(), replacement.warning());
    let stored = matches!(replacement, Replacement::Descriptor(_));
    let (mut replaced, mut resources) = (false, 0);
    let mut out: Vec<String> =
        warning.iter().map(|warning| text_block(warning).to_string()).collect();
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
            _ => match resource_text(&object).filter(|_| stored) {
                Some(existing) => {
                    resources += 1;
                    if resources <= MAX_SHOWN_RESOURCES {
                        let mut edits = Edits::new(block.get());
                        let note = stored_resource(existing.get());
                        if existing.get().len() > note.len() {
                            edits.replace(existing.get(), note);
                        }
                        out.push(edits.applied().into_owned());
                    }
                }
                None => out.push(block.get().to_owned()),
            },
        }
    }
    if !replaced {
        // After the warning, before all existing blocks.
        out.insert(usize::from(warning.is_some()), text_block(text).to_string());
    }
    Some(format!("[{}]", out.join(",")))
}

/// The JSON string in place of the text of a resource, with its size, by which `lro.notes` and the
/// summary identify the part.
fn stored_resource(text: &str) -> String {
    match serde_json::from_str::<String>(text) {
        Ok(text) => {
            let bytes = text.len();
            Value::from(format!("{STORED_RESOURCE} It has {bytes} bytes.")).to_string()
        }
        // A text that cannot be decoded.
        Err(_) => Value::from(STORED_RESOURCE).to_string(),
    }
}

/// The text of an embedded resource.
fn resource_text<'a>(block: &Object<'a>) -> Option<&'a RawValue> {
    if block.text("type").as_deref() != Some("resource") {
        return None;
    }
    let text = block.clone().at(&["resource"])?.get("text")?;
    text.get().starts_with('"').then_some(text)
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}
