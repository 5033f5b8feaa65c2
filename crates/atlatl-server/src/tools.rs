//! The memory tools: names, properties, arguments, and their definitions for `tools/list`.

pub(crate) mod arguments;
pub(crate) mod handlers;
pub(crate) mod response;

use lro_wire::meta::ProtocolGeneration;
use serde_json::{Map, Value, json};

use self::arguments::with_filter;

/// A tool of the memory server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    List,
    Recall,
    Search,
    Inject,
    Capture,
    Get,
    Update,
    Delete,
}

impl Tool {
    /// In the order of the listing. The first is harmless to try.
    pub(crate) const ALL: [Self; 8] = [
        Self::List,
        Self::Recall,
        Self::Search,
        Self::Inject,
        Self::Capture,
        Self::Get,
        Self::Update,
        Self::Delete,
    ];

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::List => "list_memories",
            Self::Recall => "recall_memories",
            Self::Search => "search_memories",
            Self::Inject => "inject_context",
            Self::Capture => "capture_memory",
            Self::Get => "get_memory",
            Self::Update => "update_memory",
            Self::Delete => "delete_memory",
        }
    }

    /// Spec A8: whether a call may run as a task.
    pub(crate) fn may_be_a_task(self) -> bool {
        matches!(self, Self::Recall | Self::Inject)
    }

    /// Returns whether a call changes the store.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Capture | Self::Update | Self::Delete)
    }

    /// Returns the names of its arguments.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::List => with_filter!([], ["status", "order", "detail", "limit", "cursor"]),
            Self::Recall => {
                with_filter!(["query"], ["status", "detail", "explain", "limit", "cursor"])
            }
            Self::Search => {
                with_filter!(["query", "mode"], ["status", "detail", "explain", "limit", "cursor"])
            }
            Self::Inject => with_filter!(["query", "budget_tokens"], ["detail", "limit"]),
            Self::Capture => CAPTURE_ARGUMENTS,
            Self::Get => &["id", "detail"],
            Self::Update => UPDATE_ARGUMENTS,
            Self::Delete => &["id"],
        }
    }
}

const CAPTURE_ARGUMENTS: &[&str] = &[
    "content",
    "memory_type",
    "title",
    "namespace",
    "tags",
    "summary",
    "entities",
    "relationships",
    "citations",
    "provenance",
    "temporal",
    "extensions",
];

const UPDATE_ARGUMENTS: &[&str] = &[
    "id",
    "content",
    "memory_type",
    "title",
    "namespace",
    "tags",
    "status",
    "summary",
    "entities",
    "relationships",
    "citations",
    "provenance",
    "temporal",
    "extensions",
];

/// Returns the definition of `tool` for a client of `era`.
pub(crate) fn definition(tool: Tool, era: ProtocolGeneration) -> Value {
    let mut properties = Map::new();
    for name in tool.arguments() {
        let mut schema = argument(tool, name);
        // For an update, null removes the field.
        if tool == Tool::Update && *name != "id" {
            schema = json!({"anyOf": [schema, {"type": "null"}]});
        }
        properties.insert((*name).to_owned(), schema);
    }
    let mut input = json!({"type": "object", "properties": properties});
    let required = required(tool);
    if !required.is_empty() {
        input["required"] = json!(required);
    }
    let (title, description) = words(tool);
    let mut definition = json!({
        "name": tool.name(),
        "title": title,
        "description": description,
        "inputSchema": input,
        "outputSchema": output(tool),
        "annotations": annotations(tool),
    });
    // From 2026-07-28 on the server decides per call, and the definition does not mention tasks.
    if tool.may_be_a_task() && era == ProtocolGeneration::Sessions {
        definition["execution"] = json!({"taskSupport": "optional"});
    }
    definition
}

fn words(tool: Tool) -> (&'static str, &'static str) {
    match tool {
        Tool::List => (
            "List memories",
            "List memories by time, with filters. Returns the total number. To search by topic, \
             use recall_memories.",
        ),
        Tool::Recall => (
            "Recall memories",
            "Recall memories about a topic: ask in plain words; the best matches come first. \
             Without limit, all matches are returned; if there are many, as a stored result that \
             you can query.",
        ),
        Tool::Search => (
            "Search memories",
            "Find memories that contain all words (mode lexical; words in double quotes must be \
             consecutive), that are similar in meaning (vector), or both (hybrid). For a question \
             in plain words, use recall_memories.",
        ),
        Tool::Inject => (
            "Inject context",
            "Return the memories about a topic as one readable text within a token budget, best \
             matches first.",
        ),
        Tool::Capture => (
            "Capture a memory",
            "Store a memory: a fact or decision (semantic), an event (episodic), or a procedure \
             (procedural). It is stored durably when this returns.",
        ),
        Tool::Get => ("Get a memory", "Get one memory with all its fields, by id."),
        Tool::Update => (
            "Update a memory",
            "Change fields of a memory. null removes a field; omitted fields stay unchanged.",
        ),
        Tool::Delete => (
            "Delete a memory",
            "Delete a memory permanently. To archive it instead, call update_memory with status \
             archived.",
        ),
    }
}

fn required(tool: Tool) -> &'static [&'static str] {
    match tool {
        Tool::List => &[],
        Tool::Recall | Tool::Search | Tool::Inject => &["query"],
        Tool::Capture => &["content", "memory_type"],
        Tool::Get | Tool::Update | Tool::Delete => &["id"],
    }
}

fn argument(tool: Tool, name: &str) -> Value {
    let writes = matches!(tool, Tool::Capture | Tool::Update);
    match name {
        "query" => text(match tool {
            Tool::Search => "Words that must all occur",
            _ => "Topic, in plain words",
        }),
        "id" => text("Id of the memory"),
        "content" => text("Text to remember"),
        "title" => text("Short title; default: first line of content"),
        "summary" => text("At most 500 characters"),
        "memory_type" => json!({"type": "string", "enum": ["semantic", "episodic", "procedural"]}),
        "namespace" if writes => text("Such as _semantic/decisions; default: by memory_type"),
        "namespace" => text("This namespace and those below it"),
        "tags" => json!({
            "type": "array", "items": {"type": "string"},
            "description": if writes { "Tags" } else { "All of these tags" },
        }),
        "since" => text("Created at this time or later, RFC 3339"),
        "until" => text("Created before this time"),
        "min_confidence" => json!({"type": "number", "minimum": 0, "maximum": 1}),
        "status" if writes => status(),
        "status" => json!({
            "type": "string", "default": "active",
            "enum": ["active", "archived", "superseded", "deleted", "any"],
        }),
        "order" => json!({
            "type": "string", "enum": ["newest", "oldest", "changed"], "default": "newest",
        }),
        "mode" => json!({
            "type": "string", "enum": ["lexical", "vector", "hybrid"], "default": "hybrid",
        }),
        "detail" => json!({
            "type": "string", "enum": ["light", "medium", "full"],
            "default": match tool { Tool::Inject => "medium", Tool::Get => "full", _ => "light" },
            "description": "light: no content; medium: with content; full: all fields",
        }),
        "explain" => json!({
            "type": "boolean", "default": false,
            "description": "Add a snippet with the matching words to each of at most 50 memories",
        }),
        "limit" => json!({
            "type": "integer", "minimum": 1, "maximum": 10000, "description": "Maximum number",
        }),
        "cursor" => text("next_cursor of the previous page; keep the other arguments"),
        "budget_tokens" => json!({"type": "integer", "minimum": 1, "default": 4000}),
        "entities" => objects("{id, entity_type, name, role}"),
        "relationships" => objects("{type, target, strength}"),
        "citations" => objects("{citation_type, citation_role, title, url, …}"),
        "provenance" => object("{source_type, confidence 0–1, trust_level, source_ref, …}"),
        "temporal" => object("{valid_from, valid_until, ttl (ISO 8601), decay {model, half_life}}"),
        _ => object("Other fields, by provider"),
    }
}

fn output(tool: Tool) -> Value {
    let count = || json!({"type": "integer", "minimum": 0});
    let memory = || json!({"type": "object", "properties": {"id": {"type": "string"}}});
    let detail = json!({"type": "string", "enum": ["light", "medium", "full"]});
    match tool {
        Tool::Recall | Tool::Search => {
            let mut schema = output(Tool::List);
            let strings = json!({"type": "array", "items": {"type": "string"}});
            schema["properties"]["matched_by"] = strings;
            let snippet = json!({"type": "object", "properties": {"text": {"type": "string"}}});
            schema["properties"]["snippets"] = json!({"type": "array", "items": snippet});
            schema
        }
        Tool::List => json!({
            "type": "object",
            "properties": {
                "count": count(), "total_matches": count(), "detail": detail,
                "total_is_lower_bound": {"type": "boolean"},
                "total_is_estimate": {"type": "boolean"},
                "memories": {"type": "array", "items": memory()},
                "scores": {"type": "array", "items": {"type": "number"}},
                "ranked_by": {"type": "string"},
                "warning": {"type": "string"},
                "corrected": {"type": "object"},
                "hint": {"type": "string"},
                "truncated": {"type": "boolean"},
                "returned": count(),
                "next_cursor": {"type": ["string", "null"]},
            },
            "required": ["count", "total_matches", "detail", "memories"],
        }),
        Tool::Inject => json!({
            "type": "object",
            "properties": {
                "count": count(), "total_matches": count(), "detail": detail,
                "total_is_lower_bound": {"type": "boolean"},
                "total_is_estimate": {"type": "boolean"},
                "included": count(),
                "context": {"type": "string"},
                "memories": {"type": "array", "items": memory()},
                "scores": {"type": "array", "items": {"type": "number"}},
                "ranked_by": {"type": "string"},
                "warning": {"type": "string"},
                "corrected": {"type": "object"},
                "hint": {"type": "string"},
                "truncated": {"type": "boolean"},
                "returned": count(),
            },
            "required": ["count", "total_matches", "detail"],
        }),
        Tool::Get => json!({
            "type": "object",
            "properties": {"id": {"type": "string"}, "status": status(), "memory": memory()},
            "required": ["id", "status", "memory"],
        }),
        Tool::Capture | Tool::Update => {
            let done = if tool == Tool::Capture { "captured" } else { "updated" };
            json!({
                "type": "object",
                "properties": {
                    "id": {"type": "string"}, "status": status(), done: {"type": "boolean"},
                    "detail": detail, "note": {"type": "string"}, "memory": memory(),
                },
                "required": ["id", "status", done, "memory"],
            })
        }
        Tool::Delete => json!({
            "type": "object",
            "properties": {"id": {"type": "string"}, "deleted": {"type": "boolean"}},
            "required": ["id", "deleted"],
        }),
    }
}

/// f19: every tool states its effects.
fn annotations(tool: Tool) -> Value {
    let (reads, destroys, again) = match tool {
        Tool::Capture => (false, false, false),
        Tool::Update | Tool::Delete => (false, true, true),
        _ => (true, false, true),
    };
    json!({
        "readOnlyHint": reads,
        "destructiveHint": destroys,
        "idempotentHint": again,
        "openWorldHint": false,
    })
}

fn status() -> Value {
    json!({"type": "string", "enum": ["active", "archived", "superseded", "deleted"]})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn object(description: &str) -> Value {
    json!({"type": "object", "description": description})
}

fn objects(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "object"}, "description": description})
}
