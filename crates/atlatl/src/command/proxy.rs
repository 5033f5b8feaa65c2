//! `atlatl proxy`: in front of an MCP server.

mod keep;
mod server;

use std::{
    ffi::OsString,
    io,
    process::Command,
    sync::{Arc, mpsc},
    thread,
};

use lro::Moment;
use lro_core::config::{ProxyTools, References};
use lro_proxy::{Passing, Relay, session, upstream::Upstream};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

pub(crate) use self::keep::Keep;
use crate::{
    error::{Error, Status},
    settings::{Settings, Sources},
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl proxy -- npx -y @modelcontextprotocol/server-filesystem .
  atlatl proxy --threshold 5000 --policy 'read_*=offload' -- my-server --flag
  atlatl proxy --tools none -- my-server     (beside `atlatl tools`)";

/// What was typed behind `atlatl proxy`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to do with results of tools whose name matches
    /// GLOB: inline, offload, or a threshold in tokens
    #[arg(long = "policy", value_name = "GLOB=POLICY", verbatim_doc_comment)]
    policies: Vec<String>,
    /// Store results from so many tokens on
    #[arg(long, value_name = "TOKENS")]
    threshold: Option<u32>,
    /// Whether to offer the extraction tools: all or none
    #[arg(long, value_name = "WHICH")]
    tools: Option<String>,
    /// Keep results apart from others of this directory
    #[arg(long, value_name = "TEXT")]
    scope: Option<String>,
    /// The server's program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

/// Runs it.
pub(crate) fn run(args: &Args, mut sources: Sources) -> Result<Status, Error> {
    args.assign(&mut sources);
    let settings = Settings::load(&sources)?;
    let keep = Keep::new(&settings, args.scope.as_deref())?;
    let config = &settings.config.proxy;
    let mut relay =
        Relay::new(keep.interceptor(&settings), server::label(&args.command), Moment::of_system);
    if config.tools == ProxyTools::All {
        relay = relay.with_tools(keep.tools(&settings));
    }
    if config.references != References::Off {
        relay = relay.with_passing(Passing::new(
            config.references,
            keep.spools(),
            keep.extractor_for_programs(&settings),
            keep.events(),
        ));
    }
    // Before the server runs: a signal in between must not leave it behind.
    let (ends, ended) = mpsc::channel();
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]);
    let mut signals = signals.map_err(|error| Error::failure(format!("signals: {error}")))?;
    thread::spawn({
        let ends = ends.clone();
        move || {
            for signal in signals.forever() {
                let _ = ends.send(session::End::Signal(signal));
            }
        }
    });
    let (program, arguments) =
        args.command.split_first().ok_or_else(|| Error::usage("no command is given"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    let upstream = Upstream::start(command).map_err(|error| {
        let program = program.display();
        Error::failure(format!("{program}: the server cannot be started: {error}"))
            .with_hint(format!("Try the command by itself, or name `{program}` by its full path."))
    })?;
    keep.clean(&settings);
    let client = (io::stdin(), io::stdout());
    let code = session::run(&Arc::new(relay), client, upstream, (ends, &ended));
    Ok(if code == 0 { Status::Success } else { Status::OfServer(code) })
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
