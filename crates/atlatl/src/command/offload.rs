//! `atlatl offload`: what would become of a tool result.

mod count;
mod descriptor;
mod report;
mod rules;
mod text;

use std::{
    fs,
    io::{self, IsTerminal, Read as _},
    path::{Path, PathBuf},
};

use self::report::Report;
use crate::{
    error::{Error, Status},
    output::{Mode, Output},
    settings::{Settings, Sources},
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl offload --dry-run result.json
  atlatl offload --dry-run --tool read_file < result.json
  atlatl offload --dry-run --set proxy.threshold_tokens=500 rows.csv";

/// What was typed behind `atlatl offload`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Say what would be done, and do nothing
    #[arg(long, required = true)]
    dry_run: bool,
    /// The tool that returned it, for policies and thresholds
    /// [default: `recall_memories` if it is memories]
    #[arg(long, value_name = "NAME", verbatim_doc_comment)]
    tool: Option<String>,
    /// The result [default: standard input]
    file: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    debug_assert!(args.dry_run, "clap demands it");
    let settings = Settings::load(sources)?;
    let directory = settings
        .output_dir()
        .map_err(|error| Error::failure(format!("prompt.offload.output_dir: {error}")))?;
    let input = read(args.file.as_deref())?;
    let report = Report::of(&input, args.tool.as_deref(), &settings.config, &directory)?;
    match output.mode() {
        Mode::Json => output.json(&report)?,
        Mode::Human => output.facts(&text::facts(&report))?,
    }
    Ok(Status::Success)
}

fn read(file: Option<&Path>) -> Result<Vec<u8>, Error> {
    let unreadable = |name: &dyn std::fmt::Display, error: io::Error| {
        Error::failure(format!("{name}: cannot be read: {error}"))
    };
    if let Some(file) = file {
        return fs::read(file).map_err(|error| unreadable(&file.display(), error));
    }
    if io::stdin().is_terminal() {
        return Err(Error::usage("no result given: standard input is a terminal")
            .with_hint("atlatl offload --dry-run FILE"));
    }
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input).map_err(|error| unreadable(&"standard input", error))?;
    Ok(input)
}
