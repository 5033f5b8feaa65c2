//! Trace: what a request does and how long it takes, for whoever collects that.
//!
//! Names, keys and values are words of ours or numbers, by their types: nothing that a client, a
//! memory or a file says can become part of a span. Whoever collects them is [`Tracer`]'s business.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use lro::mcp::Tools;
use lro_wire::{
    HEADER_MISMATCH, INTERNAL, INVALID_PARAMS, JsonRpcError, METHOD_NOT_FOUND, MISSING_CAPABILITY,
    Message, NO_JSON, NO_REQUEST, UNSUPPORTED_VERSION,
};

use super::tools::Tool;

// The former name, until every crate of the workspace uses the new one.
#[doc(hidden)]
pub use self::TraceParent as Parent;

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
    fn request(&self, name: RequestName, parent: Option<&TraceParent>) -> Arc<dyn Span>;
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
pub(crate) struct RequestSpan(Option<Arc<dyn Span>>);

impl RequestSpan {
    /// Begins the span of `message`, below what `parent` finds, which is asked only if it matters.
    pub(crate) fn request(
        tracer: Option<&Arc<dyn Tracer>>,
        message: &Message<'_>,
        parent: impl FnOnce() -> Option<TraceParent>,
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

// --- Span and attribute names with a bounded set of values.

/// What OpenTelemetry calls a value that is not among those that are known.
const OTHER: &str = "_OTHER";

/// The methods that are answered, in either era.
const METHODS: [&str; 16] = [
    "completion/complete",
    "initialize",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
    "tasks/cancel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// A method.
pub(crate) fn method(from_name: &str) -> &'static str {
    METHODS.into_iter().find(|known| *known == from_name).unwrap_or(OTHER)
}

/// A tool, if it is one of ours.
pub(crate) fn tool(from_name: &str) -> Option<&'static str> {
    Tool::from_name(from_name).map(Tool::name).or_else(|| Tools::named(from_name))
}

/// The code of an error.
pub(crate) fn code(failure: &JsonRpcError) -> &'static str {
    match failure.code {
        NO_JSON => "-32700",
        NO_REQUEST => "-32600",
        METHOD_NOT_FOUND => "-32601",
        INVALID_PARAMS => "-32602",
        INTERNAL => "-32603",
        HEADER_MISMATCH => "-32020",
        MISSING_CAPABILITY => "-32021",
        UNSUPPORTED_VERSION => "-32022",
        _ => OTHER,
    }
}

// --- Parent: the span of a client that a request belongs to, as W3C Trace Context writes it.
// ---
// --- It comes from outside: what is not exactly in its form is not there at all.

/// A `tracestate` is at most so long; a longer one is dropped, which its specification allows.
const MAX_TRACESTATE_LEN: usize = 512;
/// Version 00 has this length; later ones may have more behind a dash.
const TRACEPARENT_LEN: usize = 55;
const MAX_LEN: usize = 256;

/// A span of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceParent {
    /// The trace that it belongs to; never 0.
    pub trace_id: u128,
    /// Which span; never 0.
    pub span_id: u64,
    /// Whether the client collects it.
    pub sampled: bool,
    /// What the systems on the way added: visible ASCII, at most 512 bytes, else as they spelled it.
    pub state: Option<String>,
}

impl TraceParent {
    /// Reads `traceparent`, and `tracestate` where it is usable; `None` for what is invalid.
    pub fn read(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        if !traceparent.is_ascii() || !(TRACEPARENT_LEN..=MAX_LEN).contains(&traceparent.len()) {
            return None;
        }
        let (fixed, more) = traceparent.split_at(TRACEPARENT_LEN);
        let mut fields = fixed.split('-');
        let version = hex(fields.next()?, 2)?;
        let trace_id = hex(fields.next()?, 32)?;
        let span_id = hex(fields.next()?, 16)?;
        let flags = hex(fields.next()?, 2)?;
        let behind_is_right = match version {
            0 => more.is_empty(),
            0xff => false,
            _ => more.is_empty() || more.starts_with('-'),
        };
        if !behind_is_right || trace_id == 0 || span_id == 0 {
            return None;
        }
        let usable = |state: &&str| {
            (1..=MAX_TRACESTATE_LEN).contains(&state.len())
                && state.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        };
        Some(Self {
            trace_id,
            span_id: u64::try_from(span_id).ok()?,
            sampled: flags & 1 == 1,
            state: tracestate.map(str::trim).filter(usable).map(str::to_owned),
        })
    }
}

/// A number of exactly so many digits, in lower case as the form wants it.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let lower = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let right = text.len() == digits && text.bytes().all(lower);
    right.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_written_as_it_is_sent() {
        for number in [
            NO_JSON,
            NO_REQUEST,
            METHOD_NOT_FOUND,
            INVALID_PARAMS,
            INTERNAL,
            HEADER_MISMATCH,
            MISSING_CAPABILITY,
            UNSUPPORTED_VERSION,
        ] {
            assert_eq!(code(&JsonRpcError::new(number, "")), number.to_string());
        }
        assert_eq!(code(&JsonRpcError::new(-1, "")), OTHER);
    }

    #[test]
    fn what_a_client_makes_up_is_no_word() {
        assert_eq!((method("tools/call"), method("tools/calL")), ("tools/call", OTHER));
        assert_eq!(tool("recall_memories"), Some("recall_memories"));
        assert_eq!(tool("lro_extract"), Some("lro_extract"));
        assert_eq!(tool("recall_memories "), None);
    }

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_is_read_as_it_is_written() {
        let parent = TraceParent::read(GOOD, Some(" a=1,b=2 ")).unwrap();
        assert_eq!(parent.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!(parent.span_id, 0xb7ad_6b71_6920_3331);
        assert_eq!((parent.sampled, parent.state.as_deref()), (true, Some("a=1,b=2")));
        let unsampled = GOOD.replace("-01", "-02");
        assert!(!TraceParent::read(&unsampled, None).unwrap().sampled);
        let later = format!("cc-{}-what comes later", &GOOD[3..]);
        assert!(TraceParent::read(&later, None).unwrap().sampled);
    }

    #[test]
    fn what_is_not_exactly_a_parent_is_none() {
        let zero = |range: std::ops::Range<usize>| {
            let mut text = GOOD.to_owned();
            text.replace_range(range.clone(), &"0".repeat(range.len()));
            text
        };
        for wrong in [
            String::new(),
            GOOD.to_uppercase(),
            GOOD.replace("00-", "ff-"),
            GOOD.replace("00-", "0x-"),
            GOOD.replace("-01", "-0g"),
            GOOD.replace("-01", "-+1"),
            GOOD.replace('-', "_"),
            format!("{GOOD}-"),
            format!(" {GOOD}"),
            format!("cc{}x", &GOOD[2..]),
            format!("cc{}-{}", &GOOD[2..], "x".repeat(300)),
            format!("é{}", &GOOD[2..]),
            GOOD[..54].to_owned(),
            zero(3..35),
            zero(36..52),
        ] {
            assert_eq!(TraceParent::read(&wrong, None), None, "{wrong}");
        }
    }

    #[test]
    fn a_state_that_is_too_long_or_no_text_is_dropped_alone() {
        for (state, kept) in [
            ("a=1".to_owned(), true),
            (format!("a={}", "x".repeat(510)), true),
            (format!("a={}", "x".repeat(511)), false),
            ("a=\u{1b}[31m".to_owned(), false),
            ("a=é".to_owned(), false),
            (" ".to_owned(), false),
        ] {
            let parent = TraceParent::read(GOOD, Some(&state)).unwrap();
            assert_eq!(parent.state.is_some(), kept, "{state:?}");
        }
    }
}
