//! Listen: the proxy for clients that come over HTTP.

use std::{sync::mpsc::Receiver, thread};

use lro_http::{Guard, stop};
use lro_proxy::{
    Relay,
    downstream::http::{self, Behind},
    session::End,
    upstream::stdio::Process,
};

use super::{Keep, Server, program};
use crate::{
    access::{self, descriptors},
    error::{Error, Status},
    output::Output,
    settings::Settings,
};

pub(super) fn run(
    address: &str,
    relay: Relay,
    server: Server<'_>,
    keep: &Keep,
    settings: &Settings,
    ended: Receiver<End>,
) -> Result<Status, Error> {
    let config = &settings.config.server;
    let tokens = access::tokens(&config.auth)?;
    let listener = access::listen(address, tokens.is_some())?;
    let address = listener.local_addr().map_err(|error| Error::failure(error.to_string()))?;
    let behind = match server {
        Server::Remote { remote, .. } => Behind::Remote(remote),
        Server::Command(command) => {
            let command = command.to_vec();
            program(&command)?;
            Behind::Process(Box::new(move || {
                let program = program(&command).map_err(|_| std::io::ErrorKind::InvalidInput)?;
                Process::start(program)
            }))
        }
    };
    let guard = Guard {
        hosts: config.allowed_hosts.clone(),
        origins: config.allowed_origins.clone(),
        tokens,
    };
    let (stop, stopped) = stop();
    thread::spawn(move || {
        if ended.recv().is_ok() {
            stop.now();
        }
    });
    keep.clean(settings);
    Output::remark(format_args!("serving MCP at http://{address}/mcp"));
    http::run(relay, behind, listener, guard, descriptors::for_clients(), stopped)
        .map_err(|error| Error::failure(format!("{address}: {error}")))?;
    Ok(Status::Success)
}
