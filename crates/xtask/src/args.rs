//! The command line: what was typed, handed to one function per command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::repository::Repository;
use crate::{bench, check, conformance, docs, output, package, references, soak};

/// Gates, generated references and long runs of the Atlatl repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
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
    /// Run the long runs and record them under bench/runs/.
    Soak(SoakArgs),
    /// Run the fuzz targets one after another and record them under bench/runs/.
    Fuzz(FuzzArgs),
    /// Break the code that decides who sees what in every small way, and see whether a test notices.
    Mutants(MutantsArgs),
    /// Measure, keep the raw run under bench/runs/ and write the tables of docs/performance.md
    Bench(BenchArgs),
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
    /// `JUnit` report of a finished run: the table then says what that run showed.
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
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

/// Which long runs to start.
#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    /// One run by name; all of them when absent.
    #[arg(value_parser = soak::names())]
    pub(crate) name: Option<String>,
    /// How much that run does, instead of its full size.
    #[arg(long, value_name = "N", requires = "name", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cases: Option<u32>,
    /// With `upgrade`: the revision of the older program, instead of the newest that lacks a migration.
    #[arg(long, value_name = "REVISION")]
    pub(crate) from: Option<String>,
}

/// Which fuzz targets to run, and how long.
#[derive(Debug, Args)]
pub(crate) struct FuzzArgs {
    /// One target by name; all of them when absent.
    #[arg(value_name = "TARGET", value_parser = soak::fuzz::names())]
    pub(crate) name: Option<String>,
    /// How long each target runs.
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: u32,
}

/// Which code to break.
#[derive(Debug, Args)]
pub(crate) struct MutantsArgs {
    /// One area by name; all of them when absent.
    #[arg(value_name = "AREA", value_parser = soak::mutants::names())]
    pub(crate) name: Option<String>,
}

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    pub(crate) name: Bench,
    /// With `proxy`: calls of a server over HTTP.
    #[arg(long)]
    pub(crate) http: bool,
    /// With `footprint`: directory of a released `atlatl`; built as for the packages when absent.
    #[arg(long, value_name = "DIR")]
    pub(crate) bin: Option<PathBuf>,
}

/// The benchmarks there are.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Bench {
    /// Finding and measuring records, the estimate's error, descriptor sizes
    Core,
    /// Storing a result beside the bare scan and write, the memory of a streamed one
    Offload,
    /// Questions to 200 000 memories beside the engines that others use; installs those it lacks
    Extract,
    /// Calls through the proxy beside the bare server and beside other proxies; installs those it
    /// lacks
    Proxy,
    /// Recall, search, listing and ingest at 100 000 and a million memories, beside the bare SQL
    Memory,
    /// How well the ranking set is answered, by words, by vectors and by both, with real models
    Ranking,
    /// A thousand tenants in `PostgreSQL` beside the same SQL sent bare, and requests over HTTP that
    /// ask no store
    Server,
    /// Storing a result with 10,000 stored results beside the same with none
    Usage,
    /// Size, processor time and memory of the released program beside their goals
    Footprint,
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
        Command::Soak(args) => soak::run(&repository, &args),
        Command::Fuzz(args) => soak::fuzz::run(&repository, &args),
        Command::Mutants(args) => soak::mutants::run(&repository, &args),
        Command::Bench(args) => bench::run(&repository, &args),
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
