//! Pending requests, the metadata of tool calls, and the calls behind tasks.

use std::collections::{HashMap, VecDeque};

use lro::{CallArguments, ToolCall};
use lro_core::{ClientLimit, Detail, Operation};
use lro_wire::protocol::{self, AppHost, ProtocolGeneration};
use lro_wire::{Id, IdKey, Message};
use serde_json::value::RawValue;

/// The number of completed calls that are remembered.
const MAX_COMPLETED_CALLS: usize = 64;
/// The number of tasks that are remembered; a server may never finish its tasks.
const MAX_TASKS: usize = 4096;

/// A request that the server has not answered yet, by the kind of its response.
#[derive(Debug)]
pub(crate) enum PendingRequest {
    /// `initialize`.
    Initialize,
    /// `server/discover`.
    Discover { host: Option<AppHost> },
    /// `tools/list`.
    ToolList { protocol: ProtocolGeneration, host: Option<AppHost> },
    /// `resources/list` or `resources/templates/list` of a client that may show the proxy's page.
    ResourceList { protocol: ProtocolGeneration, member: &'static str },
    /// `tools/call`.
    Call(ToolCallInfo),
    /// `tasks/result` (2025-11-25): a finished task's result.
    TaskResult(String),
    /// `tasks/get`: the state of a task, which may contain its result (2026-07-28).
    Task(String),
    /// A request whose response is not inspected.
    Other,
}

/// All pending requests of a conversation.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    pending: HashMap<IdKey, (Id, PendingRequest, Serial)>,
    last_serial: u64,
    /// Calls that were answered recently: a resumed stream may repeat the response.
    completed: VecDeque<(IdKey, ToolCallInfo)>,
}

/// Distinguishes requests with the same id, since a client may reuse the id of an answered request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Serial(u64);

impl PendingRequests {
    pub(crate) fn insert(&mut self, id: Id, request: PendingRequest) {
        self.last_serial += 1;
        self.pending.insert(id.key(), (id, request, Serial(self.last_serial)));
    }

    /// The serial number of the request with this `id`.
    pub(crate) fn serial(&self, id: &Id) -> Option<Serial> {
        self.pending.get(&id.key()).map(|(_, _, serial)| *serial)
    }

    /// Removes and returns the request with this `id`.
    pub(crate) fn complete(&mut self, id: &Id) -> Option<PendingRequest> {
        let (_, request, _) = self.pending.remove(&id.key())?;
        if let PendingRequest::Call(call) = &request {
            if self.completed.len() == MAX_COMPLETED_CALLS {
                self.completed.pop_front();
            }
            self.completed.push_back((id.key(), call.clone()));
        }
        Some(request)
    }

    /// The recently completed call with this `id`.
    pub(crate) fn recently_completed(&self, id: &Id) -> Option<ToolCallInfo> {
        let key = id.key();
        let latest = self.completed.iter().rev().find(|(completed, _)| *completed == key);
        latest.map(|(_, call)| call.clone())
    }

    /// Removes all requests and returns their ids.
    pub(crate) fn take_all(&mut self) -> Vec<Id> {
        self.pending.drain().map(|(_, (id, _, _))| id).collect()
    }
}

/// Metadata of a `tools/call`, kept until its result arrives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolCallInfo {
    pub(crate) tool: String,
    pub(crate) query: Option<String>,
    pub(crate) detail: Option<Detail>,
    /// Whether the result is never offloaded: the call continues a list of memories by a cursor (Spec
    /// A4: a descriptor has no cursor), a program reads it (g24), or a page of the server's does.
    pub(crate) pass_whole: bool,
    pub(crate) arguments: Option<CallArguments>,
    /// The id of the request.
    pub(crate) correlation: Option<String>,
    /// How much of a large result the client would show.
    pub(crate) client_limit: Option<ClientLimit>,
}

impl ToolCallInfo {
    /// The metadata of `message`; `None` if it names no tool.
    pub(crate) fn from_message(message: &Message<'_>) -> Option<Self> {
        let params = message.params()?;
        let tool = params.text("name")?.into_owned();
        let arguments = params.at(&["arguments"]);
        let text = |name: &str| arguments.as_ref().and_then(|arguments| arguments.text(name));
        let detail = text("detail").and_then(|detail| match &*detail {
            "light" => Some(Detail::Light),
            "medium" => Some(Detail::Medium),
            "full" => Some(Detail::Full),
            _ => None,
        });
        let continuation = Operation::from_tool(&tool).is_memory() && text("cursor").is_some();
        let query = text("query").map(Into::into);
        let json = message.params()?.get("arguments").map_or("{}", RawValue::get);
        Some(Self {
            tool,
            query,
            detail,
            pass_whole: continuation || protocol::is_program(message),
            arguments: Some(CallArguments::new(json)),
            correlation: message.id().map(|id| id.to_string()),
            client_limit: None,
        })
    }

    /// The call in the offloader's form.
    pub(crate) fn call<'a>(&'a self, server: &'a str) -> ToolCall<'a> {
        ToolCall {
            server: Some(server),
            query: self.query.as_deref(),
            detail: self.detail,
            arguments: self.arguments.as_ref(),
            correlation: self.correlation.as_deref(),
            client_limit: self.client_limit,
            ..ToolCall::new(&self.tool)
        }
    }
}

/// Maps the most recent tasks to the calls that created them.
#[derive(Debug, Default)]
pub(crate) struct TaskTable {
    calls: HashMap<String, ToolCallInfo>,
    order: VecDeque<String>,
}

impl TaskTable {
    /// Records that `call` created the task `id`.
    pub(crate) fn insert(&mut self, id: &str, call: ToolCallInfo) {
        if self.calls.insert(id.to_owned(), call).is_none() {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > MAX_TASKS
            && let Some(oldest) = self.order.pop_front()
        {
            self.calls.remove(&oldest);
        }
    }

    /// The call that created a task. After a restart the tool is unknown (Spec P5), but the result may
    /// still be large.
    pub(crate) fn call_for(&self, id: &str) -> ToolCallInfo {
        let unknown = || ToolCallInfo { tool: "task".to_owned(), ..ToolCallInfo::default() };
        self.calls.get(id).cloned().unwrap_or_else(unknown)
    }
}
