//! Over HTTP: where to listen, who may ask, and when to stop.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread,
    time::Duration,
};

use atlatl_server::{
    MemoryServer, SignedLinks,
    http::{self, BearerTokens, HttpOptions, Metrics},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

#[cfg(feature = "otel")]
use super::traces::Traces;
use crate::{
    access,
    command::proxy::Keep,
    error::{Error, Status},
    output::Output,
    settings::Settings,
};

/// Where it is reached over HTTP: the port is ours.
pub(super) struct Door {
    listener: TcpListener,
    address: SocketAddr,
    tokens: Option<BearerTokens>,
}

impl Door {
    pub(super) fn open(settings: &Settings) -> Result<Self, Error> {
        let config = &settings.config.server;
        let tokens = access::tokens(&config.auth)?;
        let listener = access::listen(&config.listen, tokens.is_some())?;
        let address = listener.local_addr().map_err(|error| Error::failure(error.to_string()))?;
        Ok(Self { listener, address, tokens })
    }

    /// Where it is reached from this machine.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
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
        let (config, url) = (&settings.config.server, self.url());
        let mut options = HttpOptions::default();
        options.allowed_hosts.clone_from(&config.allowed_hosts);
        options.allowed_origins.clone_from(&config.allowed_origins);
        options.tokens = self.tokens;
        options.spools = Some(keep.spools());
        options.links = links;
        options.metrics = metrics;
        options.drain = Duration::from_secs(config.drain_seconds);

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
        let served = http::run(server, self.listener, options, stopped);
        #[cfg(feature = "otel")]
        if let Some(traces) = traces {
            traces.finish();
        }
        served.map_err(|error| Error::failure(format!("{}: {error}", self.address)))?;
        Ok(Status::Success)
    }
}
