//! `atlatl offload`: what becomes of a tool result, or would become of it.

mod count;
mod deliver;
mod descriptor;
mod input;
mod large;
mod report;
mod rules;
mod text;

use std::path::PathBuf;

use self::{input::Input, report::Report};
use crate::{
    error::{Error, Status},
    output::{Mode, Output},
    settings::{Settings, Sources},
    spool_config::{Stores, output_dir},
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
    let stores = Stores::from_settings(&settings, args.scope.as_deref())?;
    let input = match input::read(args.file.as_deref(), &stores)? {
        Input::Memory(input) => input,
        Input::Large(file) => match large::run(args, &file, &settings, &stores, output)? {
            large::Outcome::Done => return Ok(Status::Success),
            large::Outcome::Undecided => file.whole()?,
        },
    };
    if !args.dry_run {
        deliver::run(args, &input, &settings, &stores, output)?;
        return Ok(Status::Success);
    }
    let directory = output_dir(&settings)?;
    let report = Report::new(&input, args.tool.as_deref(), &settings.config, &directory)?;
    print(&report, output)?;
    Ok(Status::Success)
}

fn print(report: &Report, output: &mut Output) -> Result<(), Error> {
    match output.mode() {
        Mode::Json => output.json(report)?,
        Mode::Human => output.facts(&text::facts(report))?,
    }
    Ok(())
}
