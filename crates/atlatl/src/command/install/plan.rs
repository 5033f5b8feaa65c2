//! Plan: what is to be changed in each client's file.

use std::path::Path;

use atlatl_lro::clients::{
    Entry, Journal, Kind, Repaired, Scope, Wish, entries, install, own_arguments, repair,
    wrappable_urls,
};

use super::{Args, discover::Found, launcher::Location, tracked::is_tracked};
use crate::{error::Error, install_journal::Installs, settings::Surroundings};

/// What the server of the extraction tools is called.
const TOOLS: &str = "atlatl";
/// The scope of the user, for servers that run in a directory of their own whatever the project.
const USER_SCOPE: &str = "dir:~";
/// The scope of the directory that a client starts a server in.
const WORKING_DIR_SCOPE: &str = "dir:.";

/// What is to be changed in a file.
pub(crate) struct Change {
    pub(crate) found: Found,
    pub(crate) before: String,
    pub(crate) after: String,
    /// What this change adds.
    pub(crate) journal: Journal,
    /// What was changed before, with its entries repaired.
    pub(crate) earlier: Journal,
    pub(crate) rewritten: Vec<String>,
    pub(crate) restored: Vec<String>,
}

/// What a file comes to.
pub(crate) struct FilePlan {
    /// Nothing where the file stays as it is.
    pub(crate) change: Option<Change>,
    /// Whether git tracks the file and it was not changed before.
    pub(crate) tracked: bool,
    pub(crate) servers: Servers,
}

/// The servers of a file that stay as they are, by name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Servers {
    /// Behind the proxy before.
    pub(crate) already: Vec<String>,
    /// At a URL: `--http` puts them behind the proxy.
    pub(crate) at_url: Vec<(String, String)>,
    /// At a URL, with settings that the proxy would lose.
    pub(crate) with_settings: Vec<(String, String)>,
    /// At a URL of the legacy transport.
    pub(crate) sse: Vec<(String, String)>,
}

/// How this program is started by clients.
pub(crate) struct OwnCommand {
    /// In files of the user.
    pub(crate) user: Vec<String>,
    /// In files of a project.
    pub(crate) project: Vec<String>,
    /// Whether the program of `user` is in a directory that does not stay.
    pub(crate) temporary: bool,
}

/// Plans one file, whose text is `text` by then.
pub(crate) fn plan(
    args: &Args,
    found: &Found,
    text: String,
    surroundings: &Surroundings,
    (own, installs): (&OwnCommand, &Installs),
) -> Result<FilePlan, Error> {
    let broken = |error| Error::failure(format!("{}: {error}", found.shown()));
    let earlier =
        installs.of(&found.file, &found.place)?.map(|one| one.journal).unwrap_or_default();
    let of_project = found.is_of_project(surroundings);
    let tracked = of_project && is_tracked(&found.file);
    let project = project_dir(found, surroundings).filter(|_| !tracked);
    let mut wish = Wish::with_command(if of_project { &own.project } else { &own.user }.clone());
    wish.flags = vec!["--tools".to_owned(), "none".to_owned()];
    let tools = if let Some(dir) = project {
        let scope = format!("dir:{dir}");
        wish.flags.extend(["--scope".to_owned(), scope.clone()]);
        scope
    } else {
        wish.flags_with_cwd = ["--scope", USER_SCOPE].map(str::to_owned).to_vec();
        WORKING_DIR_SCOPE.to_owned()
    };
    let tools = ["tools", "--scope", &tools, "--scope", USER_SCOPE].map(str::to_owned).to_vec();
    wish.http = args.http;
    wish.servers = (!args.servers.is_empty()).then(|| args.servers.clone());
    let there = entries(&text, &found.place).map_err(broken)?;
    wish.stale_programs = stale_programs(&there, surroundings);
    wish.add.push((TOOLS.to_owned(), tools));
    let Repaired { text: repaired, journal: earlier_now, rewritten, restored, .. } =
        repair(&text, &found.place, &wish, &earlier).map_err(broken)?;

    let tools = std::mem::take(&mut wish.add);
    let wrapped = install(&repaired, &found.place, &wish).map_err(broken)?;
    if !wrapped.journal.is_empty() {
        // One server offers the tools for all that were wrapped.
        wish.add = tools;
    }
    // The user's own table has it already.
    if args.memory && found.client.scope != Scope::Local {
        let offered = !wish.add.is_empty() || there.iter().any(|entry| entry.name == TOOLS);
        let args: &[&str] = if offered { &["serve", "--tools", "none"] } else { &["serve"] };
        wish.add.push(("atlatl-memory".to_owned(), args.iter().map(ToString::to_string).collect()));
    }
    let installed = install(&repaired, &found.place, &wish).map_err(broken)?;
    let changed = installed.text != text;
    let mut servers = unchanged(&installed.text, &there, found, args).map_err(broken)?;
    servers.already.retain(|name| !rewritten.contains(name));
    Ok(FilePlan {
        tracked: tracked && earlier.is_empty(),
        servers,
        change: changed.then(|| Change {
            found: found.clone(),
            before: text,
            after: installed.text,
            journal: installed.journal,
            earlier: earlier_now,
            rewritten,
            restored,
        }),
    })
}

/// The directory whose scope the servers of a project's file share, wherever their client starts each.
fn project_dir<'a>(found: &'a Found, surroundings: &'a Surroundings) -> Option<&'a str> {
    match found.client.scope {
        Scope::Local => found.place.project.as_deref(),
        Scope::Project if found.is_of_project(surroundings) => {
            surroundings.working_dir.as_deref().and_then(Path::to_str)
        }
        Scope::Project | Scope::User => None,
    }
}

/// Programs of our entries that are gone, or go when a launcher's cache is cleaned.
fn stale_programs(there: &[Entry], surroundings: &Surroundings) -> Vec<String> {
    let program = |entry: &Entry| match &entry.kind {
        Kind::Ours(words) => words.first().cloned(),
        _ => None,
    };
    let stale = |program: &String| {
        let path = Path::new(program);
        let location = Location::classify(path, &surroundings.temp_dir);
        path.is_absolute() && (matches!(location, Location::Cached(_)) || !path.exists())
    };
    there.iter().filter_map(program).filter(stale).collect()
}

/// The servers that stay as they are, in a file that was changed.
fn unchanged(
    after: &str,
    before: &[Entry],
    found: &Found,
    args: &Args,
) -> Result<Servers, atlatl_lro::clients::Broken> {
    let wrappable = wrappable_urls(after, &found.place)?;
    let mut servers = Servers::default();
    for Entry { name, kind } in entries(after, &found.place)? {
        if !args.servers.is_empty() && !args.servers.contains(&name) {
            continue;
        }
        match kind {
            Kind::Sse(url) => servers.sse.push((name, url)),
            Kind::Url(url) if wrappable.contains(&name) => servers.at_url.push((name, url)),
            Kind::Url(url) => servers.with_settings.push((name, url)),
            Kind::Ours(words) => {
                let proxy = own_arguments(&words).and_then(<[String]>::first);
                let was = before
                    .iter()
                    .any(|entry| entry.name == name && matches!(entry.kind, Kind::Ours(_)));
                if was && proxy.is_some_and(|command| command == "proxy") {
                    servers.already.push(name);
                }
            }
            Kind::Program(_) | Kind::Other => {}
        }
    }
    Ok(servers)
}
