//! `bench`: runs a benchmark, writes the raw results under bench/runs/ and the tables into
//! docs/performance.md.
//!
//! `bench extract` and `bench proxy` compare with other engines and proxies. This module installs
//! those that are missing; the benchmark records those that cannot be installed, so no failure to
//! install one ends it.

mod extract;
mod footprint;
mod format;
mod memory;
mod offload;
mod proxy;
mod questions;
mod ranking;
mod recall;
mod run_output;
mod server;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use xtask::markdown::write_generated;
use xtask::output;
use xtask::repository::{Repository, cache_dir};
use xtask::run_record::RunRecord;

const DOCUMENT: &str = "docs/performance.md";
/// The document of `bench retrieval`.
const EVIDENCE: &str = "docs/evidence.md";

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    name: Bench,
    /// With `retrieval`: directory with data/locomo10.json (`LoCoMo`), chats/100K (BEAM), or both
    #[arg(value_name = "DIR", required_if_eq("name", "retrieval"))]
    directory: Option<PathBuf>,
    /// With `proxy`: measure a server over HTTP
    #[arg(long)]
    http: bool,
    /// With `footprint`, `questions` and `run`: directory of a built `atlatl` [default: build it]
    #[arg(long, value_name = "DIR")]
    bin: Option<PathBuf>,
    /// With `questions`: the commit of the program in `--bin`, if it is another one
    #[arg(long, value_name = "COMMIT", requires = "bin")]
    program: Option<String>,
    /// With `recall`: run so many random queries in place of the classes of queries
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    random: Option<u64>,
}

/// The benchmarks there are.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Bench {
    /// Detecting records, error of the token estimate, descriptor sizes
    Core,
    /// Storing a result compared with a bare scan and write; memory of a streamed one
    Offload,
    /// Queries of 200 000 memories compared with other engines; installs missing ones
    Extract,
    /// Calls through the proxy compared with the bare server and other proxies; installs missing
    /// ones
    Proxy,
    /// Recall, search, listing and ingest at 100 000 and a million memories, compared with bare SQL
    Memory,
    /// Ranking quality by words, by vectors and by both, with real models
    Ranking,
    /// The same with local copies of `LoCoMo` and BEAM, which are not part of the repository
    Retrieval,
    /// A thousand tenants in `PostgreSQL` compared with bare SQL, and HTTP requests that use no
    /// store
    Server,
    /// Recall in one tenant of up to a million memories, compared with exact BM25 and with 0.1.0
    Recall,
    /// Storing a result with 10,000 stored results compared with none
    Usage,
    /// Size, CPU time and memory of the released program, with their goals
    Footprint,
    /// `atlatl run` compared with the bare command, and with `tee` and `sync` at a gigabyte
    Run,
    /// Questions about results of many kinds, and wrong first attempts; written to docs/questions.md
    Questions,
}

/// Makes the generated parts of the document from the results of a benchmark.
type Tables = fn(&Value) -> Result<Vec<(&'static str, String)>>;

/// Rejects options of other benchmarks.
fn check_options(args: &BenchArgs) -> Result<()> {
    ensure!(!args.http || matches!(args.name, Bench::Proxy), "--http is for `bench proxy`");
    ensure!(
        args.bin.is_none() || matches!(args.name, Bench::Footprint | Bench::Questions | Bench::Run),
        "--bin is for `bench footprint`, `bench questions` and `bench run`"
    );
    ensure!(
        args.program.is_none() || matches!(args.name, Bench::Questions),
        "--program is for `bench questions`"
    );
    ensure!(
        args.directory.is_none() || matches!(args.name, Bench::Retrieval),
        "DIR is for `bench retrieval`"
    );
    ensure!(
        args.random.is_none() || matches!(args.name, Bench::Recall),
        "--random is for `bench recall`"
    );
    Ok(())
}

/// Runs one benchmark.
pub(crate) fn run(repository: &Repository, args: &BenchArgs) -> Result<bool> {
    check_options(args)?;
    let (name, package, tables): (_, _, Tables) = match args.name {
        Bench::Proxy if args.http => ("remote", "atlatl-lro", proxy::remote_tables),
        Bench::Core => ("core", "lro-core", offload::core_tables),
        Bench::Offload => ("offload", "lro", offload::tables),
        Bench::Extract => ("extract", "lro-query", extract::tables),
        Bench::Proxy => ("proxy", "atlatl-lro", proxy::tables),
        Bench::Memory => ("memory", "atlatl-memory", memory::tables),
        Bench::Ranking => ("ranking", "atlatl-memory", ranking::tables),
        Bench::Retrieval => ("retrieval", "atlatl-memory", ranking::retrieval_tables),
        Bench::Server => ("server", "atlatl-memory", server::tables),
        Bench::Recall if args.random.is_some() => {
            ("recall-random", "atlatl-memory", recall::random_tables)
        }
        Bench::Recall => ("recall", "atlatl-memory", recall::tables),
        Bench::Usage => ("usage", "atlatl-lro", offload::usage_tables),
        Bench::Footprint => ("footprint", "atlatl-lro", footprint::tables),
        Bench::Run => ("run", "atlatl-lro", run_output::tables),
        Bench::Questions => return run_questions(repository, args),
    };
    let cache = cache_dir()?;
    let mut failures = Vec::new();
    match args.name {
        Bench::Extract => install_engines(&cache),
        Bench::Proxy => {
            failures = install_proxies(&cache);
            build_servers(repository)?;
        }
        Bench::Usage => build_servers(repository)?,
        Bench::Ranking | Bench::Retrieval => {
            let script = repository.path(".ci/models");
            ensure!(Command::new(script).status()?.success(), ".ci/models failed");
        }
        Bench::Recall => install(repository, &cache, ".ci/postgres")?,
        Bench::Server => {
            for script in [".ci/postgres", ".ci/s3"] {
                install(repository, &cache, script)?;
            }
        }
        Bench::Core
        | Bench::Offload
        | Bench::Memory
        | Bench::Footprint
        | Bench::Questions
        | Bench::Run => {}
    }
    let options = match (args.name, args.random) {
        (Bench::Proxy, _) if args.http => "proxy --http".to_owned(),
        (Bench::Retrieval, _) => "retrieval DIR".to_owned(),
        (Bench::Recall, Some(random)) => format!("recall --random {random}"),
        _ => name.to_owned(),
    };
    let command = format!("cargo xtask bench {options}");
    let record = RunRecord::begin(repository, &format!("bench-{name}"), &command)?;
    output::progress(format_args!("bench {name}: building and measuring"));
    // Those that ask no model do without: to build and link them takes minutes.
    let features: &[&str] = match args.name {
        Bench::Memory => &["--no-default-features", "--features", "contract"],
        Bench::Recall | Bench::Server => {
            &["--no-default-features", "--features", "contract,postgres"]
        }
        Bench::Proxy | Bench::Usage => &[],
        _ => &["--all-features"],
    };
    let mut results = match args.name {
        Bench::Footprint => footprint::measure(repository, args.bin.as_deref(), &cache)?,
        Bench::Run => run_output::measure(repository, args.bin.as_deref(), &cache)?,
        Bench::Retrieval => measure_retrieval(repository, args, features, &cache)?,
        Bench::Recall => {
            let random = args.random.unwrap_or_default().to_string();
            let variables = [("ATLATL_BENCH_RANDOM", OsStr::new(&random))];
            measure(repository, package, "recall", features, &cache, &variables)?
        }
        _ => measure(repository, package, name, features, &cache, &[])?,
    };
    if let Bench::Server = args.name {
        let http = measure(repository, "atlatl-lro", "serve", &[], &cache, &[])?;
        fs::write(repository.path(server::DRAWING), server::drawing(&results)?)?;
        let object = measure(repository, "lro-query", "object", &[], &cache, &[])?;
        results = json!({"store": results, "object": object, "http": http});
    }
    if !failures.is_empty() {
        results["not_installed"] = failures.into_iter().collect();
    }
    let record = record.finish(results);
    let file = record.write(repository)?;
    output::line(format_args!("wrote {}", file.display()));
    let document = if let Bench::Retrieval = args.name { EVIDENCE } else { DOCUMENT };
    for (part, table) in tables(record.results())? {
        output::line(&table);
        let body = format!("{}\n\n{table}", record.caption());
        write_generated(repository, document, part, &body)?;
    }
    Ok(true)
}

/// Builds the program as it is released.
pub(super) fn build_release(repository: &Repository, cache: &Path) -> Result<PathBuf> {
    footprint::build(repository, cache)
}

/// Runs `bench questions`, which has its own document. A run of another program is recorded only.
fn run_questions(repository: &Repository, args: &BenchArgs) -> Result<bool> {
    let program = args.program.as_deref();
    let options =
        program.map_or_else(String::new, |commit| format!(" --bin DIR --program {commit}"));
    let command = format!("cargo xtask bench questions{options}");
    let name = format!("bench-{}", questions::record_name(program));
    let record = RunRecord::begin(repository, &name, &command)?;
    let record = record.finish(questions::measure(repository, args.bin.as_deref())?);
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    if program.is_some() {
        return Ok(true);
    }
    for (part, table) in questions::tables(repository, record.results())? {
        output::line(&table);
        let body = format!("{}\n\n{table}", record.caption());
        write_generated(repository, questions::DOCUMENT, part, &body)?;
    }
    Ok(true)
}

/// Runs a script that installs what a benchmark uses.
fn install(repository: &Repository, cache: &Path, script: &str) -> Result<()> {
    let installed = Command::new(repository.path(script)).env("ATLATL_CACHE", cache).status()?;
    ensure!(installed.success(), "{script} failed");
    Ok(())
}

/// Builds the servers that a benchmark uses; cargo builds only the programs of the benchmark's own
/// package.
fn build_servers(repository: &Repository) -> Result<()> {
    let build = ["build", "--profile", "bench", "--locked", "--package", "testkit", "--bins"];
    ensure!(repository.cargo(&build).status()?.success(), "cargo build failed");
    Ok(())
}

/// Runs `bench retrieval`, which is the program of `bench ranking` with other questions.
fn measure_retrieval(
    repository: &Repository,
    args: &BenchArgs,
    features: &[&str],
    cache: &Path,
) -> Result<Value> {
    let directory = args.directory.as_deref().context("DIR is missing")?;
    let directory = fs::canonicalize(directory)
        .with_context(|| format!("cannot read the directory {}", directory.display()))?;
    let variables = [("ATLATL_RETRIEVAL_DIR", directory.as_os_str())];
    measure(repository, "atlatl-memory", "ranking", features, cache, &variables)
}

/// Runs a benchmark with further environment variables and returns its results.
fn measure(
    repository: &Repository,
    package: &str,
    name: &str,
    features: &[&str],
    cache: &Path,
    variables: &[(&str, &OsStr)],
) -> Result<Value> {
    let run = repository
        .cargo(&["bench", "--locked", "--package", package, "--bench", name])
        .args(features)
        .env("ATLATL_CACHE", cache)
        .env("TESTKIT_POSTGRES", cache.join("postgres"))
        .envs(variables.iter().copied())
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo bench")?;
    ensure!(run.status.success(), "cargo bench failed: {}", run.status);
    serde_json::from_slice(&run.stdout).context("the benchmark's output")
}

/// Installs the engines that are missing.
pub(super) fn install_engines(cache: &Path) {
    for (program, package) in [("jq", "jq"), ("gojq", "gojq"), ("rg", "ripgrep")] {
        if !runs(Command::new(program).arg("--version")) {
            step(program, Command::new("apt-get").args(["install", "--yes", package]));
        }
    }
    let tools = cache.join("tools");
    if !runs(Command::new("jaq").arg("--version"))
        && !runs(Command::new(tools.join("bin/jaq")).arg("--version"))
    {
        step(
            "jaq",
            Command::new("cargo").args(["install", "--locked", "jaq", "--root"]).arg(tools),
        );
    }
    let venv = cache.join("venv");
    let python = venv.join("bin/python");
    if !runs(Command::new(&python).args(["-c", "import duckdb, datafusion"])) {
        step("a Python of our own", Command::new("python3").args(["-m", "venv"]).arg(&venv));
        let mut pip = Command::new(&python);
        step("DuckDB, DataFusion", pip.args(["-m", "pip", "install", "duckdb", "datafusion"]));
    }
}

/// Installs the proxies that are missing; returns those that cannot be installed, with reasons.
pub(super) fn install_proxies(cache: &Path) -> Vec<(String, Value)> {
    let mut failures = Vec::new();
    let mut install = |name: &str, program: PathBuf, command: &mut Command| {
        if program.is_file() {
            return;
        }
        output::progress(format_args!("installing {name}"));
        let why = match command.output() {
            Ok(run) if run.status.success() && program.is_file() => return,
            Ok(run) => error_line(&String::from_utf8_lossy(&run.stderr)),
            Err(error) => error.to_string(),
        };
        output::progress(format_args!("cannot install {name}: {why}"));
        failures.push((name.to_owned(), why.into()));
    };
    let (venv, npm) = (cache.join("venv"), cache.join("npm"));
    let python = venv.join("bin/python");
    if !python.is_file() {
        step("a Python of our own", Command::new("python3").args(["-m", "venv"]).arg(&venv));
    }
    install(
        "mcp-proxy",
        venv.join("bin/mcp-proxy"),
        Command::new(python).args(["-m", "pip", "install", "mcp-proxy"]),
    );
    install(
        "mcp-cache",
        npm.join("node_modules/.bin/mcp-cache"),
        Command::new("npm").args(["install", "mcp-cache", "--prefix"]).arg(&npm),
    );
    failures
}

/// The error line of an installer's output, without the URL, which may be a mirror.
fn error_line(output: &str) -> String {
    let is_error = |line: &&str| line.contains("Not Found") || line.starts_with("ERROR");
    let lines = || output.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines().find(is_error).or_else(|| lines().next_back());
    let line = line.unwrap_or("it does not say why");
    line.split(" - GET ").next().unwrap_or(line).to_owned()
}

fn runs(command: &mut Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn step(what: &str, command: &mut Command) {
    output::progress(format_args!("installing {what}"));
    // Stdout is for the results.
    if !runs(command) {
        output::progress(format_args!("cannot install {what}: {command:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installers_reason_is_one_line() {
        let output =
            "npm warn x\nnpm error code E404\nnpm error 404 Not Found - GET y\nnpm error z\n";
        assert_eq!(error_line(output), "npm error 404 Not Found");
        assert_eq!(error_line("a\nb\n\n"), "b");
        assert_eq!(error_line(""), "it does not say why");
    }
}
