//! `atlatl tenants`: who has memories in a team's database.

use std::{thread, time::Duration};

use atlatl_memory::{Bounds, ListedTenant};
use clap::Subcommand;
use serde_json::json;

use super::owner::{Owner, examples};
use crate::{
    error::{Error, Status},
    memory_config,
    output::{Mode, Output, Table, Waiting, counted, distance, grouped, printable},
};

pub(crate) const CREATE: &str = examples!(
    "  atlatl tenants create acme --as postgres://owner@127.0.0.1/memories\n",
    "  atlatl tenants create acme --memories 100000 --per-minute 600 --as …",
);

/// For how long a server may know a tenant that is gone, and a key, and some.
const FORGOTTEN: Duration = Duration::from_secs(45);

/// The commands below `atlatl tenants`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a tenant, or set what it may use
    ///
    /// One that is there keeps its memories and gets these bounds; a bound that is left
    /// out is none. Servers know of it within half a minute.
    #[command(verbatim_doc_comment, after_long_help = CREATE)]
    Create(Create),
    /// List tenants, with what they have and may use
    List {
        #[command(flatten)]
        owner: Owner,
    },
    /// Remove a tenant with its keys and all its memories
    ///
    /// Nothing of it can be brought back. Its keys open nothing after ten seconds; its
    /// memories are removed when no server knows it any more, half a minute later.
    /// Results in object storage go with the bucket's lifecycle rule.
    #[command(verbatim_doc_comment)]
    Remove(Remove),
}

/// What was typed behind `create`.
#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// Its name: 1 to 128 bytes
    name: String,
    /// At most so many memories
    #[arg(long, value_name = "N")]
    memories: Option<u64>,
    /// At most so many requests in a minute, of each server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    per_minute: Option<u32>,
    #[command(flatten)]
    owner: Owner,
}

/// What was typed behind `remove`.
#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// Its name
    name: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    owner: Owner,
}

/// Runs one of them.
pub(crate) fn run(command: &Command, output: &mut Output) -> Result<Status, Error> {
    match command {
        Command::Create(args) => create(args, output),
        Command::List { owner } => list(owner, output),
        Command::Remove(args) => remove(args, output),
    }
}

fn create(args: &Create, output: &mut Output) -> Result<Status, Error> {
    let bounds = Bounds { memories: args.memories, per_minute: args.per_minute };
    let new = args.owner.registry()?.put_tenant(&args.name, bounds).map_err(of_name)?;
    let name = printable(&args.name);
    match output.mode() {
        Mode::Json => output.json(&json!({
            "tenant": args.name,
            "made": new,
            "most_memories": args.memories,
            "per_minute": args.per_minute,
        }))?,
        Mode::Human if new => output.line(format!("made {name}"))?,
        Mode::Human => output.line(format!("{name} was there; {}", may_use(args)))?,
    }
    Ok(Status::Success)
}

/// What a tenant may use from now on.
fn may_use(args: &Create) -> String {
    let memories = args.memories.map_or_else(
        || "any number of memories".to_owned(),
        |most| format!("at most {}", counted(most, "memory", "memories")),
    );
    let requests = args.per_minute.map_or_else(
        || "any number of requests".to_owned(),
        |most| format!("at most {} a minute", counted(most.into(), "request", "requests")),
    );
    format!("from now on it has {memories} and {requests}")
}

/// What is wrong with a name is a matter of what was typed.
fn of_name(error: atlatl_memory::StoreError) -> Error {
    match error {
        atlatl_memory::StoreError::NotAStore { why, .. } => Error::usage(why),
        other => memory_config::of_database(other),
    }
}

fn list(owner: &Owner, output: &mut Output) -> Result<Status, Error> {
    let tenants = owner.registry()?.tenants().map_err(memory_config::of_database)?;
    match output.mode() {
        Mode::Json => {
            let of = |tenant: &ListedTenant| {
                json!({
                    "tenant": tenant.name,
                    "made": tenant.made.to_rfc3339(),
                    "memories": tenant.memories,
                    "keys": tenant.keys,
                    "most_memories": tenant.bounds.memories,
                    "per_minute": tenant.bounds.per_minute,
                })
            };
            output.json(&tenants.iter().map(of).collect::<Vec<_>>())?;
        }
        Mode::Human if tenants.is_empty() => output.note("there is no tenant yet"),
        Mode::Human => {
            let now = memory_config::moment().now;
            let bound = |most: Option<u64>| most.map_or_else(|| "–".to_owned(), grouped);
            let mut table =
                Table::new(["TENANT", "MADE", "MEMORIES", "AT MOST", "A MINUTE", "KEYS"]);
            for tenant in &tenants {
                table.row([
                    printable(&tenant.name).into_owned(),
                    distance(tenant.made, now),
                    grouped(tenant.memories),
                    bound(tenant.bounds.memories),
                    bound(tenant.bounds.per_minute.map(u64::from)),
                    grouped(tenant.keys),
                ]);
            }
            output.table(&table)?;
        }
    }
    Ok(Status::Success)
}

fn remove(args: &Remove, output: &mut Output) -> Result<Status, Error> {
    let name = printable(&args.name).into_owned();
    if !args.yes {
        let question = format!("Remove {name} with its keys and all its memories?");
        match output.confirmed(question)? {
            Some(true) => {}
            Some(false) => {
                output.note("nothing was changed");
                return Ok(Status::JsonRpcError);
            }
            None => {
                return Err(Error::usage("there is no terminal to ask on").with_hint("--yes"));
            }
        }
    }
    let registry = args.owner.registry()?;
    let listed = registry.retire_tenant(&args.name).map_err(of_name)?;
    if listed {
        let waiting =
            Waiting::start("waiting until no server knows it; if this is cut short, run it again");
        thread::sleep(FORGOTTEN);
        drop(waiting);
    }
    // Also where it was taken off the list before, and that was cut short here.
    let memories = registry.erase_tenant(&args.name).map_err(of_name)?;
    if !listed && memories == 0 {
        return Err(Error::failure(format!("there is no tenant {name}"))
            .with_hint("atlatl tenants list --as URL"));
    }
    match output.mode() {
        Mode::Json => {
            output.json(&json!({"tenant": args.name, "removed": true, "memories": memories}))?;
        }
        Mode::Human => output
            .line(format!("removed {name} and {}", counted(memories, "memory", "memories")))?,
    }
    Ok(Status::Success)
}
