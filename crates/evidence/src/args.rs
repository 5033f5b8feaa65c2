//! The command line.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use serde_json::json;
use xtask::repository::{Repository, cache_dir, has_extension};
use xtask::{BinArgs, output};

use crate::agent::ToolDefinition;
use crate::agents::endpoint::{Api, CallForm, EndpointArgs};
use crate::agents::scripted::Script;
use crate::corpora;
use crate::loca::{self, LocaArgs};
use crate::prices::{PRICES_FILE, PriceTable};
use crate::questions::{self, QuestionsArgs};
use crate::report;
use crate::runner::{self, RunOptions, RunSummary};
use crate::score::score;
use crate::suite::Suite;
use crate::task::CorpusId;
use crate::tasks;
use crate::traffic::{self, TrafficArgs};
use crate::transcript::{Ending, Transcript};
use crate::verify;

/// What precedes the name of a scripted agent.
const SCRIPTED: &str = "scripted:";

/// Run controlled experiments with agents
#[derive(Debug, Parser)]
#[command(name = "cargo evidence", bin_name = "cargo evidence")]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Generate the corpora and compare them with their recorded hashes
    Corpora(CorporaArgs),
    /// Write the tasks with their answers, a file per corpus and family
    Tasks(TasksArgs),
    /// Compute every answer in two ways, and check the tasks
    Verify(VerifyArgs),
    /// Run a suite with a model or a scripted agent, or resume it
    Run(RunArgs),
    /// Print the scores of transcripts as JSON lines, with the SHA-256 of each transcript
    Score(TranscriptsArgs),
    /// Write the tables and figures of docs/evidence.md from transcripts
    Report(TranscriptsArgs),
    /// Ask a model the questions of bench/questions/
    Questions(QuestionsArgs),
    /// Measure recorded tool results of real agents
    Traffic(TrafficArgs),
    /// Run the proxy before the servers of LOCA-bench
    Loca(LocaArgs),
}

#[derive(Debug, Args)]
struct CorporaArgs {
    /// Corpora, such as memories-200 [default: all]
    #[arg(value_name = "CORPUS")]
    corpora: Vec<CorpusId>,
    /// Write the files of the corpora to this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Record the hashes of all corpora and tasks
    #[arg(long, conflicts_with = "corpora")]
    update: bool,
}

#[derive(Debug, Args)]
struct TasksArgs {
    /// Corpora, such as memories-200 [default: all]
    #[arg(value_name = "CORPUS")]
    corpora: Vec<CorpusId>,
    /// Directory of the files [default: `evidence/tasks` in the cache]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct VerifyArgs {
    /// Corpora, such as memories-200 [default: all]
    #[arg(value_name = "CORPUS")]
    corpora: Vec<CorpusId>,
}

#[derive(Debug, Args)]
struct TranscriptsArgs {
    /// File or directory of transcripts [default: `evidence/transcripts` in the cache]
    #[arg(value_name = "PATH")]
    transcripts: Option<PathBuf>,
}

/// A run. With an endpoint, the key is in the environment variable `EVIDENCE_API_KEY`.
#[derive(Debug, Args)]
struct RunArgs {
    /// Suite: paper, paper-fair, e1, e2, e3, e4, families, kinds or local-model (at most 12 turns)
    #[arg(long, value_name = "NAME")]
    suite: String,
    /// Scripted agent instead of a model, such as scripted:pager
    #[arg(long, value_name = "scripted:NAME", required_unless_present = "endpoint")]
    agent: Option<String>,
    /// URL of the endpoint, up to and including `/v1`
    #[arg(long, value_name = "URL", conflicts_with = "agent", requires = "model")]
    endpoint: Option<String>,
    /// Wire format of the endpoint
    #[arg(long, value_enum, default_value_t = Api::Openai)]
    api: Api,
    /// Model to ask
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// How the model gets the definitions of tools
    #[arg(long, value_enum, default_value_t = CallForm::Native)]
    calls: CallForm,
    /// Read messages while the model writes them
    #[arg(long)]
    stream: bool,
    /// Stop before the run costs more
    #[arg(long, value_name = "USD")]
    max_usd: Option<f64>,
    /// Stop before the run uses more tokens, cached ones included
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<u64>,
    /// End a conversation that uses more tokens
    #[arg(long, value_name = "TOKENS")]
    max_sample_tokens: Option<u64>,
    /// Limit of one message of the model
    #[arg(long, value_name = "TOKENS", default_value_t = 8192)]
    max_output_tokens: u64,
    /// Time limit of one request
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    timeout: u64,
    /// Sizes of the corpora [default: those of the suite]
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    n: Vec<usize>,
    /// Number of tasks of each family [default: that of the suite]
    #[arg(long, value_name = "NUMBER")]
    tasks: Option<usize>,
    /// How often each task is asked [default: 3 times a model, once a scripted agent and a model in
    /// local-model]
    #[arg(long, value_name = "NUMBER")]
    repeats: Option<u32>,
    /// Conversations at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    parallel: usize,
    /// Context window of the model [default: 200000; 16384 in local-model]
    #[arg(long, value_name = "TOKENS")]
    window: Option<u64>,
    /// Directory of the transcripts [default: `evidence/transcripts` in the cache]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print the estimate and stop
    #[arg(long, requires = "endpoint")]
    dry_run: bool,
    #[command(flatten)]
    bin: BinArgs,
}

impl Cli {
    /// Runs the command. `key` is the key of the endpoint.
    pub(crate) fn run(&self, repository: &Repository, key: Option<String>) -> Result<bool> {
        match &self.command {
            Command::Corpora(args) => args.run(repository),
            Command::Tasks(args) => args.run(),
            Command::Verify(args) => args.run(repository),
            Command::Run(args) => args.run(repository, key),
            Command::Score(args) => args.score(),
            Command::Report(args) => {
                report::write(repository, &args.path()?)?;
                Ok(true)
            }
            Command::Questions(args) => questions::run(repository, args, key),
            Command::Traffic(args) => traffic::run(repository, args),
            Command::Loca(args) => loca::run(repository, args),
        }
    }
}

/// The named corpora, or all.
fn chosen(named: &[CorpusId]) -> &[CorpusId] {
    if named.is_empty() { corpora::ALL } else { named }
}

/// A directory for what is generated.
fn cached(name: &str) -> Result<PathBuf> {
    Ok(cache_dir()?.join("evidence").join(name))
}

impl CorporaArgs {
    fn run(&self, repository: &Repository) -> Result<bool> {
        let ids = chosen(&self.corpora);
        if let Some(directory) = &self.dir {
            fs::create_dir_all(directory)?;
            for id in ids {
                let path = corpora::generate(*id).write(directory)?;
                output::line(format_args!("wrote {}", path.display()));
            }
        }
        if self.update {
            corpora::update_hashes(repository, corpora::ALL)?;
            output::line(format_args!("wrote {}", corpora::HASHES_FILE));
        }
        Ok(output::verdict("corpora and tasks", &corpora::hash_findings(repository, ids)?))
    }
}

impl TasksArgs {
    fn run(&self) -> Result<bool> {
        let directory = self.dir.clone().map_or_else(|| cached("tasks"), Ok)?;
        fs::create_dir_all(&directory)?;
        for id in chosen(&self.corpora) {
            let corpus = corpora::generate(*id);
            for family in tasks::families(*id) {
                let path = directory.join(tasks::file_name(*id, *family));
                let lines = tasks::to_lines(&tasks::generate(&corpus, *family))?;
                fs::write(&path, lines).with_context(|| format!("{}", path.display()))?;
                output::line(format_args!("wrote {}", path.display()));
            }
        }
        Ok(true)
    }
}

impl VerifyArgs {
    fn run(&self, repository: &Repository) -> Result<bool> {
        let ids = chosen(&self.corpora);
        let report = verify::verify(ids)?;
        for suite in &report.suites {
            output::line(suite);
        }
        Ok(output::verdict("corpora and tasks", &corpora::hash_findings(repository, ids)?))
    }
}

impl TranscriptsArgs {
    fn path(&self) -> Result<PathBuf> {
        self.transcripts.clone().map_or_else(|| cached("transcripts"), Ok)
    }

    fn score(&self) -> Result<bool> {
        for file in transcript_files(&self.path()?)? {
            let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
            for (index, line) in text.lines().enumerate() {
                let transcript: Transcript = serde_json::from_str(line).with_context(|| {
                    format!("{}:{}: not a transcript", file.display(), index + 1)
                })?;
                if transcript.ending != Ending::Failed {
                    let (sample, score) = (&transcript.sample, score(&transcript));
                    let hash = corpora::sha256(line.as_bytes());
                    output::line(json!({"sample": sample, "score": score, "transcript": hash}));
                }
            }
        }
        Ok(true)
    }
}

/// The file, or the transcripts in a directory.
fn transcript_files(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(|| format!("{}", path.display()))? {
        let file = entry?.path();
        if has_extension(&file, "jsonl") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

impl RunArgs {
    fn run(&self, repository: &Repository, key: Option<String>) -> Result<bool> {
        let options = self.options(repository)?;
        let summary = match &self.endpoint {
            None => runner::run(&options, &self.script()?)?,
            Some(endpoint) => {
                let prices = PriceTable::read(&repository.path(PRICES_FILE))?;
                let factory = self.endpoint_args(endpoint)?.factory(key, &prices)?;
                let prefix =
                    |system: &str, tools: &[ToolDefinition]| factory.prefix_tokens(system, tools);
                let estimate = runner::estimate(&options, &factory, &prefix)?;
                output::progress(estimate.describe(factory.price()));
                if self.dry_run {
                    return Ok(true);
                }
                runner::run(&options, &factory)?
            }
        };
        report_summary(&summary, &options.transcripts);
        Ok(summary.stopped.is_none())
    }

    fn options(&self, repository: &Repository) -> Result<RunOptions> {
        let mut suite = Suite::named(&self.suite)?;
        if let Some(tasks) = self.tasks {
            suite.tasks = tasks;
        }
        let directory = self.dir.clone().map_or_else(|| cached("transcripts"), Ok)?;
        let repeats = if self.endpoint.is_some() { suite.default_repeats() } else { 1 };
        Ok(RunOptions {
            program: program(repository, &self.bin)?,
            transcripts: directory.join(format!("transcripts-{}.jsonl", suite.name)),
            window_tokens: self.window.unwrap_or_else(|| suite.default_window_tokens()),
            suite,
            sizes: self.n.clone(),
            repeats: self.repeats.unwrap_or(repeats),
            parallel: self.parallel,
            max_sample_tokens: self.max_sample_tokens,
        })
    }

    fn script(&self) -> Result<Script> {
        let agent = self.agent.as_deref().context("--agent or --endpoint is required")?;
        let name = agent.strip_prefix(SCRIPTED);
        name.with_context(|| format!("--agent {agent}: expected {SCRIPTED}NAME"))?.parse()
    }

    fn endpoint_args(&self, endpoint: &str) -> Result<EndpointArgs> {
        Ok(EndpointArgs {
            endpoint: endpoint.to_owned(),
            api: self.api,
            model: self.model.clone().context("--endpoint needs --model")?,
            calls: self.calls,
            stream: self.stream,
            max_usd: self.max_usd,
            max_tokens: self.max_tokens,
            max_output_tokens: self.max_output_tokens,
            timeout: self.timeout,
        })
    }
}

/// The program in the given directory, or a built one.
fn program(repository: &Repository, bin: &BinArgs) -> Result<PathBuf> {
    let directory = if let Some(directory) = &bin.bin {
        directory.clone()
    } else {
        let packages = ["--package", "atlatl-lro", "--package", "testkit"];
        let build = ["build", "--quiet", "--locked", "--bins"];
        let built = repository.cargo(&build).args(packages).status()?;
        ensure!(built.success(), "cargo build failed");
        repository.target_dir()?.join("debug")
    };
    let program = directory.join("atlatl");
    program.canonicalize().with_context(|| format!("{}", program.display()))
}

fn report_summary(summary: &RunSummary, transcripts: &Path) {
    output::line(format_args!(
        "{} samples, {} of an earlier run, in {}",
        summary.samples(),
        summary.resumed,
        transcripts.display()
    ));
    for (ending, samples) in &summary.endings {
        output::line(format_args!("{ending:?}: {samples}"));
    }
    for (reason, samples) in &summary.skipped {
        output::line(format_args!("not run: {samples} samples: {reason}"));
    }
    if let Some(reason) = &summary.stopped {
        output::line(format_args!("stopped: {reason}"));
        output::line("hint: run the same command again to resume");
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_run_has_a_script_or_an_endpoint() {
        let parse = |args: &[&str]| {
            let run = ["evidence", "run", "--suite", "e1"];
            Cli::try_parse_from(run.into_iter().chain(args.iter().copied()))
        };
        assert!(parse(&[]).is_err());
        assert!(parse(&["--agent", "scripted:pager", "--n", "50,200"]).is_ok());
        assert!(parse(&["--endpoint", "http://127.0.0.1:1/v1"]).is_err(), "without a model");
        let endpoint =
            ["--endpoint", "http://127.0.0.1:1/v1", "--model", "m", "--api", "anthropic"];
        assert!(parse(&endpoint).is_ok());
        assert!(parse(&[&endpoint[..], &["--agent", "scripted:pager"]].concat()).is_err());
    }
}
