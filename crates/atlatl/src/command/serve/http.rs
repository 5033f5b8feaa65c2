//! Over HTTP: where to listen, who may ask, and when to stop.

use std::{sync::Arc, thread};

use atlatl_server::{
    MemoryServer,
    http::{self, HttpOptions, Metrics},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{
    access,
    command::proxy::Keep,
    error::{Error, Status},
    output::Output,
    settings::Settings,
};

pub(super) fn run(
    settings: &Settings,
    keep: &Keep,
    server: MemoryServer,
    metrics: Arc<Metrics>,
) -> Result<Status, Error> {
    let config = &settings.config.server;
    let tokens = access::tokens(&config.auth)?;
    let listener = access::listen(&config.listen, tokens.is_some())?;
    let address = listener.local_addr().map_err(|error| Error::failure(error.to_string()))?;
    let mut options = HttpOptions::default();
    options.allowed_hosts.clone_from(&config.allowed_hosts);
    options.allowed_origins.clone_from(&config.allowed_origins);
    options.tokens = tokens;
    options.spools = Some(keep.spools());
    options.metrics = metrics;

    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]);
    let mut signals = signals.map_err(|error| Error::failure(format!("signals: {error}")))?;
    let (stop, stopped) = http::stop();
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            stop.now();
        }
    });
    keep.clean(settings);
    let house = server.keep_house().map_err(|error| Error::failure(error.to_string()))?;
    Output::remark(format_args!(
        "serving MCP at http://{address}/mcp and an API at http://{address}/v1"
    ));
    let served = http::run(server, listener, options, stopped);
    std::mem::forget(house);
    served.map_err(|error| Error::failure(format!("{address}: {error}")))?;
    Ok(Status::Success)
}
