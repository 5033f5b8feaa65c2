//! `atlatl tenants`: the tenants of a team's database.

use std::time::Duration;

use atlatl_memory::{PasswordSource, Registry, StoreError, TenantLimits, TenantSummary};
use clap::Subcommand;
use serde_json::json;

use crate::command::runtime;
use crate::error::{Error, Status};
use crate::memory_config::{self, database_error, invalid_url, postgres_options};
use crate::output::{Mode, Output, Spinner, Table, distance, grouped, pluralize, printable};

/// Examples for the long help of a command that runs as the owner of the schema.
macro_rules! examples {
    ($($text:literal),* $(,)?) => {
        concat!(
            "A URL without a password uses $PGPASSWORD.\n\nExamples:\n",
            $($text),*
        )
    };
}
pub(crate) use examples;

/// Examples for the long help of `atlatl tenants create`.
const CREATE_EXAMPLES: &str = examples!(
    "  atlatl tenants create acme --as postgres://owner@127.0.0.1/memories\n",
    "  atlatl tenants create acme --memories 100000 --per-minute 600 --as …",
);

/// How long servers may use a removed tenant or key from their caches, with some margin.
const TENANT_CACHE_EXPIRY: Duration = Duration::from_secs(45);

/// The subcommands of `atlatl tenants`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a tenant, or change its limits
    ///
    /// An existing tenant keeps its memories and gets the new limits; an omitted
    /// limit is removed. The change reaches all servers within 30 seconds.
    #[command(verbatim_doc_comment, after_long_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// List tenants with their usage and limits
    List {
        #[command(flatten)]
        owner: SchemaOwner,
    },
    /// Remove a tenant with its keys and all its memories
    ///
    /// This cannot be undone. Servers reject its keys within ten seconds; its memories
    /// are removed after 45 seconds, when no server has it in its cache.
    /// Results in object storage are removed by the lifecycle rule of the bucket.
    #[command(verbatim_doc_comment)]
    Remove(RemoveArgs),
}

/// Arguments of `atlatl tenants create`.
#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// Name of the tenant, 1 to 128 bytes
    name: String,
    /// Maximum number of memories
    #[arg(long, value_name = "N")]
    memories: Option<u64>,
    /// Maximum number of requests per minute and server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    per_minute: Option<u32>,
    #[command(flatten)]
    owner: SchemaOwner,
}

/// Arguments of `atlatl tenants remove`.
#[derive(Debug, clap::Args)]
pub(crate) struct RemoveArgs {
    /// Name of the tenant
    name: String,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    owner: SchemaOwner,
}

/// The owner of the schema, as whom a command runs.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaOwner {
    /// Database URL with the user who owns the schema
    #[arg(long = "as", value_name = "URL")]
    url: String,
    /// Allow an unencrypted connection to another machine
    #[arg(long, verbatim_doc_comment)]
    allow_plain: bool,
}

impl SchemaOwner {
    /// Opens the registry of tenants and keys.
    pub(crate) async fn registry(&self) -> Result<Registry, Error> {
        let plain_text = memory_config::plain_text(self.allow_plain);
        let options = postgres_options(&self.url, plain_text, PasswordSource::None)
            .map_err(|error| invalid_url("--as", &error, "--allow-plain"))?;
        Registry::open(&options).await.map_err(database_error)
    }
}

/// Runs a subcommand.
pub(crate) fn run(command: &Command, output: &mut Output) -> Result<Status, Error> {
    runtime::block_on(async {
        match command {
            Command::Create(args) => create(args, output).await,
            Command::List { owner } => list(owner, output).await,
            Command::Remove(args) => remove(args, output).await,
        }
    })?
}

async fn create(args: &CreateArgs, output: &mut Output) -> Result<Status, Error> {
    let bounds = TenantLimits { memories: args.memories, per_minute: args.per_minute };
    let new = args.owner.registry().await?.put_tenant(&args.name, bounds).await;
    let new = new.map_err(tenant_error)?;
    let name = printable(&args.name);
    match output.mode() {
        Mode::Json => output.json(&json!({
            "tenant": args.name,
            "made": new,
            "most_memories": args.memories,
            "per_minute": args.per_minute,
        }))?,
        Mode::Human if new => output.line(format!("made {name}"))?,
        Mode::Human => output.line(format!("{name} already existed; {}", describe_limits(args)))?,
    }
    Ok(Status::Success)
}

/// The limits of a tenant as text.
fn describe_limits(args: &CreateArgs) -> String {
    let memories = args.memories.map_or_else(
        || "any number of memories".to_owned(),
        |most| format!("at most {}", pluralize(most, "memory", "memories")),
    );
    let requests = args.per_minute.map_or_else(
        || "any number of requests".to_owned(),
        |most| format!("at most {} a minute", pluralize(most.into(), "request", "requests")),
    );
    format!("its limits are {memories} and {requests}")
}

/// An error of the database. An invalid tenant name is an error of the command line.
fn tenant_error(error: StoreError) -> Error {
    match error {
        StoreError::NotAStore { why, .. } => Error::usage(why),
        other => database_error(other),
    }
}

async fn list(owner: &SchemaOwner, output: &mut Output) -> Result<Status, Error> {
    let tenants = owner.registry().await?.tenants().await.map_err(database_error)?;
    match output.mode() {
        Mode::Json => {
            let to_json = |tenant: &TenantSummary| {
                json!({
                    "tenant": tenant.name,
                    "made": tenant.made.to_rfc3339(),
                    "memories": tenant.memories,
                    "keys": tenant.keys,
                    "most_memories": tenant.bounds.memories,
                    "per_minute": tenant.bounds.per_minute,
                })
            };
            output.json(&tenants.iter().map(to_json).collect::<Vec<_>>())?;
        }
        Mode::Human if tenants.is_empty() => output.note("no tenants"),
        Mode::Human => {
            let now = memory_config::moment().now;
            let limit = |most: Option<u64>| most.map_or_else(|| "–".to_owned(), grouped);
            let mut table =
                Table::new(["TENANT", "MADE", "MEMORIES", "AT MOST", "A MINUTE", "KEYS"]);
            for tenant in &tenants {
                table.row([
                    printable(&tenant.name).into_owned(),
                    distance(tenant.made, now),
                    grouped(tenant.memories),
                    limit(tenant.bounds.memories),
                    limit(tenant.bounds.per_minute.map(u64::from)),
                    grouped(tenant.keys),
                ]);
            }
            output.table(&table)?;
        }
    }
    Ok(Status::Success)
}

async fn remove(args: &RemoveArgs, output: &mut Output) -> Result<Status, Error> {
    let name = printable(&args.name).into_owned();
    if !args.yes {
        let question = format!("Remove {name} with its keys and all its memories?");
        match output.confirmed(question)? {
            Some(true) => {}
            Some(false) => {
                output.note("nothing was changed");
                return Ok(Status::Failure);
            }
            None => {
                return Err(
                    Error::usage("cannot ask for confirmation: not a terminal").with_hint("--yes")
                );
            }
        }
    }
    let registry = args.owner.registry().await?;
    let was_listed = registry.retire_tenant(&args.name).await.map_err(tenant_error)?;
    if was_listed {
        let spinner = Spinner::start(
            "waiting until no server has it in its cache; if interrupted, run the command again",
        );
        tokio::time::sleep(TENANT_CACHE_EXPIRY).await;
        drop(spinner);
    }
    // Also if an earlier run retired the tenant and was interrupted here.
    let memories = registry.erase_tenant(&args.name).await.map_err(tenant_error)?;
    if !was_listed && memories == 0 {
        return Err(Error::failure(format!("there is no tenant {name}"))
            .with_hint("atlatl tenants list --as URL"));
    }
    match output.mode() {
        Mode::Json => {
            output.json(&json!({"tenant": args.name, "removed": true, "memories": memories}))?;
        }
        Mode::Human => output
            .line(format!("removed {name} and {}", pluralize(memories, "memory", "memories")))?,
    }
    Ok(Status::Success)
}
