//! Messages from the client to the server.

use lro::mcp::{PAGE, RenamedTool, SHOW, Tools};
use lro_wire::edit::Edits;
use lro_wire::protocol::{
    AppHost, CLIENT_CAPABILITIES, CLIENT_INFO, EXTENSION, ProtocolGeneration,
};
use lro_wire::{INVALID_PARAMS, Id, JsonRpcError, Message, Messages, Object, protocol};
use serde_json::{Value, json};

use crate::relay::from_server::complete_list;
use crate::relay::lenient::LenientLine;
use crate::relay::local_tools::LocalToolCall;
use crate::relay::pending::{PendingRequest, ToolCallInfo};
use crate::relay::{ClientOutcome, Forward, PageSupport, Relay};

/// The decision on one message of the client.
enum ClientAction {
    Unchanged,
    Changed(String),
    LocalCall(LocalToolCall),
    Reply(String),
}

impl Relay {
    /// Decides on a line from the client.
    pub fn from_client(&self, line: &[u8]) -> ClientOutcome {
        let mut out = ClientOutcome { forward: Forward::Unchanged, calls: vec![], replies: vec![] };
        let text = std::str::from_utf8(line).ok().map(|text| text.trim_end_matches(['\r', '\n']));
        if let Some(text) = text
            && let Some(messages) = Messages::read(text)
        {
            self.messages_from_client(text, messages, &mut out);
        } else if let Some(lenient) = LenientLine::parse(line)
            && let Some(messages) = Messages::read(&lenient.text)
        {
            // The server may accept such a line, so the requests in it become pending too.
            self.messages_from_client(&lenient.text, messages, &mut out);
        }
        // The server rejects a line that cannot be parsed.
        out
    }

    fn messages_from_client(&self, text: &str, messages: Messages<'_>, out: &mut ClientOutcome) {
        match messages {
            Messages::One(message) => match self.message_from_client(text, &message) {
                ClientAction::Unchanged => {}
                ClientAction::Changed(text) => out.forward = Forward::Changed(text),
                ClientAction::LocalCall(call) => {
                    out.calls.push(call);
                    out.forward = Forward::Dropped;
                }
                ClientAction::Reply(reply) => {
                    out.replies.push(reply);
                    out.forward = Forward::Dropped;
                }
            },
            Messages::Batch(batch) => self.batch_from_client(batch, out),
            _ => {}
        }
    }

    fn batch_from_client(&self, batch: Vec<(&str, Option<Message<'_>>)>, out: &mut ClientOutcome) {
        let mut changed = false;
        let mut rest = Vec::new();
        for (text, message) in batch {
            let action = message.map(|message| self.message_from_client(text, &message));
            match action {
                None | Some(ClientAction::Unchanged) => {
                    rest.push(text.to_owned());
                    continue;
                }
                Some(ClientAction::Changed(text)) => rest.push(text),
                Some(ClientAction::LocalCall(call)) => out.calls.push(call),
                Some(ClientAction::Reply(reply)) => out.replies.push(reply),
            }
            changed = true;
        }
        if rest.is_empty() && changed {
            out.forward = Forward::Dropped;
        } else if changed {
            out.forward = Forward::Changed(format!("[{}]", rest.join(",")));
        }
    }

    fn message_from_client(&self, text: &str, message: &Message<'_>) -> ClientAction {
        let Some(method) = message.method.as_deref() else { return ClientAction::Unchanged };
        if method == "notifications/cancelled" {
            self.cancelled(message);
            return ClientAction::Unchanged;
        }
        let Some(id) = message.id() else { return ClientAction::Unchanged };
        let support = self.page_support(message);
        if method == "initialize" {
            let limit = self.client_limit(message);
            let mut state = self.state();
            (state.page_support, state.client_limit) = (support, limit);
        }
        // Whether the client shows the proxy's own page.
        let view = if self.has_view() { support } else { PageSupport::Unsupported };
        if method == "tools/call"
            && let Some(name) = protocol::tool(message)
            && (Tools::is_name(&name)
                || self.config.tools.as_ref().is_some_and(|tools| tools.has(&name)))
        {
            return match self.local_call(&id, &name, message, view.host()) {
                Some(call) => ClientAction::LocalCall(call),
                None => ClientAction::Reply(self.not_offered(&id, &name, support)),
            };
        }
        if method == "resources/read"
            && let Some(page) = view.host().and_then(|_| self.view_page(message))
        {
            return ClientAction::Reply(id.response(&page));
        }
        let mut edits = Edits::new(text);
        announce(message, &mut edits);
        let mut pending = pending_request(method, message, view);
        if let PendingRequest::Call(call) = &mut pending
            // Also for a client that has the listing from an earlier session.
            && let Some(tool) = RenamedTool::original(&call.tool).map(ToOwned::to_owned)
            && let Some(name) = message.params().and_then(|params| params.get("name"))
        {
            edits.replace(name.get(), Value::from(tool.as_str()).to_string());
            call.tool = tool;
        }
        if let PendingRequest::Call(call) = &mut pending {
            call.client_limit = self.client_limit(message);
            call.pass_whole |= self.is_for_page(&call.tool, support);
        }
        if let (PendingRequest::Call(call), Some(passing)) = (&pending, &self.config.passing)
            // An extraction tool takes the reference itself.
            && !Tools::is_name(&call.tool)
        {
            let schema = self.input_schema(&call.tool);
            let resolved = passing.resolve(
                message,
                &mut edits,
                &call.tool,
                schema.as_deref(),
                &self.config.server,
                self.now().now,
            );
            if let Err(error) = resolved {
                let protocol = ProtocolGeneration::from_request(message)
                    .unwrap_or(ProtocolGeneration::Sessions);
                return ClientAction::Reply(error.response(&id, protocol));
            }
        }
        self.state().requests.insert(id, pending);
        if edits.is_empty() {
            ClientAction::Unchanged
        } else {
            ClientAction::Changed(edits.applied().into_owned())
        }
    }

    /// Registers a call of an extraction tool. Their names are reserved, even if the server has a tool of
    /// that name, because guidance refers to them. Returns `None` if the tool is not offered here.
    fn local_call(
        &self,
        id: &Id,
        name: &str,
        message: &Message<'_>,
        host: Option<AppHost>,
    ) -> Option<LocalToolCall> {
        let tools = self.config.tools.as_ref()?;
        // Not if it is unknown whether the client shows pages: then the tools were not listed, and a client
        // might let a page of the server's call them.
        let is_in_view = host.is_some() && tools.has_in_view(name);
        if !tools.has(name) && !is_in_view {
            return None;
        }
        let call = LocalToolCall::new(id.clone(), name.to_owned(), message);
        self.state().local_calls.insert(id.key(), (id.clone(), call.cancel.clone()));
        Some(call)
    }

    /// The response to a call of a reserved name that the proxy does not offer to this client.
    fn not_offered(&self, id: &Id, name: &str, support: PageSupport) -> String {
        let is_for_tables = name == SHOW || name == PAGE;
        let is_offered_elsewhere = self.config.tools.is_none() && support.is_possible();
        let reason = if is_for_tables && !is_offered_elsewhere {
            "Tables cannot be shown in this session. Query the result with `lro_extract`; the user can look at it \
             with `atlatl results open`."
        } else {
            "This server does not offer this tool. Call the tool of this name that the MCP server `atlatl` offers; \
             if there is none, the user has to run `atlatl install`."
        };
        JsonRpcError::new(INVALID_PARAMS, reason).response(id)
    }

    /// The page of the view, if `message` reads it.
    fn view_page(&self, message: &Message<'_>) -> Option<Value> {
        let uri = message.params()?.text("uri")?;
        let mut page = self.config.tools.as_ref()?.view_resource(&uri)?;
        if ProtocolGeneration::from_request(message) == Some(ProtocolGeneration::Stateless) {
            complete_list(&mut page);
        }
        Some(page)
    }

    fn cancelled(&self, message: &Message<'_>) {
        let Some(id) = message.params().and_then(|params| params.get("requestId")) else { return };
        let id = Id::from_raw(id);
        let mut state = self.state();
        if let Some((_, cancel)) = state.local_calls.get(&id.key()) {
            cancel.cancel();
        }
        // A server does not answer a cancelled request.
        state.requests.complete(&id);
    }
}

/// Classifies a request by the response that it expects.
fn pending_request(method: &str, message: &Message<'_>, view: PageSupport) -> PendingRequest {
    let protocol =
        || ProtocolGeneration::from_request(message).unwrap_or(ProtocolGeneration::Sessions);
    let task = || message.params().and_then(|params| Some(params.text("taskId")?.into_owned()));
    match method {
        "initialize" => PendingRequest::Initialize,
        "server/discover" => PendingRequest::Discover { host: view.host() },
        "tools/list" => PendingRequest::ToolList { protocol: protocol(), host: view.host() },
        // Also of a client that got the capability from another relay.
        "resources/list" if view.is_possible() => {
            PendingRequest::ResourceList { protocol: protocol(), member: "resources" }
        }
        "resources/templates/list" if view.is_possible() => {
            PendingRequest::ResourceList { protocol: protocol(), member: "resourceTemplates" }
        }
        "tools/call" => {
            ToolCallInfo::from_message(message).map_or(PendingRequest::Other, PendingRequest::Call)
        }
        "tasks/result" => task().map_or(PendingRequest::Other, PendingRequest::TaskResult),
        "tasks/get" => task().map_or(PendingRequest::Other, PendingRequest::Task),
        _ => PendingRequest::Other,
    }
}

/// Adds the proxy signals to a request (Spec P6). Adds nothing to a missing object: a client that does
/// not identify itself stays anonymous.
fn announce(message: &Message<'_>, edits: &mut Edits<'_>) {
    let (Some(protocol), Some(params)) =
        (ProtocolGeneration::from_request(message), message.params())
    else {
        return;
    };
    let (info, capabilities, under) = if protocol == ProtocolGeneration::Sessions {
        (params.get("clientInfo"), params.get("capabilities"), "experimental")
    } else {
        let Some(meta) = params.at(&["_meta"]) else { return };
        (meta.get(CLIENT_INFO), meta.get(CLIENT_CAPABILITIES), "extensions")
    };
    let patches = [
        (info, json!({"proxy": true})),
        (capabilities, json!({under: {EXTENSION: {"proxy": true}}})),
    ];
    for (object, patch) in patches {
        if let (Some(object), Value::Object(patch)) = (object, &patch)
            && Object::read(object.get()).is_some()
        {
            edits.merge(object.get(), patch);
        }
    }
}
