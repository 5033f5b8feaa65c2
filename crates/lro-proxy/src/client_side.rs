//! From the client to the server.

use lro_mcp::Tools;
use lro_wire::edit::Edits;
use lro_wire::meta::{self, Era};
use lro_wire::{Id, Message, Messages};
use serde_json::Value;

use crate::announce::announce;
use crate::awaited::Awaited;
use crate::called::Called;
use crate::own::OwnCall;
use crate::relay::{Forward, FromClient, Relay};

/// What becomes of one message.
enum Became {
    AsItCame,
    Changed(String),
    Own(OwnCall),
    Refused(String),
}

impl Relay {
    /// A line from the client.
    pub fn from_client(&self, line: &[u8]) -> FromClient {
        let mut out = FromClient { forward: Forward::AsItCame, calls: vec![], replies: vec![] };
        // What cannot be read is the server's business.
        let Ok(text) = std::str::from_utf8(line) else { return out };
        let text = text.trim_end_matches(['\r', '\n']);
        match Messages::read(text) {
            Some(Messages::One(message)) => match self.message_from_client(text, &message) {
                Became::AsItCame => {}
                Became::Changed(text) => out.forward = Forward::Changed(text),
                Became::Own(call) => {
                    out.calls.push(call);
                    out.forward = Forward::Nothing;
                }
                Became::Refused(reply) => {
                    out.replies.push(reply);
                    out.forward = Forward::Nothing;
                }
            },
            Some(Messages::Batch(batch)) => self.batch_from_client(batch, &mut out),
            _ => {}
        }
        out
    }

    fn batch_from_client(&self, batch: Vec<(&str, Option<Message<'_>>)>, out: &mut FromClient) {
        let mut changed = false;
        let mut rest = Vec::new();
        for (text, message) in batch {
            let became = message.map(|message| self.message_from_client(text, &message));
            match became {
                None | Some(Became::AsItCame) => {
                    rest.push(text.to_owned());
                    continue;
                }
                Some(Became::Changed(text)) => rest.push(text),
                Some(Became::Own(call)) => out.calls.push(call),
                Some(Became::Refused(reply)) => out.replies.push(reply),
            }
            changed = true;
        }
        if rest.is_empty() && changed {
            out.forward = Forward::Nothing;
        } else if changed {
            out.forward = Forward::Changed(format!("[{}]", rest.join(",")));
        }
    }

    fn message_from_client(&self, text: &str, message: &Message<'_>) -> Became {
        let Some(method) = message.method.as_deref() else { return Became::AsItCame };
        if method == "notifications/cancelled" {
            self.cancelled(message);
            return Became::AsItCame;
        }
        let Some(id) = message.id() else { return Became::AsItCame };
        if method == "tools/call"
            && let Some(call) = self.own_call(&id, message)
        {
            return Became::Own(call);
        }
        let mut edits = Edits::of(text);
        announce(message, &mut edits);
        let mut awaited = awaited(method, message);
        if let Awaited::Call(called) = &mut awaited
            && let Some(tool) = self.renamed(&called.tool)
            && let Some(name) = message.params().and_then(|params| params.get("name"))
        {
            edits.replace(name.get(), Value::from(tool.as_str()).to_string());
            called.rename(tool);
        }
        if let (Awaited::Call(called), Some(passing)) = (&awaited, &self.house.passing)
            // To a tool that asks results a reference is what it takes.
            && !Tools::is_name(&called.tool)
        {
            let schema = self.schema_of(&called.tool);
            let put = passing.put(
                message,
                &mut edits,
                &called.tool,
                schema.as_deref(),
                &self.house.server,
                self.now().now,
            );
            if let Err(refusal) = put {
                let era = Era::of_request(message).unwrap_or(Era::Legacy);
                return Became::Refused(refusal.response(&id, era));
            }
        }
        self.state().requests.await_answer(id, awaited);
        if edits.is_empty() {
            Became::AsItCame
        } else {
            Became::Changed(edits.applied().into_owned())
        }
    }

    /// A call of one of our own tools. Their names are ours, also where the server has a tool of
    /// that name: guidance leads to them.
    fn own_call(&self, id: &Id, message: &Message<'_>) -> Option<OwnCall> {
        let tools = self.house.tools.as_ref()?;
        let name = meta::tool(message)?;
        if !tools.has(&name) {
            return None;
        }
        let call = OwnCall::of(id.clone(), name.into_owned(), message);
        self.state().running.insert(id.key(), (id.clone(), call.cancel.clone()));
        Some(call)
    }

    fn cancelled(&self, message: &Message<'_>) {
        let Some(id) = message.params().and_then(|params| params.get("requestId")) else { return };
        let id = Id::of(id);
        let mut state = self.state();
        if let Some((_, cancel)) = state.running.get(&id.key()) {
            cancel.cancel();
        }
        // A server does not answer what was cancelled.
        state.requests.answered(&id);
    }
}

/// What the answer to a request will be.
fn awaited(method: &str, message: &Message<'_>) -> Awaited {
    let task = || message.params().and_then(|params| Some(params.text("taskId")?.into_owned()));
    match method {
        "initialize" | "server/discover" => Awaited::Greeting,
        "tools/list" => Awaited::Listing { era: Era::of_request(message).unwrap_or(Era::Legacy) },
        "tools/call" => Called::of(message).map_or(Awaited::Other, Awaited::Call),
        "tasks/result" => task().map_or(Awaited::Other, Awaited::TaskResult),
        "tasks/get" => task().map_or(Awaited::Other, Awaited::Task),
        _ => Awaited::Other,
    }
}
