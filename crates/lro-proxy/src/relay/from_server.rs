//! Messages from the server to the client.

use lro::mcp::{
    ListingOptions, NoticeIn, RenamedTool, ToolsPage, mark_error_lookalike, mark_lookalike,
};
use lro_wire::edit::Edits;
use lro_wire::protocol::{AppHost, ProtocolGeneration};
use lro_wire::{METHOD_NOT_FOUND, Message, Messages, Object};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::relay::lenient::{LenientLine, looks_like_json};
use crate::relay::pending::{PendingRequest, ToolCallInfo};
use crate::relay::{Forward, Relay};

/// Whether a result may be stored and replaced by its descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MayOffload {
    Yes,
    No,
}

impl Relay {
    /// Decides on a line from the server.
    pub fn from_server(&self, line: &[u8]) -> Forward {
        if self.state().closed {
            return Forward::Dropped;
        }
        if let Ok(text) = std::str::from_utf8(line) {
            let text = text.trim_end_matches(['\r', '\n']);
            if let Some(messages) = Messages::read(text) {
                return self.messages_from_server(text, messages, MayOffload::Yes);
            }
        }
        if let Some(lenient) = LenientLine::parse(line)
            && let Some(messages) = Messages::read(&lenient.text)
        {
            // The normalized text differs from the original, so nothing of it is stored.
            return match self.messages_from_server(&lenient.text, messages, MayOffload::No) {
                Forward::Unchanged if lenient.ambiguous => Forward::Changed(lenient.text),
                forward => forward,
            };
        }
        if self.is_strict() || looks_like_json(line) {
            return Forward::Dropped;
        }
        // Log output: no client reads it as a message.
        Forward::Unchanged
    }

    fn messages_from_server(
        &self,
        text: &str,
        messages: Messages<'_>,
        may_offload: MayOffload,
    ) -> Forward {
        match messages {
            Messages::One(message) => {
                let pending = self.take(&message);
                if self.is_unsolicited(&message, pending.as_ref()) {
                    return Forward::Dropped;
                }
                Forward::from_change(self.message_from_server(text, &message, pending, may_offload))
            }
            Messages::Batch(batch) => {
                let (count, mut forwarded) = (batch.len(), Vec::new());
                for (text, message) in batch {
                    let Some(message) = message else {
                        forwarded.push((text, None));
                        continue;
                    };
                    let pending = self.take(&message);
                    if !self.is_unsolicited(&message, pending.as_ref()) {
                        forwarded.push((
                            text,
                            self.message_from_server(text, &message, pending, may_offload),
                        ));
                    }
                }
                if forwarded.len() < count {
                    return remaining_batch(&forwarded);
                }
                let mut edits = Edits::new(text);
                for (text, changed) in forwarded {
                    if let Some(changed) = changed {
                        edits.replace(text, changed);
                    }
                }
                Forward::from_change((!edits.is_empty()).then(|| edits.applied().into_owned()))
            }
            // A form of line that this version does not know.
            _ => Forward::Dropped,
        }
    }

    /// Whether `message` answers no pending request. It could forge the response to the client's next
    /// request or to one that Atlatl answers itself.
    fn is_unsolicited(&self, message: &Message<'_>, pending: Option<&PendingRequest>) -> bool {
        message.method.is_none() && pending.is_none() && (message.id.is_some() || self.is_strict())
    }

    /// Takes the pending request that `message` answers. Unless the relay is strict, a second response to
    /// the same call returns the call again.
    fn take(&self, message: &Message<'_>) -> Option<PendingRequest> {
        let id = message.id().filter(|_| message.method.is_none())?;
        let mut state = self.state();
        let pending = state.requests.complete(&id);
        match pending {
            None if !self.is_strict() => {
                state.requests.recently_completed(&id).map(PendingRequest::Call)
            }
            pending => pending,
        }
    }

    /// Returns the changed text of one message; `None` to forward the original.
    fn message_from_server(
        &self,
        text: &str,
        message: &Message<'_>,
        pending: Option<PendingRequest>,
        may_offload: MayOffload,
    ) -> Option<String> {
        if let Some(method) = &message.method {
            return match (&**method, message.params) {
                ("notifications/tasks", Some(params)) => {
                    let id = message.params()?.text("taskId")?;
                    Some(spliced(text, params, self.task_state(&id, params.get(), may_offload)?))
                }
                _ => None,
            };
        }
        let pending = pending?;
        let Some(result) = message.result else {
            return self
                .empty_list(message, &pending)
                .or_else(|| marked_error(text, message, &pending));
        };
        let changed = match pending {
            PendingRequest::Call(call) => self.call_result(call, result.get(), may_offload),
            PendingRequest::ToolList { host, .. } => self.tool_list(result.get(), host),
            PendingRequest::Initialize => self.handshake(result.get(), self.session_host()),
            PendingRequest::Discover { host } => self.handshake(result.get(), host),
            PendingRequest::TaskResult(task) => {
                let call = self.catalog().tasks.call_for(&task);
                self.intercept(&call, result.get(), may_offload)
            }
            PendingRequest::Task(task) => self.task_state(&task, result.get(), may_offload),
            PendingRequest::ResourceList { .. } | PendingRequest::Other => None,
        };
        Some(spliced(text, result, changed?))
    }

    /// Handles the result of a call. Spec A3: if it is a task, the task is recorded and its result
    /// intercepted later.
    fn call_result(
        &self,
        call: ToolCallInfo,
        result: &str,
        may_offload: MayOffload,
    ) -> Option<String> {
        if let Some(task) = created_task(result) {
            self.catalog().tasks.insert(&task, call);
            return None;
        }
        self.intercept(&call, result, may_offload)
    }

    fn intercept(
        &self,
        call: &ToolCallInfo,
        result: &str,
        may_offload: MayOffload,
    ) -> Option<String> {
        let interceptor = &self.config.interceptor;
        let replacement = (!call.pass_whole && may_offload == MayOffload::Yes)
            .then(|| interceptor.result(call.call(&self.config.server), result, self.now()))
            .flatten();
        replacement.or_else(|| mark_lookalike(result, self.notice_in(&call.tool)))
    }

    /// Which parts of a result of `tool` may contain a notice.
    pub(crate) fn notice_in(&self, tool: &str) -> NoticeIn {
        // The listing widened its output schema, if it has one.
        if self.config.interceptor.may_replace(tool) {
            NoticeIn::TextAndStructured
        } else {
            NoticeIn::Text
        }
    }

    /// Intercepts the result inside the state of a task (2026-07-28).
    fn task_state(&self, task: &str, state: &str, may_offload: MayOffload) -> Option<String> {
        let object = Object::read(state)?;
        let result = object.get("result")?;
        let call = self.catalog().tasks.call_for(task);
        Some(spliced(state, result, self.intercept(&call, result.get(), may_offload)?))
    }

    /// Rewrites a `tools/list` result and records the tools in the catalog.
    fn tool_list(&self, result: &str, host: Option<AppHost>) -> Option<String> {
        let own = self.own_definitions(host);
        let mut changes = ListingOptions::none().appending(&own).reserving_names();
        if self.config.passing.is_some() {
            changes = changes.with_references();
        }
        let page =
            ToolsPage::parse(result, changes, |tool| self.config.interceptor.may_replace(tool))?;
        let mut catalog = self.catalog();
        catalog.add_tools(page.tools, page.for_pages);
        let mut renamed = page.renamed;
        renamed.retain(|one| catalog.renamed_tools.insert(one.listed_as.clone()));
        drop(catalog);
        for RenamedTool { tool, listed_as, .. } in &renamed {
            let offloader = self.config.interceptor.offloader("");
            offloader.tool_renamed(&self.config.server, tool, listed_as, self.now().now);
        }
        if let Some(listed) = &page.json {
            self.tools_listed(result, listed, page.last);
        }
        page.json
    }

    /// Reports the cost of the tool list, once per conversation (f37): a client that lists the tools again
    /// does not add them to its context twice.
    fn tools_listed(&self, original: &str, listed: &str, last: bool) {
        let before = {
            let mut state = self.state();
            let before = state.tools_listed;
            state.tools_listed |= last;
            before
        };
        if !before {
            let config = &self.config;
            config.interceptor.tools_listed(&config.server, original, listed, self.now().now);
        }
    }

    /// Records the tools of a `tools/list` that the proxy itself requested. Returns the cursor of the next
    /// page.
    pub(crate) fn learn_tools(&self, result: &str) -> Option<String> {
        let page = ToolsPage::parse(result, ListingOptions::none(), |_| false)?;
        self.catalog().add_tools(page.tools, page.for_pages);
        Object::read(result)?.text("nextCursor").map(std::borrow::Cow::into_owned)
    }

    /// Changes the response to a handshake: adds the capabilities of the proxy's own tools and of its page
    /// if the server does not have them, and names renamed tools in the instructions.
    fn handshake(&self, result: &str, host: Option<AppHost>) -> Option<String> {
        let object = Object::read(result)?;
        let mut patch = json!({});
        let capabilities = object.clone().at(&["capabilities"]);
        let own = [
            ("tools", !self.config.tool_definitions.is_empty()),
            // The page is a resource.
            ("resources", host.is_some()),
        ];
        for (name, _) in own.into_iter().filter(|(_, offered)| *offered) {
            if capabilities.as_ref().is_some_and(|has| has.get(name).is_none()) {
                patch["capabilities"][name] = json!({});
            }
        }
        let renamed: Vec<String> = self.catalog().renamed_tools.iter().cloned().collect();
        if !renamed.is_empty() {
            let original = object.text("instructions").unwrap_or_default();
            let addition = format!(
                "Atlatl: tools of this server that have the name of an Atlatl tool are listed as {}.",
                renamed.join(", ")
            );
            patch["instructions"] = format!("{original}\n\n{addition}").trim_start().into();
        }
        if patch.as_object().is_some_and(serde_json::Map::is_empty) {
            return None;
        }
        lro_wire::edit::merge(result, &patch)
    }

    /// Answers a listing for a server without tools or resources, which responds with "method not found"
    /// to a capability that the proxy added.
    fn empty_list(&self, message: &Message<'_>, pending: &PendingRequest) -> Option<String> {
        let code = Object::read(message.error?.get())?.get("code")?;
        if code.get() != METHOD_NOT_FOUND.to_string() {
            return None;
        }
        let (mut result, protocol) = match pending {
            PendingRequest::ToolList { protocol, host } => {
                let own = self.own_definitions(*host);
                if own.is_empty() {
                    return None;
                }
                let result = json!({"tools": own});
                self.tools_listed("", &result.to_string(), true);
                (result, protocol)
            }
            PendingRequest::ResourceList { protocol, member } => (json!({*member: []}), protocol),
            _ => return None,
        };
        if *protocol == ProtocolGeneration::Stateless {
            complete_list(&mut result);
        }
        Some(message.id()?.response(&result))
    }
}

/// Adds the members that a listing has without a session.
pub(crate) fn complete_list(result: &mut Value) {
    result["resultType"] = "complete".into();
    result["ttlMs"] = 0.into();
    result["cacheScope"] = "private".into();
}

/// The remaining messages of a batch after some were dropped, each original or changed.
fn remaining_batch(forwarded: &[(&str, Option<String>)]) -> Forward {
    if forwarded.is_empty() {
        return Forward::Dropped;
    }
    let texts: Vec<&str> =
        forwarded.iter().map(|(text, changed)| changed.as_deref().unwrap_or(text)).collect();
    Forward::Changed(format!("[{}]", texts.join(",")))
}

/// Adds a notice to the error of a call if the error looks like a descriptor.
fn marked_error(text: &str, message: &Message<'_>, pending: &PendingRequest) -> Option<String> {
    if !matches!(
        pending,
        PendingRequest::Call(_) | PendingRequest::TaskResult(_) | PendingRequest::Task(_)
    ) {
        return None;
    }
    let error = message.error?;
    Some(spliced(text, error, mark_error_lookalike(error.get())?))
}

/// The id of the task that a `tools/call` created, in the form of either protocol generation.
fn created_task(result: &str) -> Option<String> {
    // Every form mentions the word; a large result is not parsed only for this.
    if !Object::may_mention(result, "task") {
        return None;
    }
    let object = Object::read(result)?;
    let id = match object.text("resultType").as_deref() {
        Some("task") => {
            object.text("taskId").or_else(|| object.clone().at(&["task"])?.text("taskId"))
        }
        None if object.get("content").is_none() => object.at(&["task"])?.text("taskId"),
        _ => None,
    };
    id.map(std::borrow::Cow::into_owned)
}

/// `text` with `new` in place of `part`.
fn spliced(text: &str, part: &RawValue, new: String) -> String {
    let mut edits = Edits::new(text);
    edits.replace(part.get(), new);
    edits.applied().into_owned()
}
