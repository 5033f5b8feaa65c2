//! `atlatl serve`: builds the memory server from the settings, and runs it on stdio or over HTTP.

mod events;
mod tenants;
#[cfg(feature = "otel")]
mod traces;

use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use atlatl_memory::MemoryStore;
use atlatl_server::event::EventBus;
use atlatl_server::http::{HttpOptions, Metrics, StopSignal};
use atlatl_server::{MemoryServer, MemoryServerConfig, SignedLinks, http, stdio};
use lro::IdSeed;
use lro_core::config::ProxyTools;
use lro_core::{O200k, tokens};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::events::{AuditLog, EventFanOut};
#[cfg(feature = "otel")]
use self::traces::Traces;
use super::proxy::OffloadStack;
use crate::access::{Auth, Door, descriptors};
use crate::command::runtime;
use crate::error::{Error, Status};
use crate::memory_config;
use crate::settings::{Settings, Sources};
use crate::spool_config::open_object_spool;

/// The source of events in the ledger.
const SOURCE: &str = "atlatl serve";

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl serve                               (in a client's configuration)
  atlatl serve --http unix:$XDG_RUNTIME_DIR/atlatl.sock   (for this user, no token)
  atlatl serve --http 127.0.0.1:7171         (with the token of this user)
  atlatl serve --http 0.0.0.0:7171 --set server.auth=token-file:/etc/atlatl/tokens
  atlatl serve --http 0.0.0.0:7171 --set server.auth=keys \\
    --set memory.store=postgres://atlatl@127.0.0.1/memories   (many tenants)";

/// Arguments of `atlatl serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Serve one client on standard input and output (the
    /// default)
    #[arg(long, conflicts_with = "http", verbatim_doc_comment)]
    stdio: bool,
    /// Serve HTTP on an address and port or on unix:PATH:
    /// MCP at /mcp, an API under /v1
    /// [default: server.listen, if it is set]
    #[arg(long, value_name = "ADDRESS", verbatim_doc_comment)]
    http: Option<String>,
    /// Offer the extraction tools: all; separate, if `atlatl
    /// tools` offers them; or none, for clients with a shell
    #[arg(long, value_name = "WHICH", verbatim_doc_comment)]
    pub(crate) tools: Option<String>,
}

/// Runs `atlatl serve`.
pub(crate) fn run(args: &Args, mut sources: Sources) -> Result<Status, Error> {
    if let Some(address) = &args.http {
        sources.assign(format!("server.listen={address}"));
    }
    if let Some(which) = &args.tools {
        sources.assign(format!("proxy.tools={which}"));
    }
    let settings = Settings::load(&sources)?;
    let over_http = !args.stdio && !settings.config.server.listen.is_empty();
    // Bind first, so that an unusable address fails before anything else is opened.
    let open = || Door::open(&settings.config.server.listen, &settings);
    let endpoint = over_http.then(open).transpose()?;
    let principals = endpoint.as_ref().and_then(|endpoint| match &endpoint.auth {
        Auth::Principals(principals) => Some(principals.clone()),
        Auth::SameUser | Auth::Tokens(_) => None,
    });
    runtime::block_on_server(async {
        match (endpoint, principals) {
            (Some(endpoint), Some(principals)) => {
                tenants::serve_tenants(&settings, &principals, endpoint).await
            }
            (endpoint, _) => serve_single_tenant(&settings, endpoint).await,
        }
    })?
}

/// Serves the memories of one tenant.
async fn serve_single_tenant(settings: &Settings, endpoint: Option<Door>) -> Result<Status, Error> {
    let store = memory_config::open_for_server(settings).await?;
    let (mut offload, links) = open_offload_stack(settings, endpoint.as_ref(), &store)?;
    let metrics = Arc::new(Metrics::default());
    let mut events = EventBus::new(IdSeed::from_system)
        .with(Arc::new(EventFanOut::new(offload.events())))
        .with(Arc::clone(&metrics) as _);
    // On stdio there is no authentication to audit.
    if endpoint.is_some()
        && let Some(audit) = AuditLog::open(&settings.config.server.audit)?
    {
        events = events.with(Arc::new(audit));
    }
    offload.tell(Arc::new(events.clone()));
    let mut server_config = server_config(settings, store, events);
    server_config.embedder = memory_config::server_embedder(settings)?;
    server_config.backfill =
        server_config.embedder.as_ref().and_then(|one| memory_config::start_backfill(one, 1));
    add_offloading(&mut server_config, settings, &offload);
    server_config.links.clone_from(&links);
    server_config.cleanup = links.is_some().then(|| OffloadStack::interval(settings));
    let server = MemoryServer::new(server_config).await;
    offload.clean(settings);
    let _maintenance = server.start_maintenance();
    match endpoint {
        None => {
            stdio::serve(&server, io::stdin(), io::stdout()).await;
            Ok(Status::Success)
        }
        Some(endpoint) => serve_http(endpoint, settings, &offload, links, server, metrics).await,
    }
}

/// Opens the storage for large results. Over HTTP, unless clients share the file system, it is the
/// object store, if one is configured, with signed links for the clients.
fn open_offload_stack(
    settings: &Settings,
    endpoint: Option<&Door>,
    store: &Arc<dyn MemoryStore>,
) -> Result<(OffloadStack, Option<Arc<SignedLinks>>), Error> {
    let config = &settings.config;
    let endpoint = endpoint.filter(|_| !config.prompt.offload.shared_filesystem);
    let shared = endpoint
        .map(|endpoint| Ok::<_, Error>((endpoint, open_object_spool(settings)?)))
        .transpose()?;
    let Some((endpoint, Some(spool))) = shared else {
        return Ok((OffloadStack::new(SOURCE, settings, None)?, None));
    };
    let base = base_url(settings, endpoint)?;
    let links = Arc::new(SignedLinks::new(store.clone(), &config.memory.tenant, &base));
    Ok((OffloadStack::shared(SOURCE, settings, Arc::new(spool), links.clone())?, Some(links)))
}

/// The configuration of a memory server without offloading.
fn server_config(
    settings: &Settings,
    store: Arc<dyn MemoryStore>,
    events: EventBus,
) -> MemoryServerConfig {
    let estimate = |text: &str| {
        let measure = tokens::Measure::from_bytes(text.as_bytes());
        tokens::estimate(measure, &tokens::sample(text), &O200k).tokens.0
    };
    let mut config = MemoryServerConfig::new(store, Arc::new(estimate), IdSeed::from_system);
    config.shared_filesystem = settings.config.prompt.offload.shared_filesystem;
    config.events = events;
    env!("CARGO_PKG_VERSION").clone_into(&mut config.version);
    config
}

/// Adds offloading of large results and, if enabled, the extraction tools.
fn add_offloading(
    server_config: &mut MemoryServerConfig,
    settings: &Settings,
    offload: &OffloadStack,
) {
    let config = &settings.config;
    if config.prompt.offload.enabled {
        server_config.interceptor = Some(offload.interceptor(settings));
        if config.proxy.tools == ProxyTools::All {
            server_config.extraction = Some(offload.tools(settings));
        }
        server_config.threshold_tokens = config.prompt.offload.threshold_tokens;
    }
}

/// Serves one tenant over HTTP until a termination signal.
async fn serve_http(
    endpoint: Door,
    settings: &Settings,
    offload: &OffloadStack,
    links: Option<Arc<SignedLinks>>,
    server: MemoryServer,
    metrics: Arc<Metrics>,
) -> Result<Status, Error> {
    let mut options = http_options(settings, metrics);
    let tenant = &settings.config.memory.tenant;
    if atlatl_server::auth::is_tenant(tenant) {
        options.tenant.clone_from(tenant);
    }
    options.spools = Some(offload.spools());
    options.links = links;
    serve_until_signal(
        endpoint,
        options,
        async |Door { listener, auth, .. }, mut options, stopped| {
            if let Auth::Tokens(tokens) = auth {
                options.tokens = Some(tokens);
            }
            http::run(server, listener, options, stopped).await
        },
    )
    .await
}

/// The URL of the server without a path: `server.public_url`, or the listening address.
fn base_url(settings: &Settings, endpoint: &Door) -> Result<String, Error> {
    match &*settings.config.server.public_url {
        "" => endpoint.url(),
        url => Ok(url.trim_end_matches('/').to_owned()),
    }
}

/// The web origin of `server.public_url`.
fn public_origin(url: &str) -> Option<String> {
    let origin = url::Url::parse(url).ok()?.origin();
    origin.is_tuple().then(|| origin.ascii_serialization())
}

/// The HTTP options from the settings. Raises the limit of open files.
fn http_options(settings: &Settings, metrics: Arc<Metrics>) -> HttpOptions {
    let config = &settings.config.server;
    let mut options = HttpOptions::default();
    options.allowed_hosts.clone_from(&config.allowed_hosts);
    options.allowed_origins.clone_from(&config.allowed_origins);
    options.allowed_origins.extend(public_origin(&config.public_url));
    options.metrics = metrics;
    options.drain = Duration::from_secs(config.drain_seconds);
    descriptors::raise();
    options.connections = descriptors::for_clients();
    options
}

/// Runs a server until SIGTERM, SIGINT or SIGHUP, then flushes traces.
async fn serve_until_signal(
    endpoint: Door,
    #[cfg_attr(not(feature = "otel"), expect(unused_mut))] mut options: HttpOptions,
    run: impl AsyncFnOnce(Door, HttpOptions, StopSignal) -> io::Result<()>,
) -> Result<Status, Error> {
    #[cfg(feature = "otel")]
    let traces = Traces::from_env();
    #[cfg(feature = "otel")]
    {
        options.tracer = traces.as_ref().map(Traces::tracer);
    }

    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]);
    let mut signals = signals.map_err(|error| Error::failure(format!("signals: {error}")))?;
    let (stop, stopped) = http::stop_channel();
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            stop.now();
        }
    });
    endpoint.announce(&[("MCP", "/mcp"), ("an API", "/v1")])?;
    let place = endpoint.place()?;
    let result = run(endpoint, options, stopped).await;
    #[cfg(feature = "otel")]
    if let Some(traces) = traces {
        traces.finish();
    }
    result.map_err(|error| Error::failure(format!("{place}: {error}")))?;
    Ok(Status::Success)
}
