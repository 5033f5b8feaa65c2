//! Messages too large for memory: spilling them to the spool, and editing them there.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use lro::SpillBuffer;
use lro::mcp::{RangeEdits, mark_large_lookalike};
use lro_core::outline::{Node, OutlineKind};
use lro_core::payload;
use lro_core::payload::Payload;
use lro_spool::Spool;
use lro_wire::{INTERNAL_ERROR, Id, JsonRpcError, LongLine};
use serde_json::value::RawValue;

use crate::relay::Relay;
use crate::relay::pending::{PendingRequest, ToolCallInfo};

/// The longest line in bytes.
const MAX_LINE_LEN: u64 = 4 << 30;
/// A line up to this size, in bytes, stays in memory.
const SPILL_THRESHOLD_LEN: usize = 48 << 20;
/// The memory that a line may take, in bytes, if the disk is full.
const MAX_MEMORY_LEN: usize = 96 << 20;

/// A line exceeds the limits.
#[derive(Debug)]
pub(crate) struct LineTooLong;

/// A long line that is spilled while it arrives.
pub(crate) struct LineSpill {
    buffer: SpillBuffer,
    spool: Arc<dyn Spool>,
}

impl LineSpill {
    pub(crate) fn new(spool: Arc<dyn Spool>) -> Self {
        Self { buffer: SpillBuffer::new(SPILL_THRESHOLD_LEN), spool }
    }

    /// Appends the next chunk.
    pub(crate) fn append(&mut self, chunk: &[u8]) -> Result<(), LineTooLong> {
        self.buffer.append(chunk, &*self.spool);
        if self.buffer.bytes() > MAX_LINE_LEN || self.buffer.memory_bytes() > MAX_MEMORY_LEN {
            return Err(LineTooLong);
        }
        Ok(())
    }

    /// The complete line.
    pub(crate) fn into_buffer(self) -> SpillBuffer {
        self.buffer
    }
}

/// Reads a line to its end. Returns `None` if it exceeds the limits.
pub(crate) fn spill_line<R: Read>(mut line: LongLine<'_, R>, relay: &Relay) -> Option<SpillBuffer> {
    let mut spill = LineSpill::new(relay.spool());
    // A stream that ends within a line ends the line.
    while let Ok(Some(chunk)) = line.next_chunk() {
        spill.append(chunk).ok()?;
    }
    Some(spill.into_buffer())
}

/// Which objects the outline enters: the message, its result or parameters, and the blocks of a tool
/// result.
fn enter(path: &[&str]) -> bool {
    match path {
        [] | ["result" | "params"] => true,
        // The state of a task (2026-07-28) contains the result one level down.
        ["result", rest @ ..] | ["params", "result", rest @ ..] => {
            let inside = if let ["result", inside @ ..] = rest { inside } else { rest };
            matches!(
                inside,
                [] | ["content" | "structuredContent"]
                    | ["content", ""]
                    | ["content", "", "resource"]
            )
        }
        _ => false,
    }
}

impl Relay {
    /// Registers an oversize request from the client, which is forwarded unchanged.
    pub fn oversize_from_client(&self, message: &SpillBuffer) {
        let Some(root) = outline(message) else { return };
        let (Some(id), Some(method)) = (id(message, &root), root.text("method")) else { return };
        let pending = match (method, root.get("params").and_then(|params| params.text("name"))) {
            ("tools/call", Some(tool)) => {
                let (client_limit, support) = {
                    let state = self.state();
                    (state.client_limit, state.page_support)
                };
                PendingRequest::Call(ToolCallInfo {
                    tool: tool.to_owned(),
                    pass_whole: self.is_for_page(tool, support),
                    client_limit,
                    ..ToolCallInfo::default()
                })
            }
            _ => PendingRequest::Other,
        };
        self.state().requests.insert(id, pending);
    }

    /// Decides on an oversize line from the server. Returns the replacements of its ranges, or `None` to
    /// drop it.
    pub fn oversize_from_server(&self, message: &SpillBuffer) -> Option<RangeEdits> {
        // Not JSON, and far too long for log output.
        let root = outline(message)?;
        let answers = id(message, &root).filter(|_| root.get("method").is_none());
        let pending = answers.as_ref().and_then(|id| self.state().requests.complete(id));
        if root.get("method").is_none() && pending.is_none() {
            return None;
        }
        if let (
            Some(id),
            Some(
                PendingRequest::Initialize
                | PendingRequest::Discover { .. }
                | PendingRequest::ToolList { .. },
            ),
        ) = (&answers, &pending)
        {
            // Such a response must be inspected, and is too long for it.
            let error = JsonRpcError::new(INTERNAL_ERROR, "the server's response is too large");
            return Some(vec![(root.range.clone(), error.response(id))]);
        }
        Some(self.oversize_message(message, &root, pending).unwrap_or_default())
    }

    fn oversize_message(
        &self,
        message: &SpillBuffer,
        root: &Node,
        pending: Option<PendingRequest>,
    ) -> Option<RangeEdits> {
        if let Some(method) = root.text("method") {
            let params = root.get("params")?;
            if method != "notifications/tasks" {
                return None;
            }
            return self.oversize_task(params.text("taskId")?, message, params.get("result")?);
        }
        let pending = pending?;
        let result = root.get("result")?;
        match pending {
            PendingRequest::Call(call) => self.oversize_result(&call, message, result),
            PendingRequest::TaskResult(task) => self.oversize_task(&task, message, result),
            PendingRequest::Task(task) => self.oversize_task(&task, message, result.get("result")?),
            _ => None,
        }
    }

    fn oversize_task(
        &self,
        task: &str,
        message: &SpillBuffer,
        result: &Node,
    ) -> Option<RangeEdits> {
        let call = self.catalog().tasks.call_for(task);
        self.oversize_result(&call, message, result)
    }

    fn oversize_result(
        &self,
        info: &ToolCallInfo,
        message: &SpillBuffer,
        result: &Node,
    ) -> Option<RangeEdits> {
        let interceptor = &self.config.interceptor;
        let call = info.call(&self.config.server);
        let changes = (!info.pass_whole)
            .then(|| interceptor.long_result(call, message, result, self.now()))
            .flatten();
        changes.or_else(|| mark_large_lookalike(message, result, self.notice_in(&info.tool)))
    }
}

/// The id of an oversize message and its position.
pub(crate) struct OversizeId {
    pub(crate) id: Id,
    pub(crate) range: Range<u64>,
    /// Whether the message is a request and not a response.
    pub(crate) is_request: bool,
}

impl OversizeId {
    pub(crate) fn parse(message: &SpillBuffer) -> Option<Self> {
        let root = outline(message)?;
        let range = root.get("id")?.range.clone();
        Some(Self { id: id(message, &root)?, range, is_request: root.get("method").is_some() })
    }
}

fn outline(message: &SpillBuffer) -> Option<Node> {
    // A read error shows again when the message is written.
    Node::parse(message, enter).ok().flatten().filter(|root| root.form == OutlineKind::Object)
}

fn id(message: &SpillBuffer, root: &Node) -> Option<Id> {
    let range = root.get("id")?.range.clone();
    // An id is never longer than this.
    let json =
        payload::part(message as &dyn Payload, range.start..range.end.min(range.start + 4096));
    let raw: Box<RawValue> = serde_json::from_slice(&json.ok()?).ok()?;
    Some(Id::from_raw(&raw))
}
