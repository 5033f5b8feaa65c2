//! `atlatl install`: clients' servers behind the proxy, in one line.

pub(crate) mod discover;
mod launcher;
mod plan;
mod render;
mod tracked;

use std::{fs, path::PathBuf};

use atlatl_lro::clients::Journal;

use self::{
    discover::find,
    launcher::{Location, installed_on_path},
    plan::{Change, FilePlan, OwnCommand, Servers, plan},
    render::{Passed, Summary, diff},
};
use crate::{
    error::{Error, Status},
    install_journal::{Install, Installs, failed, rewrite},
    output::{Mode, Output, counted},
    settings::{Settings, Sources},
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl install --dry-run            (shows the changes)
  atlatl install --client cursor --server files
  atlatl install --memory
  atlatl uninstall                    (restores every file)";

/// What was typed behind it.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Args {
    /// Change the files of this client only: claude-code,
    /// claude-desktop, cursor, vscode, windsurf, zed, codex,
    /// gemini or opencode
    #[arg(long = "client", value_name = "NAME", verbatim_doc_comment)]
    clients: Vec<String>,
    /// Put this server behind the proxy only
    #[arg(long = "server", value_name = "NAME")]
    servers: Vec<String>,
    /// Put servers at a URL behind the proxy too; log in to
    /// them with `atlatl login`
    #[arg(long, verbatim_doc_comment)]
    http: bool,
    /// Change files that git tracks, too: everyone who uses
    /// the repository gets the change
    #[arg(long, verbatim_doc_comment)]
    tracked: bool,
    /// Add the memory server as well
    #[arg(long)]
    memory: bool,
    /// Show the changes without making them
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let installs = Installs::open(&settings)?;
    let found = find(&settings, &args.clients)?;
    if found.is_empty() {
        return Err(Error::failure("no configuration of an MCP client found")
            .with_hint("Atlatl looks in this directory and in your home directory."));
    }
    if !args.dry_run {
        let files: Vec<PathBuf> = found.iter().map(|found| found.file.clone()).collect();
        remove_leftovers(&installs, &files, output);
    }
    let own = own_command(&settings, sources)?;
    let (mut changes, mut tracked): (Vec<(Change, Servers)>, Vec<_>) = (Vec::new(), Vec::new());
    let (mut summary, mut passed) = (Summary::default(), Passed::default());
    for found in found {
        let text = match found.read() {
            Ok(text) => text,
            // Others are still changed.
            Err(why) => {
                passed.unreadable.push((found.shown(), why));
                continue;
            }
        };
        // A file with servers at two places is changed at one after the other.
        let before = changes.iter().rev().find(|(one, _)| one.found.file == found.file);
        let text = before.map_or(text, |(before, _)| before.after.clone());
        let planned = plan(args, &found, text, settings.surroundings(), (&own, &installs))?;
        match planned {
            FilePlan { change: Some(change), tracked: true, servers } if !args.tracked => {
                tracked.push((change, servers));
            }
            FilePlan { change: Some(change), servers, .. } => changes.push((change, servers)),
            FilePlan { change: None, servers, .. } => {
                summary.add(None, &servers);
                if output.mode() == Mode::Human {
                    let unchanged = render::unchanged(&servers);
                    if !unchanged.is_empty() {
                        output.text(&format!(
                            "{}\n{unchanged}",
                            crate::output::printable(&found.shown())
                        ))?;
                    }
                }
            }
        }
    }
    for (change, servers) in tracked {
        if include_tracked(args, &change, output)? {
            changes.push((change, servers));
        } else {
            passed.tracked.push(change.found.file.display().to_string());
        }
    }
    for (change, servers) in &changes {
        summary.add(Some(change), servers);
        if output.mode() == Mode::Human {
            output.text(&diff(change))?;
            output.text(&render::unchanged(servers))?;
        }
    }
    let of_user = |change: &Change| !change.found.is_of_project(settings.surroundings());
    if own.temporary && changes.iter().any(|(change, _)| of_user(change)) {
        output.note(format!(
            "{} is in a build or temporary directory: entries that start it break when it is removed",
            own.user.join(" ")
        ));
    }
    if !args.dry_run && !changes.is_empty() {
        confirm(args, &changes, output)?;
        for (change, _) in &changes {
            apply(change, &installs)?;
        }
    }
    match output.mode() {
        Mode::Json => {
            output.json(&render::report(&changes, (&summary, &passed), args.dry_run))?;
        }
        Mode::Human if changes.is_empty() => output.note("nothing to change"),
        Mode::Human => {}
    }
    output.note(summary.text(args.dry_run));
    if !args.dry_run && !changes.is_empty() {
        output.note("Restart the client. Undo with `atlatl uninstall`.");
    }
    if passed.unreadable.is_empty() {
        return Ok(Status::Success);
    }
    Err(Error::failure(render::unreadable(&passed))
        .with_hint("All other files are done. Fix these and run `atlatl install` again."))
}

/// Whether a file that git tracks is changed: asked on a terminal, left unchanged elsewhere.
fn include_tracked(args: &Args, change: &Change, output: &mut Output) -> Result<bool, Error> {
    let shown = change.found.shown();
    if !args.yes && !args.dry_run {
        let question = format!(
            "{shown} is tracked by git: everyone who uses the repository would get the change. \
             Change it anyway? (No leaves it unchanged. Other files are shown before they are changed.)"
        );
        if let Some(answer) = output.confirmed(question)? {
            return Ok(answer);
        }
    }
    output.note(format!(
        "{shown} is tracked by git and left unchanged: everyone who uses the repository would get \
         the change. Move its servers to your user-level configuration, or pass --tracked."
    ));
    Ok(false)
}

/// Asks whether to make the changes, unless that was said already.
fn confirm(args: &Args, changes: &[(Change, Servers)], output: &mut Output) -> Result<(), Error> {
    if args.yes {
        return Ok(());
    }
    let files = counted(changes.len() as u64, "file", "files");
    let at_urls: usize = changes.iter().map(|(change, _)| change.journal.replaced.len()).sum();
    let logins = match at_urls {
        0 => String::new(),
        n => {
            format!(" The logins of {} move to the proxy.", counted(n as u64, "server", "servers"))
        }
    };
    match output.confirmed(format!("Change {files}?{logins}"))? {
        Some(true) => Ok(()),
        Some(false) => Err(Error::failure("nothing was changed")),
        None => Err(Error::usage("cannot ask for confirmation: not a terminal")
            .with_hint("--yes does not ask, --dry-run only shows")),
    }
}

/// Removes what interrupted runs left.
pub(crate) fn remove_leftovers(installs: &Installs, files: &[PathBuf], output: &mut Output) {
    for path in installs.leftovers(files) {
        if fs::remove_file(&path).is_ok() {
            output.note(format!("removed {}: left by an interrupted run", path.display()));
        }
    }
}

/// How clients start this program. A project's files are others' too, who have it elsewhere; a client
/// started from a desktop has no shell's `PATH`. A path in a launcher's cache works until the cache is
/// cleaned: the launcher is written instead.
fn own_command(settings: &Settings, sources: &Sources) -> Result<OwnCommand, Error> {
    let program = std::env::current_exe();
    let program = program.map_err(|error| Error::failure(format!("this program: {error}")))?;
    let temp_dir = &settings.surroundings().temp_dir;
    let text = |program: PathBuf| {
        program.into_os_string().into_string().map_err(|_| {
            Error::failure("the path of this program is not UTF-8, which configuration files need")
        })
    };
    let project = vec!["atlatl".to_owned()];
    match Location::classify(&program, temp_dir) {
        Location::Cached(command) => {
            Ok(OwnCommand { user: command.clone(), project: command, temporary: false })
        }
        Location::Installed => {
            Ok(OwnCommand { user: vec![text(program)?], project, temporary: false })
        }
        Location::Temporary => {
            let path = sources.os_variable("PATH").cloned().unwrap_or_default();
            let installed = installed_on_path(&path, temp_dir);
            let temporary = installed.is_none();
            let user = vec![text(installed.unwrap_or(program))?];
            Ok(OwnCommand { user, project, temporary })
        }
    }
}

fn apply(change: &Change, installs: &Installs) -> Result<(), Error> {
    let discover::Found { file, place, .. } = &change.found;
    let earlier = installs.of(file, place)?;
    let original = earlier.map_or_else(|| change.before.clone(), |one| one.original);
    let mut journal = change.earlier.clone();
    join(&mut journal, &change.journal);
    let install = Install {
        file: file.clone(),
        client: change.found.client.name.to_owned(),
        path: change.found.client.path.to_owned(),
        project: place.project.clone(),
        journal,
        original,
    };
    installs.keep(&install)?;
    rewrite(file, &change.after).map_err(|error| failed(file, &error))?;
    if install.journal.is_empty() {
        // A repair took everything out.
        installs.forget(&install)?;
    }
    Ok(())
}

fn join(journal: &mut Journal, more: &Journal) {
    // A server that was taken out and put in again is wrapped again.
    journal.wrapped.retain(|one| !more.wrapped.iter().any(|other| other.name == one.name));
    journal.replaced.retain(|one| !more.replaced.iter().any(|other| other.name == one.name));
    journal.added.retain(|one| !more.added.iter().any(|other| other.name == one.name));
    journal.wrapped.extend(more.wrapped.iter().cloned());
    journal.replaced.extend(more.replaced.iter().cloned());
    journal.added.extend(more.added.iter().cloned());
}
