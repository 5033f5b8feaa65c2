//! `atlatl tools`: the extraction tools as a separate MCP server.

mod hook_tool;

use std::io;
use std::sync::Arc;

use lro::IdSeed;
use lro_proxy::{Relay, StubServer, session};

pub(crate) use self::hook_tool::HookTool;
use crate::command::proxy::OffloadStack;
use crate::error::{Error, Status};
use crate::settings::{Settings, Sources};

/// Arguments of `atlatl tools`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read results of proxies with this --scope;
    /// can be repeated
    #[arg(long = "scope", value_name = "TEXT", verbatim_doc_comment)]
    pub(crate) scopes: Vec<String>,
    /// Also serve the tool that this agent's hook calls:
    /// claude-code or gemini
    #[arg(long, value_name = "CLIENT", value_enum, verbatim_doc_comment)]
    #[arg(hide_possible_values = true)]
    pub(crate) hook: Option<HookTool>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, sources: &Sources) -> Result<Status, Error> {
    let settings = Settings::load_valid(sources)?;
    let stack = OffloadStack::with_scopes("atlatl tools", &settings, &args.scopes)?;
    let relay = Relay::new(stack.interceptor(&settings), "atlatl", IdSeed::from_system).with_tools(
        match args.hook {
            Some(hook) => stack.tools(&settings).with_companion(hook.tool(&settings, sources)),
            None => stack.tools(&settings),
        },
    );
    stack.clean(&settings);
    let greeting = StubServer {
        name: "atlatl".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions:
            "Tools that query large results, which were stored and returned as a reference (lro:…)."
                .to_owned(),
    };
    session::run_stub(&Arc::new(relay), &greeting, (io::stdin(), io::stdout()));
    Ok(Status::Success)
}
