//! Over HTTP: where to listen, who may ask, and when to stop.

use std::{io, sync::Arc, thread, time::Duration};

use atlatl_server::{
    MemoryServer, SignedLinks,
    http::{self, HttpOptions, Metrics, Stopped},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

#[cfg(feature = "otel")]
use super::traces::Traces;
use crate::{
    access::{Auth, Door, descriptors},
    command::proxy::OffloadStack,
    error::{Error, Status},
    settings::Settings,
};

/// Serves one tenant until the process is stopped.
pub(super) fn serve(
    door: Door,
    settings: &Settings,
    keep: &OffloadStack,
    links: Option<Arc<SignedLinks>>,
    server: MemoryServer,
    metrics: Arc<Metrics>,
) -> Result<Status, Error> {
    let mut options = options(settings, metrics);
    let tenant = &settings.config.memory.tenant;
    if atlatl_server::auth::is_tenant(tenant) {
        options.tenant.clone_from(tenant);
    }
    options.spools = Some(keep.spools());
    options.links = links;
    until_told(door, options, |Door { listener, auth, .. }, mut options, stopped| {
        if let Auth::Tokens(tokens) = auth {
            options.tokens = Some(tokens);
        }
        http::run(server, listener, options, stopped)
    })
}

/// Where clients reach it, without a path.
pub(super) fn base(settings: &Settings, door: &Door) -> Result<String, Error> {
    match &*settings.config.server.public_url {
        "" => door.url(),
        named => Ok(named.trim_end_matches('/').to_owned()),
    }
}

/// The origin of pages at `server.public_url`.
fn public_origin(url: &str) -> Option<String> {
    let origin = url::Url::parse(url).ok()?.origin();
    origin.is_tuple().then(|| origin.ascii_serialization())
}

pub(super) fn options(settings: &Settings, metrics: Arc<Metrics>) -> HttpOptions {
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

/// Serves until the process is told to end.
pub(super) fn until_told(
    door: Door,
    #[cfg_attr(not(feature = "otel"), expect(unused_mut))] mut options: HttpOptions,
    run: impl FnOnce(Door, HttpOptions, Stopped) -> io::Result<()>,
) -> Result<Status, Error> {
    #[cfg(feature = "otel")]
    let traces = Traces::of_environment();
    #[cfg(feature = "otel")]
    {
        options.tracer = traces.as_ref().map(Traces::tracer);
    }

    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]);
    let mut signals = signals.map_err(|error| Error::failure(format!("signals: {error}")))?;
    let (stop, stopped) = http::stop();
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            stop.now();
        }
    });
    door.announce(&[("MCP", "/mcp"), ("an API", "/v1")])?;
    let place = door.place()?;
    let served = run(door, options, stopped);
    #[cfg(feature = "otel")]
    if let Some(traces) = traces {
        traces.finish();
    }
    served.map_err(|error| Error::failure(format!("{place}: {error}")))?;
    Ok(Status::Success)
}
