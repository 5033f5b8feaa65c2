//! Balancer: `HAProxy`, which sends each request to the next server that says it is ready.
//!
//! It tries nothing twice: a client must learn of every request that failed, a write above all.

use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result};

use super::process::{Service, User};
use super::replica;
use super::state::{State, text};

/// The configuration's name in the cluster's directory.
const FILE: &str = "haproxy.cfg";

/// Writes the configuration.
pub(super) fn make(state: &State) -> Result<()> {
    let ports: Vec<u16> = state.replicas.iter().map(|member| member.port).collect();
    fs::write(state.dir.join(FILE), configuration(state.balancer.port, &ports))
        .context("the balancer's configuration")
}

fn configuration(port: u16, replicas: &[u16]) -> String {
    let mut text = format!(
        "global
    maxconn 4096

defaults
    mode http
    timeout connect 1s
    timeout client 20s
    timeout server 10s
    timeout queue 1s
    timeout check 1s
    timeout http-request 5s
    timeout http-keep-alive 20s
    retries 0
    no option redispatch

frontend clients
    bind 127.0.0.1:{port}
    default_backend servers

backend servers
    balance roundrobin
    option httpchk
    http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host 127.0.0.1
    http-check expect status 200
    default-server check inter 200ms fastinter 200ms downinter 200ms fall 1 rise 1
"
    );
    for (number, port) in replicas.iter().enumerate() {
        let _ = writeln!(text, "    server {} 127.0.0.1:{port}", replica::name(number));
    }
    text
}

pub(super) fn service(state: &State) -> Result<Service> {
    let args = ["-db".to_owned(), "-f".to_owned(), text(&state.dir.join(FILE))?];
    Ok(Service {
        name: "balancer".to_owned(),
        program: state.programs.balancer.clone(),
        args: args.into(),
        env: Vec::new(),
        end: "TERM",
        user: User::Ours,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_asked_whether_it_is_ready_and_nothing_is_tried_twice() {
        let text = configuration(21_002, &[21_003, 21_004]);
        assert!(text.contains("\n    bind 127.0.0.1:21002\n"), "{text}");
        assert!(text.ends_with(
            "rise 1\n    server server-1 127.0.0.1:21003\n    server server-2 127.0.0.1:21004\n"
        ));
        assert!(text.contains("\n    retries 0\n    no option redispatch\n"), "{text}");
    }
}
