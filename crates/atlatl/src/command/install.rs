//! `atlatl install`: clients' servers behind the proxy, in one line.

pub(crate) mod found;
mod shown;

use atlatl_clients::{Journal, Scope, Wish, entries, install};

use self::found::{Found, find};
use self::shown::{Changed, diff};
use crate::{
    error::{Error, Status},
    installs::{Install, Installs, failed, rewrite},
    output::{Mode, Output, counted},
    settings::{Settings, Sources},
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl install --dry-run            (shows what would be changed)
  atlatl install --client cursor --server files
  atlatl install --memory
  atlatl uninstall                    (gives every file back as it was)";

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
    /// Put servers at a URL behind the proxy too; those
    /// that want a login then want it of `atlatl login`
    #[arg(long, verbatim_doc_comment)]
    http: bool,
    /// Add the memory server as well
    #[arg(long)]
    memory: bool,
    /// Show what would be changed, and change nothing
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
    let mut changes = Vec::new();
    let found = find(&settings, &args.clients)?;
    if found.is_empty() {
        return Err(Error::failure("no client's configuration was found here")
            .with_hint("It is looked for in this directory and in your home."));
    }
    for found in found {
        match found.read() {
            Ok(text) => {
                // A file with servers at two places is changed at one after the other.
                let before =
                    changes.iter().rev().find(|one: &&Changed| one.found.file == found.file);
                let text = before.map_or(text, |before| before.after.clone());
                changes.extend(planned(args, &found, text)?);
            }
            // Others may still be changed; this one is not touched.
            Err(why) => output.note(format!("{}: left alone: {why}", found.shown())),
        }
    }
    if changes.is_empty() {
        output.note("there is nothing to change");
    }
    if output.mode() == Mode::Human {
        for change in &changes {
            output.text(&diff(change))?;
        }
    }
    if !args.dry_run && !changes.is_empty() {
        if !args.yes {
            let files = counted(changes.len() as u64, "file", "files");
            let at_urls: usize = changes.iter().map(|change| change.journal.replaced.len()).sum();
            let logins = match at_urls {
                0 => String::new(),
                n => format!(
                    " The logins of {} move to the proxy.",
                    counted(n as u64, "server", "servers")
                ),
            };
            match output.confirmed(format!("Change {files}?{logins}"))? {
                Some(true) => {}
                Some(false) => return Err(Error::failure("nothing was changed")),
                None => {
                    return Err(Error::usage("nobody is here to ask whether to change them")
                        .with_hint("--yes does not ask, --dry-run only shows"));
                }
            }
        }
        for change in &changes {
            apply(change, &installs)?;
        }
    }
    match output.mode() {
        Mode::Json => output.json(&shown::report(&changes, args.dry_run))?,
        Mode::Human if !args.dry_run && !changes.is_empty() => {
            output.note("start the client anew; `atlatl uninstall` gives the files back");
        }
        Mode::Human => {}
    }
    Ok(Status::Success)
}

/// What the server of the extraction tools is called.
const TOOLS: &str = "atlatl";

/// What is to be changed in a file, if anything is.
fn planned(args: &Args, found: &Found, text: String) -> Result<Option<Changed>, Error> {
    let mut wish = Wish::new(program(found)?);
    wish.flags = ["--tools", "none"].map(str::to_owned).to_vec();
    wish.http = args.http;
    wish.servers = (!args.servers.is_empty()).then(|| args.servers.clone());
    let broken = |error| Error::failure(format!("{}: {error}", found.shown()));
    let wrapped = install(&text, &found.place, &wish).map_err(broken)?;
    if !wrapped.journal.is_empty() {
        // One server offers the tools for all that were wrapped.
        wish.add.push((TOOLS.to_owned(), vec!["tools".to_owned()]));
    }
    // The user's own table has it already.
    if args.memory && found.client.scope != Scope::Local {
        let there = entries(&text, &found.place).map_err(broken)?;
        let offered = wish.add.iter().any(|(name, _)| name == TOOLS)
            || there.iter().any(|entry| entry.name == TOOLS);
        let args: &[&str] = if offered { &["serve", "--tools", "none"] } else { &["serve"] };
        wish.add.push(("atlatl-memory".to_owned(), args.iter().map(ToString::to_string).collect()));
    }
    let installed = install(&text, &found.place, &wish).map_err(broken)?;
    Ok((!installed.journal.is_empty()).then(|| Changed {
        found: found.clone(),
        before: text,
        after: installed.text,
        journal: installed.journal,
    }))
}

/// The program as the client finds it. What lies in a project is others' too, who have it elsewhere;
/// a client with a window knows no `PATH` of a shell.
fn program(found: &Found) -> Result<String, Error> {
    if found.client.scope == Scope::Project {
        return Ok("atlatl".to_owned());
    }
    let program = std::env::current_exe();
    let program = program.map_err(|error| Error::failure(format!("this program: {error}")))?;
    program.into_os_string().into_string().map_err(|_| {
        Error::failure("the path of this program is no text, which a configuration file needs")
    })
}

fn apply(change: &Changed, installs: &Installs) -> Result<(), Error> {
    let Found { file, place, .. } = &change.found;
    let earlier = installs.of(file, place)?;
    let original =
        earlier.as_ref().map_or_else(|| change.before.clone(), |one| one.original.clone());
    let mut journal = earlier.map(|one| one.journal).unwrap_or_default();
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
    rewrite(file, &change.after).map_err(|error| failed(file, &error))
}

fn join(journal: &mut Journal, more: &Journal) {
    // Whoever took a server out and put it in again has it wrapped anew.
    journal.wrapped.retain(|one| !more.wrapped.iter().any(|other| other.name == one.name));
    journal.replaced.retain(|one| !more.replaced.iter().any(|other| other.name == one.name));
    journal.added.retain(|one| !more.added.iter().any(|other| other.name == one.name));
    journal.wrapped.extend(more.wrapped.iter().cloned());
    journal.replaced.extend(more.replaced.iter().cloned());
    journal.added.extend(more.added.iter().cloned());
}
