//! The Gemini API, which Gemini CLI speaks.

use serde_json::{Value, json};

use super::{Answer, ToolResult, elements, named};

pub(super) fn parse(body: &Value, path: &str) -> (Vec<String>, Vec<ToolResult>, bool) {
    let declared = |tool| {
        elements(&Value::clone(tool)["functionDeclarations"]).filter_map(named).collect::<Vec<_>>()
    };
    let tools = elements(&body["tools"]).flat_map(declared).collect();
    let parts = elements(&body["contents"]).flat_map(|content| elements(&content["parts"]));
    let results = parts.filter_map(|part| {
        let response = part.get("functionResponse")?;
        let response_body = &response["response"];
        let content = ["output", "error"].iter().find_map(|key| response_body.get(key));
        Some(ToolResult::new(content.unwrap_or(response_body), response))
    });
    (tools, results.collect(), path.contains(":stream"))
}

pub(super) fn content(answer: &Answer) -> Value {
    let part = match answer {
        Answer::Text(text) => json!({"text": text}),
        Answer::Call(_, call) => {
            json!({"functionCall": {"name": call.name, "args": call.arguments}})
        }
    };
    json!({
        "candidates": [{
            "content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0,
        }],
        "usageMetadata": {
            "promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20,
        },
        "modelVersion": "gemini-2.5-pro",
    })
}
