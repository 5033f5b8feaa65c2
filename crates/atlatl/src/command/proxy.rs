//! `atlatl proxy`: a proxy in front of an MCP server, for one client on standard input and output or for
//! clients over HTTP.

mod offload_stack;
mod remote;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, mpsc};
use std::{io, thread};

use lro::IdSeed;
use lro_core::config::{ProxyTools, References};
use lro_http::{Guard, stop_channel};
use lro_proxy::downstream::http::{self, Upstream};
use lro_proxy::session::EndReason;
use lro_proxy::upstream::http::Remote;
use lro_proxy::upstream::process::Process;
use lro_proxy::{ReferencePassing, Relay, session};
use lro_spool::Scope;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

pub(crate) use self::offload_stack::OffloadStack;
use crate::access::{Auth, HttpEndpoint, max_client_connections};
use crate::error::{Error, Status};
use crate::settings::{Settings, Sources};
use crate::units::parse_small_count;

/// Programs that run others. A server is named after the program that they run.
const RUNNERS: [&str; 7] = ["npx", "uvx", "bunx", "node", "bun", "python", "python3"];
/// Flags without a value between a runner and its program. Any other flag may be followed by a value,
/// which may be a secret.
const RUNNER_FLAGS: [&str; 5] = ["-y", "--yes", "-u", "-m", "--"];
/// The longest name of a server, in characters.
const MAX_NAME_CHARS: usize = 40;

/// Examples for the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl proxy -- npx -y @modelcontextprotocol/server-filesystem .
  atlatl proxy --threshold 5000 --policy 'read_*=offload' -- my-server --flag
  atlatl proxy --tools separate -- my-server   (beside `atlatl tools`)
  atlatl proxy --url https://example.com/mcp
  atlatl proxy --url https://example.com/mcp --header 'X-Api-Key: ${KEY}'
  atlatl proxy --url unix:$XDG_RUNTIME_DIR/atlatl.sock
  atlatl proxy --listen 127.0.0.1:7272 -- my-server";

/// Arguments of `atlatl proxy`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Policy for tools whose name matches GLOB: inline,
    /// offload, or a threshold in tokens
    #[arg(long = "policy", value_name = "GLOB=POLICY", verbatim_doc_comment)]
    policies: Vec<String>,
    /// Store results of at least TOKENS tokens: 5000, 5k
    #[arg(long, value_name = "TOKENS", value_parser = parse_small_count)]
    pub(crate) threshold: Option<u32>,
    /// Offer the extraction tools: all; separate, if `atlatl
    /// tools` offers them; or none, for clients with a shell
    #[arg(long, value_name = "WHICH", value_parser = ["all", "separate", "none"], hide_possible_values = true, verbatim_doc_comment)]
    pub(crate) tools: Option<String>,
    /// Store results in a separate scope of the working
    /// directory; dir:PATH uses that directory instead,
    /// wherever the proxy is started
    #[arg(long, value_name = "TEXT", verbatim_doc_comment)]
    pub(crate) scope: Option<String>,
    /// URL of the server (streamable HTTP), or unix:PATH for
    /// a server on this machine
    #[arg(long, value_name = "URL", conflicts_with = "command", verbatim_doc_comment)]
    pub(crate) url: Option<String>,
    /// Send a header to the server; ${NAME} is replaced by
    /// an environment variable
    #[arg(long = "header", value_name = "NAME: VALUE", requires = "url", verbatim_doc_comment)]
    headers: Vec<String>,
    /// Serve HTTP clients on an address and port or on
    /// unix:PATH, at /mcp, instead of one client on standard
    /// input and output
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

/// Runs the command.
pub(crate) fn run(args: &Args, mut sources: Sources) -> Result<Status, Error> {
    args.add_assignments(&mut sources);
    // Over HTTP an invalid `server.auth` must not become the default.
    let settings = match &args.listen {
        Some(_) => Settings::load(&sources)?,
        None => Settings::load_valid(&sources)?,
    };
    let stack = OffloadStack::new("atlatl proxy", &settings, args.scope.as_deref())?;
    // Before the server starts: a signal in between must not leave it running.
    let (end_sender, end_receiver) = end_channel()?;
    let server = match &args.url {
        Some(url) => {
            let (remote, label) = remote::remote(url, &args.headers, &settings, &sources)?;
            ProxiedServer::Remote { remote, label }
        }
        None => ProxiedServer::Command(&args.command),
    };
    let relay = relay(&stack, &settings, server.label());
    if let Some(address) = &args.listen {
        return listen(address, relay, server, &stack, &settings, end_receiver);
    }
    let client = (io::stdin(), io::stdout());
    let code = match server {
        ProxiedServer::Remote { remote, .. } => {
            stack.clean(&settings);
            session::run_remote(relay, client, remote, (end_sender, &end_receiver))
                .map_err(|error| Error::failure(format!("cannot start the proxy: {error}")))?
        }
        ProxiedServer::Command(command) => {
            let upstream = Process::start(server_command(command)?).map_err(|error| {
                let program = command[0].display();
                Error::failure(format!("{program}: cannot start the server: {error}")).with_hint(
                    format!(
                        "Run the command without the proxy, or use the full path of `{program}`."
                    ),
                )
            })?;
            stack.clean(&settings);
            session::run(&Arc::new(relay), client, upstream, (end_sender, &end_receiver))
        }
    };
    Ok(if code == 0 { Status::Success } else { Status::ServerExit(code) })
}

/// The server behind the proxy.
enum ProxiedServer<'a> {
    /// A server at a URL, with its label.
    Remote { remote: Remote, label: String },
    /// A program with its arguments.
    Command(&'a [OsString]),
}

impl ProxiedServer<'_> {
    fn label(&self) -> String {
        match self {
            Self::Remote { label, .. } => label.clone(),
            Self::Command(command) => command_label(command),
        }
    }
}

/// Builds the relay in front of the server `label`.
fn relay(stack: &OffloadStack, settings: &Settings, label: String) -> Relay {
    let config = &settings.config.proxy;
    let mut relay = Relay::new(stack.interceptor(settings), label, IdSeed::from_system);
    if config.tools == ProxyTools::All {
        relay = relay.with_tools(stack.tools_of_proxy(settings));
    }
    if config.references != References::Off {
        relay = relay.with_passing(ReferencePassing::new(
            config.references,
            stack.spools(),
            stack.extractor_for_programs(settings),
            stack.events(),
        ));
    }
    relay
}

/// The channel for the end of the session. A signal of the process sends to it.
fn end_channel() -> Result<(Sender<EndReason>, Receiver<EndReason>), Error> {
    let (sender, receiver) = mpsc::channel();
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]);
    let mut signals = signals.map_err(|error| Error::failure(format!("signals: {error}")))?;
    thread::spawn({
        let sender = sender.clone();
        move || {
            for signal in signals.forever() {
                let _ = sender.send(EndReason::Signal(signal));
            }
        }
    });
    Ok((sender, receiver))
}

/// The command that starts the server.
fn server_command(command: &[OsString]) -> Result<Command, Error> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| Error::usage("missing command"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

impl Args {
    /// Adds the flags to the sources as assignments, which override every file and variable.
    fn add_assignments(&self, sources: &mut Sources) {
        if let Some(tokens) = self.threshold {
            sources.assign(format!("proxy.threshold_tokens={tokens}"));
        }
        if let Some(which) = &self.tools {
            sources.assign(format!("proxy.tools={which}"));
        }
        for policy in &self.policies {
            let (glob, policy) = policy.rsplit_once('=').unwrap_or((policy, ""));
            let policy = match parse_small_count(policy) {
                Ok(tokens) => format!("{{ threshold_tokens = {tokens} }}"),
                Err(_) => policy.to_owned(),
            };
            sources.assign(format!("proxy.policy.\"{glob}\"={policy}"));
        }
    }
}

/// Serves clients over HTTP until the process gets a signal.
fn listen(
    address: &str,
    relay: Relay,
    server: ProxiedServer<'_>,
    stack: &OffloadStack,
    settings: &Settings,
    end_receiver: Receiver<EndReason>,
) -> Result<Status, Error> {
    let config = &settings.config.server;
    let endpoint = HttpEndpoint::open(address, settings)?;
    let address = endpoint.place()?;
    let upstream = match server {
        ProxiedServer::Remote { remote, .. } => Upstream::Remote(remote),
        ProxiedServer::Command(command) => {
            let command = command.to_vec();
            server_command(&command)?;
            Upstream::Process(Box::new(move || {
                let command = server_command(&command).map_err(|_| io::ErrorKind::InvalidInput)?;
                Process::start(command)
            }))
        }
    };
    let (stop, stopped) = stop_channel();
    thread::spawn(move || {
        if end_receiver.recv().is_ok() {
            stop.now();
        }
    });
    stack.clean(settings);
    if let Auth::Principals(_) = endpoint.auth {
        return Err(Error::usage("server.auth: keys and oauth are for `atlatl serve`")
            .with_hint("server.auth=token-file:PATH"));
    }
    endpoint.announce(&[("MCP", "/mcp")])?;
    let tokens = match endpoint.auth {
        Auth::Tokens(tokens) => Some(tokens),
        Auth::SameUser | Auth::Principals(_) => None,
    };
    let guard = Guard {
        hosts: config.allowed_hosts.clone(),
        origins: config.allowed_origins.clone(),
        tokens,
    };
    http::run(relay, upstream, endpoint.listener, guard, max_client_connections(), stopped)
        .map_err(|error| Error::failure(format!("{address}: {error}")))?;
    Ok(Status::Success)
}

/// The label of a server: its name, and a hash of its command that distinguishes servers of the same name.
/// The arguments themselves are not in it: they may contain secrets.
fn command_label(command: &[OsString]) -> String {
    let file_name = |text: &OsString| {
        let name = Path::new(text).file_name().unwrap_or(text.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let program = command.first().map(file_name).unwrap_or_default();
    let mut arguments = command
        .iter()
        .skip(1)
        .skip_while(|argument| RUNNER_FLAGS.iter().any(|flag| *argument == flag));
    let target = arguments.next().filter(|argument| {
        let bytes = argument.as_encoded_bytes();
        !bytes.starts_with(b"-") && !bytes.iter().any(|byte| *byte == b'=' || *byte == b' ')
    });
    let name = match target {
        Some(target) if RUNNERS.contains(&program.as_str()) => file_name(target),
        _ => program,
    };
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = name.chars().filter(plain).take(MAX_NAME_CHARS).collect();
    let hash = Scope::from_fields(command.iter().map(|argument| argument.as_encoded_bytes()));
    format!("{name}:{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label_of(command: &[&str]) -> String {
        command_label(&command.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_server_is_named_by_what_runs() {
        let name = |command: &[&str]| label_of(command).split(':').next().unwrap().to_owned();
        assert_eq!(name(&["npx", "-y", "@modelcontextprotocol/server-memory"]), "server-memory");
        assert_eq!(name(&["/opt/bin/my server", "--token", "x"]), "myserver");
        assert_eq!(name(&["python3", "-u", "serve.py"]), "serve.py");
        assert_eq!(name(&["npx", "--token", "SECRET", "pkg"]), "npx");
        assert_eq!(name(&["sh", "-c", "API_KEY=sk-1 exec srv"]), "sh");
    }

    #[test]
    fn other_arguments_make_another_server_and_do_not_show() {
        let (one, other) =
            (label_of(&["s", "--token", "secret"]), label_of(&["s", "--token", "other"]));
        assert_ne!(one, other);
        assert!(!one.contains("secret"));
        assert_eq!(one, label_of(&["s", "--token", "secret"]));
    }
}
