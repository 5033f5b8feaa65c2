//! The Responses API, which Codex speaks.

use serde_json::{Value, json};

use super::{Answer, ToolResult, call_id, elements, named};

pub(super) fn parse(body: &Value) -> (Vec<String>, Vec<ToolResult>, bool) {
    let mut tools = Vec::new();
    for tool in elements(&body["tools"]) {
        let Some(name) = named(tool).or_else(|| tool["type"].as_str().map(str::to_owned)) else {
            continue;
        };
        if tool["type"] == "namespace" {
            let inner = elements(&tool["tools"]).filter_map(named);
            tools.extend(inner.map(|tool| format!("{name}/{tool}")));
        } else {
            tools.push(name);
        }
    }
    let is_output =
        |item: &&Value| item["type"].as_str().is_some_and(|kind| kind.ends_with("_call_output"));
    let results = elements(&body["input"])
        .filter(is_output)
        .map(|item| ToolResult::new(&item["output"], item));
    (tools, results.collect(), body["stream"] == true)
}

fn item(answer: &Answer) -> Value {
    match answer {
        Answer::Text(text) => json!({
            "type": "message", "role": "assistant", "id": "msg_scripted", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Answer::Call(position, call) => {
            let id = call_id(*position);
            let mut item = json!({
                "type": "function_call", "id": format!("fc_{id}"), "call_id": id,
                "name": call.name, "arguments": call.arguments.to_string(), "status": "completed",
            });
            if let Some(namespace) = &call.namespace {
                item["namespace"] = namespace.as_str().into();
            }
            item
        }
    }
}

pub(super) fn response(answer: &Answer) -> Value {
    json!({
        "id": "resp_scripted", "object": "response", "status": "completed", "model": "scripted",
        "output": [item(answer)],
        "usage": {
            "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 20,
        },
    })
}

pub(super) fn events(answer: &Answer) -> Vec<Value> {
    let created = json!({"id": "resp_scripted", "object": "response", "status": "in_progress"});
    vec![
        json!({"type": "response.created", "response": created}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item(answer)}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item(answer)}),
        json!({"type": "response.completed", "response": response(answer)}),
    ]
}
