//! Chat completions.

use serde_json::{Map, Value, json};

use super::api::{Conversation, InvalidEvent, ModelReply, NativeCall, Parameters, Stop, Turn};
use crate::transcript::Usage;

/// The data of the last event of a stream.
const DONE: &[u8] = b"[DONE]";

pub(super) fn body(conversation: &Conversation, parameters: Parameters<'_>) -> Value {
    let mut messages = Vec::new();
    if !conversation.system.is_empty() {
        messages.push(json!({"role": "system", "content": conversation.system}));
    }
    messages.extend(conversation.turns.iter().flat_map(messages_of));
    let mut body = Map::new();
    body.insert("model".to_owned(), parameters.model.into());
    if !conversation.tools.is_empty() {
        let tools = conversation.tools.iter().map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.input_schema,
            }})
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    let limit = if parameters.completion_limit { "max_completion_tokens" } else { "max_tokens" };
    body.insert(limit.to_owned(), parameters.max_output_tokens.into());
    if let Some(temperature) = parameters.temperature {
        body.insert("temperature".to_owned(), temperature.into());
    }
    if parameters.stream {
        body.insert("stream".to_owned(), true.into());
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    body.insert("messages".to_owned(), messages.into());
    body.into()
}

fn messages_of(turn: &Turn) -> Vec<Value> {
    match turn {
        Turn::User(text) => vec![json!({"role": "user", "content": text})],
        Turn::Assistant { text, calls } if calls.is_empty() => {
            vec![json!({"role": "assistant", "content": text})]
        }
        Turn::Assistant { text, calls } => {
            let calls = calls.iter().map(|call| {
                json!({"id": call.id, "type": "function", "function": {
                    "name": call.name, "arguments": call.arguments,
                }})
            });
            let content = if text.is_empty() { Value::Null } else { text.as_str().into() };
            vec![json!({
                "role": "assistant", "content": content, "tool_calls": calls.collect::<Vec<_>>(),
            })]
        }
        Turn::Results(results) => {
            let message =
                |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
            results.iter().map(|result| message(&result.id, &result.text)).collect()
        }
    }
}

pub(super) fn reply(body: &Value) -> Result<ModelReply, InvalidEvent> {
    let choice = body.pointer("/choices/0").ok_or(InvalidEvent::Malformed)?;
    let message = choice.get("message").ok_or(InvalidEvent::Malformed)?;
    let calls = elements(&message["tool_calls"]).map(|call| NativeCall {
        id: text_of(&call["id"]),
        name: text_of(&call["function"]["name"]),
        arguments: arguments_of(&call["function"]["arguments"]),
    });
    Ok(ModelReply {
        text: text_of(&message["content"]),
        calls: calls.collect(),
        stop: stop(&choice["finish_reason"], message),
        usage: usage(body),
    })
}

/// llama.cpp writes the arguments of some models as JSON instead of JSON in a string.
fn arguments_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn stop(reason: &Value, message: &Value) -> Stop {
    let refused = message["refusal"].as_str().is_some_and(|refusal| !refusal.is_empty());
    if refused {
        return Stop::Refusal;
    }
    match reason.as_str() {
        Some("content_filter") => Stop::Refusal,
        Some("length") => Stop::OutputLimit,
        _ => Stop::Normal,
    }
}

/// The tokens of a request. llama.cpp reports cached ones among its timings.
fn usage(body: &Value) -> Option<Usage> {
    let usage = body.get("usage").filter(|usage| usage.is_object())?;
    let input = usage["prompt_tokens"].as_u64()?;
    let cached = usage.pointer("/prompt_tokens_details/cached_tokens").and_then(Value::as_u64);
    let cached = cached.or_else(|| body.pointer("/timings/cache_n")?.as_u64());
    let cached_input = cached.unwrap_or_default().min(input);
    let output = usage["completion_tokens"].as_u64().unwrap_or_default();
    Some(Usage { fresh_input: input - cached_input, cached_input, output })
}

/// The chunks of a stream.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    reply: ModelReply,
    /// The calls by their index, which servers may leave out.
    calls: Vec<(Option<u64>, NativeCall)>,
    finished: bool,
}

impl Chunks {
    pub(super) fn feed(&mut self, data: &[u8]) -> Result<bool, InvalidEvent> {
        if data == DONE {
            return Ok(self.finished);
        }
        let chunk: Value = serde_json::from_slice(data).map_err(|_| InvalidEvent::Malformed)?;
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(InvalidEvent::Error(error.clone()));
        }
        if let Some(usage) = usage(&chunk) {
            self.reply.usage = Some(usage);
        }
        let Some(choice) = chunk.pointer("/choices/0") else { return Ok(false) };
        let delta = &choice["delta"];
        self.reply.text.push_str(delta["content"].as_str().unwrap_or_default());
        let stop = stop(&choice["finish_reason"], delta);
        // A refusal may come before the chunk that ends the message.
        if stop != Stop::Normal && self.reply.stop != Stop::Refusal {
            self.reply.stop = stop;
        }
        for part in elements(&delta["tool_calls"]) {
            self.add_call(part);
        }
        self.finished |= choice["finish_reason"].is_string();
        Ok(false)
    }

    /// Adds a part of a call. A part without an index belongs to the last call, unless it has an id.
    fn add_call(&mut self, part: &Value) {
        let index = part["index"].as_u64();
        let id = text_of(&part["id"]);
        let at = match index {
            Some(_) => self.calls.iter().position(|(other, _)| *other == index),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => None,
        };
        let at = at.unwrap_or_else(|| {
            self.calls.push((index, NativeCall::default()));
            self.calls.len() - 1
        });
        let call = &mut self.calls[at].1;
        if !id.is_empty() {
            call.id = id;
        }
        call.name.push_str(part["function"]["name"].as_str().unwrap_or_default());
        call.arguments.push_str(&arguments_of(&part["function"]["arguments"]));
    }

    pub(super) fn finish(mut self) -> Option<ModelReply> {
        if !self.finished {
            return None;
        }
        self.reply.calls = self.calls.into_iter().map(|(_, call)| call).collect();
        Some(self.reply)
    }
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streamed(chunks: &[Value]) -> Option<ModelReply> {
        let mut events = Chunks::default();
        for chunk in chunks {
            assert!(!events.feed(chunk.to_string().as_bytes()).unwrap());
        }
        events.feed(DONE).unwrap();
        events.finish()
    }

    fn chunk(delta: &Value, finish: Option<&str>) -> Value {
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    }

    #[test]
    fn cached_tokens_are_not_fresh() {
        let body = |usage: Value| json!({"usage": usage, "timings": {"cache_n": 30}});
        let openai = json!({
            "prompt_tokens": 100, "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 80},
        });
        let expected = Usage { fresh_input: 20, cached_input: 80, output: 5 };
        assert_eq!(usage(&body(openai)), Some(expected));
        let llama = json!({"prompt_tokens": 100, "completion_tokens": 5});
        let expected = Usage { fresh_input: 70, cached_input: 30, output: 5 };
        assert_eq!(usage(&body(llama)), Some(expected));
        assert_eq!(usage(&json!({"usage": null})), None);
    }

    #[test]
    fn parallel_calls_are_put_together_from_their_parts() {
        let part = |index: u64, id: Option<&str>, name: Option<&str>, arguments: &str| {
            json!({"tool_calls": [{
                "index": index, "id": id, "function": {"name": name, "arguments": arguments},
            }]})
        };
        let reply = streamed(&[
            chunk(&json!({"role": "assistant", "content": null}), None),
            chunk(&part(0, Some("c0"), Some("a"), ""), None),
            chunk(&part(1, Some("c1"), Some("b"), "{}"), None),
            chunk(&part(0, None, None, "{\"x\""), None),
            chunk(&part(0, None, None, ":1}"), None),
            chunk(&json!({}), Some("tool_calls")),
            json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}),
        ]);
        let reply = reply.unwrap();
        let calls: Vec<_> = reply
            .calls
            .iter()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(calls, [("c0", "a", "{\"x\":1}"), ("c1", "b", "{}")]);
        assert_eq!(reply.usage.unwrap().fresh_input, 7);
    }

    #[test]
    fn a_stream_without_its_end_is_no_message() {
        assert_eq!(streamed(&[chunk(&json!({"content": "a"}), None)]), None);
        let whole = streamed(&[chunk(&json!({"content": "a"}), Some("stop"))]).unwrap();
        assert_eq!((whole.text.as_str(), whole.stop), ("a", Stop::Normal));
        let refused = streamed(&[chunk(&json!({"refusal": "No."}), Some("stop"))]).unwrap();
        assert_eq!(refused.stop, Stop::Refusal);
        let early = [chunk(&json!({"refusal": "No."}), None), chunk(&json!({}), Some("length"))];
        assert_eq!(streamed(&early).unwrap().stop, Stop::Refusal);
        let cut = streamed(&[chunk(&json!({"content": "a"}), Some("length"))]).unwrap();
        assert_eq!(cut.stop, Stop::OutputLimit);
        let mut events = Chunks::default();
        let error = events.feed(br#"{"error":{"message":"x"}}"#).unwrap_err();
        assert_eq!(error, InvalidEvent::Error(json!({"message": "x"})));
        assert_eq!(events.feed(b"{"), Err(InvalidEvent::Malformed));
    }
}
