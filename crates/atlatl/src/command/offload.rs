//! `atlatl offload`: what would become of a tool result.

mod report;
mod text;

use std::{
    fs,
    io::{self, IsTerminal, Read as _},
    path::{Path, PathBuf},
};

use lro_core::{Rules, Threshold, config::Config};

use self::report::Report;
use crate::{
    error::{Error, Status},
    output::{Mode, Output},
    settings::{Settings, Sources},
};

/// What was typed behind `atlatl offload`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Say what would be done, and do nothing
    #[arg(long, required = true)]
    dry_run: bool,
    /// The tool that returned the result, which policies and thresholds depend on [default:
    /// `recall_memories` if the records are memories]
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// The result [default: standard input]
    file: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    debug_assert!(args.dry_run, "clap demands it");
    let settings = Settings::load(sources)?;
    let input = read(args.file.as_deref())?;
    let directory = settings
        .output_dir()
        .map_err(|error| Error::failure(format!("prompt.offload.output_dir: {error}")))?;
    let report = Report::of(&input, args.tool.as_deref(), &settings.config, &directory);
    match output.mode() {
        Mode::Json => output.json(&report)?,
        Mode::Human => output.table(&text::table(&report))?,
    }
    Ok(Status::Success)
}

fn read(file: Option<&Path>) -> Result<Vec<u8>, Error> {
    if let Some(file) = file {
        return fs::read(file)
            .map_err(|error| Error::failure(format!("{}: {error}", file.display())));
    }
    if io::stdin().is_terminal() {
        return Err(Error::usage("no result given: standard input is a terminal")
            .with_hint("atlatl offload --dry-run FILE"));
    }
    let mut input = Vec::new();
    io::stdin()
        .read_to_end(&mut input)
        .map_err(|error| Error::failure(format!("standard input: {error}")))?;
    Ok(input)
}

/// What decides about a result of a memory operation, or of another tool.
fn rules(config: &Config, memory: bool) -> Rules<'_> {
    let offload = &config.prompt.offload;
    let threshold = if memory {
        Threshold::Above(offload.threshold_tokens)
    } else {
        Threshold::From(config.proxy.threshold_tokens)
    };
    Rules { enabled: offload.enabled, threshold, policies: &config.proxy.policy }
}
