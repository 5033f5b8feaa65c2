//! Replica: one of the equal servers, and the configuration that all of them share.

use std::fs;

use anyhow::{Context, Result};

use super::http_client::{HttpClient, Request};
use super::postgres::{self, APP};
use super::process::{Service, User};
use super::s3::{self, BUCKET};
use super::state::{State, text};

/// The configuration's name in the cluster's directory.
const FILE: &str = "atlatl.toml";

/// Writes the configuration, and a home for each.
pub(super) fn make(state: &State) -> Result<()> {
    fs::write(state.dir.join(FILE), configuration(state)).context("the configuration")?;
    for number in 0..state.replicas.len() {
        fs::create_dir_all(home(state, number).join("tmp")).context("a home for a server")?;
    }
    Ok(())
}

fn configuration(state: &State) -> String {
    let (store, balancer) = (postgres::url(state, APP), state.balancer.port);
    format!(
        "[memory]\nstore = \"{store}\"\n\n\
         [spool]\nurl = \"s3://{BUCKET}/atlatl\"\n\n\
         [server]\nauth = \"keys\"\npublic_url = \"http://127.0.0.1:{balancer}\"\ndrain_seconds = 1\n"
    )
}

pub(super) fn service(state: &State, number: usize) -> Result<Service> {
    let port = state.replicas.get(number).context("a replica that is there")?.port;
    let home = home(state, number);
    let mut env = s3::variables(state);
    env.extend([("HOME", text(&home)?), ("TMPDIR", text(&home.join("tmp"))?)]);
    let listen = format!("127.0.0.1:{port}");
    let args = ["serve", "--http", &listen, "--config", &text(&state.dir.join(FILE))?];
    Ok(Service {
        name: name(number),
        program: state.programs.atlatl.clone(),
        args: args.map(str::to_owned).into(),
        env,
        end: "TERM",
        user: User::Ours,
    })
}

/// Whether a server at `port` says that it is ready.
pub(super) fn is_ready(port: u16, patience: std::time::Duration) -> bool {
    let answer = HttpClient::new(port, patience).send(&Request::get("/readyz"));
    answer.is_ok_and(|answer| answer.status == 200)
}

/// What a replica is called in logs and in the balancer's configuration.
pub(super) fn name(number: usize) -> String {
    format!("server-{}", number + 1)
}

fn home(state: &State, number: usize) -> std::path::PathBuf {
    state.dir.join(name(number))
}
