//! `atlatl proxy`: in front of an MCP server.

mod credentials;
mod headers;
mod listen;
mod offload_stack;
mod remote;
mod server;

use std::{
    ffi::OsString,
    io,
    process::Command,
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

use lro::Moment;
use lro_core::config::{ProxyTools, References};
use lro_proxy::{
    Passing, Relay, session,
    upstream::{http::Remote, stdio::Process},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

pub(crate) use self::offload_stack::OffloadStack;
use crate::{
    error::{Error, Status},
    settings::{Settings, Sources},
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl proxy -- npx -y @modelcontextprotocol/server-filesystem .
  atlatl proxy --threshold 5000 --policy 'read_*=offload' -- my-server --flag
  atlatl proxy --tools none -- my-server     (beside `atlatl tools`)
  atlatl proxy --url https://example.com/mcp
  atlatl proxy --url https://example.com/mcp --header 'X-Api-Key: ${KEY}'
  atlatl proxy --url unix:$XDG_RUNTIME_DIR/atlatl.sock
  atlatl proxy --listen 127.0.0.1:7272 -- my-server";

/// What was typed behind `atlatl proxy`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to do with results of tools whose name matches
    /// GLOB: inline, offload, or a threshold in tokens
    #[arg(long = "policy", value_name = "GLOB=POLICY", verbatim_doc_comment)]
    policies: Vec<String>,
    /// Store results from so many tokens on
    #[arg(long, value_name = "TOKENS")]
    pub(crate) threshold: Option<u32>,
    /// Whether to offer the extraction tools: all or none
    #[arg(long, value_name = "WHICH")]
    pub(crate) tools: Option<String>,
    /// Keep results apart from others of the working
    /// directory; dir:PATH: with those of that directory,
    /// wherever the proxy is started
    #[arg(long, value_name = "TEXT", verbatim_doc_comment)]
    pub(crate) scope: Option<String>,
    /// The server is at this URL (streamable HTTP), or at
    /// unix:PATH on this machine
    #[arg(long, value_name = "URL", conflicts_with = "command", verbatim_doc_comment)]
    pub(crate) url: Option<String>,
    /// Send a header to it; ${NAME} stands for a variable
    /// of the environment
    #[arg(long = "header", value_name = "NAME: VALUE", requires = "url", verbatim_doc_comment)]
    headers: Vec<String>,
    /// Serve clients over HTTP on an address and port or on
    /// unix:PATH, at /mcp, instead of one on standard input
    /// and output
    #[arg(long, value_name = "ADDRESS", verbatim_doc_comment)]
    listen: Option<String>,
    /// The server's program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "url",
        value_name = "COMMAND"
    )]
    pub(crate) command: Vec<OsString>,
}

/// Runs it.
pub(crate) fn run(args: &Args, mut sources: Sources) -> Result<Status, Error> {
    args.assign(&mut sources);
    // Over HTTP an invalid `server.auth` must not become the default.
    let settings = match &args.listen {
        Some(_) => Settings::load(&sources)?,
        None => Settings::load_valid(&sources)?,
    };
    let keep = OffloadStack::new(&settings, args.scope.as_deref())?;
    // Before the server runs: a signal in between must not leave it behind.
    let (ends, ended) = ends()?;
    let server = match &args.url {
        Some(url) => {
            let (remote, label) = remote::remote(url, &args.headers, &settings, &sources)?;
            Server::Remote { remote, label }
        }
        None => Server::Command(&args.command),
    };
    let relay = relay(&keep, &settings, server.label());
    if let Some(address) = &args.listen {
        return listen::run(address, relay, server, &keep, &settings, ended);
    }
    let client = (io::stdin(), io::stdout());
    let code = match server {
        Server::Remote { remote, .. } => {
            keep.clean(&settings);
            session::run_remote(relay, client, remote, (ends, &ended))
                .map_err(|error| Error::failure(format!("the proxy cannot run: {error}")))?
        }
        Server::Command(command) => {
            let upstream = Process::start(program(command)?).map_err(|error| {
                let program = command[0].display();
                Error::failure(format!("{program}: the server cannot be started: {error}"))
                    .with_hint(format!(
                        "Try the command by itself, or name `{program}` by its full path."
                    ))
            })?;
            keep.clean(&settings);
            session::run(&Arc::new(relay), client, upstream, (ends, &ended))
        }
    };
    Ok(if code == 0 { Status::Success } else { Status::OfServer(code) })
}

/// The server that the proxy stands in front of.
enum Server<'a> {
    /// At a URL, and how it is told from others.
    Remote { remote: Remote, label: String },
    /// A program and its arguments.
    Command(&'a [OsString]),
}

impl Server<'_> {
    fn label(&self) -> String {
        match self {
            Self::Remote { label, .. } => label.clone(),
            Self::Command(command) => server::label(command),
        }
    }
}

/// The relay in front of the server called `label`.
fn relay(keep: &OffloadStack, settings: &Settings, label: String) -> Relay {
    let config = &settings.config.proxy;
    let mut relay = Relay::new(keep.interceptor(settings), label, Moment::of_system);
    if config.tools == ProxyTools::All {
        relay = relay.with_tools(keep.tools(settings));
    }
    if config.references != References::Off {
        relay = relay.with_passing(Passing::new(
            config.references,
            keep.spools(),
            keep.extractor_for_programs(settings),
            keep.events(),
        ));
    }
    relay
}

/// Where the end of a session is told, by a signal first of all.
fn ends() -> Result<(Sender<session::EndReason>, Receiver<session::EndReason>), Error> {
    let (ends, ended) = mpsc::channel();
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]);
    let mut signals = signals.map_err(|error| Error::failure(format!("signals: {error}")))?;
    thread::spawn({
        let ends = ends.clone();
        move || {
            for signal in signals.forever() {
                let _ = ends.send(session::EndReason::Signal(signal));
            }
        }
    });
    Ok((ends, ended))
}

/// The server's program, not started yet.
fn program(command: &[OsString]) -> Result<Command, Error> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| Error::usage("no command is given"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

impl Args {
    /// A flag is a key that is set above every file and variable.
    fn assign(&self, sources: &mut Sources) {
        if let Some(tokens) = self.threshold {
            sources.assign(format!("proxy.threshold_tokens={tokens}"));
        }
        if let Some(which) = &self.tools {
            sources.assign(format!("proxy.tools={which}"));
        }
        for policy in &self.policies {
            let (glob, policy) = policy.rsplit_once('=').unwrap_or((policy, ""));
            let policy = match policy.parse::<u32>() {
                Ok(tokens) => format!("{{ threshold_tokens = {tokens} }}"),
                Err(_) => policy.to_owned(),
            };
            sources.assign(format!("proxy.policy.\"{glob}\"={policy}"));
        }
    }
}
