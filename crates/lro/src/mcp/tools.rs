//! The extraction tools: `lro_extract`, `read_large_output`, `search_large_output` and
//! `query_large_output`.
//!
//! Their definitions are generated from the capabilities of the extractor (f33). Replies are text
//! only: a second copy as `structuredContent` would double the tokens (f12). They are truncated to the
//! reply limit, and never offloaded (f31).

mod arguments;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use lro_query::Cancel;
use lro_spool::Address;
use lro_wire::protocol::AppHost;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use self::arguments::ArgumentError;
use crate::{ExtractError, Extractor, Query, QueryCapabilities};

/// The extraction tools.
#[derive(Clone)]
pub struct Tools {
    extractor: Arc<Extractor>,
    companions: Vec<Arc<dyn CompanionTool>>,
    view: Option<Arc<dyn AppView>>,
}

/// A further tool that a server offers beside the extraction tools.
pub trait CompanionTool: Send + Sync {
    /// The name.
    fn name(&self) -> &str;

    /// The definition for `tools/list`.
    fn definition(&self) -> Value;

    /// Runs a call with `arguments`, a JSON object. Blocks until it is complete.
    fn call(&self, arguments: &str) -> ToolOutput;
}

/// A page that a client shows to the user beside the result of a tool (MCP Apps), with its tools.
/// Clients that show no pages get neither the tools nor the page.
pub trait AppView: Send + Sync {
    /// The definitions of its tools for `tools/list`.
    fn definitions(&self, host: AppHost) -> Vec<Value>;

    /// Whether `name` is the name of one of them.
    fn has(&self, name: &str) -> bool;

    /// Runs a call with `arguments`, a JSON object. Blocks until it is complete.
    fn call(&self, name: &str, arguments: &str, now: DateTime<Utc>, cancel: &Cancel) -> ToolOutput;

    /// The result of `resources/read` for the page; `None` if `uri` is another resource.
    fn resource(&self, uri: &str) -> Option<Value>;
}

// The names of the tools.
const EXTRACT: &str = "lro_extract";
const READ: &str = "read_large_output";
const SEARCH: &str = "search_large_output";
const QUERY: &str = "query_large_output";
/// The tool that shows a stored result to the user.
pub const SHOW: &str = "lro_show";
/// The URIs of the view's pages begin with this.
pub(super) const OWN_PAGES: &str = "ui://atlatl/";
/// The tool of the page with the result. Models do not call it.
pub const PAGE: &str = "lro_page";

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Extract,
    Read,
    Search,
    Query,
}

impl Tool {
    /// The names of its arguments, for an error.
    fn arguments(self) -> &'static str {
        match self {
            Self::Extract => {
                "ref, recipe, query, whole, sql, with, params, limit, offset, part, target"
            }
            Self::Read => "ref, start, end, unit, limit, part, target",
            Self::Search => {
                "ref, pattern, case_sensitive, max_results, offset, context, group_by, part, target"
            }
            Self::Query => "ref, query, whole, raw, limit, offset, part, target",
        }
    }
}

/// The outcome of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The text of the result.
    pub text: String,
    /// Whether it is an error.
    pub is_error: bool,
    /// Data for a page, which a model does not read.
    pub structured: Option<Value>,
}

impl ToolOutput {
    /// A reply.
    pub fn success(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false, structured: None }
    }

    /// Adds data for a page.
    pub fn with_structured(mut self, data: Value) -> Self {
        self.structured = Some(data);
        self
    }

    /// f24: an error has a class, a message and a hint.
    pub fn error(class: &str, message: &str, hint: &str) -> Self {
        let message = one_line(message);
        let text = format!("Error ({class}): {message}\nHint: {hint}");
        Self { text, is_error: true, structured: None }
    }

    /// The `result` of `tools/call`.
    pub fn result(&self) -> Value {
        let mut result = json!({"content": [{"type": "text", "text": self.text}]});
        if let Some(data) = &self.structured {
            result["structuredContent"] = data.clone();
        }
        if self.is_error {
            result["isError"] = true.into();
        }
        result
    }
}

impl Tools {
    /// Tools that run queries with `extractor`.
    pub fn new(extractor: Arc<Extractor>) -> Self {
        Self { extractor, companions: Vec::new(), view: None }
    }

    /// Shows stored results to the user with `view`, in clients that show pages.
    pub fn with_view(mut self, view: Arc<dyn AppView>) -> Self {
        self.view = Some(view);
        self
    }

    /// The definitions of the tools of the view, for a client that shows pages.
    pub fn view_definitions(&self, host: Option<AppHost>) -> Vec<Value> {
        match (&self.view, host) {
            (Some(view), Some(host)) => view.definitions(host),
            _ => Vec::new(),
        }
    }

    /// Hides the tool from pages of other tools: only a model may call it.
    pub fn for_models_only(mut definition: Value) -> Value {
        definition["_meta"]["ui"]["visibility"] = json!(["model"]);
        definition
    }

    /// Whether there is a view.
    pub fn has_view(&self) -> bool {
        self.view.is_some()
    }

    /// Whether the tool `name` belongs to the view.
    pub fn has_in_view(&self, name: &str) -> bool {
        self.view.as_ref().is_some_and(|view| view.has(name))
    }

    /// The page of the view, as the result of `resources/read`.
    pub fn view_resource(&self, uri: &str) -> Option<Value> {
        self.view.as_ref()?.resource(uri)
    }

    /// Offers `companion` as well.
    pub fn with_companion(mut self, companion: Arc<dyn CompanionTool>) -> Self {
        self.companions.push(companion);
        self
    }

    /// The definitions for `tools/list`.
    pub fn definitions(&self) -> Vec<Value> {
        let mut tools = definitions(self.extractor.capabilities());
        tools.extend(self.companions.iter().map(|companion| companion.definition()));
        tools
    }

    /// Whether `name` is reserved: the name of an extraction tool or of a tool of the view, here or in
    /// another server.
    pub fn is_name(name: &str) -> bool {
        Self::named(name).is_some()
    }

    /// The static form of the reserved name `name`.
    pub fn named(name: &str) -> Option<&'static str> {
        [EXTRACT, READ, SEARCH, QUERY, SHOW, PAGE].into_iter().find(|tool| *tool == name)
    }

    /// Whether the tool `name` is available to every client.
    pub fn has(&self, name: &str) -> bool {
        match name {
            EXTRACT | READ | SEARCH => true,
            QUERY => self.extractor.capabilities().jq,
            _ => self.companion(name).is_some(),
        }
    }

    fn companion(&self, name: &str) -> Option<&dyn CompanionTool> {
        self.companions.iter().map(|companion| &**companion).find(|one| one.name() == name)
    }

    /// Runs a tool call; `None` if there is no such tool. Blocks, as the extractor does.
    pub fn call(
        &self,
        name: &str,
        arguments: Option<&RawValue>,
        now: DateTime<Utc>,
        cancel: &Cancel,
    ) -> Option<ToolOutput> {
        let arguments = arguments.map_or("{}", RawValue::get);
        if let Some(view) = self.view.as_ref().filter(|view| view.has(name)) {
            return Some(view.call(name, arguments, now, cancel));
        }
        if !self.has(name) {
            return None;
        }
        if let Some(companion) = self.companion(name) {
            return Some(companion.call(arguments));
        }
        let tool = match name {
            EXTRACT => Tool::Extract,
            READ => Tool::Read,
            SEARCH => Tool::Search,
            _ => Tool::Query,
        };
        let links = self.extractor.capabilities().links;
        let has_memories = |address: &Address| self.extractor.has_memories(address, now);
        Some(match arguments::parse(tool, arguments, links, has_memories) {
            Ok(arguments::ParsedArguments { query, format }) => {
                self.run(&query, format, now, cancel)
            }
            Err(error) => self.failure("arguments", wrong(&error), now),
        })
    }

    fn run(
        &self,
        query: &Query,
        format: arguments::ReplyFormat,
        now: DateTime<Utc>,
        cancel: &Cancel,
    ) -> ToolOutput {
        match self.extractor.extract_with(query, now, cancel, |reply| format.apply(reply)) {
            Ok(reply) => ToolOutput::success(reply.text()),
            Err(error) => self.failure(error.class(), failed(&error), now),
        }
    }

    /// Publishes a failure. f37: an error message costs the model tokens, too.
    fn failure(&self, class: &str, output: ToolOutput, now: DateTime<Utc>) -> ToolOutput {
        self.extractor.publish_failure(class, &output.text, now);
        output
    }
}

fn failed(error: &ExtractError) -> ToolOutput {
    ToolOutput::error(error.class(), &error.to_string(), &error.hint())
}

fn wrong(error: &ArgumentError) -> ToolOutput {
    ToolOutput::error("arguments", &error.message, &error.hint)
}

fn one_line(text: &str) -> String {
    lro_core::escape_invisible(text).replace('\n', " ")
}

/// The definitions of the available tools.
fn definitions(capabilities: QueryCapabilities) -> Vec<Value> {
    let mut tools = vec![extract(capabilities), read(), search()];
    if capabilities.jq {
        tools.push(query());
    }
    tools
}

fn extract(capabilities: QueryCapabilities) -> Value {
    let mut ways = vec!["recipe (memories only; numbers as in the descriptor)"];
    let mut properties = Map::new();
    properties.insert("ref".to_owned(), reference());
    properties.insert("file_path".to_owned(), string());
    properties.insert("recipe".to_owned(), json!({"type": "integer", "minimum": 1, "maximum": 10}));
    let mut bound = Vec::new();
    if capabilities.jq {
        ways.push("query (jq, runs once per record; whole=true: once on the array of all)");
        properties.insert("query".to_owned(), string());
        properties.insert("whole".to_owned(), boolean());
        bound.push("$name in jq");
    }
    if capabilities.sql {
        ways.push(
            "sql (SQLite SELECT on table results: a column per field, \"user.login\" for nested \
             ones, _record, _n; text: line, text; regexp, regexp_capture(text, pattern, n); with \
             adds tables)",
        );
        properties.insert("sql".to_owned(), string());
        let with = json!({
            "type": "object", "additionalProperties": {"type": "string"},
            "description": "alias: ref"
        });
        properties.insert("with".to_owned(), with);
        bound.push(":name in SQL");
    }
    let recipes = "namespace, keyword, memory_type, tag for recipes";
    let params = match bound.join(", ") {
        bound if bound.is_empty() => recipes.to_owned(),
        bound => format!("{recipes}; {bound}"),
    };
    properties.insert("params".to_owned(), json!({"type": "object", "description": params}));
    properties.insert("limit".to_owned(), integer());
    properties.insert("offset".to_owned(), integer());
    properties.insert("part".to_owned(), part());
    properties.insert("target".to_owned(), target());
    let link = if capabilities.links { " None of them: a download link for curl." } else { "" };
    let description = format!(
        "Query a stored large result. Set one of: {}.{link} Continue a long answer with offset.",
        ways.join("; ")
    );
    tool(EXTRACT, "Query a stored result", &description, &properties, &[])
}

fn read() -> Value {
    let properties = object(json!({
        "ref": reference(),
        "filename": string(),
        "start": integer(),
        "end": integer(),
        "unit": {"enum": ["characters", "lines", "records"]},
        "part": part(),
        "target": target(),
    }));
    let description = "Read a range of a stored large result, from 0, end not included; negative start: from the end.";
    tool(READ, "Read a stored result", description, &properties, &[])
}

fn search() -> Value {
    let properties = object(json!({
        "ref": reference(),
        "filename": string(),
        "pattern": text("Regular expression, no look-around"),
        "case_sensitive": boolean(),
        "max_results": {"type": "integer", "default": 20},
        "offset": text_integer("Negative: last matches"),
        "context": text_integer("Lines around a match"),
        "group_by": text_integer("Count by this capture group"),
        "part": part(),
        "target": target(),
    }));
    let description = "Find lines (records) of a stored large result by regular expression.";
    tool(SEARCH, "Search a stored result", description, &properties, &["pattern"])
}

fn query() -> Value {
    let properties = object(json!({
        "ref": reference(),
        "filename": string(),
        "query": string(),
        "whole": boolean(),
        "compact": boolean(),
        "raw": {"type": "boolean", "description": "Strings without quotes"},
        "limit": integer(),
        "offset": integer(),
        "part": part(),
        "target": target(),
    }));
    let description = "Run jq on a stored large result: once on a JSON document, else once per \
         record (whole: once on all).";
    tool(QUERY, "Run jq on a stored result", description, &properties, &["query"])
}

/// A tool definition. `ref` is not required by the schema, because a file name may replace it; the tool
/// reports a missing argument.
fn tool(
    name: &str,
    title: &str,
    description: &str,
    properties: &Map<String, Value>,
    required: &[&str],
) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    json!({
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false},
        // g23: Claude Code hides tools behind a search unless they ask to be loaded. A descriptor
        // names these tools, so the model must be able to call them at once.
        "_meta": {"anthropic/alwaysLoad": true},
    })
}

fn reference() -> Value {
    text("lro:… from the descriptor")
}

/// A part of the tool result: 0 is the data.
fn part() -> Value {
    integer()
}

fn target() -> Value {
    json!({"enum": ["records", "original"]})
}

fn string() -> Value {
    json!({"type": "string"})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn boolean() -> Value {
    json!({"type": "boolean"})
}

fn integer() -> Value {
    json!({"type": "integer"})
}

fn text_integer(description: &str) -> Value {
    json!({"type": "integer", "description": description})
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
