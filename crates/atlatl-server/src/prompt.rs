//! Prompt: what is remembered, put into a conversation by a person; and help while typing.

use atlatl_memory::RecallRequest;
use lro_wire::{INVALID_PARAMS, JsonRpcError, Object};
use mif::MemoryId;
use serde_json::{Value, json};

use crate::resource::broken;
use crate::server::MemoryServer;

const NAME: &str = "recall";
/// Tokens of a context when nobody says how many.
const BUDGET: u64 = 4000;
/// The most that a client is offered while typing.
const OFFERED: usize = 20;

impl MemoryServer {
    pub(crate) fn prompts() -> String {
        json!({"prompts": [{
            "name": NAME,
            "title": "Recall",
            "description": "Put what is remembered about a topic into the conversation",
            "arguments": [
                {"name": "topic", "description": "What about, in plain words", "required": true},
                {"name": "budget_tokens", "description": "At most so many tokens (4000)"},
            ],
        }]})
        .to_string()
    }

    pub(crate) fn prompt(&self, params: &Object<'_>) -> Result<String, JsonRpcError> {
        let wrong = |said: &str| JsonRpcError::new(INVALID_PARAMS, said);
        if params.text("name").as_deref() != Some(NAME) {
            return Err(wrong("there is no such prompt"));
        }
        let arguments = params.clone().at(&["arguments"]).unwrap_or_default();
        let topic = arguments.text("topic").ok_or_else(|| wrong("topic is missing"))?;
        let budget = match arguments.text("budget_tokens") {
            None => BUDGET,
            Some(text) => {
                text.trim().parse().map_err(|_| wrong("budget_tokens: expected a number"))?
            }
        };
        let request = RecallRequest::new(&*topic, self.0.now());
        let context = self.0.prompt.context(&request, budget).map_err(|error| broken(&error))?;
        let (included, total) = (context.included, context.found.total_matches);
        let text = if included == 0 {
            format!("Nothing is remembered about: {topic}")
        } else {
            let text = context.text;
            format!("What is remembered about: {topic}\n({included} of {total} memories)\n\n{text}")
        };
        let message = json!({"role": "user", "content": {"type": "text", "text": text}});
        Ok(json!({"description": "What is remembered", "messages": [message]}).to_string())
    }

    /// What may be meant by what was typed so far: the ids of memories for a template, titles for
    /// the topic of a prompt, nothing for what we do not know.
    pub(crate) fn complete(&self, params: &Object<'_>) -> Result<String, JsonRpcError> {
        let wrong = |said: &str| JsonRpcError::new(INVALID_PARAMS, said);
        let about = params.clone().at(&["ref"]).ok_or_else(|| wrong("ref is missing"))?;
        let argument =
            params.clone().at(&["argument"]).ok_or_else(|| wrong("argument is missing"))?;
        let name = argument.text("name").unwrap_or_default();
        let typed = argument.text("value").unwrap_or_default();
        let template =
            about.text("uri").is_some_and(|uri| uri.starts_with("memory://")) && name == "id";
        let topic = about.text("name").as_deref() == Some(NAME) && name == "topic";
        let mut values: Vec<Value> = Vec::new();
        if let Some((first, last)) = MemoryId::beginning_with(&typed).filter(|_| template) {
            let ids = self.0.store.ids(&first, &last, OFFERED).map_err(|error| broken(&error))?;
            values.extend(ids.iter().map(|id| Value::from(id.as_str())));
        } else if template || topic {
            let mut request = RecallRequest::new(&*typed, self.0.now());
            request.limit = Some(OFFERED);
            for hit in self.0.recall.recall(&request).map_err(|error| broken(&error))? {
                let value = if template {
                    hit.memory.id.as_str().to_owned()
                } else {
                    hit.memory.title.unwrap_or_default()
                };
                if !value.is_empty() && !values.contains(&Value::from(value.as_str())) {
                    values.push(value.into());
                }
            }
        }
        Ok(json!({"completion": {"values": values, "hasMore": false}}).to_string())
    }
}
