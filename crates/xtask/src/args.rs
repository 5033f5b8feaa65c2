//! The command line: what was typed, handed to one function per command.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand};

use crate::repository::Repository;
use crate::{check, conformance, docs, output, package, references};

/// What `loadtest` does, so that the gate does not build it.
const MEASURE: &str =
    "bench, soak, fuzz and mutants are commands of `cargo loadtest`; they work here too.";

/// Checks, generated references and packages of the Atlatl repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = MEASURE)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check crate arrows, file shapes, dependencies, hygiene, threats, links and the book.
    Check(TestsArgs),
    /// Check the clause table against the tests, and print it.
    Conformance(ConformanceArgs),
    /// Run the examples in README.md and docs/.
    Docs(DocsArgs),
    /// Make every package of the program from one built binary.
    Package(PackageArgs),
    /// Write the generated reference documents, or check that they are fresh.
    References(ReferencesArgs),
    /// Forwarded to `cargo loadtest`.
    #[command(external_subcommand)]
    Measure(Vec<String>),
}

/// Where the names of the existing tests come from.
#[derive(Debug, Args)]
pub(crate) struct TestsArgs {
    /// A saved `cargo nextest list --workspace --message-format json`; asked from cargo when absent.
    #[arg(long, value_name = "FILE")]
    pub(crate) tests: Option<PathBuf>,
}

/// What `conformance` reads beside the clause table.
#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    #[command(flatten)]
    pub(crate) tests: TestsArgs,
    /// `JUnit` report of a finished run, once per report: the table then shows the outcomes.
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Vec<PathBuf>,
}

/// Where the `atlatl` program is.
#[derive(Debug, Args)]
pub struct BinArgs {
    /// Directory of the built `atlatl`; built with the dev profile when absent.
    #[arg(long, value_name = "DIR")]
    pub bin: Option<PathBuf>,
}

/// Which documents to execute.
#[derive(Debug, Args)]
pub(crate) struct DocsArgs {
    #[command(flatten)]
    pub(crate) bin: BinArgs,
    /// Documents to run; README.md and all of docs/ when none is named.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// What to pack.
#[derive(Debug, Args)]
pub(crate) struct PackageArgs {
    /// The built program; the wheel is built by cargo again, which has nothing to do if the
    /// environment is the same.
    #[arg(long, value_name = "PATH")]
    pub(crate) bin: PathBuf,
    /// What it was built for: the `--target` of cargo.
    #[arg(long, value_name = "TRIPLE")]
    pub(crate) target: String,
    /// Where the packages go.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// The publisher's namespace in the MCP registry, such as `io.github.NAME`.
    #[arg(long, value_name = "NAMESPACE", default_value = "local")]
    pub(crate) namespace: String,
    /// The URL of the source, which npm compares with who publishes.
    #[arg(long, value_name = "URL")]
    pub(crate) repository: Option<String>,
}

/// What to do with the generated documents.
#[derive(Debug, Args)]
pub(crate) struct ReferencesArgs {
    #[command(flatten)]
    pub(crate) bin: BinArgs,
    /// Write nothing; fail when a document is stale.
    #[arg(long)]
    pub(crate) check: bool,
}

fn measure(repository: &Repository, words: &[String]) -> Result<bool> {
    let command = words.first().map_or("", String::as_str);
    ensure!(
        ["bench", "soak", "fuzz", "mutants"].contains(&command),
        "unrecognized subcommand `{command}`; see cargo xtask --help"
    );
    Ok(repository.cargo(&["loadtest"]).args(words).status()?.success())
}

/// Parses the command line and runs the command; the exit code says whether it passed.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let outcome = Repository::open().and_then(|repository| match cli.command {
        Command::Check(args) => check::run(&repository, &args),
        Command::Conformance(args) => conformance::run(&repository, &args),
        Command::Docs(args) => docs::run(&repository, &args),
        Command::Package(args) => package::run(&repository, &args),
        Command::References(args) => references::run(&repository, &args),
        Command::Measure(words) => measure(&repository, &words),
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            output::error(&error);
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
