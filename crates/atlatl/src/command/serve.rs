//! `atlatl serve`: builds the memory server from the settings, and runs it on stdio or over HTTP.

mod dependencies;
pub(crate) mod events;
mod log;
mod tenants;
#[cfg(feature = "otel")]
mod traces;
mod usage;

use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use atlatl_memory::{MemoryStore, Postgres};
use atlatl_server::event::EventBus;
use atlatl_server::http::{HttpOptions, Metrics, PoolUse, StopSignal};
use atlatl_server::{MemoryServer, MemoryServerConfig, SignedLinks, http, stdio};
use lro::IdSeed;
use lro_core::config::ProxyTools;
use lro_core::{O200k, tokens};
use lro_http::Listener;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::events::{AuditLog, EventFanOut};
use self::log::Log;
#[cfg(feature = "otel")]
use self::traces::Traces;
use super::proxy::OffloadStack;
use crate::access::{self, Auth, Door, descriptors};
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
                tenants::serve_tenants(&settings, sources, &principals, endpoint).await
            }
            (endpoint, _) => serve_single_tenant(&settings, sources, endpoint).await,
        }
    })?
}

/// Serves the memories of one tenant.
async fn serve_single_tenant(
    settings: &Settings,
    sources: Sources,
    endpoint: Option<Door>,
) -> Result<Status, Error> {
    let metrics = Arc::new(Metrics::default());
    let runtime = match &endpoint {
        Some(_) => Some(HttpRuntime::start(settings, sources)?),
        None => None,
    };
    let postgresql = memory_config::is_postgres(settings).then(|| dependencies::database(&metrics));
    let transactions = postgresql.clone().map(dependencies::transactions);
    let (store, database) = memory_config::open_for_server(settings, transactions).await?;
    if let Some(database) = database {
        sample_pool(&metrics, database);
    }
    let (mut offload, links) = open_offload_stack(settings, endpoint.as_ref(), &store, &metrics)?;
    let mut ledger = EventFanOut::new(offload.events());
    if endpoint.is_some() {
        ledger = ledger.logged();
    }
    let mut events =
        EventBus::new(IdSeed::from_system).with(Arc::new(ledger)).with(Arc::clone(&metrics) as _);
    // On stdio there is no authentication to audit.
    if endpoint.is_some()
        && let Some(audit) = AuditLog::open(&settings.config.server.audit)?
    {
        events = events.with(Arc::new(audit));
    }
    offload.tell(Arc::new(events.clone()));
    let mut server_config = server_config(settings, store, events);
    let embedder = memory_config::server_embedder(settings)?;
    server_config.embedder =
        embedder.map(|embedder| dependencies::ReportedEmbedder::wrap(embedder, &metrics));
    server_config.backfill =
        server_config.embedder.as_ref().and_then(|one| memory_config::start_backfill(one, 1));
    add_offloading(&mut server_config, settings, &offload);
    server_config.links.clone_from(&links);
    server_config.cleanup = links.is_some().then(|| OffloadStack::interval(settings));
    let server = MemoryServer::new(server_config).await;
    offload.clean(settings);
    let _maintenance = server.start_maintenance();
    match endpoint.zip(runtime) {
        None => {
            stdio::serve(&server, io::stdin(), io::stdout()).await;
            Ok(Status::Success)
        }
        Some((endpoint, runtime)) => {
            let mut options = http_options(settings, metrics);
            options.database = postgresql;
            serve_http(endpoint, runtime, options, settings, &offload, links, server).await
        }
    }
}

/// Measures the connections to the database whenever metrics are read.
fn sample_pool(metrics: &Metrics, database: Postgres) {
    metrics.add_sampler(move |metrics| {
        let status = database.pool_status();
        let [max, open, in_use, waiting] =
            [status.max, status.open, status.in_use, status.waiting].map(|n| n as u64);
        metrics.set_pool(PoolUse::new(max, open, in_use, waiting));
    });
}

/// Opens the storage for large results. Over HTTP, unless clients share the file system, it is the
/// object store, if one is configured, with signed links for the clients.
fn open_offload_stack(
    settings: &Settings,
    endpoint: Option<&Door>,
    store: &Arc<dyn MemoryStore>,
    metrics: &Arc<Metrics>,
) -> Result<(OffloadStack, Option<Arc<SignedLinks>>), Error> {
    let config = &settings.config;
    let endpoint = endpoint.filter(|_| !config.prompt.offload.shared_filesystem);
    let shared = endpoint
        .map(|endpoint| {
            let requests = (!config.spool.url.is_empty()).then(|| dependencies::bucket(metrics));
            Ok::<_, Error>((endpoint, open_object_spool(settings, requests)?))
        })
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
    runtime: HttpRuntime,
    mut options: HttpOptions,
    settings: &Settings,
    offload: &OffloadStack,
    links: Option<Arc<SignedLinks>>,
    server: MemoryServer,
) -> Result<Status, Error> {
    let tenant = &settings.config.memory.tenant;
    if atlatl_server::auth::is_tenant(tenant) {
        options.tenant.clone_from(tenant);
    }
    options.spools = Some(offload.spools());
    options.links = links;
    let tokens = match &endpoint.auth {
        Auth::Tokens(tokens) => Some(tokens.clone()),
        Auth::SameUser | Auth::Principals(_) => None,
    };
    let reload = move |settings: &Settings| match (&tokens, access::read_tokens(settings)?) {
        (Some(tokens), Some(new)) => {
            tokens.replace(&new);
            Ok(())
        }
        _ => Ok(()),
    };
    runtime
        .serve_until_signal(
            endpoint,
            options,
            reload,
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

/// What an HTTP server has in addition to its tenants: the log, traces, the admin listener and signals.
struct HttpRuntime {
    settings: Settings,
    sources: Sources,
    log: Log,
    admin: Option<Listener>,
    #[cfg(feature = "otel")]
    traces: Option<Traces>,
}

impl HttpRuntime {
    /// Binds the admin listener, and starts the log.
    fn start(settings: &Settings, sources: Sources) -> Result<Self, Error> {
        let admin = access::listen_for_admin(settings)?;
        #[cfg(feature = "otel")]
        let traces = Traces::from_env();
        #[cfg(feature = "otel")]
        let log = {
            let tracer = traces.as_ref().map(Traces::tracer);
            Log::start(&settings.config, tracer.as_ref())?
        };
        #[cfg(not(feature = "otel"))]
        let log = Log::start(&settings.config, std::marker::PhantomData)?;
        let settings = settings.clone();
        Ok(Self {
            settings,
            sources,
            log,
            admin,
            #[cfg(feature = "otel")]
            traces,
        })
    }

    /// Runs a server until SIGTERM or SIGINT, then flushes traces. SIGHUP reads the configuration again:
    /// the level of the log changes, and `reload` does its part.
    async fn serve_until_signal(
        mut self,
        endpoint: Door,
        mut options: HttpOptions,
        reload: impl Fn(&Settings) -> Result<(), Error> + Send + 'static,
        run: impl AsyncFnOnce(Door, HttpOptions, StopSignal) -> io::Result<()>,
    ) -> Result<Status, Error> {
        #[cfg(feature = "otel")]
        if self.traces.is_some() {
            options.set_parent = Some(traces::set_parent);
        }
        options.version = env!("CARGO_PKG_VERSION");
        let place = endpoint.place()?;
        self.announce(&endpoint, &place)?;
        options.admin = self.admin.take();
        let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]);
        let mut signals = signals.map_err(|error| Error::failure(format!("signals: {error}")))?;
        let (stop, stopped) = http::stop_channel();
        let (log, sources) = (self.log, self.sources);
        thread::spawn(move || {
            for signal in signals.forever() {
                if signal != SIGHUP {
                    tracing::info!(signal, "received a signal to stop");
                    stop.now();
                    return;
                }
                let reloaded = Settings::load(&sources).map_err(Error::from).and_then(|settings| {
                    log.reload(&settings.config)?;
                    reload(&settings)
                });
                match reloaded {
                    Ok(()) => tracing::info!("reloaded tokens, keys and log level"),
                    Err(error) => {
                        let why = error.message();
                        tracing::error!(error = why, "cannot reload: the previous values stay");
                    }
                }
            }
        });
        let result = run(endpoint, options, stopped).await;
        tracing::info!("stopped");
        #[cfg(feature = "otel")]
        if let Some(traces) = self.traces {
            traces.finish();
        }
        result.map_err(|error| Error::failure(format!("{place}: {error}")))?;
        Ok(Status::Success)
    }

    /// Says where the server listens, and how it is configured, without secrets.
    fn announce(&self, endpoint: &Door, place: &str) -> Result<(), Error> {
        let config = &self.settings.config;
        let admin = match &self.admin {
            Some(Listener::Tcp(listener)) => {
                let address = listener.local_addr();
                address.map(|address| format!("http://{address}")).unwrap_or_default()
            }
            Some(Listener::Unix(socket)) => {
                format!("{}{}", lro_http::UNIX_PREFIX, socket.path().display())
            }
            None => String::new(),
        };
        endpoint.announce(&[("MCP", "/mcp"), ("an API", "/v1")])?;
        let scheme = |url: &str| url.split(':').next().unwrap_or_default().to_owned();
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            listen = place,
            admin,
            auth = endpoint.auth.name(),
            store =
                if config.memory.store.starts_with("postgres:") { "postgresql" } else { "sqlite" },
            object_storage = scheme(&config.spool.url),
            embedder = scheme(&config.memory.embedder),
            connections = config.memory.connections,
            drain_seconds = config.server.drain_seconds,
            audit = !config.server.audit.is_empty(),
            "started"
        );
        Ok(())
    }
}
