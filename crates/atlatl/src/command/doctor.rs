//! `atlatl doctor`: what makes it fail here, and what to do about it.

mod clients;
mod clock;
mod configuration;
mod directory;
mod embedder;
mod expand;
mod extraction;
mod finding;
mod fix;
mod http;
mod installs;
mod ledger;
mod logins;
mod memories;
mod names;
mod probe;
mod queries;
mod render;
mod search;
mod server;
mod servers;
mod sizes;
mod spool;
mod storage;
mod storage_key;

use self::{clients::Surroundings, finding::Group, render::Report};
use crate::{
    error::{Error, Status},
    output::{Mode, Output},
    settings::{Settings, Sources},
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl doctor
  atlatl doctor --all                   (what is right, too)
  atlatl doctor --no-start              (starts no server)
  atlatl doctor --output json | jq '.findings[].fix'";

/// What was typed behind `atlatl doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Say what is right, too
    #[arg(long)]
    all: bool,
    /// Start the servers of this project's files, too: the
    /// commands are the project's, not yours
    #[arg(long, conflicts_with = "no_start", verbatim_doc_comment)]
    project: bool,
    /// Do not start the servers behind the proxy
    #[arg(long)]
    no_start: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let groups = groups(args, sources)?;
    let report = Report::new(&groups);
    match output.mode() {
        Mode::Json => output.json(&report)?,
        Mode::Human => output.text(&render::text(&groups, args.all, sources.home()))?,
    }
    Ok(if report.has_faults() { Status::JsonRpcError } else { Status::Success })
}

fn groups(args: &Args, sources: &Sources) -> Result<Vec<Group>, Error> {
    let loaded = Settings::read(sources);
    let mut configuration = configuration::check(&loaded);
    // Where the configuration does not load, what depends on it is not looked at; the rest is.
    let (settings, whole) = match loaded {
        Ok(settings) => (settings, true),
        Err(_) => (Settings::read(&sources.without_values())?, false),
    };
    let here = Surroundings::new(&settings, sources);
    let (mut clients, servers) = clients::check(&settings, &here, sources, whole)?;
    installs::check(&settings, &mut clients);
    if !whole {
        configuration.skip("storage, memories, queries, HTTP", "fix the configuration first");
    }
    let mut groups = vec![configuration, clients];
    if args.no_start {
        let mut group = Group::new("servers");
        group.summary("not started (--no-start)");
        groups.push(group);
    } else {
        groups.push(servers::check(&servers, &here, sources, args.project)?);
    }
    if whole {
        let (storage, newest) = storage::check(&settings);
        groups.extend([storage, clock::check(&settings, newest)]);
    }
    groups.push(logins::check(&settings, &servers));
    if whole {
        groups.extend([memories::check(&settings), queries::check(&settings)]);
        groups.extend(http::check(&settings));
    }
    Ok(groups)
}
