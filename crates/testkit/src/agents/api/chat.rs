//! The Chat Completions API, which Copilot CLI and opencode speak with their own providers.

use serde_json::{Value, json};

use super::{Answer, ToolResult, call_id, elements, named};

pub(super) fn parse(body: &Value) -> (Vec<String>, Vec<ToolResult>, bool) {
    let tools = elements(&body["tools"]).filter_map(|tool| named(&tool["function"])).collect();
    let results = elements(&body["messages"])
        .filter(|message| message["role"] == "tool")
        .map(|message| ToolResult::new(&message["content"], message));
    (tools, results.collect(), body["stream"] == true)
}

/// The message of an answer and the reason why the model stops.
fn message(answer: &Answer) -> (Value, &'static str) {
    match answer {
        Answer::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
        Answer::Call(position, call) => {
            let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
            let call = json!({
                "index": 0, "id": call_id(*position), "type": "function", "function": function,
            });
            (json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
        }
    }
}

fn envelope(object: &str, choice: &Value) -> Value {
    json!({
        "id": "chatcmpl-scripted", "object": object, "created": 1, "model": "scripted",
        "choices": [choice],
    })
}

fn usage() -> Value {
    json!({"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20})
}

pub(super) fn completion(answer: &Answer) -> Value {
    let (message, reason) = message(answer);
    let choice = json!({"index": 0, "message": message, "finish_reason": reason});
    let mut completion = envelope("chat.completion", &choice);
    completion["usage"] = usage();
    completion
}

pub(super) fn events(answer: &Answer) -> Vec<Value> {
    let (message, reason) = message(answer);
    let delta = json!({"index": 0, "delta": message, "finish_reason": null});
    let end = json!({"index": 0, "delta": {}, "finish_reason": reason});
    let mut last = envelope("chat.completion.chunk", &end);
    last["usage"] = usage();
    vec![envelope("chat.completion.chunk", &delta), last]
}
