//! A fake endpoint on the loopback interface: it answers in both APIs, streamed or not, and fails on
//! request.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;

use serde_json::{Value, json};
use testkit::http::{HttpServer, ReceivedRequest, begin_events, reply, reply_json};

use crate::agents::endpoint::Api;
use crate::transcript::Usage;

/// What the endpoint answers.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Message {
        text: String,
        calls: Vec<(&'static str, Value)>,
    },
    Refusal,
    /// A message that reached the limit of the output. The arguments of its call are cut.
    Cut {
        text: &'static str,
        arguments: &'static str,
    },
    Status {
        status: &'static str,
        headers: Vec<(&'static str, &'static str)>,
        body: Value,
    },
    /// A response whose end is missing.
    Broken,
    /// An error that arrives after the response began.
    Error(Value),
    /// A response that begins and does not go on.
    Hanging,
    /// A message that is not a stream, although one is asked for.
    Unstreamed(&'static str),
}

pub(super) fn text(text: &str) -> Answer {
    Answer::Message { text: text.to_owned(), calls: Vec::new() }
}

pub(super) fn overloaded() -> Answer {
    Answer::Error(json!({"type": "overloaded_error", "message": "Overloaded"}))
}

pub(super) fn status(status: &'static str, body: Value) -> Answer {
    Answer::Status { status, headers: Vec::new(), body }
}

pub(super) fn endpoint(api: Api, answers: Vec<Answer>) -> HttpServer {
    let answers = Mutex::new(VecDeque::from(answers));
    HttpServer::start(move |request, stream| {
        let next = answers.lock().unwrap().pop_front();
        let next = next.unwrap_or_else(|| status("400 Bad Request", json!("the script is over")));
        answer(api, &next, request, stream)
    })
}

fn answer(
    api: Api,
    answer: &Answer,
    request: &ReceivedRequest,
    stream: &mut TcpStream,
) -> io::Result<()> {
    let streamed = request.json()["stream"] == true;
    match answer {
        Answer::Message { text, calls } => {
            if streamed {
                send_events(stream, &events(api, text, calls, None))
            } else {
                reply_json(stream, "200 OK", &message(api, text, calls, None))
            }
        }
        Answer::Unstreamed(text) => reply_json(stream, "200 OK", &message(api, text, &[], None)),
        Answer::Refusal => {
            let reason = match api {
                Api::Openai => "content_filter",
                Api::Anthropic => "refusal",
            };
            if streamed {
                send_events(stream, &events(api, "No.", &[], Some(reason)))
            } else {
                reply_json(stream, "200 OK", &message(api, "No.", &[], Some(reason)))
            }
        }
        Answer::Status { status, headers, body } => {
            reply(stream, status, headers, body.to_string().as_bytes())
        }
        Answer::Broken if streamed => {
            let events = events(api, "half a message", &[], None);
            send_events(stream, &events[..2])
        }
        Answer::Broken => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"choices\"")?;
            Err(io::ErrorKind::UnexpectedEof.into())
        }
        Answer::Cut { text, arguments } => {
            let (reason, mut message) = match api {
                Api::Openai => ("length", message(api, text, &[], Some("length"))),
                Api::Anthropic => ("max_tokens", message(api, text, &[], Some("max_tokens"))),
            };
            if streamed {
                let events = events(api, text, &[], Some(reason));
                return send_events(stream, &events);
            }
            if api == Api::Openai && !arguments.is_empty() {
                let function = json!({"name": "one", "arguments": arguments});
                let call = json!({"id": "c", "type": "function", "function": function});
                message["choices"][0]["message"]["tool_calls"] = json!([call]);
            }
            reply_json(stream, "200 OK", &message)
        }
        Answer::Hanging => {
            begin_events(stream, &[])?;
            // Until the client closes the connection.
            let _ = stream.read(&mut [0]);
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        Answer::Error(error) => {
            let event = json!({"type": "error", "error": error});
            if streamed {
                send_events(stream, &[event])
            } else {
                reply_json(stream, "200 OK", &event)
            }
        }
    }
}

/// Sends the events and closes the connection.
fn send_events(stream: &mut TcpStream, events: &[Value]) -> io::Result<()> {
    begin_events(stream, &[])?;
    for event in events {
        match event.as_str() {
            Some(text) => write!(stream, "data: {text}\n\n")?,
            None => write!(stream, "data: {event}\n\n")?,
        }
    }
    stream.flush()?;
    Err(io::ErrorKind::ConnectionAborted.into())
}

fn message(api: Api, text: &str, calls: &[(&str, Value)], reason: Option<&str>) -> Value {
    match api {
        Api::Openai => {
            let tool_calls: Vec<Value> = calls
                .iter()
                .enumerate()
                .map(|(n, (name, arguments))| {
                    let function = json!({"name": name, "arguments": arguments.to_string()});
                    json!({"id": format!("call_{n}"), "type": "function", "function": function})
                })
                .collect();
            let mut message = json!({"role": "assistant", "content": text});
            if !tool_calls.is_empty() {
                message["tool_calls"] = tool_calls.into();
            }
            let usual = if calls.is_empty() { "stop" } else { "tool_calls" };
            json!({
                "choices": [{"index": 0, "message": message, "finish_reason": reason.unwrap_or(usual)}],
                "usage": openai_usage(),
            })
        }
        Api::Anthropic => {
            let mut content = vec![json!({"type": "text", "text": text})];
            content.extend(calls.iter().enumerate().map(|(n, (name, arguments))| {
                json!({"type": "tool_use", "id": format!("call_{n}"), "name": name, "input": arguments})
            }));
            let usual = if calls.is_empty() { "end_turn" } else { "tool_use" };
            json!({
                "type": "message", "role": "assistant", "content": content,
                "stop_reason": reason.unwrap_or(usual), "usage": anthropic_usage(),
            })
        }
    }
}

fn openai_usage() -> Value {
    json!({
        "prompt_tokens": 100, "completion_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 60},
    })
}

fn anthropic_usage() -> Value {
    json!({
        "input_tokens": 30, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 60,
        "output_tokens": 10,
    })
}

/// The usage of one message in both APIs.
pub(super) const USAGE: Usage = Usage { fresh_input: 40, cached_input: 60, output: 10 };

/// The events of a message, with texts and arguments in two pieces.
fn events(api: Api, text: &str, calls: &[(&str, Value)], reason: Option<&str>) -> Vec<Value> {
    let halves = |text: &str| {
        let (one, other) = text.split_at(text.floor_char_boundary(text.len() / 2));
        [one.to_owned(), other.to_owned()]
    };
    let mut events = Vec::new();
    match api {
        Api::Openai => {
            let chunk = |delta: Value, reason: Option<&str>| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
            for half in halves(text) {
                events.push(chunk(json!({"role": "assistant", "content": half}), None));
            }
            for (n, (name, arguments)) in calls.iter().enumerate() {
                let head =
                    json!({"index": n, "id": format!("call_{n}"), "function": {"name": name}});
                events.push(chunk(json!({"tool_calls": [head]}), None));
                for half in halves(&arguments.to_string()) {
                    let part = json!({"index": n, "function": {"arguments": half}});
                    events.push(chunk(json!({"tool_calls": [part]}), None));
                }
            }
            let usual = if calls.is_empty() { "stop" } else { "tool_calls" };
            events.push(chunk(json!({}), Some(reason.unwrap_or(usual))));
            events.push(json!({"choices": [], "usage": openai_usage()}));
            events.push("[DONE]".into());
        }
        Api::Anthropic => {
            let start = json!({"type": "message_start", "message": {"usage": anthropic_usage()}});
            events.push(start);
            let mut block = |index: usize, block: Value, deltas: Vec<Value>| {
                events.push(json!({
                    "type": "content_block_start", "index": index, "content_block": block,
                }));
                events.extend(deltas.into_iter().map(
                    |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
                ));
                events.push(json!({"type": "content_block_stop", "index": index}));
            };
            let deltas = halves(text).map(|half| json!({"type": "text_delta", "text": half}));
            block(0, json!({"type": "text", "text": ""}), deltas.into());
            for (n, (name, arguments)) in calls.iter().enumerate() {
                let head = json!({
                    "type": "tool_use", "id": format!("call_{n}"), "name": name, "input": {},
                });
                let deltas = halves(&arguments.to_string())
                    .map(|half| json!({"type": "input_json_delta", "partial_json": half}));
                block(n + 1, head, deltas.into());
            }
            let usual = if calls.is_empty() { "end_turn" } else { "tool_use" };
            events.push(json!({
                "type": "message_delta", "delta": {"stop_reason": reason.unwrap_or(usual)},
                "usage": {"output_tokens": 10},
            }));
            events.push(json!({"type": "message_stop"}));
        }
    }
    events
}
