//! Over HTTP: where to listen, who may ask, and when to stop.

use std::{io, net::TcpListener, sync::Arc, thread, time::Duration};

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
    access::{self, Auth, descriptors},
    command::proxy::Keep,
    error::{Error, Status},
    output::Output,
    settings::Settings,
};

/// Where it is reached over HTTP, and by whom: the port is ours.
pub(super) struct Door {
    pub(super) listener: TcpListener,
    pub(super) access: Auth,
}

impl Door {
    pub(super) fn open(settings: &Settings) -> Result<Self, Error> {
        let config = &settings.config.server;
        let access = Auth::read(&config.auth)?;
        let listener = access::listen(&config.listen, !matches!(access, Auth::Anyone))?;
        Ok(Self { listener, access })
    }

    /// Answers until the process is told to end.
    pub(super) fn serve(
        self,
        settings: &Settings,
        keep: &Keep,
        links: Option<Arc<SignedLinks>>,
        server: MemoryServer,
        metrics: Arc<Metrics>,
    ) -> Result<Status, Error> {
        let mut options = options(settings, metrics);
        if let Auth::Tokens(tokens) = self.access {
            options.tokens = Some(tokens);
        }
        options.spools = Some(keep.spools());
        options.links = links;
        let (url, listener) = (url(&self.listener)?, self.listener);
        until_told(&url, options, |options, stopped| http::run(server, listener, options, stopped))
    }
}

/// Where a listener is reached from this machine.
pub(super) fn url(listener: &TcpListener) -> Result<String, Error> {
    let address = listener.local_addr().map_err(|error| Error::failure(error.to_string()))?;
    Ok(format!("http://{address}"))
}

/// Where clients reach it, without a path.
pub(super) fn base(settings: &Settings, listener: &TcpListener) -> Result<String, Error> {
    match &*settings.config.server.public_url {
        "" => url(listener),
        named => Ok(named.trim_end_matches('/').to_owned()),
    }
}

pub(super) fn options(settings: &Settings, metrics: Arc<Metrics>) -> HttpOptions {
    let config = &settings.config.server;
    let mut options = HttpOptions::default();
    options.allowed_hosts.clone_from(&config.allowed_hosts);
    options.allowed_origins.clone_from(&config.allowed_origins);
    options.metrics = metrics;
    options.drain = Duration::from_secs(config.drain_seconds);
    descriptors::raise();
    options.connections = descriptors::for_clients();
    options
}

/// Serves until the process is told to end.
pub(super) fn until_told(
    url: &str,
    #[cfg_attr(not(feature = "otel"), expect(unused_mut))] mut options: HttpOptions,
    run: impl FnOnce(HttpOptions, Stopped) -> io::Result<()>,
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
    Output::remark(format_args!("serving MCP at {url}/mcp and an API at {url}/v1"));
    let served = run(options, stopped);
    #[cfg(feature = "otel")]
    if let Some(traces) = traces {
        traces.finish();
    }
    served.map_err(|error| Error::failure(format!("{url}: {error}")))?;
    Ok(Status::Success)
}
