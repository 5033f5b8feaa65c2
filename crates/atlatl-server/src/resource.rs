//! Resource: memories that a person picks in a client.

use atlatl_memory::{Filter, Order, StoreError};
use lro_wire::meta::Era;
use lro_wire::{INTERNAL, INVALID_PARAMS, JsonRpcError, Object};
use mif::{Memory, MemoryId};
use serde_json::{Value, json};

use crate::cursor::{self, Place};
use crate::server::MemoryServer;

const SCHEME: &str = "memory://";
/// Memories on one page of the list.
const PAGE: usize = 100;
/// What `resources/read` says before 2026-07-28 of what is not there.
const NOT_FOUND: i32 = -32002;
/// What a cursor of this list belongs to.
const QUESTION: &str = "resources/list";

/// How a memory is read.
#[derive(Clone, Copy)]
enum Form {
    Markdown,
    Json,
}

impl MemoryServer {
    /// The memories, the newest first.
    pub(crate) fn resources(&self, params: &Object<'_>) -> Result<String, JsonRpcError> {
        let now = self.0.now();
        let seal = self.0.seal().map_err(|error| broken(&error))?;
        let after = match params.text("cursor") {
            None => None,
            Some(cursor) => match cursor::read(seal, QUESTION, &cursor, now) {
                Ok(Place::Listing(position)) => Some(position),
                Ok(_) => {
                    return Err(JsonRpcError::new(INVALID_PARAMS, "the cursor is another list's"));
                }
                Err(error) => return Err(JsonRpcError::new(INVALID_PARAMS, error.message)),
            },
        };
        let order = Order::Newest;
        let listed = self
            .0
            .store
            .list(&Filter::default(), order, after.as_ref(), PAGE, now)
            .map_err(|error| broken(&error))?;
        let resources: Vec<Value> = listed.memories.iter().map(resource).collect();
        let mut result = json!({"resources": resources});
        if let Some(last) = listed.memories.last().filter(|_| listed.more) {
            let place = Place::Listing(order.position(last));
            result["nextCursor"] = cursor::write(seal, QUESTION, &place, now).into();
        }
        Ok(result.to_string())
    }

    pub(crate) fn templates() -> String {
        json!({"resourceTemplates": [
            {
                "uriTemplate": "memory://{id}",
                "name": "memory",
                "title": "A memory",
                "description": "One memory as Markdown with its fields in front",
                "mimeType": "text/markdown",
            },
            {
                "uriTemplate": "memory://{id}/json",
                "name": "memory-json",
                "title": "A memory as JSON",
                "description": "One memory as the MIF object",
                "mimeType": "application/json",
            },
        ]})
        .to_string()
    }

    pub(crate) fn read_resource(
        &self,
        params: &Object<'_>,
        era: Era,
    ) -> Result<String, JsonRpcError> {
        let uri = params
            .text("uri")
            .ok_or_else(|| JsonRpcError::new(INVALID_PARAMS, "uri is missing"))?;
        let missing = || {
            let code = if era == Era::Legacy { NOT_FOUND } else { INVALID_PARAMS };
            JsonRpcError::new(code, "there is no such memory").with(json!({"uri": uri}))
        };
        let (id, form) = parsed(&uri).ok_or_else(missing)?;
        let memory = self.0.memory(&id).map_err(|error| broken(&error))?;
        let memory = memory.ok_or_else(missing)?;
        let (mime, text) = match form {
            Form::Markdown => ("text/markdown", memory.to_markdown()),
            Form::Json => ("application/json", memory.to_json()),
        };
        let contents = json!([{"uri": uri, "mimeType": mime, "text": text}]);
        Ok(json!({"contents": contents}).to_string())
    }
}

fn parsed(uri: &str) -> Option<(MemoryId, Form)> {
    let rest = uri.strip_prefix(SCHEME)?;
    let (id, form) = match rest.strip_suffix("/json") {
        Some(id) => (id, Form::Json),
        None => (rest, Form::Markdown),
    };
    Some((id.parse().ok()?, form))
}

fn resource(memory: &Memory) -> Value {
    let namespace = memory.namespace.as_ref().map_or("", mif::Namespace::as_str);
    json!({
        "uri": format!("{SCHEME}{}", memory.id),
        "name": memory.called(),
        "description": format!("{} memory in {namespace}, {}", memory.memory_type, memory.created),
        "mimeType": "text/markdown",
    })
}

/// What an engine says may name paths, which are nobody's business.
pub(crate) fn broken(error: &StoreError) -> JsonRpcError {
    JsonRpcError::new(INTERNAL, error.to_string())
}
