//! The Messages API, which Claude Code speaks.

use serde_json::{Value, json};

use super::{Answer, ToolResult, call_id, elements, named};

pub(super) fn parse(body: &Value) -> (Vec<String>, Vec<ToolResult>, bool) {
    let tools = elements(&body["tools"]).filter_map(named).collect();
    let blocks = elements(&body["messages"]).flat_map(|message| elements(&message["content"]));
    let results = blocks
        .filter(|block| block["type"] == "tool_result")
        .map(|block| ToolResult::new(&block["content"], block));
    (tools, results.collect(), body["stream"] == true)
}

/// The content block of an answer and the reason why the model stops.
fn block(answer: &Answer) -> (Value, &'static str) {
    match answer {
        Answer::Text(text) => (json!({"type": "text", "text": text}), "end_turn"),
        Answer::Call(position, call) => {
            let id = format!("toolu_{}", call_id(*position));
            let block =
                json!({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments});
            (block, "tool_use")
        }
    }
}

fn envelope() -> Value {
    json!({
        "id": "msg_scripted", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 10},
    })
}

pub(super) fn message(answer: &Answer) -> Value {
    let (block, reason) = block(answer);
    let mut message = envelope();
    message["content"] = json!([block]);
    message["stop_reason"] = reason.into();
    message
}

pub(super) fn events(answer: &Answer) -> Vec<Value> {
    let (mut block, reason) = block(answer);
    let delta = match answer {
        Answer::Text(text) => {
            block["text"] = "".into();
            json!({"type": "text_delta", "text": text})
        }
        Answer::Call(_, call) => {
            block["input"] = json!({});
            json!({"type": "input_json_delta", "partial_json": call.arguments.to_string()})
        }
    };
    vec![
        json!({"type": "message_start", "message": envelope()}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({
            "type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": 10},
        }),
        json!({"type": "message_stop"}),
    ]
}
