//! Messages of Anthropic.

use serde_json::{Map, Value, json};

use super::api::{Conversation, InvalidEvent, ModelReply, NativeCall, Parameters, Stop, Turn};
use super::fenced::parse_arguments;
use crate::transcript::Usage;

/// The version of the API.
pub(super) const VERSION: &str = "2023-06-01";

pub(super) fn body(conversation: &Conversation, parameters: Parameters<'_>) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), parameters.model.into());
    if !conversation.tools.is_empty() {
        let tools = conversation.tools.iter().map(|tool| {
            json!({
                "name": tool.name, "description": tool.description, "input_schema": tool.input_schema,
            })
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    if !conversation.system.is_empty() {
        // The tools come before the system text, so that this caches both.
        let system = with_cache_control(json!({"type": "text", "text": conversation.system}));
        body.insert("system".to_owned(), json!([system]));
    }
    body.insert("max_tokens".to_owned(), parameters.max_output_tokens.into());
    if let Some(temperature) = parameters.temperature {
        body.insert("temperature".to_owned(), temperature.into());
    }
    if parameters.stream {
        body.insert("stream".to_owned(), true.into());
    }
    let mut messages: Vec<Value> = conversation.turns.iter().map(message).collect();
    // The next request repeats everything up to here.
    if let Some(last) = messages.last_mut()
        && let Some(block) = last["content"].as_array_mut().and_then(|blocks| blocks.last_mut())
    {
        *block = with_cache_control(block.take());
    }
    body.insert("messages".to_owned(), messages.into());
    body.into()
}

/// The block, up to which the endpoint caches the request.
fn with_cache_control(mut block: Value) -> Value {
    block["cache_control"] = json!({"type": "ephemeral"});
    block
}

fn message(turn: &Turn) -> Value {
    let (role, content): (_, Vec<Value>) = match turn {
        Turn::User(text) => ("user", vec![json!({"type": "text", "text": text})]),
        Turn::Assistant { text, calls } => {
            // A text block may not be empty.
            let text = (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}));
            let calls = calls.iter().map(|call| {
                // The API takes objects only.
                let input = match parse_arguments(&call.arguments) {
                    input @ Value::Object(_) => input,
                    other => json!({"invalid": other}),
                };
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
            });
            ("assistant", text.into_iter().chain(calls).collect())
        }
        Turn::Results(results) => {
            let blocks = results.iter().map(|result| {
                let mut block = json!({
                    "type": "tool_result", "tool_use_id": result.id, "content": result.text,
                });
                if result.is_error {
                    block["is_error"] = true.into();
                }
                block
            });
            ("user", blocks.collect())
        }
    };
    json!({"role": role, "content": content})
}

pub(super) fn reply(body: &Value) -> Result<ModelReply, InvalidEvent> {
    let blocks = body["content"].as_array().ok_or(InvalidEvent::Malformed)?;
    let mut reply = ModelReply { stop: stop(&body["stop_reason"]), ..ModelReply::default() };
    for block in blocks {
        if block["type"] == "tool_use" {
            let arguments = block["input"].to_string();
            reply.calls.push(NativeCall { arguments, ..call(block) });
        } else {
            reply.text.push_str(block["text"].as_str().unwrap_or_default());
        }
    }
    reply.usage = usage(&body["usage"]);
    Ok(reply)
}

fn call(block: &Value) -> NativeCall {
    let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    NativeCall { id: text("id"), name: text("name"), arguments: String::new() }
}

fn stop(reason: &Value) -> Stop {
    match reason.as_str() {
        Some("refusal") => Stop::Refusal,
        Some("max_tokens") => Stop::OutputLimit,
        Some("model_context_window_exceeded") => Stop::ContextOverflow,
        _ => Stop::Normal,
    }
}

/// The tokens of a request. Those that are written to the cache are fresh.
fn usage(usage: &Value) -> Option<Usage> {
    let tokens = |name: &str| usage[name].as_u64();
    let input = tokens("input_tokens")?;
    Some(Usage {
        fresh_input: input + tokens("cache_creation_input_tokens").unwrap_or_default(),
        cached_input: tokens("cache_read_input_tokens").unwrap_or_default(),
        output: tokens("output_tokens").unwrap_or_default(),
    })
}

/// The events of a stream.
#[derive(Debug, Default)]
pub(super) struct MessageEvents {
    reply: ModelReply,
    /// The calls by the index of their content block.
    calls: Vec<(Option<u64>, NativeCall)>,
    /// The usage of the first event, which later ones complete.
    usage: Map<String, Value>,
    stopped: bool,
}

impl MessageEvents {
    pub(super) fn feed(&mut self, data: &[u8]) -> Result<bool, InvalidEvent> {
        let event: Value = serde_json::from_slice(data).map_err(|_| InvalidEvent::Malformed)?;
        let index = event["index"].as_u64();
        match event["type"].as_str().unwrap_or_default() {
            "error" => return Err(InvalidEvent::Error(event["error"].clone())),
            "message_start" => self.add_usage(&event["message"]["usage"]),
            "content_block_start" => {
                let block = &event["content_block"];
                if block["type"] == "tool_use" {
                    self.calls.push((index, call(block)));
                } else {
                    self.reply.text.push_str(block["text"].as_str().unwrap_or_default());
                }
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                self.reply.text.push_str(delta["text"].as_str().unwrap_or_default());
                let json = delta["partial_json"].as_str().unwrap_or_default();
                let call = self.calls.iter_mut().find(|(other, _)| *other == index);
                if let Some((_, call)) = call {
                    call.arguments.push_str(json);
                }
            }
            "message_delta" => {
                self.add_usage(&event["usage"]);
                self.reply.stop = stop(&event["delta"]["stop_reason"]);
            }
            "message_stop" => self.stopped = true,
            // `ping`, the ends of blocks, and what later versions add.
            _ => {}
        }
        Ok(self.stopped)
    }

    fn add_usage(&mut self, usage: &Value) {
        let known = usage.as_object().into_iter().flatten();
        let known = known.filter(|(_, value)| !value.is_null());
        self.usage.extend(known.map(|(name, value)| (name.clone(), value.clone())));
    }

    pub(super) fn finish(mut self) -> Option<ModelReply> {
        if !self.stopped {
            return None;
        }
        self.reply.calls = self.calls.into_iter().map(|(_, call)| call).collect();
        self.reply.usage = usage(&self.usage.into());
        Some(self.reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_put_together_from_their_parts() {
        let usage_of_start = json!({
            "input_tokens": 3, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 50,
            "output_tokens": 1,
        });
        let tool =
            |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        let json = |index: u64, json: &str| {
            json!({
                "type": "content_block_delta", "index": index,
                "delta": {"type": "input_json_delta", "partial_json": json},
            })
        };
        let events = [
            json!({"type": "message_start", "message": {"usage": usage_of_start}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "ping"}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hm"}}),
            json!({"type": "content_block_start", "index": 1, "content_block": tool("t1", "a")}),
            json!({"type": "content_block_start", "index": 2, "content_block": tool("t2", "b")}),
            json(1, "{\"x\""),
            json(2, ""),
            json(1, ":1}"),
            json!({
                "type": "message_delta", "delta": {"stop_reason": "tool_use"},
                "usage": {"output_tokens": 9},
            }),
        ];
        let mut stream = MessageEvents::default();
        for event in &events {
            assert!(!stream.feed(event.to_string().as_bytes()).unwrap());
        }
        assert!(stream.feed(br#"{"type":"message_stop"}"#).unwrap());
        let reply = stream.finish().unwrap();
        assert_eq!(reply.text, "Hm");
        let calls: Vec<_> =
            reply.calls.iter().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
        assert_eq!(calls, [("t1", "{\"x\":1}"), ("t2", "")]);
        let expected = Usage { fresh_input: 7, cached_input: 50, output: 9 };
        assert_eq!(reply.usage, Some(expected));
    }

    #[test]
    fn a_message_says_why_it_ended() {
        let reply = |reason: &str| {
            let body = json!({"content": [{"type": "text", "text": "x"}], "stop_reason": reason});
            reply(&body).unwrap().stop
        };
        assert_eq!(reply("end_turn"), Stop::Normal);
        assert_eq!(reply("refusal"), Stop::Refusal);
        assert_eq!(reply("max_tokens"), Stop::OutputLimit);
        assert_eq!(reply("model_context_window_exceeded"), Stop::ContextOverflow);
        let mut stream = MessageEvents::default();
        let error = br#"{"type":"error","error":{"type":"overloaded_error"}}"#;
        let overloaded = InvalidEvent::Error(json!({"type": "overloaded_error"}));
        assert_eq!(stream.feed(error), Err(overloaded));
        assert_eq!(stream.finish(), None);
    }

    #[test]
    fn only_the_end_of_the_conversation_and_of_the_prefix_are_cached() {
        let conversation = Conversation {
            system: "s".to_owned(),
            tools: Vec::new(),
            turns: vec![
                Turn::User("q".to_owned()),
                Turn::Assistant { text: " ".to_owned(), calls: vec![NativeCall::default()] },
                Turn::User("r".to_owned()),
            ],
        };
        let parameters = Parameters {
            model: "m",
            max_output_tokens: 1,
            temperature: None,
            completion_limit: false,
            stream: false,
        };
        let body = body(&conversation, parameters);
        assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral");
        assert_eq!(body["messages"][0]["content"][0].get("cache_control"), None);
        assert_eq!(body["messages"][2]["content"][0]["cache_control"]["type"], "ephemeral");
        assert_eq!(body["messages"][1]["content"][0]["type"], "tool_use");
    }
}
