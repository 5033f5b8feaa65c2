//! Intercepts serialized tool results and offloads large ones.
//!
//! Spec A2: it works on what is about to be written, knows no service, and is the same for a server
//! and for a proxy. Whatever it does not replace is not touched, not even its white space.

mod acknowledge;
mod large;
mod replace;
mod streamed;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::{Body, Call, Delivered, Incoming, Moment, OffloadOutcome, Offloader};
use chrono::{DateTime, Utc};
use lro_core::Operation;
use lro_core::outline::{Form, Node};
use lro_core::payload::Payload;
use lro_core::tokens::Estimate;
use lro_core::tool_result::ToolResult;

use crate::mcp::listing::cost;

use self::acknowledge::acknowledged;
pub use self::large::{LargeFile, LargePayload};
use self::replace::{Replacement, described, is_object, replaced, text_block};
use self::streamed::{Lost, Main, Parts};

/// Offloads results that are too large for a client.
#[derive(Debug)]
pub struct Interceptor {
    memory: Offloader,
    other: Offloader,
    /// The last page whose tokens were counted: clients list the same tools again and again.
    counted: Mutex<Option<Counted>>,
}

/// A tool result that stands for a larger one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replaced {
    /// The result to send.
    pub result: String,
    /// What became of the other.
    pub fate: Disposition,
}

/// What became of a result that was too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// It is stored, and described.
    Stored,
    /// Spec L3: it could not be stored, and its beginning is sent.
    Truncated,
}

/// A page of tools as it came and as it was listed, and what it cost more.
#[derive(Debug)]
struct Counted {
    as_it_came: String,
    listed: String,
    more: Estimate,
}

impl Interceptor {
    /// Results of memory operations go through `memory`, those of any other tool through `other`.
    pub fn new(memory: Offloader, other: Offloader) -> Self {
        Self { memory, other, counted: Mutex::default() }
    }

    /// The offloader for results of `tool`.
    pub fn offloader(&self, tool: &str) -> &Offloader {
        if Operation::of_tool(tool).is_memory() { &self.memory } else { &self.other }
    }

    /// Whether a result of `tool` may ever be replaced.
    pub fn may_replace(&self, tool: &str) -> bool {
        self.offloader(tool).may_offload(tool)
    }

    /// Tells whoever watches what `listed`, a page of the tools of `server`, costs more than the one
    /// `as_it_came`.
    pub fn tools_listed(&self, server: &str, as_it_came: &str, listed: &str, now: DateTime<Utc>) {
        let definitions = self.more(as_it_came, listed);
        if definitions.tokens.0 > 0 {
            self.other.tools_listed(server, definitions, now);
        }
    }

    fn more(&self, as_it_came: &str, listed: &str) -> Estimate {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &*counted
            && last.as_it_came == as_it_came
            && last.listed == listed
        {
            return last.more;
        }
        let tokenizer = self.other.tokenizer();
        let mut more = cost(listed, tokenizer);
        let theirs = cost(as_it_came, tokenizer);
        more.tokens.0 = more.tokens.0.saturating_sub(theirs.tokens.0);
        let (as_it_came, listed) = (as_it_came.to_owned(), listed.to_owned());
        *counted = Some(Counted { as_it_came, listed, more });
        more
    }

    /// The result that the client gets for `result` of `call`; `None` for `result` itself.
    ///
    /// f11: an error, a request for input and a task are never replaced, nor is what is no tool
    /// result at all.
    pub fn result(&self, call: Call<'_>, result: &str, at: Moment) -> Option<String> {
        self.instead(call, result, at).map(|instead| instead.result)
    }

    /// The same, with what became of the result that it stands for.
    pub fn instead(&self, call: Call<'_>, result: &str, at: Moment) -> Option<Replaced> {
        let offloader = self.offloader(call.tool);
        // No payload is longer than what it stands in.
        if offloader.surely_inline(call, result.len() as u64) {
            return None;
        }
        let read = ToolResult::read(result)?;
        if read.is_error || !read.complete || read.payload().is_none() {
            return None;
        }
        match offloader.deliver(&Incoming::new(call, Body::ToolResult(&read)), at) {
            Delivered::Offloaded(offloaded) => {
                let payload = read.payload().map_or("", |part| &part.payload);
                let descriptor = acknowledged(call.tool, payload, &offloaded.descriptor);
                let result = described(result, &read, &descriptor)?;
                Some(Replaced { result, fate: Disposition::Stored })
            }
            Delivered::Truncated(truncated) => {
                let result = replaced(result, &Replacement::Truncated(&truncated))?;
                Some(Replaced { result, fate: Disposition::Truncated })
            }
            _ => None,
        }
    }

    /// The same for a result that is not in memory: what to put in the place of which ranges of
    /// `message`, of which `result` is the outline; nothing to change for `None`.
    pub fn long_result(
        &self,
        call: Call<'_>,
        message: &dyn Payload,
        result: &Node,
        at: Moment,
    ) -> Option<Changes> {
        let offloader = self.offloader(call.tool);
        let bytes = result.range.end - result.range.start;
        if offloader.surely_inline(call, bytes) {
            return None;
        }
        let mut parts = Parts::parse(message, result).ok()??;
        let arrived = match receive(offloader, call, message, &parts, at) {
            Err(Lost::NoText) => {
                // A lone surrogate: no text stands for it, so the string itself is the content.
                let Main::Text(string) = parts.main else { return None };
                parts.main = Main::Json(string);
                receive(offloader, call, message, &parts, at)
            }
            received => received,
        };
        let json = match arrived.ok()?.delivered {
            Delivered::Offloaded(offloaded) => offloaded.descriptor,
            Delivered::Truncated(truncated) if is_object(&truncated.json) => truncated.json,
            _ => return None,
        };
        Some(changes(result, &parts, &json))
    }
}

/// Ranges of a message, from the first to the last, and what stands there afterwards.
pub type Changes = Vec<(Range<u64>, String)>;

fn receive(
    offloader: &Offloader,
    call: Call<'_>,
    message: &dyn Payload,
    parts: &Parts,
    at: Moment,
) -> Result<OffloadOutcome, Lost> {
    let mut arriving = offloader.receive(call);
    parts.main.each(message, |part| arriving.feed(part))?;
    let beside: Vec<&str> = parts.beside.iter().map(String::as_str).collect();
    Ok(match parts.main {
        Main::Text(_) => arriving.finish_text(&beside, at),
        Main::Json(_) => arriving.finish_with(&beside, at),
    })
}

/// Puts `json` in the place of the payload, in both forms.
fn changes(result: &Node, parts: &Parts, json: &str) -> Changes {
    let block = text_block(json).to_string();
    let mut changes = Changes::new();
    let (open, close) = (result.range.start + 1, result.range.end - 1);
    match result.get("structuredContent") {
        Some(structured) => changes.push((structured.range.clone(), json.to_owned())),
        None => {
            // A result without members has no payload either.
            changes.push((close..close, format!(r#","structuredContent":{json}"#)));
        }
    }
    match (result.get("content"), parts.texts.split_first()) {
        // Whatever it is, it is no list of blocks.
        (Some(content), _) if content.form != Form::Array => {
            changes.push((content.range.clone(), format!("[{block}]")));
        }
        (Some(content), Some((first, others))) => {
            changes.push((first.clone(), block));
            for other in others {
                changes.push((with_comma(content, other), String::new()));
            }
        }
        (Some(content), None) => {
            let at = content.range.start + 1;
            let comma = if content.children.is_empty() { "" } else { "," };
            changes.push((at..at, format!("{block}{comma}")));
        }
        (None, _) => changes.push((open..open, format!(r#""content":[{block}],"#))),
    }
    changes.sort_by_key(|(range, _)| range.start);
    changes
}

/// An element and the comma before it; it is not the first.
fn with_comma(array: &Node, element: &Range<u64>) -> Range<u64> {
    let before = array.children.iter().map(|child| child.range.end);
    let start = before.filter(|end| *end <= element.start).max().unwrap_or(element.start);
    start..element.end
}
