//! `cargo evidence questions`: asks a model the questions of bench/questions/ through `atlatl proxy`.
//!
//! The model gets the question and the descriptor of the result, and may call the extraction tools
//! a few times. A question is right if a reply is its answer, or if the model ends with a message
//! that states the answer. The program is given by its path, so that two versions can be compared.

mod comparison;
mod conversation;
mod mistake;
mod queue;
mod samples;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::json;
use tempfile::TempDir;
use testkit::questions::{Battery, Question};
use xtask::markdown::write_generated;
use xtask::output;
use xtask::repository::Repository;
use xtask::run_record::{RunRecord, latest_results};

use self::comparison::{QuestionResults, describe};
pub use self::conversation::QuestionWorld;
use self::conversation::{NO_CALLS_LEFT, REMINDER, SYSTEM};
use self::queue::QuestionQueue;
pub use self::samples::{QuestionCall, QuestionSample, RightBy};
use self::samples::{QuestionSettings, SampleFile};
use crate::agents::endpoint::{EndpointArgs, EndpointFactory};
use crate::corpora::sha256;
use crate::prices::{PRICES_FILE, PriceTable, RunPlan};
use crate::tokens;

/// The directory of the questions.
pub const DIRECTORY: &str = "bench/questions";
const DOCUMENT: &str = "docs/evidence.md";
/// The generated part of the document.
const PART: &str = "questions";
/// The names of the records begin with this; the label of the program follows.
const RECORD: &str = "evidence-questions-";

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
    /// Conversations at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    parallel: usize,
    #[command(flatten)]
    endpoint: EndpointArgs,
}

/// Asks the questions that have no sample yet, and writes the record and the tables.
pub fn run(repository: &Repository, args: &QuestionsArgs, key: Option<String>) -> Result<bool> {
    let is_label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    ensure!(
        !args.label.is_empty() && args.label.chars().all(is_label),
        "--label {:?}: letters and digits only",
        args.label
    );
    // Before a run of many hours.
    ensure!(
        has_part(&repository.read(DOCUMENT)?),
        "{DOCUMENT} has no part for the results: add `<!-- generated: {PART} -->` and `<!-- end -->`"
    );
    let program = &args.program;
    let program = program.canonicalize().with_context(|| format!("{}", program.display()))?;
    let batteries =
        Battery::read_all(&repository.path(DIRECTORY)).map_err(|error| anyhow!(error))?;
    let settings = settings(&program, &batteries, args)?;
    let mut samples = SampleFile::open(&args.label, &settings)?;
    let prices = PriceTable::read(&repository.path(PRICES_FILE))?;
    let factory = args.endpoint.factory(key, &prices)?;
    let server = build_server(repository)?;
    let chosen = choose(&batteries, args.questions);
    let sandbox = TempDir::new()?;
    let todo: Vec<_> =
        chosen.iter().filter(|chosen| samples.find(chosen).is_none()).copied().collect();
    let start = |n: usize| {
        let directory = sandbox.path().join(n.to_string());
        fs::create_dir(&directory)?;
        QuestionWorld::start(&program, &server, &directory, &batteries)
    };
    let mut worlds = (0..args.parallel.clamp(1, todo.len().max(1)))
        .map(start)
        .collect::<Result<Vec<QuestionWorld>>>()?;
    output::progress(estimate(&mut worlds[0], &factory, &todo, args)?);
    let command = format!(
        "cargo evidence questions --program FILE --label {} --endpoint URL --model {} --calls {} \
         --max-calls {} --max-output-tokens {} --parallel {}",
        args.label,
        args.endpoint.model,
        args.endpoint.calls.name(),
        args.max_calls,
        args.endpoint.max_output_tokens,
        args.parallel
    );
    let record = RunRecord::begin(repository, &format!("{RECORD}{}", args.label), &command)?;
    QuestionQueue::new(todo, &mut samples).ask_all(&mut worlds, &factory, args.max_calls)?;
    let caption = record.caption();
    let results = QuestionResults::new(&args.label, settings.clone(), caption, &chosen, &samples);
    let missing = chosen.len() - results.total();
    let record = record.finish(results);
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    let text = describe(comparable_results(repository, &settings)?);
    output::line(&text);
    write_generated(repository, DOCUMENT, PART, &text)?;
    if missing > 0 {
        output::line(format_args!("{missing} questions have no answer: the endpoint failed"));
        output::line("hint: run the same command again to ask them");
    }
    Ok(missing == 0)
}

/// Whether the document has the part for the tables.
fn has_part(document: &str) -> bool {
    let part = document.split_once(&format!("<!-- generated: {PART} -->"));
    part.is_some_and(|(_, rest)| rest.contains("<!-- end -->"))
}

/// What the samples of a run are produced with.
fn settings(
    program: &Path,
    batteries: &[Battery],
    args: &QuestionsArgs,
) -> Result<QuestionSettings> {
    let bytes = fs::read(program).with_context(|| format!("{}", program.display()))?;
    Ok(QuestionSettings {
        program: sha256(&bytes),
        questions: questions_hash(batteries),
        model: args.endpoint.model.clone(),
        calls: args.endpoint.calls.name().to_owned(),
        max_calls: args.max_calls,
        max_output_tokens: args.endpoint.max_output_tokens,
    })
}

/// The SHA-256 of all that the model is asked, and of the answers.
fn questions_hash(batteries: &[Battery]) -> String {
    let mut text = json!([SYSTEM, REMINDER, NO_CALLS_LEFT]).to_string();
    for battery in batteries {
        for question in &battery.questions {
            let compare = format!("{:?}", question.compare);
            let Question { id, ask, answer, .. } = question;
            text += &json!([battery.kind, battery.tool, id, ask, compare, answer]).to_string();
        }
    }
    sha256(text.as_bytes())
}

/// Builds the server that returns the results.
fn build_server(repository: &Repository) -> Result<PathBuf> {
    let build = ["build", "--locked", "--package", "testkit", "--features", "questions"];
    let bin = ["--bin", "questions-server"];
    ensure!(repository.cargo(&build).args(bin).status()?.success(), "cargo build failed");
    Ok(repository.target_dir()?.join("debug/questions-server"))
}

/// A question with the battery that it belongs to.
#[derive(Debug, Clone, Copy)]
pub struct ChosenQuestion<'a> {
    /// The questions about one tool result.
    pub battery: &'a Battery,
    /// One of them.
    pub question: &'a Question,
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
    todo: &[ChosenQuestion<'_>],
    args: &QuestionsArgs,
) -> Result<String> {
    let prompt = match todo.first() {
        Some(first) => world.prompt(first)?,
        None => String::new(),
    };
    let plan = RunPlan {
        samples: todo.len() as u64,
        // After the last call, the model states the answer.
        turns: args.max_calls as u64 + 1,
        prefix_tokens: factory.prefix_tokens(SYSTEM, &world.tools),
        question_tokens: tokens::count(&prompt),
        // A reply of the extraction tools has at most 1,600 tokens; hints and rows are shorter.
        reply_tokens: 400,
        output_tokens: 100,
    };
    Ok(plan.estimate(factory.price()).to_string())
}

/// The latest results of all programs that were asked with these settings, by label.
fn comparable_results(
    repository: &Repository,
    settings: &QuestionSettings,
) -> Result<Vec<QuestionResults>> {
    let mut all = Vec::new();
    for (name, results) in latest_results(repository, RECORD)? {
        let results: QuestionResults = serde_json::from_value(results).context(name)?;
        if results.settings.is_comparable(settings) {
            all.push(results);
        } else {
            output::progress(format_args!(
                "{} was asked with other settings and is not compared",
                results.label
            ));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::samples::{QuestionSample, RightBy};
    use super::*;
    use crate::agents::endpoint::{Api, CallForm};
    use crate::transcript::{Ending, Usage};

    pub(super) fn battery(kind: &str, questions: usize) -> Battery {
        let mut text = format!("kind = \"{kind}\"\ntool = \"get_{kind}\"\nabout = \"A {kind}\"\n");
        for n in 0..questions {
            let _ = write!(
                text,
                "[[question]]\nid = \"q{n}\"\nask = \"?\"\ncall = \"descriptor\"\nanswer = '[\"x{n}\"]'\n"
            );
        }
        Battery::parse(&text).unwrap()
    }

    pub(super) fn sample(kind: &str, question: &str, by: Option<RightBy>) -> QuestionSample {
        let mistakes = if by.is_none() { vec![mistake::NO_CALL.to_owned()] } else { Vec::new() };
        QuestionSample {
            kind: kind.to_owned(),
            question: question.to_owned(),
            by,
            stated: by == Some(RightBy::Statement),
            ending: Ending::Answered,
            mistakes,
            calls: Vec::new(),
            text: String::new(),
            usage: Usage { fresh_input: 1, cached_input: 2, output: 3 },
            elapsed_millis: 4,
        }
    }

    pub(super) fn settings(program: &str) -> QuestionSettings {
        QuestionSettings {
            program: program.to_owned(),
            questions: "q".to_owned(),
            model: "m".to_owned(),
            calls: "native".to_owned(),
            max_calls: 3,
            max_output_tokens: 100,
        }
    }

    pub(super) fn arguments(endpoint: String) -> QuestionsArgs {
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
        QuestionsArgs { program, label, questions: 60, max_calls: 3, parallel: 1, endpoint }
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
    fn a_document_without_the_part_is_found_before_the_run() {
        let document = Repository::open().unwrap().read(DOCUMENT).unwrap();
        assert!(has_part(&document));
        assert!(!has_part(&document.replace("<!-- generated: questions -->", "")));
        assert!(!has_part("<!-- generated: questions -->\nnever closed"));
    }

    #[test]
    fn settings_name_the_program_and_the_questions() {
        let directory = TempDir::new().unwrap();
        let program = directory.path().join("atlatl");
        fs::write(&program, "one").unwrap();
        let args = arguments(String::new());
        let batteries = [battery("a", 1)];
        let first = super::settings(&program, &batteries, &args).unwrap();
        fs::write(&program, "two").unwrap();
        let second = super::settings(&program, &batteries, &args).unwrap();
        assert_ne!(first, second);
        assert!(first.is_comparable(&second));
        let third = super::settings(&program, &[battery("a", 2)], &args).unwrap();
        assert!(!second.is_comparable(&third));
    }
}
