//! `cargo evidence loca`: environments of LOCA-bench behind the proxy, without a model.
//!
//! LOCA-bench generates data of a chosen size for local MCP servers, and checks answers by rules. Here
//! the calls that return the data go to the server and through the proxy, and one SQL statement over
//! the stored results is compared with the answer that the rules accept. `bench/evidence/loca/` has the
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

use crate::tokens;

const DOCUMENT: &str = "docs/evidence.md";
/// The generated part of the document.
const PART: &str = "loca";
const SCRIPT: &str = "bench/evidence/loca/environment.py";
/// The default threshold of the proxy.
const DEFAULT_THRESHOLD: u64 = 10_000;
/// The most rows of an answer.
const MAX_ROWS: u64 = 5000;
/// The greatest difference of a fraction, which the rules of LOCA-bench accept.
const TOLERANCE: f64 = 0.1;

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
    /// Python with pandas, openpyxl, pyyaml and `mcp<2`
    #[arg(long, value_name = "FILE", default_value = "python3")]
    python: PathBuf,
    /// Sizes of the environments
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_values = SIZES)]
    sizes: Vec<String>,
    /// Seeds of each environment and size, at most 5
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    states: usize,
}

/// An environment, as the script describes it.
#[derive(Debug, Deserialize)]
struct Environment {
    /// The program of the MCP server and its arguments.
    server: Vec<String>,
    variables: BTreeMap<String, String>,
    calls: Vec<EnvironmentCall>,
    sql: String,
    answer: Vec<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct EnvironmentCall {
    tool: String,
    arguments: Value,
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
    reply_tokens: u64,
    right: u64,
}

/// The measurement of one environment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct EnvironmentMeasurement {
    calls: u64,
    returned_tokens: u64,
    shown_tokens: u64,
    stored_tokens: u64,
    reply_tokens: u64,
    is_right: bool,
}

/// Asks all environments, and writes the record and the table.
pub fn run(repository: &Repository, args: &LocaArgs) -> Result<bool> {
    let command = "cargo evidence loca DIR --program FILE --python FILE";
    let record = RunRecord::begin(repository, "evidence-loca", command)?;
    let canonical =
        |path: &Path| path.canonicalize().with_context(|| format!("{}", path.display()));
    let (directory, program) = (canonical(&args.directory)?, canonical(&args.program)?);
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
                let made = create(repository, args, &directory, environment, size, state, &sandbox);
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
    ensure!(asked > 0, "no environment could be created: see the help of --python");
    let record = record.finish(json!({"environments": all}));
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    let table = table(&all);
    output::line(&table);
    write_generated(repository, DOCUMENT, PART, &format!("{}\n\n{table}", record.caption()))?;
    Ok(true)
}

/// Creates an environment in the sandbox.
fn create(
    repository: &Repository,
    args: &LocaArgs,
    directory: &Path,
    environment: &str,
    size: &str,
    state: usize,
    sandbox: &TempDir,
) -> Result<Environment> {
    // The link of a virtual environment must not be resolved: it leads to a Python without packages.
    let created = Command::new(&args.python)
        .arg(repository.path(SCRIPT))
        .arg(directory)
        .arg(format!("final_{size}_set_config.json"))
        .args([environment, &state.to_string()])
        .arg(sandbox.path().join("environment"))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{}", args.python.display()))?;
    let stderr = String::from_utf8_lossy(&created.stderr);
    let reason = stderr.lines().last().unwrap_or_default();
    ensure!(created.status.success(), "{SCRIPT}: {reason}");
    serde_json::from_slice(&created.stdout).with_context(|| format!("output of {SCRIPT}"))
}

/// Makes the calls to the server and through the proxy, and asks the statement.
fn measure(
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
    let reply = proxied.call("lro_extract", &question).map_err(|error| anyhow!(error))?;
    let text = text_of(&reply);
    measured.reply_tokens = tokens::count(text);
    measured.is_right = reply["isError"] != true && same_rows(rows(text), &environment.answer);
    Ok(measured)
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
        self.reply_tokens += measured.reply_tokens;
        self.right += u64::from(measured.is_right);
    }
}

/// Means per environment; sums in the last column.
fn table(all: &[EnvironmentResults]) -> String {
    let mut table = String::from(
        "| environment | size | calls | tokens returned | shown at the default threshold | shown if all are stored | reply to one SQL call | answers right |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|",
    );
    for results in all {
        let states = results.states.max(1);
        let failed = match results.failed {
            0 => String::new(),
            failed => format!(", {failed} not created"),
        };
        let _ = write!(
            table,
            "\n| {} | {} | {} | {} | {} | {} | {} | {} of {}{failed} |",
            results.environment.trim_end_matches("S2LEnv"),
            results.size,
            results.calls / states,
            results.returned_tokens / states,
            results.shown_tokens / states,
            results.stored_tokens / states,
            results.reply_tokens / states,
            results.right,
            results.states
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_in_any_order_and_with_tolerance() {
        let reply = "3 of 3 rows.\nNote: \"x\" is read as y\n{\"team\":\"b\",\"n\":1,\"p\":70.04}\n{\"team\":\"a\",\"n\":2,\"p\":71}\n";
        let rows = rows(reply);
        assert_eq!(rows.len(), 2);
        let expected =
            vec![vec![json!("a"), json!(2), json!(71.0)], vec![json!("b"), json!(1), json!(70.0)]];
        assert!(same_rows(rows.clone(), &expected));
        assert!(!same_rows(rows.clone(), &expected[..1]));
        let mut wrong = expected;
        wrong[1][1] = json!(3);
        assert!(!same_rows(rows, &wrong));
        assert!(!same(&json!(2.05), &json!(2)));
    }

    #[test]
    fn a_row_of_the_table_has_means_and_counts() {
        let mut results = EnvironmentResults {
            environment: "NhlB2bAnalysisS2LEnv".to_owned(),
            size: "8k".to_owned(),
            ..EnvironmentResults::default()
        };
        let measured = EnvironmentMeasurement {
            calls: 1,
            returned_tokens: 12_000,
            shown_tokens: 600,
            stored_tokens: 600,
            reply_tokens: 100,
            is_right: true,
        };
        results.add(measured);
        results.add(EnvironmentMeasurement { is_right: false, ..measured });
        results.failed = 1;
        let table = table(&[results]);
        let row = "\n| NhlB2bAnalysis | 8k | 1 | 12000 | 600 | 600 | 100 | 1 of 2, 1 not created |";
        assert!(table.ends_with(row), "{table}");
    }

    #[test]
    fn every_environment_of_the_script_is_asked() {
        let script = Repository::open().unwrap().read(SCRIPT).unwrap();
        for (environment, sizes) in ENVIRONMENTS {
            assert!(script.contains(&format!("\"{environment}\": (")), "{environment}");
            assert!(sizes <= SIZES.len());
        }
        assert_eq!(script.matches("S2LEnv\": (").count(), ENVIRONMENTS.len());
    }

    /// A server of our own in place of LOCA-bench: the way through the proxy is the same.
    #[test]
    fn one_statement_over_two_results_is_compared_with_the_answer() {
        let program = testkit::tool::built_program("atlatl", "atlatl-lro");
        let server = testkit::tool::built_program("questions-server", "testkit");
        let call = |tool: &str| EnvironmentCall { tool: tool.to_owned(), arguments: json!({}) };
        let environment = Environment {
            server: vec![server.to_str().unwrap().to_owned()],
            variables: BTreeMap::new(),
            calls: vec![call("list_issues"), call("list_commits")],
            sql: "SELECT number, (SELECT count(*) > 0 FROM r1) AS others FROM results \
                  WHERE number = 3977"
                .to_owned(),
            answer: vec![vec![json!(3977), json!(1)]],
        };
        let directory = TempDir::new().unwrap();
        let measured = measure(&environment, &program, directory.path()).unwrap();
        assert!(measured.is_right, "{measured:?}");
        assert_eq!(measured.calls, 2);
        assert!(measured.stored_tokens < measured.returned_tokens / 10, "{measured:?}");
        assert_eq!(measured.shown_tokens, measured.stored_tokens);
        let wrong = Environment { answer: vec![vec![json!(1), json!(1)]], ..environment };
        let directory = TempDir::new().unwrap();
        assert!(!measure(&wrong, &program, directory.path()).unwrap().is_right);
    }
}
