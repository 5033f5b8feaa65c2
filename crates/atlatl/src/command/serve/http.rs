//! Over HTTP: where to listen, who may ask, and when to stop.

use std::{path::Path, sync::Arc, thread};

use atlatl_server::{
    MemoryServer,
    http::{self, BearerTokens, HttpOptions, ListenError, Metrics},
};
use lro::Moment;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{
    command::proxy::Keep,
    error::{Error, Status, with_causes},
    output::Output,
    settings::Settings,
};

/// What `server.auth` begins with.
const TOKEN_FILE: &str = "token-file:";

pub(super) fn run(
    settings: &Settings,
    keep: &Keep,
    server: MemoryServer,
    metrics: Arc<Metrics>,
) -> Result<Status, Error> {
    let config = &settings.config.server;
    let tokens = tokens(&config.auth)?;
    let listener = http::listen(&config.listen, tokens.is_some()).map_err(|error| {
        let failure = Error::failure(with_causes(&error));
        match error {
            ListenError::OpenToAll { .. } => failure.with_hint(
                "Listen on 127.0.0.1, or name a file with a token: \
                 --set server.auth=token-file:PATH",
            ),
            _ => failure,
        }
    })?;
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

/// Who may ask, by `server.auth`.
fn tokens(auth: &str) -> Result<Option<BearerTokens>, Error> {
    if auth.is_empty() {
        return Ok(None);
    }
    // Not the value: it may be a token that was put in the wrong place.
    let Some(path) = auth.strip_prefix(TOKEN_FILE) else {
        return Err(Error::usage("server.auth: expected token-file:PATH")
            .with_hint("The file has one token a line, and is its owner's alone (chmod 600)."));
    };
    let mut key = [0; 32];
    for half in key.chunks_mut(16) {
        half.copy_from_slice(&Moment::of_system().random.to_be_bytes());
    }
    let tokens = BearerTokens::read(Path::new(path), key);
    tokens.map(Some).map_err(|error| Error::failure(with_causes(&error)))
}
