//! `cargo evidence questions`: asks a model the questions of bench/questions/ through `atlatl proxy`.
//!
//! The model gets the question and the descriptor of the result, and may call the extraction tools a
//! few times. A question is right if a reply is its answer, or if the model states the answer that the
//! descriptor shows. The program is given by its path, so that two versions can be compared.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::questions::{Battery, Question, Session};
use xtask::markdown::write_generated;
use xtask::output;
use xtask::repository::{Repository, cache_dir};
use xtask::run_record::{RunRecord, latest_results};

use crate::agent::{Agent as _, Step, ToolDefinition, ToolReply};
use crate::agents::endpoint::{EndpointAgent, EndpointArgs, EndpointError, EndpointFactory};
use crate::prices::{PRICES_FILE, PriceTable, RunPlan};
use crate::statistics::{real_len, wilson};
use crate::tokens;
use crate::transcript::{Ending, Usage};

const DIRECTORY: &str = "bench/questions";
const DOCUMENT: &str = "docs/evidence.md";
/// The generated part of the document.
const PART: &str = "questions";
/// The names of the records begin with this; the label of the program follows.
const RECORD: &str = "evidence-questions-";
/// The questions in a row that an endpoint may fail to answer before the run ends.
const MAX_FAILURES: usize = 2;
/// The characters of a reply in the transcript.
const MAX_REPLY_CHARS: usize = 1000;

const SYSTEM: &str = "You answer a question about the result of a tool. The result is stored, and you see \
     its descriptor. Query the stored result with the tools; `lro.ref` in the descriptor is its reference. \
     Call one tool at a time. If the descriptor or a reply shows the answer, state the answer.";

/// What to ask.
#[derive(Debug, clap::Args)]
pub struct QuestionsArgs {
    /// Built `atlatl` program
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// Name of the program in records, such as its commit
    #[arg(long, value_name = "NAME")]
    label: String,
    /// Number of questions, from all kinds of results in turn
    #[arg(long, value_name = "NUMBER", default_value_t = 60)]
    questions: usize,
    /// Calls that the model has for a question
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    max_calls: usize,
    #[command(flatten)]
    endpoint: EndpointArgs,
}

/// A conversation about one question. A line of the transcript.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct QuestionSample {
    kind: String,
    question: String,
    right: bool,
    ending: Ending,
    calls: Vec<QuestionCall>,
    /// The last message of the model.
    text: String,
    usage: Usage,
    elapsed_millis: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct QuestionCall {
    tool: String,
    arguments: Value,
    reply: String,
    is_error: bool,
}

/// The results of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct QuestionResults {
    label: String,
    model: String,
    max_calls: usize,
    kinds: Vec<KindResults>,
    usage: Usage,
    elapsed_millis: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct KindResults {
    kind: String,
    about: String,
    questions: Vec<QuestionResult>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct QuestionResult {
    question: String,
    right: bool,
    ending: Ending,
    calls: usize,
    errors: usize,
}

impl QuestionResults {
    fn right(&self) -> usize {
        self.kinds.iter().map(KindResults::right).sum()
    }

    fn total(&self) -> usize {
        self.kinds.iter().map(|kind| kind.questions.len()).sum()
    }
}

impl KindResults {
    fn right(&self) -> usize {
        self.questions.iter().filter(|question| question.right).count()
    }
}

/// Asks the questions that the transcript does not have yet, and writes the record and the table.
pub fn run(repository: &Repository, args: &QuestionsArgs, key: Option<String>) -> Result<bool> {
    let is_label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    ensure!(
        !args.label.is_empty() && args.label.chars().all(is_label),
        "--label {:?}: letters and digits only",
        args.label
    );
    let program = &args.program;
    let program = program.canonicalize().with_context(|| format!("{}", program.display()))?;
    let server = build_server(repository)?;
    let batteries =
        Battery::read_all(&repository.path(DIRECTORY)).map_err(|error| anyhow!(error))?;
    let chosen = choose(&batteries, args.questions);
    let prices = PriceTable::read(&repository.path(PRICES_FILE))?;
    let factory = args.endpoint.factory(key, &prices)?;
    let sandbox = TempDir::new()?;
    let mut world = QuestionWorld::start(&program, &server, sandbox.path(), &batteries)?;
    let mut transcript = SampleFile::open(&args.label, &args.endpoint.model)?;
    let todo: Vec<_> = chosen.iter().filter(|chosen| !transcript.has(chosen)).collect();
    output::progress(estimate(&mut world, &factory, &todo, args)?);
    let command = format!(
        "cargo evidence questions --program FILE --label {} --endpoint URL --model {}",
        args.label, args.endpoint.model
    );
    let record = RunRecord::begin(repository, &format!("{RECORD}{}", args.label), &command)?;
    let mut failures = 0;
    for (n, chosen) in todo.iter().enumerate() {
        let at =
            format!("{} of {}: {}, {}", n + 1, todo.len(), chosen.battery.kind, chosen.question.id);
        let sample = match world.ask(chosen, &factory, args.max_calls) {
            Ok(sample) => sample,
            // The question is asked again when the run is repeated.
            Err(error) if failures < MAX_FAILURES && is_endpoint_failure(&error) => {
                output::progress(format_args!("{at}: {error:#}"));
                failures += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        failures = 0;
        let outcome = if sample.right { "right" } else { "wrong" };
        let (calls, seconds) = (sample.calls.len(), sample.elapsed_millis / 1000);
        output::progress(format_args!("{at}: {outcome} after {calls} calls, {seconds} s"));
        transcript.add(sample)?;
    }
    let results = transcript.results(args, &chosen);
    let record = record.finish(results);
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    let all = all_results(repository, &args.endpoint.model)?;
    let table = table(&all);
    output::line(&table);
    write_generated(repository, DOCUMENT, PART, &format!("{}\n\n{table}", record.caption()))?;
    Ok(true)
}

/// Builds the server that returns the results.
fn build_server(repository: &Repository) -> Result<PathBuf> {
    let build = ["build", "--locked", "--package", "testkit", "--features", "questions"];
    let bin = ["--bin", "questions-server"];
    ensure!(repository.cargo(&build).args(bin).status()?.success(), "cargo build failed");
    Ok(repository.target_dir()?.join("debug/questions-server"))
}

/// A question with the battery that it belongs to.
struct ChosenQuestion<'a> {
    battery: &'a Battery,
    question: &'a Question,
}

/// The first question of every kind, then the second of every kind, up to `most`.
fn choose(batteries: &[Battery], most: usize) -> Vec<ChosenQuestion<'_>> {
    let longest = batteries.iter().map(|battery| battery.questions.len()).max().unwrap_or(0);
    let rounds = (0..longest).flat_map(|n| {
        batteries.iter().filter_map(move |battery| {
            Some(ChosenQuestion { battery, question: battery.questions.get(n)? })
        })
    });
    rounds.take(most).collect()
}

/// The estimate of the cost of the questions in `todo`.
fn estimate(
    world: &mut QuestionWorld,
    factory: &EndpointFactory,
    todo: &[&ChosenQuestion<'_>],
    args: &QuestionsArgs,
) -> Result<String> {
    let prompt = match todo.first() {
        Some(first) => world.prompt(first)?,
        None => String::new(),
    };
    let plan = RunPlan {
        samples: todo.len() as u64,
        turns: args.max_calls as u64,
        prefix_tokens: factory.prefix_tokens(SYSTEM, &world.tools),
        question_tokens: tokens::count(&prompt),
        // A reply of the extraction tools has at most 1,600 tokens; hints and rows are shorter.
        reply_tokens: 400,
        output_tokens: 100,
    };
    Ok(plan.estimate(factory.price()).to_string())
}

/// The proxy before the server with the results.
struct QuestionWorld {
    session: Session,
    /// The extraction tools, without those of the server.
    tools: Vec<ToolDefinition>,
}

impl QuestionWorld {
    fn start(
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

    /// The question with the descriptor of the result.
    fn prompt(&mut self, chosen: &ChosenQuestion<'_>) -> Result<String> {
        let tool = &chosen.battery.tool;
        let descriptor = text_of(&self.call(tool, &json!({}))?);
        Ok(format!("{}\n\nThe tool {tool} returned:\n{descriptor}", chosen.question.ask))
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        self.session.call(tool, arguments).map_err(|error| anyhow!(error))
    }

    fn ask(
        &mut self,
        chosen: &ChosenQuestion<'_>,
        factory: &EndpointFactory,
        max_calls: usize,
    ) -> Result<QuestionSample> {
        let began = Instant::now();
        let question = chosen.question;
        let prompt = self.prompt(chosen)?;
        let mut agent = factory.converse(SYSTEM, &self.tools, &prompt);
        let mut calls = Vec::new();
        let (right, ending) = self.converse(question, &mut agent, max_calls, &mut calls)?;
        Ok(QuestionSample {
            kind: chosen.battery.kind.clone(),
            question: question.id.clone(),
            right,
            ending,
            calls,
            text: agent.last_text().to_owned(),
            usage: agent.usage(),
            elapsed_millis: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Lets the agent call tools until it is right, ends, or has no calls left.
    fn converse(
        &mut self,
        question: &Question,
        agent: &mut EndpointAgent,
        max_calls: usize,
        calls: &mut Vec<QuestionCall>,
    ) -> Result<(bool, Ending)> {
        let mut replies = Vec::new();
        loop {
            let step = match agent.step(&replies) {
                Ok(step) => step,
                Err(error) => return conversation_ending(error).map(|ending| (false, ending)),
            };
            // The descriptor contains the answer of a question without a call.
            if question.call.is_none() && question.is_stated_in(agent.last_text()) {
                return Ok((true, Ending::Answered));
            }
            let Step::Calls(requested) = step else { return Ok((false, Ending::NoAnswer)) };
            replies.clear();
            for call in requested {
                let result = self.call(&call.name, &call.arguments)?;
                let (reply, is_error) = (text_of(&result), result["isError"] == true);
                calls.push(QuestionCall {
                    tool: call.name,
                    arguments: call.arguments,
                    reply: reply.chars().take(MAX_REPLY_CHARS).collect(),
                    is_error,
                });
                if question.is_answered_by(&result) {
                    return Ok((true, Ending::Answered));
                }
                if calls.len() == max_calls {
                    return Ok((false, Ending::Cap));
                }
                replies.push(ToolReply {
                    text: reply,
                    is_error,
                    records_given: 0,
                    write_micros: None,
                });
            }
        }
    }
}

/// The ending of a conversation that the model cannot continue. Other errors end the run.
fn conversation_ending(error: anyhow::Error) -> Result<Ending> {
    match error.downcast_ref::<EndpointError>().map(EndpointError::ending) {
        Some(ending @ (Ending::Refused | Ending::ContextOverflow)) => Ok(ending),
        _ => Err(error),
    }
}

fn is_endpoint_failure(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(EndpointError::Failed { .. }))
}

fn text_of(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    let texts = blocks.filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// The conversations of a program with a model, in a file outside the repository.
struct SampleFile {
    file: File,
    samples: Vec<QuestionSample>,
}

impl SampleFile {
    /// Opens the transcript of the program called `label`, and reads what it contains.
    fn open(label: &str, model: &str) -> Result<Self> {
        let directory = cache_dir()?.join("evidence");
        fs::create_dir_all(&directory)?;
        let model: String =
            model.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let path = directory.join(format!("questions-{label}-{model}.jsonl"));
        Self::open_file(&path).with_context(|| format!("{}", path.display()))
    }

    fn open_file(path: &Path) -> Result<Self> {
        let text = if path.exists() { fs::read_to_string(path)? } else { String::new() };
        // A line without its end is from a run that was killed.
        let complete = text.rfind('\n').map_or("", |end| &text[..=end]);
        let samples = complete
            .lines()
            .map(serde_json::from_str)
            .collect::<serde_json::Result<Vec<QuestionSample>>>()?;
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        file.set_len(complete.len() as u64)?;
        Ok(Self { file, samples })
    }

    fn find(&self, chosen: &ChosenQuestion<'_>) -> Option<&QuestionSample> {
        self.samples.iter().find(|sample| {
            sample.kind == chosen.battery.kind && sample.question == chosen.question.id
        })
    }

    fn has(&self, chosen: &ChosenQuestion<'_>) -> bool {
        self.find(chosen).is_some()
    }

    fn add(&mut self, sample: QuestionSample) -> Result<()> {
        let line = serde_json::to_string(&sample)? + "\n";
        self.file.write_all(line.as_bytes())?;
        self.samples.push(sample);
        Ok(())
    }

    fn results(&self, args: &QuestionsArgs, chosen: &[ChosenQuestion<'_>]) -> QuestionResults {
        let mut results = QuestionResults {
            label: args.label.clone(),
            model: args.endpoint.model.clone(),
            max_calls: args.max_calls,
            kinds: Vec::new(),
            usage: Usage::default(),
            elapsed_millis: 0,
        };
        for chosen in chosen {
            let Some(sample) = self.find(chosen) else { continue };
            let result = QuestionResult {
                question: sample.question.clone(),
                right: sample.right,
                ending: sample.ending,
                calls: sample.calls.len(),
                errors: sample.calls.iter().filter(|call| call.is_error).count(),
            };
            results.usage.fresh_input += sample.usage.fresh_input;
            results.usage.cached_input += sample.usage.cached_input;
            results.usage.output += sample.usage.output;
            results.elapsed_millis += sample.elapsed_millis;
            match results.kinds.iter_mut().find(|kind| kind.kind == sample.kind) {
                Some(kind) => kind.questions.push(result),
                None => results.kinds.push(KindResults {
                    kind: sample.kind.clone(),
                    about: chosen.battery.about.clone(),
                    questions: vec![result],
                }),
            }
        }
        results
    }
}

/// The latest results of all programs that were asked with `model`, by label.
fn all_results(repository: &Repository, model: &str) -> Result<Vec<QuestionResults>> {
    let mut all = Vec::new();
    for results in latest_results(repository, RECORD)?.into_values() {
        let results: QuestionResults = serde_json::from_value(results)?;
        if results.model == model {
            all.push(results);
        }
    }
    Ok(all)
}

/// Right answers by kind, a column for each program, and the shares with Wilson intervals.
fn table(programs: &[QuestionResults]) -> String {
    let mut table = String::from("| result |");
    for program in programs {
        let _ = write!(table, " {} |", program.label);
    }
    table += "\n|---|";
    table += &"--:|".repeat(programs.len());
    let mut rows: Vec<&KindResults> = Vec::new();
    for kind in programs.iter().flat_map(|program| &program.kinds) {
        if rows.iter().all(|row| row.kind != kind.kind) {
            rows.push(kind);
        }
    }
    for row in rows {
        let _ = write!(table, "\n| {} |", row.about);
        for program in programs {
            let kind = program.kinds.iter().find(|kind| kind.kind == row.kind);
            let cell = kind.map_or_else(
                || "–".to_owned(),
                |kind| format!("{} of {}", kind.right(), kind.questions.len()),
            );
            let _ = write!(table, " {cell} |");
        }
    }
    table += "\n| all |";
    for program in programs {
        let _ = write!(table, " {} of {} |", program.right(), program.total());
    }
    table += "\n| share, 95 % interval |";
    for program in programs {
        let share = real_len(program.right()) / real_len(program.total().max(1));
        let interval = wilson(share, program.total());
        let _ = write!(
            table,
            " {:.0} % ({:.0}–{:.0}) |",
            100.0 * share,
            100.0 * interval.low,
            100.0 * interval.high
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use testkit::http::{HttpServer, reply_json};

    use super::*;
    use crate::agents::endpoint::{Api, CallForm};

    fn battery(kind: &str, questions: usize) -> Battery {
        let mut text = format!("kind = \"{kind}\"\ntool = \"get_{kind}\"\nabout = \"A {kind}\"\n");
        for n in 0..questions {
            let _ = write!(
                text,
                "[[question]]\nid = \"q{n}\"\nask = \"?\"\ncall = \"descriptor\"\nanswer = '[\"x{n}\"]'\n"
            );
        }
        Battery::parse(&text).unwrap()
    }

    fn sample(kind: &str, question: &str, right: bool) -> QuestionSample {
        QuestionSample {
            kind: kind.to_owned(),
            question: question.to_owned(),
            right,
            ending: Ending::Answered,
            calls: Vec::new(),
            text: String::new(),
            usage: Usage { fresh_input: 1, cached_input: 2, output: 3 },
            elapsed_millis: 4,
        }
    }

    fn arguments(endpoint: String) -> QuestionsArgs {
        let endpoint = EndpointArgs {
            endpoint,
            api: Api::Openai,
            model: "m".to_owned(),
            calls: CallForm::Native,
            stream: false,
            max_usd: None,
            max_tokens: None,
            max_output_tokens: 100,
            timeout: 10,
        };
        let (program, label) = (PathBuf::new(), "today".to_owned());
        QuestionsArgs { program, label, questions: 60, max_calls: 3, endpoint }
    }

    #[test]
    fn questions_come_from_all_kinds_in_turn() {
        let batteries = [battery("a", 2), battery("b", 3)];
        let ids = |most: usize| {
            let chosen = choose(&batteries, most);
            let ids = chosen.iter().map(|c| format!("{}{}", c.battery.kind, c.question.id));
            ids.collect::<Vec<_>>()
        };
        assert_eq!(ids(60), ["aq0", "bq0", "aq1", "bq1", "bq2"]);
        assert_eq!(ids(3), ["aq0", "bq0", "aq1"]);
    }

    #[test]
    fn a_killed_run_continues_after_its_last_whole_line() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("t.jsonl");
        let mut transcript = SampleFile::open_file(&path).unwrap();
        transcript.add(sample("a", "q0", true)).unwrap();
        transcript.file.write_all(b"{\"kind\":\"a\",\"quest").unwrap();
        let mut transcript = SampleFile::open_file(&path).unwrap();
        let batteries = [battery("a", 2)];
        let chosen = choose(&batteries, 2);
        assert!(transcript.has(&chosen[0]) && !transcript.has(&chosen[1]));
        transcript.add(sample("a", "q1", false)).unwrap();
        let transcript = SampleFile::open_file(&path).unwrap();
        let results = transcript.results(&arguments(String::new()), &chosen);
        assert_eq!((results.right(), results.total()), (1, 2));
        assert_eq!(results.usage, Usage { fresh_input: 2, cached_input: 4, output: 6 });
    }

    #[test]
    fn programs_are_compared_kind_by_kind() {
        let directory = TempDir::new().unwrap();
        let batteries = [battery("a", 1), battery("b", 1)];
        let chosen = choose(&batteries, 2);
        let results = |name: &str, right: bool| {
            let mut transcript = SampleFile::open_file(&directory.path().join(name)).unwrap();
            transcript.add(sample("a", "q0", right)).unwrap();
            transcript.add(sample("b", "q0", true)).unwrap();
            let mut results = transcript.results(&arguments(String::new()), &chosen);
            results.label = name.to_owned();
            results
        };
        let table = table(&[results("7bd98a0", false), results("today", true)]);
        assert!(table.starts_with("| result | 7bd98a0 | today |\n|---|--:|--:|"), "{table}");
        assert!(
            table.contains("\n| A a | 0 of 1 | 1 of 1 |\n| A b | 1 of 1 | 1 of 1 |"),
            "{table}"
        );
        assert!(table.contains("\n| all | 1 of 2 | 2 of 2 |"), "{table}");
        assert!(table.contains("| 50 % (9–91) | 100 % (34–100) |"), "{table}");
    }

    #[test]
    fn only_the_end_of_a_conversation_is_a_result() {
        let refused = EndpointError::Refused { message: String::new() };
        assert_eq!(conversation_ending(refused.into()).unwrap(), Ending::Refused);
        let failed = EndpointError::Failed { message: String::new() };
        let error = conversation_ending(failed.into()).unwrap_err();
        assert!(is_endpoint_failure(&error));
        assert!(!is_endpoint_failure(&anyhow!("another error")));
    }

    /// The whole way: a real proxy, a real server, and an endpoint that calls what a script says.
    #[test]
    fn a_model_is_asked_through_the_proxy() {
        let program = testkit::tool::built_program("atlatl", "atlatl-lro");
        let server = testkit::tool::built_program("questions-server", "testkit");
        let repository = Repository::open().unwrap();
        let batteries = Battery::read_all(&repository.path(DIRECTORY)).unwrap();
        let endpoint = HttpServer::start(|request, stream| {
            let messages = request.json()["messages"].clone();
            let prompt = messages[1]["content"].as_str().unwrap_or_default();
            let reference =
                prompt.split("\"ref\":\"").nth(1).and_then(|rest| rest.split('"').next());
            let arguments = json!({
                "ref": reference, "sql": "SELECT closed_at FROM results WHERE number = 3977",
            });
            let function = json!({"name": "lro_extract", "arguments": arguments.to_string()});
            let call = json!({"id": "c", "type": "function", "function": function});
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
            reply_json(stream, "200 OK", &json!({"choices": [choice]}))
        });
        let directory = TempDir::new().unwrap();
        let mut world =
            QuestionWorld::start(&program, &server, directory.path(), &batteries).unwrap();
        let names: Vec<&str> = world.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert!(names.contains(&"lro_extract") && !names.contains(&"list_issues"), "{names:?}");
        let args = arguments(endpoint.url("/v1"));
        let factory = args.endpoint.factory(None, &PriceTable::default()).unwrap();
        let issues = batteries.iter().find(|battery| battery.kind == "issues").unwrap();
        let ask = |world: &mut QuestionWorld, id: &str| {
            let question = issues.questions.iter().find(|question| question.id == id).unwrap();
            world.ask(&ChosenQuestion { battery: issues, question }, &factory, 3).unwrap()
        };
        let right = ask(&mut world, "closed_at");
        assert!(right.right && right.calls.len() == 1, "{right:?}");
        let wrong = ask(&mut world, "top_reporters");
        assert!(!wrong.right && wrong.calls.len() == 3, "{wrong:?}");
        assert_eq!(wrong.ending, Ending::Cap);
    }
}
