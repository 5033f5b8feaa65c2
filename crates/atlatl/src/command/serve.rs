//! `atlatl serve`: the memory server.

mod audit;
mod event_sink;
mod http;
mod parts;
mod tenants;
#[cfg(feature = "otel")]
mod traces;

use std::{io, sync::Arc};

use atlatl_memory::MemoryStore;
use atlatl_server::{MemoryServer, SignedLinks, event::EventBus, http::Metrics, stdio};
use lro::Moment;

use self::audit::Audit;
use self::event_sink::ServerEventSink;
use crate::{
    access::{Auth, Door},
    command::proxy::OffloadStack,
    error::{Error, Status},
    memory_config, object_store_config,
    settings::{Settings, Sources},
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl serve                               (in a client's configuration)
  atlatl serve --http unix:$XDG_RUNTIME_DIR/atlatl.sock   (for this user, no token)
  atlatl serve --http 127.0.0.1:7171         (with the token of this user)
  atlatl serve --http 0.0.0.0:7171 --set server.auth=token-file:/etc/atlatl/tokens
  atlatl serve --http 0.0.0.0:7171 --set server.auth=keys \\
    --set memory.store=postgres://atlatl@127.0.0.1/memories   (many tenants)";

/// What was typed behind `atlatl serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Serve one client on standard input and output (the
    /// default)
    #[arg(long, conflicts_with = "http", verbatim_doc_comment)]
    stdio: bool,
    /// Serve on an address and port, or on unix:PATH: MCP
    /// at /mcp, an API under /v1
    /// [default: server.listen, where it is set]
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
    let over_http = !args.stdio && !settings.config.server.listen.is_empty();
    // First of all: whoever cannot be reached need not begin.
    let open = || Door::open(&settings.config.server.listen, &settings);
    let door = over_http.then(open).transpose()?;
    let principals = door.as_ref().and_then(|door| match &door.auth {
        Auth::Principals(principals) => Some(principals.clone()),
        Auth::SameUser | Auth::Tokens(_) => None,
    });
    match (door, principals) {
        (Some(door), Some(principals)) => tenants::serve(&settings, &principals, door),
        (door, _) => one(&settings, door),
    }
}

/// Serves one tenant, whoever asks.
fn one(settings: &Settings, door: Option<Door>) -> Result<Status, Error> {
    let store = memory_config::served(settings)?;
    let (mut keep, links) = keep(settings, door.as_ref(), &store)?;
    let metrics = Arc::new(Metrics::default());
    let mut events = EventBus::new(Moment::of_system)
        .with(Arc::new(ServerEventSink::new(keep.events())))
        .with(Arc::clone(&metrics) as _);
    // On standard streams there is no client to refuse.
    if door.is_some()
        && let Some(audit) = Audit::open(&settings.config.server.audit)?
    {
        events = events.with(Arc::new(audit));
    }
    keep.tell(Arc::new(events.clone()));
    let mut parts = parts::of(settings, store, events);
    parts.embedder = memory_config::embedder(settings)?;
    parts.backfill = parts.embedder.as_ref().and_then(|one| memory_config::backfill(one, 1));
    parts::offload(&mut parts, settings, &keep);
    parts.links = links.is_some();
    parts.cleanup = links.is_some().then(|| OffloadStack::interval(settings));
    let server = MemoryServer::new(parts);
    keep.clean(settings);
    let house = server.start_maintenance().map_err(|error| Error::failure(error.to_string()))?;
    let served = match door {
        None => {
            stdio::serve(&server, io::stdin(), io::stdout());
            Ok(Status::Success)
        }
        Some(door) => http::serve(door, settings, &keep, links, server, metrics),
    };
    // What is under way ends with the process: every step of it may be cut short.
    std::mem::forget(house);
    served
}

/// Where large results are kept: where all servers can get at them, if there is such a place and
/// clients do not share our files anyway; and how clients get at those.
fn keep(
    settings: &Settings,
    door: Option<&Door>,
    store: &Arc<dyn MemoryStore>,
) -> Result<(OffloadStack, Option<Arc<SignedLinks>>), Error> {
    let config = &settings.config;
    let door = door.filter(|_| !config.prompt.offload.shared_filesystem);
    let shared = door
        .map(|door| Ok::<_, Error>((door, object_store_config::open(settings)?)))
        .transpose()?;
    let Some((door, Some(spool))) = shared else {
        return Ok((OffloadStack::new(settings, None)?, None));
    };
    let base = http::base(settings, door)?;
    let links = Arc::new(SignedLinks::new(store.clone(), &config.memory.tenant, &base));
    Ok((OffloadStack::shared(settings, Arc::new(spool), links.clone())?, Some(links)))
}
