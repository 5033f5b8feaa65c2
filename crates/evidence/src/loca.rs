//! `cargo evidence loca`: environments of LOCA-bench behind the proxy, without a model.
//!
//! LOCA-bench generates data of a chosen size for local MCP servers, and checks answers by rules.
//! Here the calls that return the data go to the server and through the proxy, and one SQL statement
//! over the stored results is compared with the answer that the rules accept. An answer that is
//! longer than a reply is read to its end, and counted separately. `bench/evidence/loca/` has the
//! script that creates an environment from a local copy; nothing of it is in the repository.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use testkit::questions::Session;
use xtask::markdown::write_generated;
use xtask::output;
use xtask::repository::Repository;
use xtask::run_record::RunRecord;

use crate::statistics::real;
use crate::tokens;
use crate::traffic::check_part;

const DOCUMENT: &str = "docs/evidence.md";
/// The generated part of the document.
const PART: &str = "loca";
const SCRIPT: &str = "bench/evidence/loca/environment.py";
/// Installs the packages of LOCA-bench and runs Python with them.
const PYTHON: &str = "bench/evidence/loca/python";
/// The lines of a failure of the script that are printed.
const MAX_FAILURE_LINES: usize = 40;
/// The default threshold of the proxy.
const DEFAULT_THRESHOLD: u64 = 10_000;
/// The most rows of an answer.
const MAX_ROWS: u64 = 5000;
/// The most replies of an answer.
const MAX_REPLIES: u64 = 500;
/// The greatest difference of a fraction that the rules of LOCA-bench accept.
const TOLERANCE: f64 = 0.05;

/// The sizes of environments, by the names of their configurations.
const SIZES: [&str; 7] = ["8k", "16k", "32k", "64k", "96k", "128k", "256k"];

/// The environments whose answer is a table, with the number of sizes that are asked.
const ENVIRONMENTS: [(&str, usize); 4] = [
    ("WoocommerceStockAlertS2LEnv", SIZES.len()),
    ("FilterLowSellingProductsS2LEnv", SIZES.len()),
    ("NhlB2bAnalysisS2LEnv", SIZES.len()),
    // From 64k on it has 120 to 5,000 tables, which an agent lets the server add up.
    ("ABTestingS2LEnv", 3),
];

/// The environments.
#[derive(Debug, clap::Args)]
pub struct LocaArgs {
    /// Local copy of hkust-nlp/LOCA-bench
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Built `atlatl` program
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// Python with numpy, pandas, openpyxl, pyyaml and `mcp<2` [default: one in the cache]
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// Sizes of the environments
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_values = SIZES)]
    sizes: Vec<String>,
    /// Seeds of each environment and size, at most 5
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    states: usize,
}

/// An environment, as the script describes it.
#[derive(Debug, Clone, Deserialize)]
pub struct Environment {
    /// The program of the MCP server and its arguments.
    pub server: Vec<String>,
    /// Environment variables of the server.
    pub variables: BTreeMap<String, String>,
    /// The calls whose results are stored.
    pub calls: Vec<EnvironmentCall>,
    /// The statement over the results: the first is `results`, the others are `r1`, `r2` and so on.
    pub sql: String,
    /// The rows that the statement must return, in any order.
    pub answer: Vec<Vec<Value>>,
}

/// A call of a tool of the server.
#[derive(Debug, Clone, Deserialize)]
pub struct EnvironmentCall {
    /// The name of the tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
}

/// The results for one environment and size.
#[derive(Debug, Clone, Default, Serialize)]
struct EnvironmentResults {
    environment: String,
    size: String,
    states: u64,
    failed: u64,
    calls: u64,
    returned_tokens: u64,
    /// With the default threshold.
    shown_tokens: u64,
    /// With every result stored.
    stored_tokens: u64,
    sql_calls: u64,
    reply_tokens: u64,
    /// Answers that needed more than one call.
    continued: u64,
    right_in_one_call: u64,
    /// Those with continued replies included.
    right: u64,
}

/// The measurement of one environment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EnvironmentMeasurement {
    /// The calls to the server.
    pub calls: u64,
    /// The tokens that the server returned.
    pub returned_tokens: u64,
    /// The tokens that the proxy shows with the default threshold.
    pub shown_tokens: u64,
    /// The tokens that the proxy shows if every result is stored.
    pub stored_tokens: u64,
    /// The calls for the answer.
    pub sql_calls: u64,
    /// The tokens of the replies to them.
    pub reply_tokens: u64,
    /// Whether the rows of all replies are the answer.
    pub is_right: bool,
}

/// An answer, from all the replies that it took.
#[derive(Debug, Default)]
struct SqlAnswer {
    rows: Vec<Vec<Value>>,
    calls: u64,
    tokens: u64,
    /// Whether no call failed, and `rows` are as many as the replies say.
    is_complete: bool,
}

/// The script that creates environments.
struct Script {
    python: PathBuf,
    path: PathBuf,
    /// The local copy of LOCA-bench.
    directory: PathBuf,
}

/// Asks all environments, and writes the record and the table.
pub fn run(repository: &Repository, args: &LocaArgs) -> Result<bool> {
    check_part(&repository.read(DOCUMENT)?, DOCUMENT, PART)?;
    let command = "cargo evidence loca DIR --program FILE";
    let record = RunRecord::begin(repository, "evidence-loca", command)?;
    let canonical =
        |path: &Path| path.canonicalize().with_context(|| format!("{}", path.display()));
    let program = canonical(&args.program)?;
    let script = Script {
        // The link of a virtual environment must not be resolved: it leads to a Python without
        // packages.
        python: args.python.clone().unwrap_or_else(|| repository.path(PYTHON)),
        path: repository.path(SCRIPT),
        directory: canonical(&args.directory)?,
    };
    for size in &args.sizes {
        ensure!(SIZES.contains(&size.as_str()), "--sizes {size}: one of {}", SIZES.join(", "));
    }
    let mut all = Vec::new();
    for (environment, asked_sizes) in ENVIRONMENTS {
        for size in args.sizes.iter().filter(|size| SIZES[..asked_sizes].contains(&size.as_str())) {
            let mut results = EnvironmentResults {
                environment: environment.to_owned(),
                size: size.clone(),
                ..EnvironmentResults::default()
            };
            for state in 0..args.states {
                output::progress(format_args!("loca: {environment}, {size}, state {state}"));
                let sandbox = TempDir::new()?;
                let made =
                    script.create(environment, size, state, &sandbox.path().join("environment"));
                match made.and_then(|made| measure(&made, &program, sandbox.path())) {
                    Ok(measured) => results.add(measured),
                    Err(error) => {
                        output::progress(format_args!("failed: {error:#}"));
                        results.failed += 1;
                    }
                }
            }
            all.push(results);
        }
    }
    let asked: u64 = all.iter().map(|results| results.states).sum();
    ensure!(asked > 0, "no environment could be measured: see the failures above");
    let record = record.finish(json!({"environments": all}));
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    let text = format!("{}\n\n{}", table(&all), summary(&all));
    output::line(&text);
    write_generated(repository, DOCUMENT, PART, &format!("{}\n\n{text}", record.caption()))?;
    Ok(true)
}

impl Script {
    /// Creates an environment in the directory `output`.
    fn create(
        &self,
        environment: &str,
        size: &str,
        state: usize,
        output: &Path,
    ) -> Result<Environment> {
        let created = Command::new(&self.python)
            .arg(&self.path)
            .arg(&self.directory)
            .arg(format!("final_{size}_set_config.json"))
            .args([environment, &state.to_string()])
            .arg(output)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", self.python.display()))?;
        let stderr = String::from_utf8_lossy(&created.stderr);
        let failure = last_lines(&stderr, MAX_FAILURE_LINES);
        ensure!(created.status.success(), "{SCRIPT}:\n{failure}");
        serde_json::from_slice(&created.stdout).with_context(|| format!("output of {SCRIPT}"))
    }
}

/// The last `count` lines of a text.
fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Makes the calls to the server and through the proxy of `program`, and asks the statement. The
/// programs run in `directory`.
pub fn measure(
    environment: &Environment,
    program: &Path,
    directory: &Path,
) -> Result<EnvironmentMeasurement> {
    let (server, arguments) = environment.server.split_first().context("no server")?;
    let variables: Vec<(&str, &str)> =
        environment.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let connect = |command: Command, name: &str| {
        Session::connect(command, &variables, &directory.join(name)).map_err(|error| anyhow!(error))
    };
    let mut bare = Command::new(server);
    bare.args(arguments);
    let mut bare = connect(bare, "server")?;
    let mut proxied = Command::new(program);
    // Every result is stored; what the default threshold would show is computed from the sizes.
    proxied.args(["proxy", "--threshold", "1", "--"]).args(&environment.server);
    let mut proxied = connect(proxied, "proxy")?;
    let mut measured = EnvironmentMeasurement::default();
    let mut references = Vec::new();
    for call in &environment.calls {
        let returned = bare.call(&call.tool, &call.arguments).map_err(|error| anyhow!(error))?;
        let returned = tokens::count(text_of(&returned));
        let stored = proxied.call(&call.tool, &call.arguments).map_err(|error| anyhow!(error))?;
        let descriptor = text_of(&stored);
        references
            .push(reference(descriptor).with_context(|| format!("{}: not stored", call.tool))?);
        let shown = tokens::count(descriptor);
        measured.calls += 1;
        measured.returned_tokens += returned;
        measured.stored_tokens += shown;
        measured.shown_tokens += if returned < DEFAULT_THRESHOLD { returned } else { shown };
    }
    let (first, others) = references.split_first().context("no calls")?;
    let with: Map<String, Value> =
        (1..).zip(others).map(|(n, other)| (format!("r{n}"), other.as_str().into())).collect();
    let mut question = json!({"ref": first, "sql": environment.sql, "limit": MAX_ROWS});
    if !with.is_empty() {
        question["with"] = with.into();
    }
    let answer = ask(&mut proxied, question)?;
    measured.sql_calls = answer.calls;
    measured.reply_tokens = answer.tokens;
    measured.is_right = answer.is_complete && same_rows(answer.rows, &environment.answer);
    Ok(measured)
}

/// Asks a question, and continues until its answer is complete.
fn ask(session: &mut Session, mut question: Value) -> Result<SqlAnswer> {
    let mut answer = SqlAnswer::default();
    loop {
        let reply = session.call("lro_extract", &question).map_err(|error| anyhow!(error))?;
        let text = text_of(&reply);
        answer.calls += 1;
        answer.tokens += tokens::count(text);
        if reply["isError"] == true {
            output::progress(format_args!("lro_extract: {text}"));
            return Ok(answer);
        }
        answer.rows.extend(rows(text));
        let Some(next) = next_offset(text) else {
            let count = answer.rows.len() as u64;
            answer.is_complete = total_rows(text).is_none_or(|total| total == count);
            return Ok(answer);
        };
        ensure!(answer.calls < MAX_REPLIES, "an answer of more than {MAX_REPLIES} replies");
        question["offset"] = next.into();
    }
}

fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// The reference in a descriptor.
fn reference(descriptor: &str) -> Option<String> {
    let descriptor: Value = serde_json::from_str(descriptor).ok()?;
    Some(descriptor["lro"]["ref"].as_str()?.to_owned())
}

/// The rows of a reply: a line of JSON each, after the first line and the notes.
fn rows(reply: &str) -> Vec<Vec<Value>> {
    let lines = reply.lines().skip(1).filter(|line| line.starts_with('{'));
    let objects = lines.map_while(|line| serde_json::from_str::<Map<String, Value>>(line).ok());
    objects.map(|row| row.into_iter().map(|(_, value)| value).collect()).collect()
}

/// The offset of the next rows: 41 in `41 of 120 rows. More: offset=41.`
fn next_offset(reply: &str) -> Option<u64> {
    let (_, offset) = reply.lines().next()?.split_once(" More: offset=")?;
    offset.trim_end_matches('.').parse().ok()
}

/// The number of all rows: 120 in `41 of 120 rows.` `None` if only a lower bound is known.
fn total_rows(reply: &str) -> Option<u64> {
    let (_, rest) = reply.lines().next()?.split_once(" of ")?;
    rest.split_once(' ')?.0.parse().ok()
}

/// Whether rows are the same in any order. Fractions may differ by [`TOLERANCE`].
fn same_rows(mut rows: Vec<Vec<Value>>, expected: &[Vec<Value>]) -> bool {
    let key = |row: &Vec<Value>| row.first().map(Value::to_string);
    let mut expected = expected.to_vec();
    rows.sort_by_key(key);
    expected.sort_by_key(key);
    rows.len() == expected.len()
        && rows.iter().zip(&expected).all(|(row, expected)| {
            row.len() == expected.len() && row.iter().zip(expected).all(|(a, b)| same(a, b))
        })
}

fn same(value: &Value, expected: &Value) -> bool {
    match (value.as_f64(), expected.as_f64()) {
        (Some(value), Some(expected_number)) if expected.is_f64() => {
            (value - expected_number).abs() <= TOLERANCE
        }
        _ => value == expected,
    }
}

impl EnvironmentResults {
    fn add(&mut self, measured: EnvironmentMeasurement) {
        self.states += 1;
        self.calls += measured.calls;
        self.returned_tokens += measured.returned_tokens;
        self.shown_tokens += measured.shown_tokens;
        self.stored_tokens += measured.stored_tokens;
        self.sql_calls += measured.sql_calls;
        self.reply_tokens += measured.reply_tokens;
        self.continued += u64::from(measured.sql_calls > 1);
        self.right_in_one_call += u64::from(measured.is_right_in_one_call());
        self.right += u64::from(measured.is_right);
    }
}

impl EnvironmentMeasurement {
    /// Whether the answer needed no second call.
    pub fn is_right_in_one_call(&self) -> bool {
        self.is_right && self.sql_calls == 1
    }
}

/// Means per environment; numbers of answers in the last three columns.
fn table(all: &[EnvironmentResults]) -> String {
    let mut table = String::from(
        "| environment | size | calls | tokens returned | shown at the default threshold | shown if all are stored | SQL calls | tokens of their replies | right in one call | right with continued replies | answers with continued replies |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    );
    for results in all {
        let states = results.states.max(1);
        let failed = match results.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let _ = write!(
            table,
            "\n| {} | {} | {} | {} | {} | {} | {:.1} | {} | {} of {n}{failed} | {} of {n} | {} |",
            results.environment.trim_end_matches("S2LEnv"),
            results.size,
            results.calls / states,
            results.returned_tokens / states,
            results.shown_tokens / states,
            results.stored_tokens / states,
            real(results.sql_calls) / real(states),
            results.reply_tokens / states,
            results.right_in_one_call,
            results.right,
            results.continued,
            n = results.states
        );
    }
    table
}

/// The answers of all environments together.
fn summary(all: &[EnvironmentResults]) -> String {
    let sum = |count: fn(&EnvironmentResults) -> u64| all.iter().map(count).sum::<u64>();
    format!(
        "Of {} answers, {} are right in one SQL call, and {} if replies are continued; {} answers need more than one \
         call, because they are longer than a reply.",
        sum(|results| results.states),
        sum(|results| results.right_in_one_call),
        sum(|results| results.right),
        sum(|results| results.continued)
    )
}

#[cfg(test)]
mod tests;
