//! `atlatl uninstall`: restores the configuration files of MCP clients.

use std::fs;

use atlatl_lro::clients::uninstall;
use serde_json::json;

use crate::{
    command::install::remove_leftovers,
    error::{Error, Status},
    install_journal::{HookInstalls, Install, Installs, RestoreError, rewrite},
    output::{Mode, Output, pluralize, printable},
    settings::{Settings, Sources},
};

/// Arguments of `atlatl uninstall`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Restore only the files of this client
    #[arg(long = "client", value_name = "NAME")]
    clients: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let installs = Installs::open(&settings)?;
    let (mut restored, mut failed) = (Vec::new(), Vec::new());
    remove_leftovers(&installs, &[], output);
    let is_selected =
        |install: &Install| args.clients.is_empty() || args.clients.contains(&install.client);
    let hook_installs = HookInstalls::open(settings.surroundings())?;
    let mut waiting = Vec::new();
    let hooks = hook_installs.all()?.into_iter();
    for install in hooks.filter(|one| args.clients.is_empty() || args.clients.contains(&one.client))
    {
        // Servers that were added after the hooks are removed first.
        match install.restore() {
            Ok(()) => {
                hook_installs.remove(&install)?;
                restored.push(install.file.display().to_string());
            }
            Err(RestoreError::Later(_)) => waiting.push(install),
            Err(RestoreError::Failed(why)) => {
                failed.push(format!("{}: {why}", install.file.display()));
            }
        }
    }
    for install in installs.all()?.into_iter().filter(is_selected) {
        let file = install.file.display().to_string();
        match restore(&install) {
            Ok(()) => {
                installs.remove(&install)?;
                restored.push(file);
            }
            Err(why) => failed.push(format!("{file}: {why}")),
        }
    }
    for install in waiting {
        let file = install.file.display().to_string();
        match install.restore() {
            Ok(()) => {
                hook_installs.remove(&install)?;
                restored.push(file);
            }
            Err(RestoreError::Later(why) | RestoreError::Failed(why)) => {
                failed.push(format!("{file}: {why}"));
            }
        }
    }
    match output.mode() {
        Mode::Json => output.json(&json!({"given_back": restored, "failed": failed}))?,
        Mode::Human => {
            for file in &restored {
                output.line(printable(file))?;
            }
            output
                .line(format!("restored {}", pluralize(restored.len() as u64, "file", "files")))?;
        }
    }
    if failed.is_empty() {
        return Ok(Status::Success);
    }
    let hint = "Fix the file by hand and try again; its original is under \"original\" in the \
                state directory's atlatl/installs.";
    Err(Error::failure(failed.join("; ")).with_hint(hint))
}

/// Restores one file. A file that was removed needs nothing.
fn restore(install: &Install) -> Result<(), String> {
    let place = install.place().ok_or("unknown client")?;
    let text = match fs::read_to_string(&install.file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let text = uninstall(&text, &place, &install.journal).map_err(|error| error.to_string())?;
    rewrite(&install.file, &text).map_err(|error| error.to_string())
}
