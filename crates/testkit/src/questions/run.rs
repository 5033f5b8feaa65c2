//! Asks a built program the questions, as a client of `atlatl proxy` would.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::battery::{Battery, Call, Question};
use super::hint::call_in;
use super::reply::Reply;
use crate::SplitMix64;
use crate::mcp_process::McpProcess;

/// The characters of a reply that a report quotes.
const QUOTED_CHARS: usize = 600;

type Failure = Box<dyn Error + Send + Sync>;

/// What became of a wrong attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Outcome {
    /// The reply is the answer.
    Understood,
    /// The reply contains a call, and its reply is the answer.
    Hint,
    /// Neither.
    Fail,
}

/// The report about one question.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct QuestionOutcome {
    /// The question.
    pub id: String,
    /// Whether its call returned the answer.
    pub answered: bool,
    /// The beginning of the reply, if it is not the answer.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reply: String,
}

/// The report about one wrong attempt.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct AttemptOutcome {
    /// The question it is meant to answer.
    pub question: String,
    /// What is wrong.
    pub mistake: String,
    /// The arguments of the call.
    pub call: String,
    /// What became of it.
    pub outcome: Outcome,
    /// The beginning of the reply, and of the reply to the call in it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reply: String,
}

/// The report about one kind of result.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct KindReport {
    /// The kind.
    pub kind: String,
    /// The kind, in a few words.
    pub about: String,
    /// The tokens of the descriptor, with the least favourable of many ids.
    pub descriptor_tokens: u64,
    /// The same without preview, `lro.around` and `lro.notes`.
    pub lean_descriptor_tokens: u64,
    /// The questions.
    pub questions: Vec<QuestionOutcome>,
    /// The wrong attempts.
    pub attempts: Vec<AttemptOutcome>,
}

impl KindReport {
    /// The number of answered questions.
    pub fn answered(&self) -> usize {
        self.questions.iter().filter(|question| question.answered).count()
    }

    /// The number of attempts with this outcome.
    pub fn attempts_with(&self, outcome: Outcome) -> usize {
        self.attempts.iter().filter(|attempt| attempt.outcome == outcome).count()
    }
}

/// A client of an MCP server, such as a proxy before `questions-server`.
pub struct Session {
    process: McpProcess,
    directory: PathBuf,
}

impl Session {
    /// Asks everything in `batteries`. `program` is `atlatl`, `server` is `questions-server`,
    /// `directory` an empty directory, and `count` counts tokens.
    pub fn run_all(
        program: &Path,
        server: &Path,
        directory: &Path,
        batteries: &[Battery],
        count: &(dyn Fn(&str) -> u64 + Sync),
    ) -> Result<Vec<KindReport>, Failure> {
        let workers =
            thread::available_parallelism().map_or(1, usize::from).min(batteries.len().max(1));
        let run = |worker: usize| {
            let mut session = Self::start(program, server, &directory.join(worker.to_string()))?;
            let own = batteries.iter().enumerate().skip(worker).step_by(workers);
            own.map(|(index, battery)| Ok((index, session.run(battery, count)?)))
                .collect::<Result<Vec<_>, Failure>>()
        };
        let run = &run;
        let reports = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..workers).map(|worker| scope.spawn(move || run(worker))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| Failure::from("a worker panicked"))?)
                .collect::<Result<Vec<_>, Failure>>()
        })?;
        let mut reports: Vec<(usize, KindReport)> = reports.into_iter().flatten().collect();
        reports.sort_by_key(|(index, _)| *index);
        Ok(reports.into_iter().map(|(_, report)| report).collect())
    }

    /// Starts `atlatl proxy -- questions-server` in `directory`, without the environment of this process.
    pub fn start(program: &Path, server: &Path, directory: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.args(["proxy", "--"]).arg(server);
        Self::connect(command, &[], directory)
    }

    /// Starts an MCP server with `command` in `directory`, with `variables` in place of the environment
    /// of this process.
    pub fn connect(
        mut command: Command,
        variables: &[(&str, &str)],
        directory: &Path,
    ) -> Result<Self, Failure> {
        for name in ["work", "tmp"] {
            fs::create_dir_all(directory.join(name))?;
        }
        let path: OsString = std::env::var_os("PATH").unwrap_or_default();
        command
            .current_dir(directory.join("work"))
            .env_clear()
            .env("PATH", path)
            .env("HOME", directory)
            .env("TMPDIR", directory.join("tmp"))
            .envs(variables.iter().copied());
        let mut process = McpProcess::start(&mut command)?;
        process.tools()?;
        Ok(Self { process, directory: directory.to_owned() })
    }

    /// The tools that the proxy lists, those of the server included.
    pub fn tools(&mut self) -> Result<Vec<Value>, Failure> {
        self.process.tools()
    }

    /// Calls a tool.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, Failure> {
        self.process.call(tool, arguments)
    }

    /// Asks everything about one kind of result.
    pub fn run(
        &mut self,
        battery: &Battery,
        count: &dyn Fn(&str) -> u64,
    ) -> Result<KindReport, Failure> {
        let result = self.call(&battery.tool, &json!({}))?;
        let descriptor = descriptor_in(&result).unwrap_or_default();
        let reference =
            descriptor.pointer("/lro/ref").and_then(Value::as_str).unwrap_or("lro:none").to_owned();
        let mut lean = descriptor.clone();
        if let Some(lro) = lean.get_mut("lro").and_then(Value::as_object_mut) {
            for name in ["preview", "preview_cut", "around", "notes"] {
                lro.shift_remove(name);
            }
        }
        let mut questions = Vec::new();
        for question in &battery.questions {
            questions.push(self.ask(question, &descriptor, &reference)?);
        }
        let mut attempts = Vec::new();
        for attempt in &battery.attempts {
            let Some(question) =
                battery.questions.iter().find(|question| question.id == attempt.question)
            else {
                continue;
            };
            let (outcome, reply) = self.attempt(question, &attempt.call, &reference)?;
            attempts.push(AttemptOutcome {
                question: attempt.question.clone(),
                mistake: attempt.mistake.clone(),
                call: shown(&attempt.call),
                outcome,
                reply: self.quote(&reply, &reference),
            });
        }
        Ok(KindReport {
            kind: battery.kind.clone(),
            about: battery.about.clone(),
            descriptor_tokens: most_tokens(&descriptor.to_string(), &reference, count),
            lean_descriptor_tokens: most_tokens(&lean.to_string(), &reference, count),
            questions,
            attempts,
        })
    }

    fn ask(
        &mut self,
        question: &Question,
        descriptor: &Value,
        reference: &str,
    ) -> Result<QuestionOutcome, Failure> {
        let (answered, reply) = match &question.call {
            None => {
                let answered = question.answer.iter().all(|answer| shows(descriptor, answer));
                (answered, descriptor.to_string())
            }
            Some(call) => {
                let call = call.filled(reference);
                let result = self.call(&call.tool, &Value::Object(call.arguments))?;
                (Reply::new(&result).is(question.compare, &question.answer), text_of(&result))
            }
        };
        let reply = if answered { String::new() } else { self.quote(&reply, reference) };
        Ok(QuestionOutcome { id: question.id.clone(), answered, reply })
    }

    /// Sends a wrong attempt, and the call that its reply contains if it is not the answer.
    fn attempt(
        &mut self,
        question: &Question,
        call: &Call,
        reference: &str,
    ) -> Result<(Outcome, String), Failure> {
        let filled = call.filled(reference);
        let result = self.call(&filled.tool, &Value::Object(filled.arguments.clone()))?;
        let reply = Reply::new(&result);
        if reply.answers(question) {
            return Ok((Outcome::Understood, reply.guidance));
        }
        let Some(corrected) = call_in(&reply.guidance, &filled) else {
            return Ok((Outcome::Fail, text_of(&result)));
        };
        let second = self.call(&corrected.tool, &Value::Object(corrected.arguments))?;
        if Reply::new(&second).answers(question) {
            return Ok((Outcome::Hint, reply.guidance));
        }
        Ok((Outcome::Fail, format!("{}\n=> {}", reply.guidance, text_of(&second))))
    }

    /// The beginning of a text, without what differs from run to run.
    fn quote(&self, text: &str, reference: &str) -> String {
        let directory = self.directory.to_string_lossy();
        let text = text.replace(reference, "$REF").replace(&*directory, "$DIR");
        text.chars().take(QUOTED_CHARS).collect()
    }
}

/// The descriptor in the result of a tool.
fn descriptor_in(result: &Value) -> Option<Value> {
    let structured =
        Some(&result["structuredContent"]).filter(|content| content["lro"].is_object());
    let from_text = || {
        let text = result["content"][0]["text"].as_str()?;
        serde_json::from_str::<Value>(text).ok().filter(|content| content["lro"].is_object())
    };
    structured.cloned().or_else(from_text)
}

/// Whether the descriptor contains the answer outside its preview, which shows the beginning of the
/// result only.
fn shows(descriptor: &Value, answer: &Value) -> bool {
    let lro = &descriptor["lro"];
    let places = [
        &lro["around"],
        &lro["notes"],
        &lro["tables"],
        &descriptor["summary"],
        &descriptor["fields"],
    ];
    places.iter().any(|place| contains(place, answer))
}

fn contains(place: &Value, answer: &Value) -> bool {
    match (place, answer) {
        (Value::Array(values), _) => values.iter().any(|value| contains(value, answer)),
        (Value::Object(members), _) => members.values().any(|value| contains(value, answer)),
        (Value::String(text), Value::String(answer)) => {
            text.to_lowercase().contains(&answer.to_lowercase())
        }
        (place, answer) => place == answer,
    }
}

fn text_of(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn shown(call: &Call) -> String {
    format!("{} {}", call.tool, Value::Object(call.arguments.clone()))
}

/// The most tokens of a descriptor over many references: ids are random, and their tokens differ.
fn most_tokens(descriptor: &str, reference: &str, count: &dyn Fn(&str) -> u64) -> u64 {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    const ID_CHARS: usize = 26;
    const RANDOM_CHARS: usize = 16;
    const SAMPLES: u64 = 64;
    let id = reference.trim_start_matches("lro:");
    if id.len() != ID_CHARS {
        return count(descriptor);
    }
    let time = &id[..ID_CHARS - RANDOM_CHARS];
    let tokens = (0..SAMPLES).map(|seed| {
        let mut random = SplitMix64::new(seed);
        let digit = |_| char::from(DIGITS[usize::try_from(random.next_u64() % 32).unwrap_or(0)]);
        let other: String = time.chars().chain((0..RANDOM_CHARS).map(digit)).collect();
        count(&descriptor.replace(id, &other))
    });
    tokens.max().unwrap_or_default()
}
