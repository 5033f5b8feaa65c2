//! Listen: the proxy for clients that come over HTTP.

use std::{sync::mpsc::Receiver, thread};

use lro_http::{Guard, stop};
use lro_proxy::{
    Relay,
    downstream::http::{self, Behind},
    session::EndReason,
    upstream::stdio::Process,
};

use super::{OffloadStack, Server, program};
use crate::{
    access::{Auth, Door, descriptors},
    error::{Error, Status},
    settings::Settings,
};

pub(super) fn run(
    address: &str,
    relay: Relay,
    server: Server<'_>,
    keep: &OffloadStack,
    settings: &Settings,
    ended: Receiver<EndReason>,
) -> Result<Status, Error> {
    let config = &settings.config.server;
    let door = Door::open(address, settings)?;
    let place = door.place()?;
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
    let (stop, stopped) = stop();
    thread::spawn(move || {
        if ended.recv().is_ok() {
            stop.now();
        }
    });
    keep.clean(settings);
    if let Auth::Principals(_) = door.auth {
        return Err(Error::usage("server.auth: keys and oauth are for `atlatl serve`")
            .with_hint("server.auth=token-file:PATH"));
    }
    door.announce(&[("MCP", "/mcp")])?;
    let tokens = match door.auth {
        Auth::Tokens(tokens) => Some(tokens),
        Auth::SameUser | Auth::Principals(_) => None,
    };
    let guard = Guard {
        hosts: config.allowed_hosts.clone(),
        origins: config.allowed_origins.clone(),
        tokens,
    };
    http::run(relay, behind, door.listener, guard, descriptors::for_clients(), stopped)
        .map_err(|error| Error::failure(format!("{place}: {error}")))?;
    Ok(Status::Success)
}
