//! `atlatl serve`: the memory server.

mod http;
mod told;

use std::{io, sync::Arc};

use atlatl_server::{MemoryServer, Parts, event::EventBus, http::Metrics, stdio};
use lro::Moment;
use lro_core::{O200k, config::ProxyTools, tokens};

use self::told::Told;
use crate::{
    command::proxy::Keep,
    error::{Error, Status},
    memories,
    settings::{Settings, Sources},
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl serve                               (in a client's configuration)
  atlatl serve --http 127.0.0.1:7171
  atlatl serve --http 0.0.0.0:7171 --set server.auth=token-file:/etc/atlatl/tokens";

/// What was typed behind `atlatl serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Serve one client on standard input and output (the
    /// default)
    #[arg(long, conflicts_with = "http", verbatim_doc_comment)]
    stdio: bool,
    /// Serve on an address and port: MCP at /mcp, an API
    /// under /v1 [default: server.listen, where it is set]
    #[arg(long, value_name = "ADDRESS", verbatim_doc_comment)]
    http: Option<String>,
    /// Whether to offer the extraction tools: all or none
    #[arg(long, value_name = "WHICH")]
    pub(crate) tools: Option<String>,
}

/// Runs it.
pub(crate) fn run(args: &Args, mut sources: Sources) -> Result<Status, Error> {
    if let Some(address) = &args.http {
        sources.assign(format!("server.listen={address}"));
    }
    if let Some(which) = &args.tools {
        sources.assign(format!("proxy.tools={which}"));
    }
    let settings = Settings::load(&sources)?;
    let mut keep = Keep::new(&settings, None)?;
    let metrics = Arc::new(Metrics::default());
    let events = EventBus::new(Moment::of_system)
        .with(Arc::new(Told::new(keep.events())))
        .with(Arc::clone(&metrics) as _);
    keep.tell(Arc::new(events.clone()));
    let server = server(&settings, &keep, events)?;
    let address = &settings.config.server.listen;
    if args.stdio || address.is_empty() {
        keep.clean(&settings);
        let house = server.keep_house().map_err(|error| Error::failure(error.to_string()))?;
        stdio::serve(&server, io::stdin(), io::stdout());
        // What is under way ends with the process: every step of it may be cut short.
        std::mem::forget(house);
        return Ok(Status::Success);
    }
    http::run(&settings, &keep, server, metrics)
}

/// The server, by the settings.
fn server(settings: &Settings, keep: &Keep, events: EventBus) -> Result<MemoryServer, Error> {
    let config = &settings.config;
    let store = memories::open(settings)?;
    let estimate = |text: &str| {
        let measure = tokens::Measure::of(text.as_bytes());
        tokens::estimate(measure, &tokens::sample(text), &O200k).tokens.0
    };
    let mut parts = Parts::new(store, Arc::new(estimate), Moment::of_system);
    parts.embedder = memories::embedder(settings)?;
    if config.prompt.offload.enabled {
        parts.interceptor = Some(keep.interceptor(settings));
        if config.proxy.tools == ProxyTools::All {
            parts.extraction = Some(keep.tools(settings));
        }
        parts.threshold_tokens = config.prompt.offload.threshold_tokens;
    }
    parts.shared_filesystem = config.prompt.offload.shared_filesystem;
    parts.events = events;
    env!("CARGO_PKG_VERSION").clone_into(&mut parts.version);
    Ok(MemoryServer::new(parts)?)
}
