//! Recorded runs of agents, as mcpmark writes them: the messages, calls and results of a run in
//! `messages.json`, and its outcome in `meta.json`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

const MESSAGES: &str = "messages.json";
const META: &str = "meta.json";

/// A recorded run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recording {
    /// The path of the run within the recordings.
    pub(super) name: String,
    /// The service and the server, for example `github/official`.
    pub(super) server: String,
    /// The tokens of the request that was too long, if the run ended so.
    pub(super) overflow: Option<Overflow>,
    /// The input tokens of all requests that were not refused, as the API counted them.
    pub(super) api_input: Option<u64>,
    /// What happened, in order.
    pub(super) items: Vec<Item>,
}

/// A request that exceeded the context window, as the endpoint counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overflow {
    pub(super) tokens: u64,
    pub(super) limit: u64,
}

/// A part of a recorded conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A message to the model.
    User(String),
    /// A message of the model, or one of its calls.
    Assistant(String),
    Result(RecordedResult),
}

/// The result of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordedResult {
    pub(super) tool: String,
    /// The `CallToolResult` that the server returned, as JSON.
    pub(super) json: String,
}

/// The directories of all runs below `directory`, sorted.
pub(super) fn find_runs(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut runs = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        let entries =
            fs::read_dir(&directory).with_context(|| format!("{}", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.file_name().is_some_and(|name| name == MESSAGES) {
                runs.push(directory.clone());
            }
        }
    }
    runs.sort();
    ensure!(!runs.is_empty(), "{}: no {MESSAGES} below it", directory.display());
    Ok(runs)
}

/// Reads a run. `root` is the directory that contains all of them.
pub(super) fn read_run(root: &Path, directory: &Path) -> Result<Recording> {
    let path = directory.join(MESSAGES);
    let messages = fs::read(&path).with_context(|| format!("{}", path.display()))?;
    let messages: Vec<Value> =
        serde_json::from_slice(&messages).with_context(|| format!("{}", path.display()))?;
    let meta = fs::read(directory.join(META)).ok();
    let meta: Value = meta.and_then(|meta| serde_json::from_slice(&meta).ok()).unwrap_or_default();
    let relative = directory.strip_prefix(root).unwrap_or(directory);
    Ok(Recording {
        name: relative.display().to_string(),
        server: server(relative),
        overflow: overflow(&meta),
        api_input: meta.pointer("/token_usage/input_tokens").and_then(Value::as_u64),
        items: items(&messages),
    })
}

/// The service and the server that the path of a run names: `mcp_servers/SERVICE/SERVER/RUN/TASK`.
fn server(relative: &Path) -> String {
    let names: Vec<_> = relative.iter().map(|name| name.to_string_lossy()).collect();
    match names.as_slice() {
        [.., service, server, _, _] => format!("{service}/{server}"),
        _ => "unknown".to_owned(),
    }
}

/// The tokens in `prompt is too long: 215840 tokens > 200000 maximum`.
fn overflow(meta: &Value) -> Option<Overflow> {
    let message = meta.pointer("/execution_result/error_message")?.as_str()?;
    let (_, rest) = message.split_once("prompt is too long: ")?;
    let (tokens, rest) = rest.split_once(" tokens > ")?;
    let limit = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some(Overflow { tokens: tokens.parse().ok()?, limit: limit.parse().ok()? })
}

fn items(messages: &[Value]) -> Vec<Item> {
    let mut tools: HashMap<&str, &str> = HashMap::new();
    let mut items = Vec::new();
    for message in messages {
        match (text(message, "type"), text(message, "role")) {
            ("function_call", _) => {
                let (name, arguments) = (text(message, "name"), text(message, "arguments"));
                tools.insert(text(message, "call_id"), name);
                items.push(Item::Assistant(format!("{name} {arguments}")));
            }
            ("function_call_output", _) => {
                let tool = tools.get(text(message, "call_id"));
                items.push(result(tool, text(message, "output")));
            }
            (_, "tool") => {
                let tool = tools.get(text(message, "tool_call_id"));
                items.push(result(tool, text(message, "content")));
            }
            (_, "assistant") => {
                let mut said = texts(&message["content"]);
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let name = text(&call["function"], "name");
                    tools.insert(text(call, "id"), name);
                    said.push_str(name);
                    said.push_str(text(&call["function"], "arguments"));
                }
                items.push(Item::Assistant(said));
            }
            _ => items.push(Item::User(texts(&message["content"]))),
        }
    }
    items
}

/// A member that is text.
fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn result(tool: Option<&&str>, output: &str) -> Item {
    let tool = tool.map_or("unknown", |tool| *tool).to_owned();
    Item::Result(RecordedResult { tool, json: tool_result(output).to_string() })
}

/// The texts of a message: a string, or blocks.
fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The result of a tool without what the client of the recording put around it: it wrote a content
/// block as JSON, or the whole result as JSON into a text block.
fn tool_result(output: &str) -> Value {
    let as_text = || json!({"content": [{"type": "text", "text": output}]});
    let Ok(value) = serde_json::from_str::<Value>(output) else { return as_text() };
    if let Some(result) = serialized_result(&value) {
        return result;
    }
    let blocks = match value {
        Value::Array(blocks) => blocks,
        value @ Value::Object(_) => vec![value],
        _ => return as_text(),
    };
    if blocks.is_empty() || !blocks.iter().all(|block| block["type"].is_string()) {
        return as_text();
    }
    if let [only] = blocks.as_slice()
        && let Some(text) = only["text"].as_str()
        && let Ok(inner) = serde_json::from_str::<Value>(text)
        && let Some(result) = serialized_result(&inner)
    {
        return result;
    }
    json!({"content": blocks})
}

fn serialized_result(value: &Value) -> Option<Value> {
    let content = value.get("content").filter(|content| content.is_array())?;
    let is_error = value.get("isError")?.as_bool().unwrap_or_default();
    let mut result = json!({"content": content, "isError": is_error});
    if let Some(structured) = value.get("structuredContent").filter(|value| !value.is_null()) {
        result["structuredContent"] = structured.clone();
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_unwrapped() {
        let block = json!({"type": "text", "text": "[1]", "annotations": null, "meta": null});
        let inner = json!({
            "meta": null, "content": [block], "structuredContent": null, "isError": true,
        });
        let wrapped = json!({"type": "text", "text": inner.to_string()}).to_string();
        let expected = json!({"content": [block], "isError": true});
        assert_eq!(tool_result(&wrapped), expected);
        assert_eq!(tool_result(&inner.to_string()), expected);
        assert_eq!(tool_result(&block.to_string()), json!({"content": [block]}));
        let two = json!([block, block]);
        assert_eq!(tool_result(&two.to_string()), json!({"content": two}));
        for text in ["no JSON", "[]", "{\"content\": 1}", "5", "[{\"a\": 1}]"] {
            assert_eq!(tool_result(text)["content"][0]["text"], text);
        }
    }

    #[test]
    fn both_forms_of_messages_are_read() {
        let responses = [
            json!({"role": "user", "content": "Find it."}),
            json!({"type": "message", "role": "assistant", "content": [{"text": "I look."}]}),
            json!({"type": "function_call", "call_id": "1", "name": "search", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "1", "output": "found"}),
        ];
        let items_of_responses = items(&responses);
        assert_eq!(items_of_responses[0], Item::User("Find it.".to_owned()));
        assert_eq!(items_of_responses[1], Item::Assistant("I look.".to_owned()));
        assert_eq!(items_of_responses[2], Item::Assistant("search {}".to_owned()));
        let Item::Result(result) = &items_of_responses[3] else { panic!("{items_of_responses:?}") };
        assert_eq!(result.tool, "search");
        let call = json!({"id": "2", "function": {"name": "list", "arguments": "{}"}});
        let chat = [
            json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            json!({"role": "tool", "tool_call_id": "2", "content": "listed"}),
        ];
        let items_of_chat = items(&chat);
        assert_eq!(items_of_chat[0], Item::Assistant("list{}".to_owned()));
        let Item::Result(result) = &items_of_chat[1] else { panic!("{items_of_chat:?}") };
        assert_eq!(result.tool, "list");
    }

    #[test]
    fn an_overflow_has_its_tokens() {
        let meta = |message: &str| json!({"execution_result": {"error_message": message}});
        let found = overflow(&meta("400 - prompt is too long: 215840 tokens > 200000 maximum (x)"));
        assert_eq!(found, Some(Overflow { tokens: 215_840, limit: 200_000 }));
        assert_eq!(overflow(&meta("Max turns (100) exceeded")), None);
        assert_eq!(overflow(&json!({"execution_result": {"error_message": null}})), None);
    }

    #[test]
    fn a_run_is_found_with_its_server_and_counts() {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("mcp_servers/github/official/run-1/task");
        fs::create_dir_all(&run).unwrap();
        assert!(find_runs(root.path()).is_err());
        fs::write(run.join(MESSAGES), "[]").unwrap();
        let runs = find_runs(root.path()).unwrap();
        assert_eq!(runs, [run]);
        let recording = read_run(root.path(), &runs[0]).unwrap();
        assert_eq!(recording.name, "mcp_servers/github/official/run-1/task");
        assert_eq!(recording.server, "github/official");
        assert_eq!((recording.overflow, recording.api_input), (None, None));
        let meta = json!({"token_usage": {"input_tokens": 97_775, "output_tokens": 526}});
        fs::write(runs[0].join(META), meta.to_string()).unwrap();
        assert_eq!(read_run(root.path(), &runs[0]).unwrap().api_input, Some(97_775));
        assert_eq!(server(Path::new("run-1/task")), "unknown");
    }
}
