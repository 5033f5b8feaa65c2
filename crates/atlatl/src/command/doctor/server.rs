//! Server: an entry of ours in a client's file, as this program understands it.

use std::path::PathBuf;

use atlatl_lro::clients::{Client, Kind, Launch, Scope, entries, launches, own_arguments};
use clap::Parser as _;
use lro_core::config::ProxyTools;

use super::{clients::Surroundings, storage_key::StorageKey};
use crate::{
    args::{Args, Command},
    command::install::discover::Found,
    settings::{Settings, Sources},
};

/// An entry that starts this program.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) client: &'static Client,
    pub(super) file: PathBuf,
    pub(super) launch: Launch,
    /// Whose file it is.
    pub(super) whose: Whose,
    /// What the client starts: this program, by its name or its path.
    pub(super) program: String,
    pub(super) what: What,
    /// Where it stores results or reads them, for each of its scopes.
    pub(super) storage: Vec<StorageKey>,
}

/// Whose a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The user's.
    User,
    /// The project's, which others may have written.
    Project,
}

/// What it is started for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// To stand in front of a server.
    Proxy { behind: Behind, tools: ProxyTools, scope: Option<String>, threshold: u32 },
    /// To offer the extraction tools.
    Tools { scopes: Vec<String> },
    /// To serve memories.
    Serve { tools: ProxyTools },
    /// For something else, which no client does by itself.
    Other,
    /// The arguments make no sense to this version.
    Unclear(String),
}

/// The server behind a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Behind {
    /// A program and its arguments.
    Program(Vec<String>),
    /// A server at a URL.
    Url(String),
}

impl Server {
    /// What people call it, and where it stands.
    pub(super) fn shown(&self) -> String {
        format!("{} in {} ({})", self.launch.name, self.file.display(), self.client.title)
    }

    /// Whether its client is started from a desktop and has no shell's `PATH`. Editors ask a shell
    /// for it; a project's file names programs by name, since others share it.
    pub(super) fn has_window(&self) -> bool {
        self.client.name == "claude-desktop" && !self.is_of_project()
    }

    pub(super) fn is_of_project(&self) -> bool {
        self.whose == Whose::Project
    }
}

/// Our entries in a file that can be read.
pub(super) fn ours(
    found: &Found,
    text: &str,
    settings: &Settings,
    (here, sources): (&Surroundings, &Sources),
) -> Vec<Server> {
    let place = &found.place;
    let (Ok(entries), Ok(launches)) = (entries(text, place), launches(text, place)) else {
        return Vec::new();
    };
    let pairs = entries.into_iter().zip(launches);
    // In the home directory a project's file is the user's.
    let surroundings = settings.surroundings();
    let at_home = surroundings.home == surroundings.working_dir;
    let whose = match found.client.scope {
        Scope::Project if !at_home => Whose::Project,
        _ => Whose::User,
    };
    pairs
        .filter_map(|(entry, launch)| {
            let Kind::Ours(words) = entry.kind else { return None };
            let (what, args) = what(own_arguments(&words)?, settings);
            let mut server = Server {
                client: found.client,
                file: found.file.clone(),
                launch,
                whose,
                program: words.first()?.clone(),
                what,
                storage: Vec::new(),
            };
            if let Some(args) = args {
                server.storage = StorageKey::all(&server, &args.global, settings, (here, sources));
            }
            Some(server)
        })
        .collect()
}

/// What the arguments of an entry ask for, and as they were parsed.
fn what(arguments: &[String], settings: &Settings) -> (What, Option<Args>) {
    let program = "atlatl".to_owned();
    match Args::try_parse_from([&program].into_iter().chain(arguments)) {
        Ok(args) => (purpose(&args, settings), Some(args)),
        Err(error) => {
            let said = error.to_string();
            let first = said.lines().next().unwrap_or_default();
            (What::Unclear(first.trim_start_matches("error: ").to_owned()), None)
        }
    }
}

fn purpose(args: &Args, settings: &Settings) -> What {
    let assigned = |key: &str| {
        let mut values = args.global.assignments.iter().filter_map(|text| text.split_once('='));
        values.rfind(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    };
    let tools = |typed: Option<&str>| match typed.or(assigned("proxy.tools")) {
        Some("none") => ProxyTools::None,
        Some(_) => ProxyTools::All,
        None => settings.config.proxy.tools,
    };
    match args.command {
        Command::Proxy(ref proxy) => {
            // A flag that it does not know looks to the parser like the server's program.
            let first = proxy.command.first().and_then(|word| word.to_str());
            if let Some(flag) = first.filter(|word| word.starts_with('-')) {
                return What::Unclear(format!("unexpected argument '{flag}'"));
            }
            let threshold = proxy
                .threshold
                .or_else(|| assigned("proxy.threshold_tokens")?.parse().ok())
                .unwrap_or(settings.config.proxy.threshold_tokens);
            let behind = match &proxy.url {
                Some(url) => Behind::Url(url.clone()),
                None => Behind::Program(
                    proxy.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
                ),
            };
            let tools = tools(proxy.tools.as_deref());
            What::Proxy { behind, tools, scope: proxy.scope.clone(), threshold }
        }
        Command::Tools(ref tools) => What::Tools { scopes: tools.scopes.clone() },
        Command::Serve(ref serve) => What::Serve { tools: tools(serve.tools.as_deref()) },
        _ => What::Other,
    }
}
