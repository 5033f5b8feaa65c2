//! `atlatl install`: puts the servers of MCP clients behind the proxy.

mod git_index;
mod hooks;
mod launcher;
mod plan;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use atlatl_lro::clients::Journal;
use serde_json::{Value, json};
use similar::TextDiff;

use self::launcher::own_command;
use self::plan::{Change, ClientFile, FilePlan, Servers, find_client_files, plan};
use crate::error::{Error, Status};
use crate::install_journal::{Install, Installs, failed, rewrite};
use crate::output::{Mode, Output, pluralize, printable};
use crate::settings::{Settings, Sources};

/// Old paths of the discovery of client files.
pub(crate) mod discover {
    pub(crate) use super::plan::{ClientFile as Found, find_client_files as find};
}

/// The reason why a server of the legacy transport is not put behind the proxy.
const SSE_UNSUPPORTED: &str = "legacy HTTP+SSE transport is not supported";

/// Examples for the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl install --dry-run            (shows the changes)
  atlatl install --client cursor --server files
  atlatl install --memory
  atlatl install --hooks claude-code  (output of built-in tools)
  atlatl uninstall                    (restores every file)";

/// Arguments of `atlatl install`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Args {
    /// Change only the files of this client: claude-code,
    /// claude-desktop, cursor, vscode, windsurf, zed, codex,
    /// gemini or opencode
    #[arg(long = "client", value_name = "NAME", verbatim_doc_comment)]
    clients: Vec<String>,
    /// Put only this server behind the proxy
    #[arg(long = "server", value_name = "NAME")]
    servers: Vec<String>,
    /// Also put servers at a URL behind the proxy; log in to
    /// them with `atlatl login`
    #[arg(long, verbatim_doc_comment)]
    http: bool,
    /// Also change files that git tracks; everyone who uses
    /// the repository gets the change
    #[arg(long, verbatim_doc_comment)]
    tracked: bool,
    /// Also add the memory server
    #[arg(long)]
    memory: bool,
    /// Write the hooks of your agents instead: claude-code,
    /// codex, copilot, gemini or opencode [default: those
    /// found in your home directory]
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        default_missing_value = hooks::ALL,
        conflicts_with_all = ["servers", "http", "tracked", "memory"],
        verbatim_doc_comment
    )]
    hooks: Option<String>,
    /// Show the changes without making them
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    if args.hooks.is_some() {
        return hooks::run(args, &settings, sources, output);
    }
    let installs = Installs::open(&settings)?;
    let client_files = find_client_files(&settings, &args.clients)?;
    if client_files.is_empty() {
        return Err(Error::failure("no configuration of an MCP client found")
            .with_hint("Atlatl looks in this directory and in your home directory."));
    }
    if !args.dry_run {
        let files: Vec<PathBuf> = client_files.iter().map(|target| target.file.clone()).collect();
        remove_leftovers(&installs, &files, output);
    }
    let own = own_command(&settings, sources)?;
    let (mut changes, mut tracked): (Vec<(Change, Servers)>, Vec<_>) = (Vec::new(), Vec::new());
    let (mut summary, mut skipped) = (InstallSummary::default(), SkippedFiles::default());
    for target in client_files {
        let text = match target.read() {
            Ok(text) => text,
            // The other files are changed all the same.
            Err(why) => {
                skipped.unreadable.push((target.display_name(), why));
                continue;
            }
        };
        // A file with two tables of servers is changed table by table.
        let before = changes.iter().rev().find(|(one, _)| one.target.file == target.file);
        let text = before.map_or(text, |(before, _)| before.after.clone());
        let planned = plan(args, &target, text, settings.surroundings(), (&own, &installs))?;
        match planned {
            FilePlan { change: Some(change), tracked: true, servers } if !args.tracked => {
                tracked.push((change, servers));
            }
            FilePlan { change: Some(change), servers, .. } => changes.push((change, servers)),
            FilePlan { change: None, servers, .. } => {
                summary.add(None, &servers);
                if output.mode() == Mode::Human {
                    let unchanged = unchanged_text(&servers);
                    if !unchanged.is_empty() {
                        output
                            .text(&format!("{}\n{unchanged}", printable(&target.display_name())))?;
                    }
                }
            }
        }
    }
    for (change, servers) in tracked {
        if include_tracked(args, &change, output)? {
            changes.push((change, servers));
        } else {
            skipped.tracked.push(change.target.file.display().to_string());
        }
    }
    for (change, servers) in &changes {
        summary.add(Some(change), servers);
        if output.mode() == Mode::Human {
            output.text(&diff(change))?;
            output.text(&unchanged_text(servers))?;
        }
    }
    let is_of_user = |change: &Change| !change.target.is_of_project(settings.surroundings());
    if own.temporary && changes.iter().any(|(change, _)| is_of_user(change)) {
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
            output.json(&report(&changes, (&summary, &skipped), args.dry_run))?;
        }
        Mode::Human if changes.is_empty() => output.note("nothing to change"),
        Mode::Human => {}
    }
    output.note(summary.text(args.dry_run));
    if !args.dry_run && !changes.is_empty() {
        output.note("Restart the client. Undo with `atlatl uninstall`.");
    }
    if skipped.unreadable.is_empty() {
        return Ok(Status::Success);
    }
    Err(Error::failure(unreadable_message(&skipped))
        .with_hint("All other files are done. Fix these and run `atlatl install` again."))
}

/// Whether to change a file that git tracks. Asks on a terminal; without one the file stays unchanged.
fn include_tracked(args: &Args, change: &Change, output: &mut Output) -> Result<bool, Error> {
    let name = change.target.display_name();
    if !args.yes && !args.dry_run {
        let question = format!(
            "{name} is tracked by git: everyone who uses the repository would get the change. \
             Change it anyway? (No leaves it unchanged. Other files are shown before they are changed.)"
        );
        if let Some(answer) = output.confirmed(question)? {
            return Ok(answer);
        }
    }
    output.note(format!(
        "{name} is tracked by git and left unchanged: everyone who uses the repository would get \
         the change. Move its servers to your user-level configuration, or pass --tracked."
    ));
    Ok(false)
}

/// Asks whether to make the changes, unless `--yes` was passed.
fn confirm(args: &Args, changes: &[(Change, Servers)], output: &mut Output) -> Result<(), Error> {
    if args.yes {
        return Ok(());
    }
    let files = pluralize(changes.len() as u64, "file", "files");
    let at_urls: usize = changes.iter().map(|(change, _)| change.journal.replaced.len()).sum();
    let logins = match at_urls {
        0 => String::new(),
        n => {
            format!(
                " The logins of {} move to the proxy.",
                pluralize(n as u64, "server", "servers")
            )
        }
    };
    match output.confirmed(format!("Change {files}?{logins}"))? {
        Some(true) => Ok(()),
        Some(false) => Err(Error::failure("nothing was changed")),
        None => Err(Error::usage("cannot ask for confirmation: not a terminal").with_hint(
            "use --yes to skip the confirmation, or --dry-run to only show the changes",
        )),
    }
}

/// Removes temporary files of interrupted runs.
pub(crate) fn remove_leftovers(installs: &Installs, files: &[PathBuf], output: &mut Output) {
    for path in installs.leftovers(files) {
        if fs::remove_file(&path).is_ok() {
            output.note(format!("removed {}: left by an interrupted run", path.display()));
        }
    }
}

/// Records a change in the journal, then writes the file.
fn apply(change: &Change, installs: &Installs) -> Result<(), Error> {
    let ClientFile { file, place, .. } = &change.target;
    let earlier = installs.find(file, place)?;
    let original = earlier.map_or_else(|| change.before.clone(), |one| one.original);
    let mut journal = change.earlier.clone();
    merge_journal(&mut journal, &change.journal);
    let install = Install {
        file: file.clone(),
        client: change.target.client.name.to_owned(),
        path: change.target.client.path.to_owned(),
        project: place.project.clone(),
        journal,
        original,
    };
    installs.store(&install)?;
    rewrite(file, &change.after).map_err(|error| failed(file, &error))?;
    if install.journal.is_empty() {
        // A repair removed all entries.
        installs.remove(&install)?;
    }
    Ok(())
}

fn merge_journal(journal: &mut Journal, more: &Journal) {
    // A server that was removed and added again by the user is wrapped again.
    journal.wrapped.retain(|one| !more.wrapped.iter().any(|other| other.name == one.name));
    journal.replaced.retain(|one| !more.replaced.iter().any(|other| other.name == one.name));
    journal.added.retain(|one| !more.added.iter().any(|other| other.name == one.name));
    journal.wrapped.extend(more.wrapped.iter().cloned());
    journal.replaced.extend(more.replaced.iter().cloned());
    journal.added.extend(more.added.iter().cloned());
}

/// The change as a diff.
fn diff(change: &Change) -> String {
    let mut out = format!("{}\n", printable(&change.target.display_name()));
    out.push_str(&text_diff(&change.before, &change.after));
    for server in &change.restored {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  restored: {}: {SSE_UNSUPPORTED}", printable(server));
    }
    out
}

/// The difference between two texts, indented.
fn text_diff(before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    let mut out = String::new();
    for hunk in diff.unified_diff().context_radius(2).iter_hunks() {
        for line in hunk.to_string().lines() {
            let style = match line.as_bytes().first() {
                Some(b'+') => AnsiColor::Green.on_default(),
                Some(b'-') => AnsiColor::Red.on_default(),
                Some(b'@') => Style::new().dimmed(),
                _ => Style::new(),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  {style}{}{style:#}", printable(line));
        }
    }
    out
}

/// The servers of a file that stay as they are, each with the reason.
fn unchanged_text(servers: &Servers) -> String {
    let mut out = String::new();
    let mut line = |name: &str, why: &str| {
        let _ = writeln!(out, "  left unchanged: {}: {}", printable(name), printable(why));
    };
    for (name, _) in &servers.sse {
        line(name, SSE_UNSUPPORTED);
    }
    for (name, url) in &servers.at_url {
        line(name, &format!("at {url}; --http includes it"));
    }
    for (name, url) in &servers.with_settings {
        line(name, &format!("at {url}, with settings that the proxy would lose"));
    }
    out
}

/// Counts of servers over all files.
#[derive(Debug, Default)]
struct InstallSummary {
    wrapped: usize,
    repaired: usize,
    restored: usize,
    already: usize,
    at_url: usize,
    with_settings: usize,
    sse: usize,
}

impl InstallSummary {
    fn add(&mut self, change: Option<&Change>, servers: &Servers) {
        if let Some(change) = change {
            self.wrapped += change.journal.wrapped.len() + change.journal.replaced.len();
            self.repaired += change.rewritten.len();
            self.restored += change.restored.len();
        }
        self.already += servers.already.len();
        self.at_url += servers.at_url.len();
        self.with_settings += servers.with_settings.len();
        self.sse += servers.sse.len();
    }

    /// The summary as one line.
    fn text(&self, dry_run: bool) -> String {
        let wrapped = if dry_run { "to wrap" } else { "wrapped" };
        let mut parts = vec![format!("{} {wrapped}", self.wrapped)];
        let mut part = |count: usize, what: &str| {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        };
        part(self.repaired, if dry_run { "to repair" } else { "repaired" });
        part(self.already, "behind the proxy already");
        part(self.at_url, "at a URL: run `atlatl install --http` to include them");
        part(self.with_settings, "at a URL left unchanged (with headers or other settings)");
        part(self.sse, "left unchanged (SSE)");
        parts.join(", ")
    }

    fn to_json(&self) -> Value {
        json!({
            "wrapped": self.wrapped,
            "repaired": self.repaired,
            "restored": self.restored,
            "already_wrapped": self.already,
            "at_url": self.at_url,
            "url_with_settings": self.with_settings,
            "sse": self.sse,
        })
    }
}

/// Files that were skipped, each with the reason.
#[derive(Debug, Default)]
struct SkippedFiles {
    unreadable: Vec<(String, String)>,
    tracked: Vec<String>,
}

/// The JSON output.
fn report(
    changes: &[(Change, Servers)],
    (summary, skipped): (&InstallSummary, &SkippedFiles),
    dry_run: bool,
) -> Value {
    let names = |(change, servers): &(Change, Servers)| {
        let left = servers.at_url.iter().chain(&servers.with_settings).chain(&servers.sse);
        json!({
            "client": change.target.client.name,
            "file": change.target.file,
            "wrapped": change.journal.wrapped.iter().map(|one| &one.name).collect::<Vec<_>>(),
            "replaced": change.journal.replaced.iter().map(|one| &one.name).collect::<Vec<_>>(),
            "added": change.journal.added.iter().map(|one| &one.name).collect::<Vec<_>>(),
            "repaired": change.rewritten,
            "restored": change.restored,
            "left_alone": left.map(|(name, _)| name).collect::<Vec<_>>(),
        })
    };
    let unreadable = skipped.unreadable.iter().map(|(file, why)| json!({"file": file, "why": why}));
    json!({
        "dry_run": dry_run,
        "files": changes.iter().map(names).collect::<Vec<_>>(),
        "unreadable": unreadable.collect::<Vec<_>>(),
        "tracked": skipped.tracked,
        "summary": summary.to_json(),
    })
}

/// The error message for files that could not be read.
fn unreadable_message(skipped: &SkippedFiles) -> String {
    let files = pluralize(skipped.unreadable.len() as u64, "file", "files");
    let which = skipped.unreadable.iter().map(|(file, why)| format!("{file}: {why}"));
    format!("cannot read {files}: {}", which.collect::<Vec<_>>().join("; "))
}
