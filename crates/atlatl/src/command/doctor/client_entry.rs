//! Atlatl's entries in the configuration files of MCP clients.
//!
//! An entry is parsed with Atlatl's own command line parser, its `${NAME}` variables are expanded
//! and its program is searched for as the client would do it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use atlatl_lro::clients::{
    Client, ConfigScope, EntryKind, LaunchSpec, entries, launches, own_arguments,
};
use clap::Parser as _;
use lro_core::config::ProxyTools;

use crate::command::install::discover::Found;
use crate::command::{Args, Command, Global};
use crate::settings::{Settings, Sources};
use crate::spool_config::scope_of;

/// An entry of a client's configuration that starts Atlatl.
#[derive(Debug, Clone)]
pub(super) struct ClientEntry {
    pub(super) client: &'static Client,
    pub(super) file: PathBuf,
    pub(super) launch: LaunchSpec,
    /// Whether the file belongs to the user or to the project.
    pub(super) owner: ConfigOwner,
    /// Atlatl's program as the entry names it: a name or a path.
    pub(super) program: String,
    pub(super) command: EntryCommand,
    /// Where it stores or reads results, for each of its scopes.
    pub(super) storage: Vec<StorageKey>,
}

/// The owner of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfigOwner {
    /// The user.
    User,
    /// The project: others may have written the file.
    Project,
}

/// The Atlatl command of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryCommand {
    /// `atlatl proxy`.
    Proxy { upstream: UpstreamSpec, tools: ProxyTools, scope: Option<String>, threshold: u32 },
    /// `atlatl tools`.
    Tools { scopes: Vec<String> },
    /// `atlatl serve`.
    Serve { tools: ProxyTools },
    /// Any other command, which `atlatl install` never writes.
    Other,
    /// This version cannot parse the arguments.
    Invalid(String),
}

/// The server behind a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UpstreamSpec {
    /// A program and its arguments.
    Program(Vec<String>),
    /// A server at a URL.
    Url(String),
}

impl ClientEntry {
    /// The name, file and client of the entry.
    pub(super) fn label(&self) -> String {
        format!("{} in {} ({})", self.launch.name, self.file.display(), self.client.title)
    }

    /// Whether the client is started from a desktop, without the `PATH` of a shell. Editors take
    /// `PATH` from a shell; a project file is shared and names programs without a path.
    pub(super) fn is_desktop_client(&self) -> bool {
        self.client.name == "claude-desktop" && !self.belongs_to_project()
    }

    pub(super) fn belongs_to_project(&self) -> bool {
        self.owner == ConfigOwner::Project
    }
}

/// The environment in which clients start programs.
pub(super) struct LaunchEnvironment {
    pub(super) path: OsString,
    pub(super) working_dir: PathBuf,
    /// The path of the running Atlatl.
    pub(super) itself: Option<PathBuf>,
}

impl LaunchEnvironment {
    pub(super) fn new(settings: &Settings, sources: &Sources) -> Self {
        Self {
            path: sources.os_variable("PATH").cloned().unwrap_or_default(),
            working_dir: settings.surroundings().working_dir.clone().unwrap_or_default(),
            itself: std::env::current_exe().ok(),
        }
    }
}

/// Atlatl's entries in a client configuration file.
pub(super) fn atlatl_entries(
    file: &Found,
    text: &str,
    settings: &Settings,
    (environment, sources): (&LaunchEnvironment, &Sources),
) -> Vec<ClientEntry> {
    let place = &file.place;
    let (Ok(entries), Ok(launches)) = (entries(text, place), launches(text, place)) else {
        return Vec::new();
    };
    let pairs = entries.into_iter().zip(launches);
    // In the home directory, a project file belongs to the user.
    let surroundings = settings.surroundings();
    let at_home = surroundings.home == surroundings.working_dir;
    let owner = match file.client.scope {
        ConfigScope::Project if !at_home => ConfigOwner::Project,
        _ => ConfigOwner::User,
    };
    pairs
        .filter_map(|(entry, launch)| {
            let EntryKind::Ours(words) = entry.kind else { return None };
            let (command, args) = parse_command(own_arguments(&words)?, settings);
            let mut server = ClientEntry {
                client: file.client,
                file: file.file.clone(),
                launch,
                owner,
                program: words.first()?.clone(),
                command,
                storage: Vec::new(),
            };
            if let Some(args) = args {
                server.storage =
                    StorageKey::for_entry(&server, &args.global, settings, (environment, sources));
            }
            Some(server)
        })
        .collect()
}

/// Parses the arguments of an entry.
fn parse_command(arguments: &[String], settings: &Settings) -> (EntryCommand, Option<Args>) {
    let program = "atlatl".to_owned();
    match Args::try_parse_from([&program].into_iter().chain(arguments)) {
        Ok(args) => (entry_command(&args, settings), Some(args)),
        Err(error) => {
            let message = error.to_string();
            let first = message.lines().next().unwrap_or_default();
            (EntryCommand::Invalid(first.trim_start_matches("error: ").to_owned()), None)
        }
    }
}

fn entry_command(args: &Args, settings: &Settings) -> EntryCommand {
    let assigned = |key: &str| {
        let mut values = args.global.assignments.iter().filter_map(|text| text.split_once('='));
        values.rfind(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    };
    let tools = |flag: Option<&str>| match flag.or(assigned("proxy.tools")) {
        Some("none") => ProxyTools::None,
        Some("separate") => ProxyTools::Separate,
        Some(_) => ProxyTools::All,
        None => settings.config.proxy.tools,
    };
    match args.command {
        Some(Command::Proxy(ref proxy)) => {
            // The parser takes an unknown flag for the server's program.
            let first = proxy.command.first().and_then(|word| word.to_str());
            if let Some(flag) = first.filter(|word| word.starts_with('-')) {
                return EntryCommand::Invalid(format!("unexpected argument '{flag}'"));
            }
            let threshold = proxy
                .threshold
                .or_else(|| assigned("proxy.threshold_tokens")?.parse().ok())
                .unwrap_or(settings.config.proxy.threshold_tokens);
            let upstream = match &proxy.url {
                Some(url) => UpstreamSpec::Url(url.clone()),
                None => UpstreamSpec::Program(
                    proxy.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
                ),
            };
            let tools = tools(proxy.tools.as_deref());
            EntryCommand::Proxy { upstream, tools, scope: proxy.scope.clone(), threshold }
        }
        Some(Command::Tools(ref tools)) => EntryCommand::Tools { scopes: tools.scopes.clone() },
        Some(Command::Serve(ref serve)) => {
            EntryCommand::Serve { tools: tools(serve.tools.as_deref()) }
        }
        _ => EntryCommand::Other,
    }
}

/// Environment variables that determine the results directory.
const STORAGE_VARIABLES: [&str; 7] = [
    "HOME",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "ATLATL_PROXY__DIR",
    "ATLATL_PROMPT__OFFLOAD__OUTPUT_DIR",
];
/// Configuration keys that set the results directory.
const STORAGE_KEYS: [&str; 2] = ["proxy.dir", "prompt.offload.output_dir"];

/// A scope and everything that determines its folder. Entries with equal keys share results.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StorageKey {
    scope: String,
    /// Variables and options of the entry that differ from the environment.
    overrides: Vec<(String, String)>,
}

impl StorageKey {
    /// The keys of an entry, one per scope.
    fn for_entry(
        server: &ClientEntry,
        flags: &Global,
        settings: &Settings,
        (environment, sources): (&LaunchEnvironment, &Sources),
    ) -> Vec<Self> {
        let scopes: Vec<Option<&str>> = match &server.command {
            EntryCommand::Proxy { scope, .. } => vec![scope.as_deref()],
            EntryCommand::Tools { scopes } if !scopes.is_empty() => {
                scopes.iter().map(|scope| Some(scope.as_str())).collect()
            }
            EntryCommand::Tools { .. } | EntryCommand::Serve { tools: ProxyTools::All } => {
                vec![None]
            }
            EntryCommand::Serve { .. } | EntryCommand::Other | EntryCommand::Invalid(_) => {
                return Vec::new();
            }
        };
        let expanded = |text: &str| {
            expand_variables(text, |name| sources.variable(name), &environment.working_dir)
                .unwrap_or_else(|| text.to_owned())
        };
        let mut overrides: Vec<(String, String)> = Vec::new();
        for name in STORAGE_VARIABLES {
            let set = server.launch.env.iter().find(|(variable, _)| variable == name);
            let set = set.map(|(_, value)| expanded(value));
            if let Some(value) = set.filter(|value| sources.variable(name).as_ref() != Some(value))
            {
                overrides.push((name.to_owned(), value));
            }
        }
        for assignment in &flags.assignments {
            let pair = assignment.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            if let Some((key, value)) = pair.filter(|(key, _)| STORAGE_KEYS.contains(key)) {
                overrides.push((key.to_owned(), value.to_owned()));
            }
        }
        if let Some(config) = &flags.config {
            overrides.push(("--config".to_owned(), config.display().to_string()));
        }
        let mut surroundings = settings.surroundings().clone();
        let dir = working_dir(server, environment);
        surroundings.working_dir = Some(dir.canonicalize().unwrap_or(dir));
        let key = |scope| Self {
            scope: scope_of(&surroundings, scope).to_string(),
            overrides: overrides.clone(),
        };
        scopes.into_iter().map(key).collect()
    }

    /// The names of the overrides.
    pub(super) fn override_names(&self) -> Vec<&str> {
        self.overrides.iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// Expands `${NAME}`, `${env:NAME}`, `${NAME:-default}` and `${workspaceFolder}` as clients do;
/// `None` if only the client knows the value.
pub(super) fn expand_variables(
    text: &str,
    variable: impl Fn(&str) -> Option<String>,
    project: &Path,
) -> Option<String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        let Some(end) = from.find('}') else { break };
        out += before;
        out += &variable_value(&from[2..end], &variable, project)?;
        rest = &from[end + 1..];
    }
    Some(out + rest)
}

fn variable_value(
    name: &str,
    variable: &impl Fn(&str) -> Option<String>,
    project: &Path,
) -> Option<String> {
    if name == "workspaceFolder" {
        return project.to_str().map(str::to_owned);
    }
    let name = name.strip_prefix("env:").unwrap_or(name);
    match name.split_once(":-") {
        Some((name, default)) => Some(variable(name).unwrap_or_else(|| default.to_owned())),
        None => variable(name),
    }
}

/// The `PATH` of a process that was not started from a shell.
pub(super) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// The `PATH` that a client passes to the programs it starts.
pub(super) fn search_path(server: &ClientEntry, environment: &LaunchEnvironment) -> OsString {
    let own = server.launch.env.iter().find(|(name, _)| name == "PATH");
    own.filter(|(_, value)| !value.contains("${"))
        .map_or_else(|| environment.path.clone(), |(_, value)| value.into())
}

/// The working directory in which a client starts a server.
pub(super) fn working_dir(server: &ClientEntry, environment: &LaunchEnvironment) -> PathBuf {
    match &server.launch.cwd {
        Some(cwd) if !cwd.contains("${") => environment.working_dir.join(cwd),
        _ => environment.working_dir.clone(),
    }
}

/// The executable that `program` names: a path relative to `from`, or a name in `path`.
pub(super) fn find_program(program: &str, path: &OsStr, from: &Path) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(from.join(program)).filter(|file| is_executable(file));
    }
    std::env::split_paths(path).map(|dir| dir.join(program)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_in_and_what_only_a_client_knows_is_not() {
        let variable = |name: &str| (name == "KEY").then(|| "k".to_owned());
        let expanded = |text: &str| expand_variables(text, variable, Path::new("/p"));
        assert_eq!(expanded("a ${KEY} ${env:KEY} ${NO:-x} $KEY ${").unwrap(), "a k k x $KEY ${");
        assert_eq!(expanded("${workspaceFolder}/x").unwrap(), "/p/x");
        assert_eq!(expanded("${input:key}"), None);
        assert_eq!(expanded("${NO}"), None);
    }
}
