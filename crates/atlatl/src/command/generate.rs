//! `atlatl completions` and `atlatl man`: files generated from the definition of the command line.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use super::{Args, complete};
use crate::error::{Error, Status};
use crate::output::{Output, printable};

/// Examples for the long help of `atlatl completions`.
pub(crate) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  atlatl completions bash > ~/.local/share/bash-completion/completions/atlatl
  atlatl completions zsh > ~/.zfunc/_atlatl
  atlatl completions fish > ~/.config/fish/completions/atlatl.fish";

/// Examples for the long help of `atlatl man`.
pub(crate) const MAN_EXAMPLES: &str = "\
Examples:
  atlatl man ~/.local/share/man/man1 && man atlatl-proxy";

/// Arguments of `atlatl completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// Shell: bash, zsh, fish, elvish or powershell
    #[arg(value_name = "SHELL", hide_possible_values = true)]
    shell: Shell,
}

/// Arguments of `atlatl man`.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Directory for the pages; created if it does not exist
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Runs `atlatl completions`.
pub(crate) fn run_completions(
    args: &CompletionsArgs,
    output: &mut Output,
) -> Result<Status, Error> {
    output.bytes(&complete::registration(args.shell)?)?;
    Ok(Status::Success)
}

/// Runs `atlatl man`.
pub(crate) fn run_man(args: &ManArgs, output: &mut Output) -> Result<Status, Error> {
    let dir = args.dir.display().to_string();
    let mut program = Args::command().disable_help_subcommand(true);
    program.build();
    fs::create_dir_all(&args.dir).and_then(|()| write_pages(&program, &args.dir)).map_err(
        |error| {
            Error::failure(format!("cannot write manual pages into {}: {error}", printable(&dir)))
        },
    )?;
    output.note(format_args!("read them with `man -l {}/atlatl.1`", printable(&dir)));
    Ok(Status::Success)
}

/// Writes the manual page of `command` and of each of its visible subcommands.
fn write_pages(command: &Command, dir: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_pages(subcommand, dir)?;
    }
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    fs::write(dir.join(page.get_filename()), without_fill(&String::from_utf8_lossy(&text)))
}

/// Turns off line filling in the last section. It contains the examples, and a command that is filled
/// and hyphenated cannot be copied.
fn without_fill(page: &str) -> String {
    page.replace("\n.SH EXTRA\n", "\n.SH NOTES\n.nf\n")
}
