//! Relays messages from the client to the server.

use lro::mcp::{Renamed, Tools};
use lro_wire::edit::Edits;
use lro_wire::protocol::{self, ProtocolGeneration};
use lro_wire::{INVALID_PARAMS, Id, JsonRpcError, Message, Messages};
use serde_json::Value;

use crate::lenient::LenientLine;
use crate::local_tools::LocalToolCall;
use crate::pending::PendingRequest;
use crate::proxy_capability::announce;
use crate::relay::{Forward, FromClient, Relay};
use crate::tool_call::ToolCallInfo;

/// What the relay does with a message of the client.
enum ClientAction {
    AsItCame,
    Changed(String),
    Own(LocalToolCall),
    Refused(String),
}

impl Relay {
    /// A line from the client.
    pub fn from_client(&self, line: &[u8]) -> FromClient {
        let mut out = FromClient { forward: Forward::AsItCame, calls: vec![], replies: vec![] };
        let text = std::str::from_utf8(line).ok().map(|text| text.trim_end_matches(['\r', '\n']));
        if let Some(text) = text
            && let Some(messages) = Messages::read(text)
        {
            self.messages_from_client(text, messages, &mut out);
        } else if let Some(lenient) = LenientLine::parse(line)
            && let Some(messages) = Messages::read(&lenient.text)
        {
            // Also the server's answer to such a message must be known.
            self.messages_from_client(&lenient.text, messages, &mut out);
        }
        // What cannot be read at all is for the server to refuse.
        out
    }

    fn messages_from_client(&self, text: &str, messages: Messages<'_>, out: &mut FromClient) {
        match messages {
            Messages::One(message) => match self.message_from_client(text, &message) {
                ClientAction::AsItCame => {}
                ClientAction::Changed(text) => out.forward = Forward::Changed(text),
                ClientAction::Own(call) => {
                    out.calls.push(call);
                    out.forward = Forward::Nothing;
                }
                ClientAction::Refused(reply) => {
                    out.replies.push(reply);
                    out.forward = Forward::Nothing;
                }
            },
            Messages::Batch(batch) => self.batch_from_client(batch, out),
            _ => {}
        }
    }

    fn batch_from_client(&self, batch: Vec<(&str, Option<Message<'_>>)>, out: &mut FromClient) {
        let mut changed = false;
        let mut rest = Vec::new();
        for (text, message) in batch {
            let action = message.map(|message| self.message_from_client(text, &message));
            match action {
                None | Some(ClientAction::AsItCame) => {
                    rest.push(text.to_owned());
                    continue;
                }
                Some(ClientAction::Changed(text)) => rest.push(text),
                Some(ClientAction::Own(call)) => out.calls.push(call),
                Some(ClientAction::Refused(reply)) => out.replies.push(reply),
            }
            changed = true;
        }
        if rest.is_empty() && changed {
            out.forward = Forward::Nothing;
        } else if changed {
            out.forward = Forward::Changed(format!("[{}]", rest.join(",")));
        }
    }

    fn message_from_client(&self, text: &str, message: &Message<'_>) -> ClientAction {
        let Some(method) = message.method.as_deref() else { return ClientAction::AsItCame };
        if method == "notifications/cancelled" {
            self.cancelled(message);
            return ClientAction::AsItCame;
        }
        let Some(id) = message.id() else { return ClientAction::AsItCame };
        if method == "tools/call"
            && let Some(name) = protocol::tool(message)
            && Tools::is_name(&name)
        {
            return match self.own_call(&id, name.into_owned(), message) {
                Some(call) => ClientAction::Own(call),
                None => ClientAction::Refused(not_offered(&id)),
            };
        }
        let mut edits = Edits::new(text);
        announce(message, &mut edits);
        let mut awaited = awaited(method, message);
        if let PendingRequest::Call(called) = &mut awaited
            // Also for a client that knows the listing from an earlier session.
            && let Some(tool) = Renamed::original(&called.tool).map(ToOwned::to_owned)
            && let Some(name) = message.params().and_then(|params| params.get("name"))
        {
            edits.replace(name.get(), Value::from(tool.as_str()).to_string());
            called.rename(tool);
        }
        if let (PendingRequest::Call(called), Some(passing)) = (&awaited, &self.config.passing)
            // To a tool that asks results a reference is what it takes.
            && !Tools::is_name(&called.tool)
        {
            let schema = self.schema_of(&called.tool);
            let put = passing.put(
                message,
                &mut edits,
                &called.tool,
                schema.as_deref(),
                &self.config.server,
                self.now().now,
            );
            if let Err(refusal) = put {
                let era = ProtocolGeneration::from_request(message).unwrap_or(ProtocolGeneration::Sessions);
                return ClientAction::Refused(refusal.response(&id, era));
            }
        }
        self.state().requests.await_answer(id, awaited);
        if edits.is_empty() {
            ClientAction::AsItCame
        } else {
            ClientAction::Changed(edits.applied().into_owned())
        }
    }

    /// A call of one of our own tools. Their names are reserved, even if the server has a tool of that name: guidance
    /// leads to them. `None` if the tool is not offered here.
    fn own_call(&self, id: &Id, name: String, message: &Message<'_>) -> Option<LocalToolCall> {
        if !self.config.tools.as_ref()?.has(&name) {
            return None;
        }
        let call = LocalToolCall::new(id.clone(), name, message);
        self.state().running.insert(id.key(), (id.clone(), call.cancel.clone()));
        Some(call)
    }

    fn cancelled(&self, message: &Message<'_>) {
        let Some(id) = message.params().and_then(|params| params.get("requestId")) else { return };
        let id = Id::from_raw(id);
        let mut state = self.state();
        if let Some((_, cancel)) = state.running.get(&id.key()) {
            cancel.cancel();
        }
        // A server does not answer what was cancelled.
        state.requests.answered(&id);
    }
}

/// The response to a call of an extraction tool that another MCP server offers.
fn not_offered(id: &Id) -> String {
    let reason = "This server does not offer this tool. Call the tool of this name that the MCP server `atlatl` offers; \
        if there is none, the user has to run `atlatl install`.";
    JsonRpcError::new(INVALID_PARAMS, reason).response(id)
}

/// What the answer to a request will be.
fn awaited(method: &str, message: &Message<'_>) -> PendingRequest {
    let task = || message.params().and_then(|params| Some(params.text("taskId")?.into_owned()));
    match method {
        "initialize" | "server/discover" => PendingRequest::Greeting,
        "tools/list" => {
            PendingRequest::Listing { era: ProtocolGeneration::from_request(message).unwrap_or(ProtocolGeneration::Sessions) }
        }
        "tools/call" => {
            ToolCallInfo::from_message(message).map_or(PendingRequest::Other, PendingRequest::Call)
        }
        "tasks/result" => task().map_or(PendingRequest::Other, PendingRequest::TaskResult),
        "tasks/get" => task().map_or(PendingRequest::Other, PendingRequest::Task),
        _ => PendingRequest::Other,
    }
}
