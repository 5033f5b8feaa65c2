//! Discovers the configuration files of MCP clients, and plans the change of each.

use std::path::{Path, PathBuf};
use std::{fs, io};

use atlatl_lro::clients::{
    BaseDir, CLIENTS, Client, ConfigParseError, ConfigScope, EntryKind, HomeLayout, InstallOptions,
    Journal, RepairOutcome, ServerEntry, ServerTable, entries, install, own_arguments, repair,
    wrappable_urls,
};

use super::Args;
use super::git_index::is_tracked;
use super::hooks;
use super::launcher::{Location, OwnCommand};
use crate::error::Error;
use crate::install_journal::Installs;
use crate::output::Output;
use crate::settings::{Settings, Surroundings};

/// The name of the server with the extraction tools.
pub(super) const TOOLS_SERVER: &str = "atlatl";
/// The scope of the user, for servers that have a working directory of their own in every project.
const USER_SCOPE: &str = "dir:~";
/// The scope of the directory that a client starts a server in.
const WORKING_DIR_SCOPE: &str = "dir:.";
/// The largest configuration file that is read, in bytes. Claude Code keeps histories in its own.
pub(super) const MAX_CONFIG_LEN: u64 = 64 << 20;

/// The change of a file.
pub(crate) struct Change {
    pub(crate) target: ClientFile,
    pub(crate) before: String,
    pub(crate) after: String,
    /// The entries that this change adds.
    pub(crate) journal: Journal,
    /// The entries of earlier changes, after a repair.
    pub(crate) earlier: Journal,
    pub(crate) rewritten: Vec<String>,
    pub(crate) restored: Vec<String>,
}

/// The plan for a file.
pub(crate) struct FilePlan {
    /// `None` if the file stays as it is.
    pub(crate) change: Option<Change>,
    /// Whether git tracks the file and it was not changed before.
    pub(crate) tracked: bool,
    pub(crate) servers: Servers,
}

/// The servers of a file that stay as they are, by name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Servers {
    /// Already behind the proxy.
    pub(crate) already: Vec<String>,
    /// At a URL: `--http` puts them behind the proxy.
    pub(crate) at_url: Vec<(String, String)>,
    /// At a URL, with settings that the proxy would lose.
    pub(crate) with_settings: Vec<(String, String)>,
    /// At a URL of the legacy transport.
    pub(crate) sse: Vec<(String, String)>,
}

/// Plans the change of a file with the contents `text`.
pub(crate) fn plan(
    args: &Args,
    target: &ClientFile,
    text: String,
    surroundings: &Surroundings,
    (own, installs): (&OwnCommand, &Installs),
) -> Result<FilePlan, Error> {
    let invalid = |error| Error::failure(format!("{}: {error}", target.display_name()));
    let earlier =
        installs.find(&target.file, &target.place)?.map(|one| one.journal).unwrap_or_default();
    let of_project = target.is_of_project(surroundings);
    let tracked = of_project && is_tracked(&target.file);
    let project = project_dir(target, surroundings).filter(|_| !tracked);
    let mut options =
        InstallOptions::with_command(if of_project { &own.project } else { &own.user }.clone());
    options.flags = vec!["--tools".to_owned(), "separate".to_owned()];
    let tools = if let Some(dir) = project {
        let scope = format!("dir:{dir}");
        options.flags.extend(["--scope".to_owned(), scope.clone()]);
        scope
    } else {
        options.flags_with_cwd = ["--scope", USER_SCOPE].map(str::to_owned).to_vec();
        WORKING_DIR_SCOPE.to_owned()
    };
    let client = target.client.name;
    let tools = tools_arguments(&tools, client, hooks::is_installed(surroundings, client));
    options.http = args.http;
    options.servers = (!args.servers.is_empty()).then(|| args.servers.clone());
    let existing = entries(&text, &target.place).map_err(invalid)?;
    options.stale_programs = stale_programs(&existing, surroundings);
    options.add.push((TOOLS_SERVER.to_owned(), tools));
    let RepairOutcome { text: repaired, journal: earlier_now, rewritten, restored, .. } =
        repair(&text, &target.place, &options, &earlier).map_err(invalid)?;

    let tools = std::mem::take(&mut options.add);
    let wrapped = install(&repaired, &target.place, &options).map_err(invalid)?;
    if !wrapped.journal.is_empty() {
        // One server has the tools for all wrapped servers.
        options.add = tools;
    }
    // The user's own table has the memory server already.
    if args.memory && target.client.scope != ConfigScope::Local {
        let has_tools =
            !options.add.is_empty() || existing.iter().any(|entry| entry.name == TOOLS_SERVER);
        let args: &[&str] = if has_tools { &["serve", "--tools", "separate"] } else { &["serve"] };
        options
            .add
            .push(("atlatl-memory".to_owned(), args.iter().map(ToString::to_string).collect()));
    }
    let installed = install(&repaired, &target.place, &options).map_err(invalid)?;
    let changed = installed.text != text;
    let mut servers =
        unchanged_servers(&installed.text, &existing, target, args).map_err(invalid)?;
    servers.already.retain(|name| !rewritten.contains(name));
    Ok(FilePlan {
        tracked: tracked && earlier.is_empty(),
        servers,
        change: changed.then(|| Change {
            target: target.clone(),
            before: text,
            after: installed.text,
            journal: installed.journal,
            earlier: earlier_now,
            rewritten,
            restored,
        }),
    })
}

/// The arguments of the server with the extraction tools, for an agent with or without hooks.
pub(super) fn tools_arguments(scope: &str, client: &str, has_hooks: bool) -> Vec<String> {
    let mut words = vec!["tools", "--scope", scope, "--scope", USER_SCOPE];
    // The hook of Gemini CLI calls a tool of its own.
    if client == "gemini" && has_hooks {
        words.extend(["--hook", client]);
    }
    words.into_iter().map(str::to_owned).collect()
}

/// The directory whose scope the servers of a project's file share, independent of the working directory
/// that their client starts each in.
fn project_dir<'a>(target: &'a ClientFile, surroundings: &'a Surroundings) -> Option<&'a str> {
    match target.client.scope {
        ConfigScope::Local => target.place.project.as_deref(),
        ConfigScope::Project if target.is_of_project(surroundings) => {
            surroundings.working_dir.as_deref().and_then(Path::to_str)
        }
        ConfigScope::Project | ConfigScope::User => None,
    }
}

/// Programs of Atlatl entries that do not exist, or that are in the cache of a launcher.
fn stale_programs(existing: &[ServerEntry], surroundings: &Surroundings) -> Vec<String> {
    let program = |entry: &ServerEntry| match &entry.kind {
        EntryKind::Ours(words) => words.first().cloned(),
        _ => None,
    };
    let stale = |program: &String| {
        let path = Path::new(program);
        let location = Location::classify(path, &surroundings.temp_dir);
        path.is_absolute() && (matches!(location, Location::Cached(_)) || !path.exists())
    };
    existing.iter().filter_map(program).filter(stale).collect()
}

/// The servers that stay as they are in the changed file.
fn unchanged_servers(
    after: &str,
    before: &[ServerEntry],
    target: &ClientFile,
    args: &Args,
) -> Result<Servers, ConfigParseError> {
    let wrappable = wrappable_urls(after, &target.place)?;
    let mut servers = Servers::default();
    for ServerEntry { name, kind } in entries(after, &target.place)? {
        if !args.servers.is_empty() && !args.servers.contains(&name) {
            continue;
        }
        match kind {
            EntryKind::Sse(url) => servers.sse.push((name, url)),
            EntryKind::Url(url) if wrappable.contains(&name) => servers.at_url.push((name, url)),
            EntryKind::Url(url) => servers.with_settings.push((name, url)),
            EntryKind::Ours(words) => {
                let subcommand = own_arguments(&words).and_then(<[String]>::first);
                let was_ours = before
                    .iter()
                    .any(|entry| entry.name == name && matches!(entry.kind, EntryKind::Ours(_)));
                if was_ours && subcommand.is_some_and(|command| command == "proxy") {
                    servers.already.push(name);
                }
            }
            EntryKind::Program(_) | EntryKind::Other => {}
        }
    }
    Ok(servers)
}

/// A configuration file of a client that exists.
#[derive(Debug, Clone)]
pub(crate) struct ClientFile {
    pub(crate) client: &'static Client,
    /// The path with symbolic links resolved: the target of a link is changed, and the link stays.
    pub(crate) file: PathBuf,
    /// The table of servers in the file.
    pub(crate) place: ServerTable,
}

impl ClientFile {
    /// The name of the file for people.
    pub(crate) fn display_name(&self) -> String {
        let whose = match self.client.scope {
            ConfigScope::Local => ", for this directory",
            ConfigScope::User | ConfigScope::Project => "",
        };
        format!("{} ({}{whose})", self.file.display(), self.client.title)
    }

    /// Whether this is a project's file. In the home directory, the project's file is the user's own.
    pub(crate) fn is_of_project(&self, surroundings: &Surroundings) -> bool {
        self.client.scope == ConfigScope::Project && surroundings.home != surroundings.working_dir
    }

    /// The contents of the file, or the reason why it is not changed.
    pub(crate) fn read(&self) -> Result<String, String> {
        let metadata = fs::metadata(&self.file).map_err(|error| error.to_string())?;
        if !metadata.is_file() || metadata.len() > MAX_CONFIG_LEN {
            return Err("not a configuration file".to_owned());
        }
        let text = fs::read_to_string(&self.file).map_err(|error| error.to_string())?;
        entries(&text, &self.place).map_err(|error| error.to_string())?;
        Ok(text)
    }
}

/// The table of servers in a client's file; `None` if the project's path cannot be determined.
fn server_table(client: &Client, surroundings: &Surroundings) -> Option<ServerTable> {
    let mut table = client.place.clone();
    if client.scope == ConfigScope::Local {
        let dir = fs::canonicalize(surroundings.working_dir.as_ref()?).ok()?;
        table.project = Some(dir.into_os_string().into_string().ok()?);
    }
    Some(table)
}

/// The existing configuration files of the clients with these names, or of all clients.
pub(crate) fn find_client_files(
    settings: &Settings,
    names: &[String],
) -> Result<Vec<ClientFile>, Error> {
    for name in names {
        if !CLIENTS.iter().any(|client| client.name == name) {
            let mut clients: Vec<_> = CLIENTS.iter().map(|client| client.name).collect();
            clients.dedup();
            return Err(
                Error::usage(format!("unknown client {name}")).with_hint(clients.join(", "))
            );
        }
    }
    let surroundings = settings.surroundings();
    let layout = if cfg!(target_os = "macos") { HomeLayout::MacOs } else { HomeLayout::Linux };
    let is_selected =
        |client: &&Client| names.is_empty() || names.iter().any(|name| name == client.name);
    let mut files: Vec<ClientFile> = Vec::new();
    for client in CLIENTS.iter().filter(is_selected) {
        let base = match client.folder {
            BaseDir::Project => &surroundings.working_dir,
            _ => &surroundings.home,
        };
        let path = base.as_ref().map(|base| base.join(client.relative_path(layout)));
        // In the home directory, the project's file is the user's own and is listed once.
        if let Some(file) = path.and_then(resolve_existing)
            && is_inside_project(client, &file, surroundings)
            && let Some(place) = server_table(client, surroundings)
            && !files.iter().any(|other| other.file == file && other.place == place)
        {
            files.push(ClientFile { client, file, place });
        }
    }
    Ok(files)
}

/// Whether a project's file is inside the project. A symbolic link to the outside could name a file of the
/// user, which the project must not change.
fn is_inside_project(client: &Client, file: &Path, surroundings: &Surroundings) -> bool {
    let Some(dir) = surroundings.working_dir.as_ref().filter(|_| client.folder == BaseDir::Project)
    else {
        return true;
    };
    let is_inside = fs::canonicalize(dir).is_ok_and(|dir| file.starts_with(dir));
    if !is_inside {
        let (title, file) = (client.title, file.display());
        Output::remark(format_args!(
            "{title}: this project's file is a link to {file}, outside of the project. It is left unchanged."
        ));
    }
    is_inside
}

/// The path of a file with symbolic links resolved; `None` if it does not exist. A path that cannot be
/// resolved for another reason is returned as it is, and reading it reports the error.
fn resolve_existing(path: PathBuf) -> Option<PathBuf> {
    match fs::canonicalize(&path) {
        Ok(path) => Some(path),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            None
        }
        Err(_) => Some(path),
    }
}
