//! Messages too large for memory, read from a spill buffer.

use std::ops::Range;

use lro::SpillBuffer;
use lro::mcp::{LongChanges, mark_long_lookalike};
use lro_core::outline::{Form, Node};
use lro_core::payload::{self, Payload};
use lro_wire::{INTERNAL_ERROR, Id, JsonRpcError};
use serde_json::value::RawValue;

use crate::pending::PendingRequest;
use crate::relay::Relay;
use crate::tool_call::ToolCallInfo;

/// What we look into: the message, what it carries, and the blocks of a tool result.
fn enter(path: &[&str]) -> bool {
    match path {
        [] | ["result" | "params"] => true,
        // A task of 2026-07-28 holds the result one level down.
        ["result", rest @ ..] | ["params", "result", rest @ ..] => {
            matches!(rest, [] | ["content" | "structuredContent"] | ["content", ""])
                || matches!(
                    rest,
                    ["result"]
                        | ["result", "content" | "structuredContent"]
                        | ["result", "content", ""]
                )
        }
        _ => false,
    }
}

impl Relay {
    /// A long line from the client. It goes on as it came; what it asks for is remembered.
    pub fn long_from_client(&self, message: &SpillBuffer) {
        let Some(root) = outline(message) else { return };
        let (Some(id), Some(method)) = (id(message, &root), root.text("method")) else { return };
        let awaited = match (method, root.get("params").and_then(|params| params.text("name"))) {
            ("tools/call", Some(tool)) => PendingRequest::Call(ToolCallInfo {
                tool: tool.to_owned(),
                ..ToolCallInfo::default()
            }),
            _ => PendingRequest::Other,
        };
        self.state().requests.await_answer(id, awaited);
    }

    /// A long line from the server: what to put in the place of which of its ranges; `None` where
    /// nothing goes on.
    pub fn long_from_server(&self, message: &SpillBuffer) -> Option<LongChanges> {
        // Not JSON: no message, and far too long for a line of a log.
        let root = outline(message)?;
        let answers = id(message, &root).filter(|_| root.get("method").is_none());
        let awaited = answers.as_ref().and_then(|id| self.state().requests.answered(id));
        if root.get("method").is_none() && awaited.is_none() {
            return None;
        }
        if let (Some(id), Some(PendingRequest::Greeting | PendingRequest::Listing { .. })) =
            (&answers, &awaited)
        {
            // Too long to be inspected, and such a response must be.
            let failure = JsonRpcError::new(INTERNAL_ERROR, "the server's response is too large");
            return Some(vec![(root.range.clone(), failure.response(id))]);
        }
        Some(self.long_message(message, &root, awaited).unwrap_or_default())
    }

    fn long_message(
        &self,
        message: &SpillBuffer,
        root: &Node,
        awaited: Option<PendingRequest>,
    ) -> Option<LongChanges> {
        if let Some(method) = root.text("method") {
            let params = root.get("params")?;
            if method != "notifications/tasks" {
                return None;
            }
            return self.long_task(params.text("taskId")?, message, params.get("result")?);
        }
        let awaited = awaited?;
        let result = root.get("result")?;
        match awaited {
            PendingRequest::Call(called) => self.long_result(&called, message, result),
            PendingRequest::TaskResult(task) => self.long_task(&task, message, result),
            PendingRequest::Task(task) => self.long_task(&task, message, result.get("result")?),
            _ => None,
        }
    }

    fn long_task(&self, task: &str, message: &SpillBuffer, result: &Node) -> Option<LongChanges> {
        let called = self.known().tasks.call_of(task);
        self.long_result(&called, message, result)
    }

    fn long_result(
        &self,
        called: &ToolCallInfo,
        message: &SpillBuffer,
        result: &Node,
    ) -> Option<LongChanges> {
        let interceptor = &self.config.interceptor;
        let call = called.call(&self.config.server);
        // Spec A4: a page that a cursor leads to is never offloaded.
        let changes = (!called.continuation)
            .then(|| interceptor.long_result(call, message, result, self.now()))
            .flatten();
        changes.or_else(|| mark_long_lookalike(message, result, self.notice_in(&called.tool)))
    }
}

/// The id of a long message, and where it stands.
pub(crate) struct LongId {
    pub(crate) id: Id,
    pub(crate) at: Range<u64>,
    /// Whether it is that of a request, not of an answer.
    pub(crate) asks: bool,
}

impl LongId {
    pub(crate) fn parse(message: &SpillBuffer) -> Option<Self> {
        let root = outline(message)?;
        let at = root.get("id")?.range.clone();
        Some(Self { id: id(message, &root)?, at, asks: root.get("method").is_some() })
    }
}

fn outline(message: &SpillBuffer) -> Option<Node> {
    // What cannot be read any more is noticed when it is written on.
    Node::parse(message, enter).ok().flatten().filter(|root| root.form == Form::Object)
}

fn id(message: &SpillBuffer, root: &Node) -> Option<Id> {
    let range = root.get("id")?.range.clone();
    // No id is that long.
    let json =
        payload::part(message as &dyn Payload, range.start..range.end.min(range.start + 4096));
    let raw: Box<RawValue> = serde_json::from_slice(&json.ok()?).ok()?;
    Some(Id::from_raw(&raw))
}
