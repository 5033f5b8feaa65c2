//! The command line; each command is one function.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};

use crate::conformance::{self, ConformanceArgs};
use crate::docs::{self, DocsArgs};
use crate::package::{self, PackageArgs};
use crate::references::{self, ReferencesArgs};
use crate::repository::Repository;
use crate::test_list::TestsArgs;
use crate::{check, output};

/// What `loadtest` does, so that the gate does not build it.
const MEASURE: &str =
    "bench, soak, fuzz and mutants are commands of `cargo loadtest`; they work here too.";

/// Checks, generated references and packages of the Atlatl repository
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = MEASURE)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check crate dependencies, source files, threats, walkthroughs, links and the book
    Check(TestsArgs),
    /// Check the clause table against the tests, and print it
    Conformance(ConformanceArgs),
    /// Run the examples in README.md and docs/
    Docs(DocsArgs),
    /// Build every package from one built program
    Package(PackageArgs),
    /// Write the generated reference documents, or check that they are up to date
    References(ReferencesArgs),
    /// Forwarded to `cargo loadtest`
    #[command(external_subcommand)]
    Measure(Vec<String>),
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
