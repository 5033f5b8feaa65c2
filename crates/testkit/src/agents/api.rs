//! The four model APIs that the agents speak, reduced to what a script needs.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use serde_json::Value;

use super::ToolCall;
use crate::http::ReceivedRequest;

/// What a model answers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// A text that ends the turn.
    Text(String),
    /// A tool call, with its position in the script.
    Call(usize, ToolCall),
}

/// A request to the model, reduced to what the APIs have in common.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelRequest {
    /// The names of the listed tools; those of a namespace are `NAMESPACE/NAME`.
    pub tools: Vec<String>,
    /// The results of the tool calls so far.
    pub results: Vec<ToolResult>,
    /// All texts, for the prompt that marks the conversation.
    pub(super) body: String,
    pub(super) streamed: bool,
}

/// The result of a tool as the model receives it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// The texts of the result, in order.
    pub text: String,
    /// The result as it was sent.
    pub raw: Value,
}

impl ToolResult {
    fn new(content: &Value, raw: &Value) -> Self {
        Self { text: texts(content), raw: raw.clone() }
    }
}

/// A model API, recognised by the path of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    Anthropic,
    Chat,
    Gemini,
    Responses,
}

/// A request that a model answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Generate(Api),
    CountTokens(Api),
}

impl Operation {
    pub(super) fn from_path(path: &str) -> Option<Self> {
        let ends = |end: &str| path.ends_with(end);
        Some(match () {
            () if ends("/messages/count_tokens") => Self::CountTokens(Api::Anthropic),
            () if ends("/messages") => Self::Generate(Api::Anthropic),
            () if ends("/chat/completions") => Self::Generate(Api::Chat),
            () if ends("/responses") => Self::Generate(Api::Responses),
            () if ends(":countTokens") => Self::CountTokens(Api::Gemini),
            () if ends("enerateContent") => Self::Generate(Api::Gemini),
            () => return None,
        })
    }
}

impl Api {
    /// Reads a request.
    pub(super) fn parse(self, request: &ReceivedRequest) -> ModelRequest {
        let body = request.json();
        let (tools, results, streamed) = match self {
            Self::Anthropic => anthropic::parse(&body),
            Self::Chat => chat::parse(&body),
            Self::Gemini => gemini::parse(&body, request.path()),
            Self::Responses => responses::parse(&body),
        };
        let body = String::from_utf8_lossy(&request.body).into_owned();
        ModelRequest { tools, results, body, streamed }
    }

    /// The content type and body of a response.
    pub(super) fn render(self, answer: &Answer, streamed: bool) -> (&'static str, String) {
        match (self, streamed) {
            (Self::Anthropic, true) => events(&anthropic::events(answer)),
            (Self::Anthropic, false) => document(&anthropic::message(answer)),
            (Self::Chat, true) => {
                let (kind, body) = events(&chat::events(answer));
                (kind, body + "data: [DONE]\n\n")
            }
            (Self::Chat, false) => document(&chat::completion(answer)),
            (Self::Gemini, true) => events(&[gemini::content(answer)]),
            (Self::Gemini, false) => document(&gemini::content(answer)),
            (Self::Responses, true) => events(&responses::events(answer)),
            (Self::Responses, false) => document(&responses::response(answer)),
        }
    }
}

fn document(body: &Value) -> (&'static str, String) {
    ("application/json", body.to_string())
}

/// A stream of events; an event with a `type` is called by it.
fn events(events: &[Value]) -> (&'static str, String) {
    let mut body = String::new();
    for event in events {
        if let Some(name) = event["type"].as_str() {
            body += &*format!("event: {name}\n");
        }
        body += &*format!("data: {event}\n\n");
    }
    ("text/event-stream", body)
}

/// The texts in a tool's result: a string, or blocks with texts.
fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().map(|block| match block.get("text") {
                Some(text) => text.as_str().unwrap_or_default().to_owned(),
                None => block.to_string(),
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The elements of an array; none of anything else.
fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The name of a listed tool.
fn named(tool: &Value) -> Option<String> {
    tool["name"].as_str().map(str::to_owned)
}

/// The identifier of the call at a position of the script.
fn call_id(position: usize) -> String {
    format!("call_{position}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(api: Api, path: &str, body: &Value) -> ModelRequest {
        let body = body.to_string().into_bytes();
        api.parse(&ReceivedRequest { target: path.to_owned(), body, ..Default::default() })
    }

    fn received(request: &ModelRequest) -> Vec<&str> {
        request.results.iter().map(|result| result.text.as_str()).collect()
    }

    #[test]
    fn a_path_names_its_api() {
        let read = Operation::from_path;
        assert_eq!(read("/v1/messages"), Some(Operation::Generate(Api::Anthropic)));
        assert_eq!(read("/v1/messages/count_tokens"), Some(Operation::CountTokens(Api::Anthropic)));
        assert_eq!(read("/v1/chat/completions"), Some(Operation::Generate(Api::Chat)));
        assert_eq!(read("/v1/responses"), Some(Operation::Generate(Api::Responses)));
        let gemini = "/v1beta/models/m:streamGenerateContent";
        assert_eq!(read(gemini), Some(Operation::Generate(Api::Gemini)));
        assert_eq!(read("/v1/models"), None);
    }

    #[test]
    fn results_are_read_in_every_api() {
        let blocks = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        let request = parse(
            Api::Anthropic,
            "/v1/messages",
            &json!({
                "stream": true, "tools": [{"name": "Bash"}],
                "messages": [
                    {"role": "user", "content": "go"},
                    {"role": "user", "content": [{"type": "tool_result", "content": "one"}]},
                    {"role": "user", "content": [{"type": "tool_result", "content": blocks}]},
                ],
            }),
        );
        assert_eq!(received(&request), ["one", "a\nb"]);
        assert_eq!((request.tools, request.streamed), (vec!["Bash".to_owned()], true));

        let request = parse(
            Api::Chat,
            "/v1/chat/completions",
            &json!({
                "tools": [{"type": "function", "function": {"name": "bash"}}],
                "messages": [{"role": "tool", "content": "one"}, {"role": "tool", "content": blocks}],
            }),
        );
        assert_eq!(received(&request), ["one", "a\nb"]);
        assert_eq!((request.tools, request.streamed), (vec!["bash".to_owned()], false));

        let output = json!([{"type": "input_text", "text": "two"}]);
        let request = parse(
            Api::Responses,
            "/v1/responses",
            &json!({
                "stream": true,
                "tools": [
                    {"type": "function", "name": "exec_command"},
                    {"type": "namespace", "name": "mcp__t", "tools": [{"name": "big"}]},
                ],
                "input": [
                    {"type": "message", "role": "user", "content": []},
                    {"type": "function_call_output", "output": "one"},
                    {"type": "function_call_output", "output": output},
                ],
            }),
        );
        assert_eq!(received(&request), ["one", "two"]);
        assert_eq!(request.tools, ["exec_command", "mcp__t/big"]);

        let part = json!({"functionResponse": {"name": "x", "response": {"output": "one"}}});
        let request = parse(
            Api::Gemini,
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            &json!({
                "tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}],
                "contents": [{"role": "user", "parts": [{"text": "go"}]}, {"role": "user", "parts": [part]}],
            }),
        );
        assert_eq!(received(&request), ["one"]);
        assert_eq!(request.tools, ["run_shell_command"]);
        assert!(request.streamed);
    }

    #[test]
    fn a_call_is_in_every_response() {
        let call = ToolCall::new("bash", json!({"command": "echo marker"}));
        let answer = Answer::Call(0, call);
        for api in [Api::Anthropic, Api::Chat, Api::Gemini, Api::Responses] {
            for streamed in [true, false] {
                let (_, body) = api.render(&answer, streamed);
                assert!(body.contains("echo marker"), "{api:?} {streamed}: {body}");
            }
        }
    }
}
