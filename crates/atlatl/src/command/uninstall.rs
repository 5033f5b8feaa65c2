//! `atlatl uninstall`: clients' files as they were.

use std::fs;

use atlatl_lro::clients::uninstall;
use serde_json::json;

use crate::{
    command::install::remove_leftovers,
    error::{Error, Status},
    install_journal::{Install, Installs, rewrite},
    output::{Mode, Output, counted, printable},
    settings::{Settings, Sources},
};

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Restore the files of this client only
    #[arg(long = "client", value_name = "NAME")]
    clients: Vec<String>,
}

/// Runs it.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let installs = Installs::open(&settings)?;
    let (mut given_back, mut failed) = (Vec::new(), Vec::new());
    remove_leftovers(&installs, &[], output);
    let wanted =
        |install: &Install| args.clients.is_empty() || args.clients.contains(&install.client);
    for install in installs.all()?.into_iter().filter(wanted) {
        let file = install.file.display().to_string();
        match back(&install) {
            Ok(()) => {
                installs.forget(&install)?;
                given_back.push(file);
            }
            Err(why) => failed.push(format!("{file}: {why}")),
        }
    }
    match output.mode() {
        Mode::Json => output.json(&json!({"given_back": given_back, "failed": failed}))?,
        Mode::Human => {
            for file in &given_back {
                output.line(printable(file))?;
            }
            output
                .line(format!("restored {}", counted(given_back.len() as u64, "file", "files")))?;
        }
    }
    if failed.is_empty() {
        return Ok(Status::Success);
    }
    let hint = "Fix the file by hand and try again; its original is under \"original\" in the \
                state directory's atlatl/installs.";
    Err(Error::failure(failed.join("; ")).with_hint(hint))
}

/// Changes one file back. One that is gone has nothing of ours in it.
fn back(install: &Install) -> Result<(), String> {
    let place = install.place().ok_or("this version does not know the client")?;
    let text = match fs::read_to_string(&install.file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let text = uninstall(&text, &place, &install.journal).map_err(|error| error.to_string())?;
    rewrite(&install.file, &text).map_err(|error| error.to_string())
}
