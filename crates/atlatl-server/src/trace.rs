//! Trace: what a request does and how long it takes, for whoever collects that.
//!
//! Names, keys and values are words of ours or numbers, by their types: nothing that a client, a
//! memory or a file says can become part of a span. Whoever collects them is [`Tracer`]'s business.

mod names;
mod parent;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use lro_wire::{JsonRpcError, Message};

pub(crate) use self::names::{code, method, tool};
pub use self::parent::Parent;

/// The part of a request that asks the store.
pub(crate) const STORE: &str = "store";
/// In which form a result goes out.
pub(crate) const DELIVERY: &str = "atlatl.delivery";

/// Begins spans.
///
/// # Contract
/// Nothing here may block, nor may anything of a span: requests wait for it.
pub trait Tracer: Send + Sync {
    /// Begins the span of a request, below `parent` where its client has a span of its own.
    fn request(&self, name: RequestName, parent: Option<&Parent>) -> Arc<dyn Span>;
}

/// Something that takes time. It ends with its last owner, unless it has ended before.
///
/// # Contract
/// What is said first under a key stays. What is said of a span that has ended is lost; parts of it
/// may still begin.
pub trait Span: Send + Sync {
    /// Begins a part of it; `began` where that was earlier.
    fn part(&self, name: &'static str, began: Option<DateTime<Utc>>) -> Arc<dyn Span>;
    /// Says something of it.
    fn say(&self, key: &'static str, value: AttrValue);
    /// Says that it failed, and in which way.
    fn fail(&self, class: &'static str);
    /// Ends it.
    fn end(&self);
}

/// What is said of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttrValue {
    /// A word of ours.
    Word(&'static str),
    /// How many.
    Count(u64),
}

impl From<&'static str> for AttrValue {
    fn from(word: &'static str) -> Self {
        Self::Word(word)
    }
}

impl From<u64> for AttrValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

/// What a request is called: its method, and the tool where it calls one that we have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestName {
    /// The method; `_OTHER` for one that is none.
    pub method: &'static str,
    /// The tool.
    pub tool: Option<&'static str>,
}

impl RequestName {
    fn from_message(message: &Message<'_>) -> Self {
        let method = method(message.method.as_deref().unwrap_or_default());
        let called = (method == "tools/call").then(|| lro_wire::meta::tool(message)).flatten();
        Self { method, tool: called.and_then(|name| tool(&name)) }
    }
}

/// The span of what is being done, where anyone wants it. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Traced(Option<Arc<dyn Span>>);

impl Traced {
    /// Begins the span of `message`, below what `parent` finds, which is asked only if it matters.
    pub(crate) fn request(
        tracer: Option<&Arc<dyn Tracer>>,
        message: &Message<'_>,
        parent: impl FnOnce() -> Option<Parent>,
    ) -> Self {
        let Some(tracer) = tracer else { return Self(None) };
        let name = RequestName::from_message(message);
        let span = Self(Some(tracer.request(name, parent().as_ref())));
        span.say("rpc.system.name", "jsonrpc");
        span.say("mcp.method.name", name.method);
        if let Some(tool) = name.tool {
            span.say("gen_ai.tool.name", tool);
        }
        span
    }

    /// Begins a part. It ends when it is dropped.
    pub(crate) fn part(&self, name: &'static str) -> Self {
        Self(self.0.as_ref().map(|span| span.part(name, None)))
    }

    /// A part that has been going on since `began` and ends now.
    pub(crate) fn part_since(&self, name: &'static str, began: DateTime<Utc>) -> Self {
        Self(self.0.as_ref().map(|span| span.part(name, Some(began))))
    }

    pub(crate) fn say(&self, key: &'static str, value: impl Into<AttrValue>) {
        if let Some(span) = &self.0 {
            span.say(key, value.into());
        }
    }

    pub(crate) fn fail(&self, class: &'static str) {
        if let Some(span) = &self.0 {
            span.fail(class);
        }
    }

    /// Says that the request is answered with an error of the protocol.
    pub(crate) fn refuse(&self, failure: &JsonRpcError) {
        self.say("rpc.response.status_code", code(failure));
        self.fail(code(failure));
    }

    pub(crate) fn end(&self) {
        if let Some(span) = &self.0 {
            span.end();
        }
    }
}
