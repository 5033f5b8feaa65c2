//! `atlatl completions`: what a shell has to know to complete a command line.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::{
    args,
    error::{Error, Status},
    output::Output,
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl completions bash > ~/.local/share/bash-completion/completions/atlatl
  atlatl completions zsh > ~/.zfunc/_atlatl
  atlatl completions fish > ~/.config/fish/completions/atlatl.fish";

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell: bash, zsh, fish, elvish or powershell
    #[arg(value_name = "SHELL", hide_possible_values = true)]
    shell: Shell,
}

/// Runs it.
pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Status, Error> {
    let mut script = Vec::new();
    generate(args.shell, &mut args::Args::command(), "atlatl", &mut script);
    output.bytes(&script)?;
    Ok(Status::Success)
}
