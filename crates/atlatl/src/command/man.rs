//! `atlatl man`: manual pages, one for each command.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::{
    args,
    error::{Error, Status},
    output::{Output, printable},
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl man ~/.local/share/man/man1 && man atlatl-proxy";

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory to write them into; made if it is not there
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Runs it.
pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Status, Error> {
    let dir = args.dir.display().to_string();
    let mut program = args::Args::command().disable_help_subcommand(true);
    program.build();
    fs::create_dir_all(&args.dir).and_then(|()| write(&program, &args.dir)).map_err(|error| {
        Error::failure(format!("cannot write manual pages into {}: {error}", printable(&dir)))
    })?;
    output.note(format_args!("read them with `man -l {}/atlatl.1`", printable(&dir)));
    Ok(Status::Success)
}

/// Writes the page of a command and of all below it.
fn write(command: &Command, dir: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write(below, dir)?;
    }
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    fs::write(dir.join(page.get_filename()), with_lines_kept(&String::from_utf8_lossy(&text)))
}

/// The page with its last part in lines as they are: there are the examples, and a command that is
/// filled and hyphenated cannot be copied.
fn with_lines_kept(page: &str) -> String {
    page.replace("\n.SH EXTRA\n", "\n.SH NOTES\n.nf\n")
}
