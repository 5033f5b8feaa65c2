//! What samples are produced with, and runs that would mix samples of different settings.

use std::fs;

use evidence::agent::{Agent, AgentFactory, Step, ToolDefinition, ToolReply};
use evidence::agents::endpoint::EndpointError;
use evidence::agents::scripted::Script;
use evidence::corpora::sha256;
use evidence::runner::{self, RunOptions};
use evidence::task::{Family, Task};
use evidence::tasks;
use evidence::transcript::{Ending, ModelSettings, RunSettings};
use tempfile::TempDir;

use crate::fixture::{Plan, memories, program, read};

/// A model that says nothing, or whose endpoint fails.
struct FakeModel {
    settings: ModelSettings,
    error: Option<EndpointError>,
}

impl FakeModel {
    fn new() -> Self {
        let settings = ModelSettings {
            calls: "native".to_owned(),
            stream: false,
            max_output_tokens: 8192,
            max_sample_tokens: None,
            temperature: true,
        };
        Self { settings, error: None }
    }

    fn failing(error: EndpointError) -> Self {
        Self { error: Some(error), ..Self::new() }
    }
}

impl AgentFactory for FakeModel {
    fn name(&self) -> String {
        "fake-model".to_owned()
    }

    fn settings(&self) -> Option<ModelSettings> {
        Some(self.settings.clone())
    }

    fn open(&self, _: &Task, _: &str, _: &[ToolDefinition]) -> anyhow::Result<Box<dyn Agent>> {
        Ok(Box::new(FakeAgent(self.error.clone())))
    }
}

struct FakeAgent(Option<EndpointError>);

impl Agent for FakeAgent {
    fn step(&mut self, _: &[ToolReply]) -> anyhow::Result<Step> {
        match self.0.take() {
            Some(error) => Err(error.into()),
            None => Ok(Step::End),
        }
    }
}

/// A run of so many tasks in the cheapest world.
fn options(directory: &TempDir, tasks: usize) -> RunOptions {
    let mut plan = Plan::new(&["s5"], &[Family::IdLookup], tasks);
    plan.sizes = &[50];
    plan.options(directory.path())
}

/// The error of a run, which writes nothing.
fn refusal(options: &RunOptions, agents: &dyn AgentFactory) -> String {
    let before = fs::read(&options.transcripts).unwrap();
    let error = format!("{:#}", runner::run(options, agents).unwrap_err());
    assert_eq!(fs::read(&options.transcripts).unwrap(), before, "nothing was written");
    assert!(error.contains("--dir") && error.contains("transcripts.jsonl"), "{error}");
    error
}

fn endings(options: &RunOptions) -> Vec<Ending> {
    read(&options.transcripts).iter().map(|transcript| transcript.ending).collect()
}

#[test]
fn samples_record_what_they_were_produced_with() {
    let directory = TempDir::new().unwrap();
    let mut options = options(&directory, 2);
    options.max_sample_tokens = Some(9);
    let model = FakeModel::new();
    runner::run(&options, &model).unwrap();
    runner::run(&options, &Script::Guesser).unwrap();
    let lines = tasks::to_lines(&tasks::generate(&memories(50), Family::IdLookup)).unwrap();
    let expected = RunSettings {
        program: sha256(&fs::read(program()).unwrap()),
        tasks: sha256(lines.as_bytes()),
        window_tokens: 200_000,
        model: Some(ModelSettings { max_sample_tokens: Some(9), ..model.settings }),
    };
    let scripted = RunSettings { model: None, ..expected.clone() };
    let settings: Vec<RunSettings> =
        read(&options.transcripts).into_iter().map(|transcript| transcript.settings).collect();
    assert_eq!(settings, [expected.clone(), expected, scripted.clone(), scripted]);
}

#[test]
fn a_run_with_other_settings_is_refused() {
    let directory = TempDir::new().unwrap();
    let run = |tasks| options(&directory, tasks);
    runner::run(&run(1), &FakeModel::new()).unwrap();

    let other_window = RunOptions { window_tokens: 16_384, ..run(2) };
    let error = refusal(&other_window, &FakeModel::new());
    assert!(error.contains("--window was 200000 and is 16384"), "{error}");
    let mut other_limit = FakeModel::new();
    other_limit.settings.max_output_tokens = 1024;
    let error = refusal(&run(2), &other_limit);
    assert!(error.contains("--max-output-tokens was 8192 and is 1024"), "{error}");
    // Known only after a conversation.
    let mut other_temperature = FakeModel::new();
    other_temperature.settings.temperature = false;
    let error = refusal(&run(2), &other_temperature);
    assert!(error.contains("the temperature 0 was accepted and is not accepted"), "{error}");

    let path = run(1).transcripts;
    let text = fs::read_to_string(&path).unwrap();
    let hash = read(&path)[0].settings.tasks.clone();
    fs::write(&path, text.replace(&hash, "other")).unwrap();
    let error = refusal(&run(2), &FakeModel::new());
    assert!(error.contains("the SHA-256 of the tasks was other and is "), "{error}");
    fs::write(&path, &text).unwrap();

    // Another agent, and the same settings.
    runner::run(&other_window, &Script::Guesser).unwrap();
    let resumed = runner::run(&run(2), &FakeModel::new()).unwrap();
    assert_eq!((resumed.resumed, resumed.samples()), (1, 1));
}

#[test]
fn samples_that_failed_are_repeated() {
    let directory = TempDir::new().unwrap();
    let options = options(&directory, 1);
    let error = EndpointError::Failed { message: "connection refused".to_owned() };
    runner::run(&options, &FakeModel::failing(error)).unwrap();
    assert_eq!(endings(&options), [Ending::Failed]);
    // The endpoint had not said yet that it takes no temperature.
    let mut model = FakeModel::new();
    model.settings.temperature = false;
    runner::run(&options, &model).unwrap();
    assert_eq!(endings(&options), [Ending::Failed, Ending::NoAnswer]);
    let third = runner::run(&options, &model).unwrap();
    assert_eq!((third.resumed, third.samples()), (1, 0));
}

#[test]
fn a_message_at_its_limit_is_an_ending_of_its_own() {
    let directory = TempDir::new().unwrap();
    let options = options(&directory, 1);
    let error = EndpointError::OutputLimit { message: "8192 tokens".to_owned() };
    let model = FakeModel::failing(error);
    let first = runner::run(&options, &model).unwrap();
    assert_eq!(first.endings.get(&Ending::OutputLimit), Some(&1));
    assert_eq!(endings(&options), [Ending::OutputLimit]);
    let second = runner::run(&options, &model).unwrap();
    assert_eq!((second.resumed, second.samples()), (1, 0), "it is an outcome, not a failure");
}
