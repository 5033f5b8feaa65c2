//! A conversation about one question, through the proxy before the server with the results.
//!
//! The conversation does not depend on whether the model is right: it ends when the model ends it,
//! or after the last call and one more message.

use std::path::Path;
use std::time::Instant;

use anyhow::{Error, Result, anyhow, ensure};
use serde_json::{Value, json};
use testkit::questions::{Battery, Question, Session};

use super::ChosenQuestion;
use super::mistake;
use super::samples::{QuestionCall, QuestionSample, RightBy};
use crate::agent::{Agent as _, Step, ToolCall, ToolDefinition, ToolReply};
use crate::agents::endpoint::{EndpointAgent, EndpointError, EndpointFactory};
use crate::transcript::{Ending, Usage};

/// The characters of a reply in the file of samples.
const MAX_REPLY_CHARS: usize = 1000;

pub(super) const SYSTEM: &str = "You answer a question about the result of a tool. The result is \
     stored, and you see its descriptor. Query the stored result with the tools; `lro.ref` in the \
     descriptor is its reference. Call one tool at a time. If the descriptor or a reply shows the \
     answer, state the answer.";
/// After a message that was meant as a call. It counts as a call.
pub(super) const REMINDER: &str = "Call a tool as JSON, or state the answer.";
/// With the replies to the last calls.
pub(super) const NO_CALLS_LEFT: &str = "You have no calls left. State the answer.";

/// The proxy before the server with the results.
pub struct QuestionWorld {
    session: Session,
    /// The extraction tools, without those of the server.
    pub tools: Vec<ToolDefinition>,
}

impl QuestionWorld {
    /// Starts the proxy of `program` before the server of the questions, in `directory`.
    pub fn start(
        program: &Path,
        server: &Path,
        directory: &Path,
        batteries: &[Battery],
    ) -> Result<Self> {
        let mut session =
            Session::start(program, server, directory).map_err(|error| anyhow!(error))?;
        let listed = session.tools().map_err(|error| anyhow!(error))?;
        let is_own = |tool: &Value| batteries.iter().all(|battery| tool["name"] != battery.tool);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let tools = listed.iter().filter(|tool| is_own(tool)).map(|tool| ToolDefinition {
            name: text(&tool["name"]),
            description: text(&tool["description"]),
            input_schema: tool["inputSchema"].clone(),
        });
        let tools: Vec<_> = tools.collect();
        ensure!(!tools.is_empty(), "{} lists no extraction tools", program.display());
        Ok(Self { session, tools })
    }

    /// The question with the descriptor of the result, in one message: a weak model that reads the descriptor
    /// as the reply to a call of its own answers without querying it.
    pub fn prompt(&mut self, chosen: &ChosenQuestion<'_>) -> Result<String> {
        let tool = &chosen.battery.tool;
        let called = self.session.call(tool, &json!({}));
        let descriptor = text_of(&called.map_err(|error| anyhow!(error))?);
        Ok(format!("{}\n\nThe tool {tool} returned:\n{descriptor}", chosen.question.ask))
    }

    /// Asks a question. The model has at most `max_calls` calls.
    pub fn ask(
        &mut self,
        chosen: &ChosenQuestion<'_>,
        factory: &EndpointFactory,
        max_calls: usize,
    ) -> Result<QuestionSample> {
        let began = Instant::now();
        let prompt = self.prompt(chosen)?;
        let mut agent = factory.converse(SYSTEM, &self.tools, &prompt);
        let session = &mut self.session;
        let mut call = |tool: &str, arguments: &Value| {
            session.call(tool, arguments).map_err(|error| anyhow!(error))
        };
        let mut talk = Talk::new(chosen.question, &self.tools, &mut call, max_calls);
        let ending = talk.run(&mut agent)?;
        let mut sample = talk.sample(&chosen.battery.kind, ending);
        agent.last_text().clone_into(&mut sample.text);
        sample.usage = agent.usage();
        sample.elapsed_millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(sample)
    }
}

/// A conversation.
struct Talk<'a> {
    question: &'a Question,
    tools: &'a [ToolDefinition],
    call: &'a mut dyn FnMut(&str, &Value) -> Result<Value>,
    max_calls: usize,
    /// The calls that were used, the reminder included.
    used: usize,
    is_reminded: bool,
    /// Whether a reply is the answer.
    is_replied: bool,
    /// Whether the model ended with a message that states the answer.
    is_stated: bool,
    calls: Vec<QuestionCall>,
    mistakes: Vec<String>,
}

impl<'a> Talk<'a> {
    fn new(
        question: &'a Question,
        tools: &'a [ToolDefinition],
        call: &'a mut dyn FnMut(&str, &Value) -> Result<Value>,
        max_calls: usize,
    ) -> Self {
        Self {
            question,
            tools,
            call,
            max_calls,
            used: 0,
            is_reminded: false,
            is_replied: false,
            is_stated: false,
            calls: Vec::new(),
            mistakes: Vec::new(),
        }
    }

    /// Lets the agent call tools until it ends or has no calls left.
    fn run(&mut self, agent: &mut EndpointAgent) -> Result<Ending> {
        let mut step = agent.step(&[]);
        loop {
            step = match step {
                Err(error) => return self.stopped(error),
                Ok(Step::Calls(_)) if self.used >= self.max_calls => return Ok(Ending::Cap),
                Ok(Step::Calls(requested)) => {
                    let replies = self.reply(requested)?;
                    match self.last_message() {
                        Some(message) => agent.step_with(&replies, message),
                        None => agent.step(&replies),
                    }
                }
                Ok(Step::End) => {
                    self.is_stated |= self.question.is_stated_in(agent.last_text());
                    if !agent.is_meant_as_call() {
                        return Ok(Ending::NoAnswer);
                    }
                    self.add_mistake(mistake::CALL_NOT_PARSED);
                    if self.is_reminded || self.used >= self.max_calls {
                        return Ok(Ending::NoAnswer);
                    }
                    self.is_reminded = true;
                    self.used += 1;
                    agent.step_with(&[], self.last_message().unwrap_or(REMINDER))
                }
            };
        }
    }

    /// What the model gets to read if it has no calls left.
    fn last_message(&self) -> Option<&'static str> {
        (self.used >= self.max_calls).then_some(NO_CALLS_LEFT)
    }

    /// Calls the tools. Calls beyond the last one are refused.
    fn reply(&mut self, requested: Vec<ToolCall>) -> Result<Vec<ToolReply>> {
        let mut replies = Vec::new();
        for call in requested {
            let (text, is_error) = if self.used < self.max_calls {
                self.used += 1;
                self.call_tool(call)?
            } else {
                (NO_CALLS_LEFT.to_owned(), true)
            };
            replies.push(ToolReply { text, is_error, records_given: 0, write_micros: None });
        }
        Ok(replies)
    }

    fn call_tool(&mut self, call: ToolCall) -> Result<(String, bool)> {
        let ToolCall { name, arguments } = call;
        let result = (self.call)(&name, &arguments)?;
        let (text, is_error) = (text_of(&result), result["isError"] == true);
        self.is_replied |= self.question.is_answered_by(&result);
        if self.tools.iter().all(|tool| tool.name != name) {
            self.add_mistake(mistake::UNKNOWN_TOOL);
        } else if is_error {
            self.mistakes.push(mistake::class_of_error(&text));
        }
        let is_same = |other: &QuestionCall| other.tool == name && other.arguments == arguments;
        if self.calls.iter().any(is_same) {
            self.add_mistake(mistake::REPEATED_CALL);
        }
        let reply = text.chars().take(MAX_REPLY_CHARS).collect();
        self.calls.push(QuestionCall { tool: name, arguments, reply, is_error });
        Ok((text, is_error))
    }

    fn add_mistake(&mut self, mistake: &str) {
        self.mistakes.push(mistake.to_owned());
    }

    /// The ending of a conversation that the model cannot continue. Other errors end the run.
    fn stopped(&mut self, error: Error) -> Result<Ending> {
        match error.downcast_ref::<EndpointError>().cloned() {
            Some(EndpointError::InvalidOutput { .. }) => self.add_mistake(mistake::CALL_NOT_PARSED),
            Some(EndpointError::OutputLimit { .. }) => self.add_mistake(mistake::OUTPUT_LIMIT),
            Some(EndpointError::Refused { .. } | EndpointError::ContextOverflow { .. }) => {}
            _ => return Err(error),
        }
        let ending = error.downcast_ref::<EndpointError>().map(EndpointError::ending);
        Ok(ending.unwrap_or(Ending::NoAnswer))
    }

    /// The sample, without what the agent counts.
    fn sample(mut self, kind: &str, ending: Ending) -> QuestionSample {
        let by = match (self.is_replied, self.is_stated) {
            (true, _) => Some(RightBy::Reply),
            (false, true) => Some(RightBy::Statement),
            (false, false) => None,
        };
        if self.is_replied && !self.is_stated {
            self.add_mistake(mistake::NOT_STATED);
        }
        let is_call_needed = self.question.call.is_some() && by.is_none();
        if is_call_needed && self.calls.is_empty() && self.mistakes.is_empty() {
            self.add_mistake(mistake::NO_CALL);
        }
        QuestionSample {
            kind: kind.to_owned(),
            question: self.question.id.clone(),
            by,
            stated: self.is_stated,
            ending: if by.is_some() { Ending::Answered } else { ending },
            mistakes: self.mistakes,
            calls: self.calls,
            text: String::new(),
            usage: Usage::default(),
            elapsed_millis: 0,
        }
    }
}

fn text_of(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    let texts = blocks.filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use testkit::http::{HttpServer, reply_json};

    use super::super::tests::arguments;
    use super::*;
    use crate::prices::PriceTable;

    const RIGHT: &str = "1 of 1 rows.\n{\"closed_at\":\"2026-09-09\"}\n";
    const EMPTY: &str = "0 of 0 rows.\n";

    fn question(call: &str) -> Question {
        let text = format!(
            "kind = \"k\"\ntool = \"get_k\"\nabout = \"A k\"\n[[question]]\nid = \"q\"\nask = \"?\"\n\
             call = '{call}'\nanswer = '[\"2026-09-09\"]'\n"
        );
        Battery::parse(&text).unwrap().questions.remove(0)
    }

    fn with_call() -> Question {
        question("lro_extract {\"ref\":\"$REF\"}")
    }

    fn says(text: &str) -> Value {
        json!({"message": {"role": "assistant", "content": text}, "finish_reason": "stop"})
    }

    fn calls(name: &str, sql: &str) -> Value {
        let arguments = json!({"ref": "lro:1", "sql": sql}).to_string();
        let call = json!({
            "id": "c", "type": "function", "function": {"name": name, "arguments": arguments},
        });
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        json!({"message": message, "finish_reason": "tool_calls"})
    }

    /// An endpoint that says these messages. An error is one that llama.cpp reports.
    fn endpoint(messages: Vec<Value>) -> HttpServer {
        let messages = Mutex::new(VecDeque::from(messages));
        HttpServer::start(move |_, stream| {
            let message = messages.lock().unwrap().pop_front().expect("a further message");
            match message.get("error") {
                Some(error) => {
                    reply_json(stream, "500 Internal Server Error", &json!({"error": error}))
                }
                None => reply_json(stream, "200 OK", &json!({"choices": [message]})),
            }
        })
    }

    /// The sample of a conversation with these messages and replies, and the last request.
    fn converse(
        question: &Question,
        messages: Vec<Value>,
        replies: &[&str],
    ) -> (QuestionSample, Value) {
        let count = messages.len();
        let server = endpoint(messages);
        let endpoint = arguments(server.url("/v1")).endpoint;
        let factory = endpoint.factory(None, &PriceTable::default()).unwrap();
        let tool = ToolDefinition {
            name: "lro_extract".to_owned(),
            description: String::new(),
            input_schema: json!({"type": "object"}),
        };
        let tools = [tool];
        let mut agent = factory.converse(SYSTEM, &tools, "q");
        let mut replies = replies.iter();
        let mut call = |_: &str, _: &Value| -> Result<Value> {
            let text = replies.next().expect("a further reply");
            let is_error = text.starts_with("Error");
            Ok(json!({"isError": is_error, "content": [{"type": "text", "text": text}]}))
        };
        let mut talk = Talk::new(question, &tools, &mut call, 3);
        let ending = talk.run(&mut agent).unwrap();
        let sample = talk.sample("k", ending);
        let asked = server.asked();
        assert_eq!(asked.len(), count, "every message is asked for");
        (sample, asked[count - 1].json())
    }

    #[test]
    fn a_statement_counts_at_the_end_only() {
        let (sample, _) = converse(&with_call(), vec![says("On 2026-09-09.")], &[]);
        assert_eq!((sample.by, sample.ending), (Some(RightBy::Statement), Ending::Answered));
        assert_eq!((sample.calls.len(), sample.mistakes.len()), (0, 0));
        let mut guess = calls("lro_extract", "SELECT 1");
        guess["message"]["content"] = "It may be 2026-09-09.".into();
        let descriptor = question("descriptor");
        let (sample, _) = converse(&descriptor, vec![guess, says("I do not know.")], &[EMPTY]);
        assert_eq!((sample.by, sample.stated), (None, false));
        assert_eq!(sample.ending, Ending::NoAnswer);
        let (sample, _) = converse(&with_call(), vec![says("On 2025-09-09.")], &[]);
        assert_eq!((sample.by, sample.mistakes), (None, vec![mistake::NO_CALL.to_owned()]));
    }

    #[test]
    fn a_right_reply_does_not_end_the_conversation() {
        let first = calls("lro_extract", "SELECT closed_at FROM results");
        let messages = vec![first.clone(), says("It was closed on 2026-09-09.")];
        let (sample, _) = converse(&with_call(), messages, &[RIGHT]);
        assert_eq!((sample.by, sample.stated), (Some(RightBy::Reply), true));
        assert!(sample.mistakes.is_empty(), "{:?}", sample.mistakes);
        let (sample, _) = converse(&with_call(), vec![first, says("I do not know.")], &[RIGHT]);
        assert_eq!((sample.by, sample.stated), (Some(RightBy::Reply), false));
        assert_eq!(sample.mistakes, [mistake::NOT_STATED]);
    }

    #[test]
    fn after_the_last_call_there_is_one_more_message() {
        let call = |n: usize| calls("lro_extract", &format!("SELECT {n}"));
        let messages = vec![call(1), call(2), call(3), says("2026-09-09")];
        let replies = [EMPTY, "Error (syntax): x", RIGHT];
        let (sample, last) = converse(&with_call(), messages, &replies);
        assert_eq!((sample.by, sample.stated), (Some(RightBy::Reply), true));
        assert_eq!(sample.mistakes, ["error: syntax"]);
        let turns = last["messages"].as_array().unwrap();
        assert_eq!(turns[turns.len() - 1]["content"], NO_CALLS_LEFT);
        assert_eq!(turns[turns.len() - 2]["content"], RIGHT);
        let messages = vec![call(1), call(1), call(2), call(3)];
        let (sample, _) = converse(&with_call(), messages, &[EMPTY; 3]);
        assert_eq!((sample.by, sample.ending), (None, Ending::Cap));
        assert_eq!(
            (sample.calls.len(), sample.mistakes),
            (3, vec![mistake::REPEATED_CALL.to_owned()])
        );
    }

    #[test]
    fn a_lost_call_is_reminded_of_once() {
        let lost = || says("lro_extract(ref=\"lro:1\")");
        let messages = vec![lost(), calls("lro_extract", "SELECT 1"), lost()];
        let (sample, _) = converse(&with_call(), messages, &[EMPTY]);
        assert_eq!((sample.by, sample.calls.len()), (None, 1));
        assert_eq!(sample.mistakes, [mistake::CALL_NOT_PARSED; 2]);
        let (_, last) = converse(&with_call(), vec![lost(), says("2026-09-09")], &[]);
        assert_eq!(last["messages"].as_array().unwrap().last().unwrap()["content"], REMINDER);
        // The reminder is the third call.
        let call = |n: usize| calls("lro_extract", &format!("SELECT {n}"));
        let messages = vec![call(1), call(2), lost(), call(3)];
        let (sample, last) = converse(&with_call(), messages, &[EMPTY; 2]);
        assert_eq!((sample.ending, sample.calls.len()), (Ending::Cap, 2));
        assert_eq!(last["messages"].as_array().unwrap().last().unwrap()["content"], NO_CALLS_LEFT);
    }

    #[test]
    fn what_the_endpoint_cannot_parse_and_what_is_cut_is_wrong() {
        let message = "Failed to parse input at pos 3: {";
        let error = json!({"error": {"code": 500, "message": message, "type": "server_error"}});
        let (sample, _) = converse(&with_call(), vec![error], &[]);
        assert_eq!((sample.by, sample.ending), (None, Ending::NoAnswer));
        assert_eq!(sample.mistakes, [mistake::CALL_NOT_PARSED]);
        let mut cut = says("I think that");
        cut["finish_reason"] = "length".into();
        let (sample, _) = converse(&with_call(), vec![cut], &[]);
        assert_eq!(sample.ending, Ending::OutputLimit);
        assert_eq!(sample.mistakes, [mistake::OUTPUT_LIMIT]);
        let messages = vec![calls("sql", "SELECT 1"), says("I do not know.")];
        let (sample, _) = converse(&with_call(), messages, &["Error: unknown"]);
        assert_eq!(sample.mistakes, [mistake::UNKNOWN_TOOL]);
    }

    #[test]
    fn only_the_end_of_a_conversation_is_a_result() {
        let question = with_call();
        let mut call = |_: &str, _: &Value| -> Result<Value> { Ok(Value::Null) };
        let mut talk = Talk::new(&question, &[], &mut call, 3);
        let refused = EndpointError::Refused { message: String::new() };
        assert_eq!(talk.stopped(refused.into()).unwrap(), Ending::Refused);
        let failed = EndpointError::Failed { message: String::new() };
        let error = talk.stopped(failed.into()).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(EndpointError::Failed { .. })));
        assert!(talk.stopped(anyhow!("another error")).is_err());
    }
}
