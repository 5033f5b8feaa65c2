//! MCP resources (memories that a user selects in a client), the recall prompt, and completion.

use atlatl_memory::{Filter, Order, RecallRequest, StoreError};
use lro_wire::meta::ProtocolGeneration;
use lro_wire::{INTERNAL_ERROR, INVALID_PARAMS, JsonRpcError, Object};
use mif::{Memory, MemoryId};
use serde_json::{Value, json};

use super::cursor;
use super::cursor::CursorPosition;
use super::server::MemoryServer;

const URI_SCHEME: &str = "memory://";
/// The number of memories per page.
const PAGE_LEN: usize = 100;
/// Resource not found, in `resources/read` before 2026-07-28.
const NOT_FOUND: i32 = -32002;
/// The text that a cursor of this list is bound to.
const CURSOR_SCOPE: &str = "resources/list";
const PROMPT_NAME: &str = "recall";
/// The default token budget of a context.
const DEFAULT_BUDGET_TOKENS: u64 = 4000;
/// The maximum number of completions.
const MAX_COMPLETIONS: usize = 20;

/// The format of a resource.
#[derive(Clone, Copy)]
enum ResourceFormat {
    Markdown,
    Json,
}

impl MemoryServer {
    /// Lists memories as resources, newest first.
    pub(crate) async fn resources(&self, params: &Object<'_>) -> Result<String, JsonRpcError> {
        let now = self.0.now();
        let signer = self.0.signer().await.map_err(|error| internal_error(&error))?;
        let after = match params.text("cursor") {
            None => None,
            Some(cursor) => match cursor::read(signer, CURSOR_SCOPE, &cursor, now) {
                Ok(CursorPosition::Listing(position)) => Some(position),
                Ok(_) => {
                    return Err(JsonRpcError::new(
                        INVALID_PARAMS,
                        "the cursor belongs to another list",
                    ));
                }
                Err(error) => return Err(JsonRpcError::new(INVALID_PARAMS, error.message)),
            },
        };
        let order = Order::Newest;
        let listed = self
            .0
            .store
            .list(&Filter::default(), order, after.as_ref(), PAGE_LEN, now)
            .await
            .map_err(|error| internal_error(&error))?;
        let resources: Vec<Value> = listed.memories.iter().map(resource).collect();
        let mut result = json!({"resources": resources});
        if let Some(last) = listed.memories.last().filter(|_| listed.more) {
            let place = CursorPosition::Listing(order.position(last));
            result["nextCursor"] = cursor::write(signer, CURSOR_SCOPE, &place, now).into();
        }
        Ok(result.to_string())
    }

    pub(crate) fn templates() -> String {
        json!({"resourceTemplates": [
            {
                "uriTemplate": "memory://{id}",
                "name": "memory",
                "title": "A memory",
                "description": "One memory as Markdown with front matter",
                "mimeType": "text/markdown",
            },
            {
                "uriTemplate": "memory://{id}/json",
                "name": "memory-json",
                "title": "A memory as JSON",
                "description": "One memory as a MIF object",
                "mimeType": "application/json",
            },
        ]})
        .to_string()
    }

    pub(crate) async fn read_resource(
        &self,
        params: &Object<'_>,
        era: ProtocolGeneration,
    ) -> Result<String, JsonRpcError> {
        let uri =
            params.text("uri").ok_or_else(|| JsonRpcError::new(INVALID_PARAMS, "missing uri"))?;
        let missing = || {
            let code = if era == ProtocolGeneration::Sessions { NOT_FOUND } else { INVALID_PARAMS };
            JsonRpcError::new(code, "memory not found").with(json!({"uri": uri}))
        };
        let (id, form) = parse_uri(&uri).ok_or_else(missing)?;
        let memory = self.0.memory(&id).await.map_err(|error| internal_error(&error))?;
        let memory = memory.ok_or_else(missing)?;
        let (mime, text) = match form {
            ResourceFormat::Markdown => ("text/markdown", memory.to_markdown()),
            ResourceFormat::Json => ("application/json", memory.to_json()),
        };
        let contents = json!([{"uri": uri, "mimeType": mime, "text": text}]);
        Ok(json!({"contents": contents}).to_string())
    }
}

fn parse_uri(uri: &str) -> Option<(MemoryId, ResourceFormat)> {
    let rest = uri.strip_prefix(URI_SCHEME)?;
    let (id, form) = match rest.strip_suffix("/json") {
        Some(id) => (id, ResourceFormat::Json),
        None => (rest, ResourceFormat::Markdown),
    };
    Some((id.parse().ok()?, form))
}

fn resource(memory: &Memory) -> Value {
    let namespace = memory.namespace.as_ref().map_or("", mif::Namespace::as_str);
    json!({
        "uri": format!("{URI_SCHEME}{}", memory.id),
        "name": memory.called(),
        "description": format!("{} memory in {namespace}, {}", memory.memory_type, memory.created),
        "mimeType": "text/markdown",
    })
}

/// The error of an engine may contain paths, so only the top-level message is sent.
pub(crate) fn internal_error(error: &StoreError) -> JsonRpcError {
    JsonRpcError::new(INTERNAL_ERROR, error.to_string())
}

impl MemoryServer {
    pub(crate) fn prompts() -> String {
        json!({"prompts": [{
            "name": PROMPT_NAME,
            "title": "Recall",
            "description": "Add the memories about a topic to the conversation",
            "arguments": [
                {"name": "topic", "description": "Topic, in plain words", "required": true},
                {"name": "budget_tokens", "description": "Maximum number of tokens (default 4000)"},
            ],
        }]})
        .to_string()
    }

    pub(crate) async fn prompt(&self, params: &Object<'_>) -> Result<String, JsonRpcError> {
        let wrong = |message: &str| JsonRpcError::new(INVALID_PARAMS, message);
        if params.text("name").as_deref() != Some(PROMPT_NAME) {
            return Err(wrong("unknown prompt"));
        }
        let arguments = params.clone().at(&["arguments"]).unwrap_or_default();
        let topic = arguments.text("topic").ok_or_else(|| wrong("missing topic"))?;
        let budget = match arguments.text("budget_tokens") {
            None => DEFAULT_BUDGET_TOKENS,
            Some(text) => {
                text.trim().parse().map_err(|_| wrong("budget_tokens: expected a number"))?
            }
        };
        let request = RecallRequest::new(&*topic, self.0.now());
        let context = self
            .0
            .prompt
            .context(&request, budget)
            .await
            .map_err(|error| internal_error(&error))?;
        let (included, total) = (context.included, context.results.total_matches);
        let text = if included == 0 {
            format!("No memories about: {topic}")
        } else {
            let text = context.text;
            let bound = context.results.accuracy.qualifier();
            format!("Memories about: {topic}\n({included} of {bound}{total} memories)\n\n{text}")
        };
        let message = json!({"role": "user", "content": {"type": "text", "text": text}});
        Ok(json!({"description": "Memories about a topic", "messages": [message]}).to_string())
    }

    /// Completes what was typed so far: ids of memories for a resource template, titles for the
    /// topic of the prompt, nothing for anything else.
    pub(crate) async fn complete(&self, params: &Object<'_>) -> Result<String, JsonRpcError> {
        let wrong = |message: &str| JsonRpcError::new(INVALID_PARAMS, message);
        let about = params.clone().at(&["ref"]).ok_or_else(|| wrong("missing ref"))?;
        let argument = params.clone().at(&["argument"]).ok_or_else(|| wrong("missing argument"))?;
        let name = argument.text("name").unwrap_or_default();
        let typed = argument.text("value").unwrap_or_default();
        let template =
            about.text("uri").is_some_and(|uri| uri.starts_with("memory://")) && name == "id";
        let topic = about.text("name").as_deref() == Some(PROMPT_NAME) && name == "topic";
        let mut values: Vec<Value> = Vec::new();
        if let Some((first, last)) = MemoryId::beginning_with(&typed).filter(|_| template) {
            let ids = self
                .0
                .store
                .ids(&first, &last, MAX_COMPLETIONS)
                .await
                .map_err(|error| internal_error(&error))?;
            values.extend(ids.iter().map(|id| Value::from(id.as_str())));
        } else if template || topic {
            let mut request = RecallRequest::new(&*typed, self.0.now());
            request.limit = Some(MAX_COMPLETIONS);
            for hit in
                self.0.recall.recall(&request).await.map_err(|error| internal_error(&error))?
            {
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
