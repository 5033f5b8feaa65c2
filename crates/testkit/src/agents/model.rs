//! A model that plays a script, and records what it is asked.

use std::fmt;
use std::io;
use std::net::TcpStream;

use serde_json::json;

use super::ToolCall;
use super::api::{Answer, Api, ModelRequest, Operation};
use crate::http::{HttpServer, ReceivedRequest, reply, reply_json};

/// The prompt that marks the conversation of a script. Agents also ask for titles, summaries and the like:
/// those requests are answered, too, and do not advance the script.
pub(super) const PROMPT: &str = "Run the scripted tool calls of this test, marker 7Q3ZK.";
const MARK: &str = "marker 7Q3ZK";

/// The last answer of every script.
pub const FINAL_TEXT: &str = "The script is done.";

/// The answer to a request outside the script. Gemini CLI asks for JSON: who speaks next, which model to use.
const SIDE_TEXT: &str = r#"{"title":"Test","isNewTopic":false,"reasoning":"Test","next_speaker":"user","model_choice":"pro"}"#;

type Step = Box<dyn Fn(&[String]) -> ToolCall + Send + Sync>;

/// A list of tool calls. A text ends it.
pub struct Script {
    /// A part of the prompt: requests without it are not part of the conversation.
    mark: &'static str,
    steps: Vec<Step>,
}

impl Default for Script {
    fn default() -> Self {
        Self { mark: MARK, steps: Vec::new() }
    }
}

impl Script {
    /// A script without calls.
    pub fn new() -> Self {
        Self::default()
    }

    /// A script for a conversation whose prompt contains `mark`.
    pub fn for_prompt(mark: &'static str) -> Self {
        Self { mark, steps: Vec::new() }
    }

    /// Adds a tool call.
    pub fn call(self, call: ToolCall) -> Self {
        self.call_with(move |_| call.clone())
    }

    /// Adds a tool call that depends on the texts of the earlier results.
    pub fn call_with(
        mut self,
        call: impl Fn(&[String]) -> ToolCall + Send + Sync + 'static,
    ) -> Self {
        self.steps.push(Box::new(call));
        self
    }

    /// The answer to a request. Its position is the number of results in the request, so a repeated
    /// request gets the same answer.
    fn answer(&self, request: &ModelRequest) -> Answer {
        if !is_scripted(request, self.mark) {
            return Answer::Text(SIDE_TEXT.to_owned());
        }
        let results: Vec<String> =
            request.results.iter().map(|result| result.text.clone()).collect();
        match self.steps.get(results.len()) {
            Some(step) => Answer::Call(results.len(), step(&results)),
            None => Answer::Text(FINAL_TEXT.to_owned()),
        }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Script").field(&self.steps.len()).finish()
    }
}

/// A model on loopback that plays a script in all APIs.
#[derive(Debug)]
pub struct ScriptedModel {
    server: HttpServer,
    mark: &'static str,
}

impl ScriptedModel {
    /// Starts a model.
    ///
    /// # Panics
    ///
    /// Panics if there is no loopback interface.
    pub fn start(script: Script) -> Self {
        let mark = script.mark;
        let server = HttpServer::start(move |request, stream| respond(&script, request, stream));
        Self { server, mark }
    }

    /// The address, without a path.
    pub fn url(&self) -> String {
        self.server.url("")
    }

    /// The last request of the script's conversation: it has the results of all calls.
    ///
    /// # Panics
    ///
    /// Panics, listing what was asked, if the agent did not begin the conversation.
    pub fn conversation(&self) -> ModelRequest {
        let requests = self.server.asked();
        let scripted = requests.iter().filter_map(|request| scripted(request, self.mark));
        scripted.max_by_key(|request| request.results.len()).unwrap_or_else(|| {
            let asked =
                requests.iter().map(|request| format!("{} {}", request.method, request.target));
            panic!("no request of the script among {:?}", asked.collect::<Vec<_>>())
        })
    }

    /// The number of requests of the script's conversation.
    pub fn turns(&self) -> usize {
        self.server.asked().iter().filter_map(|request| scripted(request, self.mark)).count()
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.server.asked().clone()
    }

    /// The other hosts that the agent tried to reach.
    pub fn refused_hosts(&self) -> Vec<String> {
        let requests = self.server.asked();
        let outside = requests.iter().filter(|request| is_outside(request));
        let mut hosts: Vec<_> = outside.map(|request| request.target.clone()).collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }
}

/// Whether a request is for another host, through this server as a proxy.
fn is_outside(request: &ReceivedRequest) -> bool {
    request.method == "CONNECT" || request.target.contains("://")
}

/// Whether a request belongs to the conversation of the script.
fn is_scripted(request: &ModelRequest, mark: &str) -> bool {
    !request.tools.is_empty() && request.body.contains(mark)
}

fn scripted(request: &ReceivedRequest, mark: &str) -> Option<ModelRequest> {
    match Operation::from_path(request.path())? {
        Operation::Generate(api) => {
            Some(api.parse(request)).filter(|parsed| is_scripted(parsed, mark))
        }
        Operation::CountTokens(_) => None,
    }
}

fn respond(script: &Script, request: &ReceivedRequest, stream: &mut TcpStream) -> io::Result<()> {
    if is_outside(request) {
        return reply(stream, "403 Forbidden", &[], b"");
    }
    match Operation::from_path(request.path()) {
        Some(Operation::Generate(api)) => {
            let parsed = api.parse(request);
            let (kind, body) = api.render(&script.answer(&parsed), parsed.streamed);
            reply(stream, "200 OK", &[("Content-Type", kind)], body.as_bytes())
        }
        Some(Operation::CountTokens(Api::Anthropic)) => {
            reply_json(stream, "200 OK", &json!({"input_tokens": request.body.len() / 4}))
        }
        Some(Operation::CountTokens(_)) => {
            reply_json(stream, "200 OK", &json!({"totalTokens": request.body.len() / 4}))
        }
        None => {
            let error = json!({"error": {"type": "not_found_error", "message": "not found"}});
            reply_json(stream, "404 Not Found", &error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ToolResult;
    use super::*;

    fn request(results: &[&str]) -> ModelRequest {
        let result = |text: &&str| ToolResult { text: (*text).to_owned(), raw: json!(text) };
        ModelRequest {
            tools: vec!["bash".to_owned()],
            results: results.iter().map(result).collect(),
            body: PROMPT.to_owned(),
            streamed: true,
        }
    }

    #[test]
    fn a_script_follows_the_results() {
        let script = Script::new()
            .call(ToolCall::new("bash", json!({"command": "a"})))
            .call_with(|results| ToolCall::new("read", json!({"ref": results[0]})));
        let call = |name, arguments| ToolCall::new(name, arguments);
        let first = Answer::Call(0, call("bash", json!({"command": "a"})));
        assert_eq!(script.answer(&request(&[])), first);
        assert_eq!(script.answer(&request(&[])), first, "a retry");
        let second = Answer::Call(1, call("read", json!({"ref": "lro:x"})));
        assert_eq!(script.answer(&request(&["lro:x"])), second);
        assert_eq!(script.answer(&request(&["lro:x", "y"])), Answer::Text(FINAL_TEXT.to_owned()));
    }

    #[test]
    fn side_requests_do_not_advance_the_script() {
        let script = Script::new().call(ToolCall::new("bash", json!({})));
        let title = ModelRequest { tools: Vec::new(), ..request(&[]) };
        assert_eq!(script.answer(&title), Answer::Text(SIDE_TEXT.to_owned()));
        let other = ModelRequest { body: "Another prompt".to_owned(), ..request(&[]) };
        assert_eq!(script.answer(&other), Answer::Text(SIDE_TEXT.to_owned()));
    }
}
