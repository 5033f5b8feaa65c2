//! The record of a request: its span, its outcome, and W3C Trace Context.
//!
//! Names and values of a span are static strings or numbers by type, so that no text of a client, a memory
//! or a file can become part of it.
//!
//! A `traceparent` comes from outside: anything but the exact form is ignored.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lro::mcp::Tools;
use lro_wire::{
    HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, JsonRpcError,
    METHOD_NOT_FOUND, MISSING_CAPABILITY, Message, PARSE_ERROR, UNSUPPORTED_VERSION,
};
use tracing::field::Empty;
use tracing::{Span, info_span};

use super::tools::Tool;

/// The target of the spans and lines of requests.
pub const TARGET: &str = "atlatl::request";
/// The attribute with the form of delivery.
pub(crate) const DELIVERY: &str = "atlatl.delivery";
/// OpenTelemetry's placeholder for an unknown value.
const OTHER: &str = "_OTHER";
/// The maximum length of `tracestate`. A longer one is dropped, as its specification allows.
const MAX_TRACESTATE_LEN: usize = 512;
/// The length of version 00. Later versions may append more after a dash.
const TRACEPARENT_LEN: usize = 55;
const MAX_TRACEPARENT_LEN: usize = 256;

/// Makes a span the child of a client's span. The program sets it if it exports spans.
pub type SetParent = fn(&Span, &TraceParent);

/// What the log and the metrics say of a request, as far as its handlers know it.
#[derive(Debug, Default)]
pub(crate) struct RequestFacts {
    /// The id of the request.
    pub(crate) id: OnceLock<String>,
    pub(crate) tenant: OnceLock<String>,
    pub(crate) tool: OnceLock<&'static str>,
    pub(crate) outcome: OnceLock<&'static str>,
}

/// The name of a request: its method, and the tool if it calls a known one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestName {
    /// The method, or `_OTHER` for an unknown one.
    method: &'static str,
    tool: Option<&'static str>,
}

impl RequestName {
    fn from_message(message: &Message<'_>) -> Self {
        let method = method(message.method.as_deref().unwrap_or_default());
        let called = (method == "tools/call").then(|| lro_wire::meta::tool(message)).flatten();
        Self { method, tool: called.and_then(|name| tool(&name)) }
    }
}

/// The span of a request or of a part of it. Cheap to clone. It ends with its last clone.
#[derive(Clone)]
pub(crate) struct RequestSpan {
    span: Span,
    facts: Arc<RequestFacts>,
    /// The attributes that are set: the first value of each is kept.
    recorded: Arc<Mutex<Vec<&'static str>>>,
}

impl Default for RequestSpan {
    fn default() -> Self {
        Self { span: Span::none(), facts: Arc::default(), recorded: Arc::default() }
    }
}

/// The value of an attribute.
pub(crate) enum AttrValue {
    /// A static string.
    Word(&'static str),
    /// A number.
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

impl RequestSpan {
    /// Starts the span of `message`. `parent` is evaluated only if spans are exported.
    pub(crate) fn request(
        set_parent: Option<SetParent>,
        facts: &Arc<RequestFacts>,
        message: &Message<'_>,
        parent: impl FnOnce() -> Option<TraceParent>,
    ) -> Self {
        let name = RequestName::from_message(message);
        let _ = facts.tool.set(name.tool.unwrap_or(name.method));
        let span = info_span!(
            target: TARGET,
            "request",
            otel.name = Empty,
            otel.kind = "server",
            otel.status_code = Empty,
            rpc.system.name = "jsonrpc",
            rpc.response.status_code = Empty,
            mcp.method.name = name.method,
            gen_ai.tool.name = name.tool,
            "error.type" = Empty,
            atlatl.era = Empty,
            atlatl.delivery = Empty,
            atlatl.result.count = Empty,
            atlatl.result.total_matches = Empty,
        );
        if !span.is_disabled() {
            match name.tool {
                Some(tool) => span.record("otel.name", format!("{} {tool}", name.method).as_str()),
                None => span.record("otel.name", name.method),
            };
            if let Some(set_parent) = set_parent
                && let Some(parent) = parent()
            {
                set_parent(&span, &parent);
            }
        }
        Self { span, facts: Arc::clone(facts), recorded: Arc::default() }
    }

    /// Starts the child span around access to the store, which ends on drop.
    pub(crate) fn store(&self) -> Self {
        let span = info_span!(
            target: TARGET,
            parent: &self.span,
            "store",
            otel.status_code = Empty,
            "error.type" = Empty
        );
        self.part(span)
    }

    /// Starts the child span around the decision on a result and its storage.
    pub(crate) fn intercept(&self) -> Self {
        let span = info_span!(
            target: TARGET,
            parent: &self.span,
            "intercept",
            otel.status_code = Empty,
            "error.type" = Empty
        );
        self.part(span)
    }

    /// Starts the child span around a query of a stored result.
    pub(crate) fn extract(&self) -> Self {
        self.part(info_span!(target: TARGET, parent: &self.span, "extract"))
    }

    /// A failure of a part is not yet one of the request.
    fn part(&self, span: Span) -> Self {
        let span = if self.span.is_disabled() { Span::none() } else { span };
        Self { span, facts: Arc::default(), recorded: Arc::default() }
    }

    /// Sets an attribute, unless it has a value.
    pub(crate) fn say(&self, key: &'static str, value: impl Into<AttrValue>) {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.contains(&key) {
            return;
        }
        recorded.push(key);
        match value.into() {
            AttrValue::Word(word) => self.span.record(key, word),
            AttrValue::Count(count) => self.span.record(key, count),
        };
    }

    /// Marks the span as failed, with an error class.
    pub(crate) fn fail(&self, class: &'static str) {
        // The first one is kept.
        let _ = self.facts.outcome.set(class);
        self.say("error.type", class);
        self.say("otel.status_code", "ERROR");
    }

    /// Marks the request as failed with a protocol error.
    pub(crate) fn refuse(&self, failure: &JsonRpcError) {
        self.say("rpc.response.status_code", code(failure));
        self.fail(code(failure));
    }
}

/// The methods of both protocol generations.
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

/// Returns a known method, or `_OTHER`.
pub(crate) fn method(from_name: &str) -> &'static str {
    METHODS.into_iter().find(|known| *known == from_name).unwrap_or(OTHER)
}

/// Returns a known tool.
pub(crate) fn tool(from_name: &str) -> Option<&'static str> {
    Tool::from_name(from_name).map(Tool::name).or_else(|| Tools::named(from_name))
}

/// Returns the error code as text.
pub(crate) fn code(failure: &JsonRpcError) -> &'static str {
    match failure.code {
        PARSE_ERROR => "-32700",
        INVALID_REQUEST => "-32600",
        METHOD_NOT_FOUND => "-32601",
        INVALID_PARAMS => "-32602",
        INTERNAL_ERROR => "-32603",
        HEADER_MISMATCH => "-32020",
        MISSING_CAPABILITY => "-32021",
        UNSUPPORTED_VERSION => "-32022",
        _ => OTHER,
    }
}

/// The parent span of a request, from the client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceParent {
    /// The trace id, never 0.
    pub trace_id: u128,
    /// The span id, never 0.
    pub span_id: u64,
    /// Whether the client samples the trace.
    pub sampled: bool,
    /// The vendor state: visible ASCII of at most 512 bytes, otherwise unchanged.
    pub state: Option<String>,
}

impl TraceParent {
    /// Parses `traceparent`, and `tracestate` if it is usable. Returns `None` if `traceparent` is
    /// not valid.
    pub fn read(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        if !traceparent.is_ascii()
            || !(TRACEPARENT_LEN..=MAX_TRACEPARENT_LEN).contains(&traceparent.len())
        {
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

/// Parses a lowercase hexadecimal number with exactly this many digits.
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
            PARSE_ERROR,
            INVALID_REQUEST,
            METHOD_NOT_FOUND,
            INVALID_PARAMS,
            INTERNAL_ERROR,
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
