//! Relays messages from the server to the client.

use std::sync::Arc;

use lro::mcp::{Changes, NoticeIn, Page, Renamed, mark_error_lookalike, mark_lookalike};
use lro_wire::edit::Edits;
use lro_wire::protocol::ProtocolGeneration;
use lro_wire::{METHOD_NOT_FOUND, Message, Messages, Object};
use serde_json::json;
use serde_json::value::RawValue;

use crate::lenient::{LenientLine, looks_like_json};
use crate::pending::PendingRequest;
use crate::relay::{Forward, Relay};
use crate::tool_call::ToolCallInfo;

/// Whether a result may be stored and replaced by its descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MayOffload {
    Yes,
    No,
}

impl Relay {
    /// A line from the server.
    pub fn from_server(&self, line: &[u8]) -> Forward {
        if self.state().gone {
            return Forward::Nothing;
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
            // What was sent is not what would be stored.
            return match self.messages_from_server(&lenient.text, messages, MayOffload::No) {
                Forward::AsItCame if lenient.ambiguous => Forward::Changed(lenient.text),
                forward => forward,
            };
        }
        if self.is_strict() || looks_like_json(line) {
            return Forward::Nothing;
        }
        // Output for a log: no client takes it for a message.
        Forward::AsItCame
    }

    fn messages_from_server(
        &self,
        text: &str,
        messages: Messages<'_>,
        may_offload: MayOffload,
    ) -> Forward {
        match messages {
            Messages::One(message) => {
                let awaited = self.take(&message);
                if self.is_unsolicited(&message, awaited.as_ref()) {
                    return Forward::Nothing;
                }
                Forward::from_change(self.message_from_server(text, &message, awaited, may_offload))
            }
            Messages::Batch(batch) => {
                let (count, mut kept) = (batch.len(), Vec::new());
                for (text, message) in batch {
                    let Some(message) = message else {
                        kept.push((text, None));
                        continue;
                    };
                    let awaited = self.take(&message);
                    if !self.is_unsolicited(&message, awaited.as_ref()) {
                        kept.push((
                            text,
                            self.message_from_server(text, &message, awaited, may_offload),
                        ));
                    }
                }
                if kept.len() < count {
                    return remaining_batch(&kept);
                }
                let mut edits = Edits::new(text);
                for (text, changed) in kept {
                    if let Some(changed) = changed {
                        edits.replace(text, changed);
                    }
                }
                Forward::from_change((!edits.is_empty()).then(|| edits.applied().into_owned()))
            }
            // A kind of line that is not read yet.
            _ => Forward::Nothing,
        }
    }

    /// Whether `message` answers a request that the server was not asked: the client's next request, or one that
    /// Atlatl answers itself.
    fn is_unsolicited(&self, message: &Message<'_>, awaited: Option<&PendingRequest>) -> bool {
        message.method.is_none() && awaited.is_none() && (message.id.is_some() || self.is_strict())
    }

    /// The request that `message` answers, which is answered by that. Where the same answer may come
    /// twice on purpose, the call that it answered before.
    fn take(&self, message: &Message<'_>) -> Option<PendingRequest> {
        let id = message.id().filter(|_| message.method.is_none())?;
        let mut state = self.state();
        let awaited = state.requests.answered(&id);
        match awaited {
            None if !self.is_strict() => {
                state.requests.answered_before(&id).map(PendingRequest::Call)
            }
            awaited => awaited,
        }
    }

    /// What becomes of one message; `None` for the message as it came.
    fn message_from_server(
        &self,
        text: &str,
        message: &Message<'_>,
        awaited: Option<PendingRequest>,
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
        let awaited = awaited?;
        let Some(result) = message.result else {
            return self
                .unlisted(message, &awaited)
                .or_else(|| marked_error(text, message, &awaited));
        };
        let changed = match awaited {
            PendingRequest::Call(called) => self.called(called, result.get(), may_offload),
            PendingRequest::Listing { .. } => self.listing(result.get()),
            PendingRequest::Greeting => self.greeting(result.get()),
            PendingRequest::TaskResult(task) => {
                let called = self.known().tasks.call_of(&task);
                self.intercept(&called, result.get(), may_offload)
            }
            PendingRequest::Task(task) => self.task_state(&task, result.get(), may_offload),
            PendingRequest::Other => None,
        };
        Some(spliced(text, result, changed?))
    }

    /// What a call came to. Spec A3: a task instead of a result is remembered, and its result looked
    /// at when it is there.
    fn called(
        &self,
        called: ToolCallInfo,
        result: &str,
        may_offload: MayOffload,
    ) -> Option<String> {
        if let Some(task) = task_begun(result) {
            self.known().tasks.begin(&task, called);
            return None;
        }
        self.intercept(&called, result, may_offload)
    }

    fn intercept(
        &self,
        called: &ToolCallInfo,
        result: &str,
        may_offload: MayOffload,
    ) -> Option<String> {
        let interceptor = &self.config.interceptor;
        // Spec A4: a page that a cursor leads to is never offloaded.
        let replaced = (!called.continuation && may_offload == MayOffload::Yes)
            .then(|| interceptor.result(called.call(&self.config.server), result, self.now()))
            .flatten();
        replaced.or_else(|| mark_lookalike(result, self.notice_in(&called.tool)))
    }

    /// Where a notice may stand in a result of `tool`.
    pub(crate) fn notice_in(&self, tool: &str) -> NoticeIn {
        // The listing widened its output schema, if it has one.
        if self.config.interceptor.may_replace(tool) {
            NoticeIn::TextAndStructured
        } else {
            NoticeIn::Text
        }
    }

    /// A task of 2026-07-28, which holds its result when it has one.
    fn task_state(&self, task: &str, state: &str, may_offload: MayOffload) -> Option<String> {
        let object = Object::read(state)?;
        let result = object.get("result")?;
        let called = self.known().tasks.call_of(task);
        Some(spliced(state, result, self.intercept(&called, result.get(), may_offload)?))
    }

    fn listing(&self, result: &str) -> Option<String> {
        let mut changes = Changes::none().appending(&self.config.own).reserving_names();
        if self.config.passing.is_some() {
            changes = changes.with_references();
        }
        let page = Page::parse(result, changes, |tool| self.config.interceptor.may_replace(tool))?;
        let mut known = self.known();
        for (name, schema) in page.tools {
            known.listed.insert(name, schema.map(Arc::from));
        }
        let mut renamed = page.renamed;
        renamed.retain(|one| known.renamed.insert(one.listed_as.clone()));
        drop(known);
        for Renamed { tool, listed_as, .. } in &renamed {
            let offloader = self.config.interceptor.offloader("");
            offloader.tool_renamed(&self.config.server, tool, listed_as, self.now().now);
        }
        if let Some(listed) = &page.json {
            self.tools_listed(result, listed, page.last);
        }
        page.json
    }

    /// f37: a client that asks again holds no more definitions than before.
    fn tools_listed(&self, as_it_came: &str, listed: &str, last: bool) {
        let before = {
            let mut state = self.state();
            let before = state.listed;
            state.listed |= last;
            before
        };
        if !before {
            let config = &self.config;
            config.interceptor.tools_listed(&config.server, as_it_came, listed, self.now().now);
        }
    }

    /// Learns what tools there are from the result of a `tools/list` that nobody but us asked for;
    /// where the next page begins.
    pub(crate) fn learn(&self, result: &str) -> Option<String> {
        let page = Page::parse(result, Changes::none(), |_| false)?;
        let tools = page.tools.into_iter().map(|(name, schema)| (name, schema.map(Arc::from)));
        self.known().listed.extend(tools);
        Object::read(result)?.text("nextCursor").map(std::borrow::Cow::into_owned)
    }

    /// A server without tools of its own gets ours. Where it is known to have tools with the names
    /// of ours, the instructions say how those are listed.
    fn greeting(&self, result: &str) -> Option<String> {
        let object = Object::read(result)?;
        let mut patch = json!({});
        let capabilities = object.clone().at(&["capabilities"]);
        if !self.config.own.is_empty() && capabilities.is_some_and(|has| has.get("tools").is_none())
        {
            patch["capabilities"] = json!({"tools": {}});
        }
        let renamed: Vec<String> = self.known().renamed.iter().cloned().collect();
        if !renamed.is_empty() {
            let said = object.text("instructions").unwrap_or_default();
            let ours = format!(
                "Atlatl: tools of this server that have the name of an Atlatl tool are listed as {}.",
                renamed.join(", ")
            );
            patch["instructions"] = format!("{said}\n\n{ours}").trim_start().into();
        }
        if patch.as_object().is_some_and(serde_json::Map::is_empty) {
            return None;
        }
        lro_wire::edit::merge(result, &patch)
    }

    /// A server that has no tools does not know how to list them.
    fn unlisted(&self, message: &Message<'_>, awaited: &PendingRequest) -> Option<String> {
        let PendingRequest::Listing { era, .. } = awaited else { return None };
        let code = Object::read(message.error?.get())?.get("code")?;
        if self.config.own.is_empty() || code.get() != METHOD_NOT_FOUND.to_string() {
            return None;
        }
        let mut result = json!({"tools": self.config.own});
        self.tools_listed("", &result.to_string(), true);
        if *era == ProtocolGeneration::Stateless {
            result["resultType"] = "complete".into();
            result["ttlMs"] = 0.into();
            result["cacheScope"] = "private".into();
        }
        Some(message.id()?.response(&result))
    }
}

/// The rest of a batch of which messages were dropped: each as it came, or as it was changed.
fn remaining_batch(kept: &[(&str, Option<String>)]) -> Forward {
    if kept.is_empty() {
        return Forward::Nothing;
    }
    let texts: Vec<&str> =
        kept.iter().map(|(text, changed)| changed.as_deref().unwrap_or(text)).collect();
    Forward::Changed(format!("[{}]", texts.join(",")))
}

/// `text`, whose error answers a call, with a notice if the error has the form of a descriptor.
fn marked_error(text: &str, message: &Message<'_>, awaited: &PendingRequest) -> Option<String> {
    if !matches!(
        awaited,
        PendingRequest::Call(_) | PendingRequest::TaskResult(_) | PendingRequest::Task(_)
    ) {
        return None;
    }
    let error = message.error?;
    Some(spliced(text, error, mark_error_lookalike(error.get())?))
}

/// The id of the task that a `tools/call` was answered with, in the form of either era.
fn task_begun(result: &str) -> Option<String> {
    // Every form of it says so; a large result is not read for this alone.
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
