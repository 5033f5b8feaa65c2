//! `atlatl offload`: what becomes of a tool result, or would become of it.

mod count;
mod deliver;
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
    stores::output_dir,
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl offload result.json
  atlatl offload --tool read_file < result.json
  atlatl offload --dry-run --set proxy.threshold_tokens=500 rows.csv";

/// What was typed behind `atlatl offload`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Say what would be done and why, and store nothing
    #[arg(long)]
    dry_run: bool,
    /// The tool that returned it, for policies and thresholds
    /// [default: `recall_memories` if it is memories]
    #[arg(long, value_name = "NAME", verbatim_doc_comment)]
    tool: Option<String>,
    /// The query that it answers, for the stored header
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,
    /// Keep it apart from other results of this directory;
    /// those of memory operations lie together
    #[arg(long, value_name = "TEXT", verbatim_doc_comment)]
    scope: Option<String>,
    /// The result; - is standard input, the default
    file: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let input = read(args.file.as_deref())?;
    if !args.dry_run {
        deliver::run(args, &input, &settings, output)?;
        return Ok(Status::Success);
    }
    let directory = output_dir(&settings)?;
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
    if let Some(file) = file.filter(|file| *file != Path::new("-")) {
        return fs::read(file).map_err(|error| unreadable(&file.display(), error));
    }
    if io::stdin().is_terminal() {
        return Err(Error::usage("no result given: standard input is a terminal")
            .with_hint("atlatl offload FILE"));
    }
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input).map_err(|error| unreadable(&"standard input", error))?;
    Ok(input)
}
