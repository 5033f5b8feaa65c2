//! `atlatl tenants`: the tenants of a team's database.

mod administration;
mod api;
mod client;
pub(crate) mod erasure;
mod resource;

use std::fmt::Write as _;
use std::time::Duration;

use atlatl_memory::{ErasureStep, TenantLimits};
use chrono::{DateTime, Utc};
use clap::Subcommand;
use serde_json::json;

pub(crate) use self::administration::{AdministrationArgs, KeyRequest, require_database};
use self::erasure::ResultStorage;
pub(crate) use self::resource::KeyResource;
use self::resource::{ErasureResource, TenantResource, UsageResource};
use crate::command::runtime;
use crate::error::{Error, Status};
use crate::memory_config;
use crate::output::{Mode, Output, Table, distance, grouped, pluralize, printable, size};
use crate::settings::{Settings, Sources};
use crate::spool_config::open_bucket;
use crate::units::{parse_bytes, parse_days};

/// Examples for the long help of a command that administers.
macro_rules! examples {
    ($($text:literal),* $(,)?) => {
        concat!(
            "A URL without a password uses $PGPASSWORD or the file in $PGPASSWORD_FILE. For\n",
            "the URL of `atlatl tenants serve`, $ATLATL_ADMIN_KEY has the key, or the file in\n",
            "$ATLATL_ADMIN_KEY_FILE.\n\nExamples:\n",
            $($text),*
        )
    };
}
pub(crate) use examples;

/// Examples for the long help of `atlatl tenants create`.
const CREATE_EXAMPLES: &str = examples!(
    "  atlatl tenants create acme --as postgres://owner@127.0.0.1/memories\n",
    "  atlatl tenants create acme --memories 100000 --per-minute 600 --as …\n",
    "  atlatl tenants create acme --bytes 2GB --retention 365d \\\n",
    "    --as https://admin.example.org",
);

/// Examples for the long help of `atlatl tenants erase`.
const ERASE_EXAMPLES: &str = examples!(
    "  atlatl tenants erase acme --subject key:6Yc0Wd4kTzq1bX2n --as …\n",
    "  atlatl tenants erase acme --subject ann@example.org --as …",
);

/// Examples for the long help of `atlatl tenants serve`.
const SERVE_EXAMPLES: &str = "\
A URL without a password uses $PGPASSWORD or the file in $PGPASSWORD_FILE.

Examples:
  atlatl tenants serve --http 127.0.0.1:7180 --keys admin-keys \\
    --as postgres://memories_admin@127.0.0.1/memories
  atlatl tenants serve --http 127.0.0.1:7180 --keys admin-keys --as … \\
    --export --set memory.store=postgres://atlatl@127.0.0.1/memories";

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
        administration: AdministrationArgs,
    },
    /// Show what tenants used by day
    ///
    /// Requests and database time are those of all servers, which write them every 30
    /// seconds. Memories and bytes are measured about once an hour. Days are in UTC.
    #[command(verbatim_doc_comment)]
    Usage {
        /// Show only this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// Number of days, at most 400
        #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=400))]
        days: u16,
        #[command(flatten)]
        administration: AdministrationArgs,
    },
    /// Remove a tenant with its keys, memories and stored results
    ///
    /// This cannot be undone. Servers reject its keys within ten seconds; its memories
    /// are erased after 45 seconds, when no server has it in its cache, in batches that
    /// leave the database to others. If the command is interrupted, the servers go on;
    /// so does the same command. `atlatl tenants erasures` shows the progress. Results
    /// in object storage are erased if `spool.url` is set here, otherwise by the
    /// servers. Over the administration API, the servers erase everything.
    #[command(verbatim_doc_comment)]
    Remove(RemoveArgs),
    /// Erase what one principal of a tenant wrote
    ///
    /// This cannot be undone. A principal is a key (`key:ID`) or the subject of a login
    /// (`ISSUER:SUBJECT` with `server.issuers`, otherwise the claim `sub`), as the audit
    /// log names it. Erased are all memories of which it wrote any version until now,
    /// and all stored results of the tenant, since they may contain them; its keys
    /// stay. Imports, and memories that were stored before schema version 8, have no
    /// author. It works as `atlatl tenants remove`.
    #[command(verbatim_doc_comment, after_long_help = ERASE_EXAMPLES)]
    Erase(EraseArgs),
    /// Serve administration over HTTP, for programs
    ///
    /// Tenants, keys, usage and erasures as JSON under /v1, with the keys of a file. The
    /// commands of `tenants` and `keys` use it with `--as URL`. The process works on
    /// no erasure itself: the servers do. Let no client reach it, and connect it as the
    /// role of `atlatl db migrate --admin-role`, which reads no memories. With --export
    /// it can also export them, as the role in `memory.store`.
    #[command(verbatim_doc_comment, after_long_help = SERVE_EXAMPLES)]
    Serve(api::ServeArgs),
    /// List erasures with their progress, and those that are complete
    Erasures {
        /// List only the erasures of this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        #[command(flatten)]
        administration: AdministrationArgs,
    },
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
    /// Maximum size of all memories as JSON, such as 500MB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    bytes: Option<u64>,
    /// Delete memories that were not changed for this time
    #[arg(long, value_name = "TIME", value_parser = parse_retention)]
    retention: Option<u16>,
    #[command(flatten)]
    administration: AdministrationArgs,
}

/// Arguments of `atlatl tenants remove`.
#[derive(Debug, clap::Args)]
pub(crate) struct RemoveArgs {
    /// Name of the tenant
    name: String,
    #[command(flatten)]
    how: ErasureArgs,
}

/// Arguments of `atlatl tenants erase`.
#[derive(Debug, clap::Args)]
pub(crate) struct EraseArgs {
    /// Name of the tenant
    name: String,
    /// Principal whose memories are erased
    #[arg(long, value_name = "SUBJECT")]
    subject: String,
    #[command(flatten)]
    how: ErasureArgs,
}

/// Arguments of every erasure.
#[derive(Debug, clap::Args)]
pub(crate) struct ErasureArgs {
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Do not wait: the servers erase
    #[arg(long)]
    detach: bool,
    /// Erase no results: servers store none in object
    /// storage
    #[arg(long, verbatim_doc_comment)]
    no_results: bool,
    #[command(flatten)]
    administration: AdministrationArgs,
}

/// Runs a subcommand.
pub(crate) fn run(
    command: &Command,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    runtime::block_on(async {
        match command {
            Command::Create(args) => create(args, output).await,
            Command::List { administration } => list(administration, output).await,
            Command::Usage { tenant, days, administration } => {
                usage(tenant.as_deref(), *days, administration, output).await
            }
            Command::Remove(RemoveArgs { name, how }) => {
                erase(name, None, how, sources, output).await
            }
            Command::Erase(EraseArgs { name, subject, how }) => {
                erase(name, Some(subject.as_str()), how, sources, output).await
            }
            Command::Serve(args) => api::serve(args, sources).await,
            Command::Erasures { tenant, administration } => {
                list_erasures(tenant.as_deref(), administration, output).await
            }
        }
    })?
}

async fn create(args: &CreateArgs, output: &mut Output) -> Result<Status, Error> {
    let limits = TenantLimits {
        memories: args.memories,
        per_minute: args.per_minute,
        bytes: args.bytes,
        retention_days: args.retention,
    };
    let new = args.administration.open().await?.put_tenant(&args.name, limits).await?;
    let name = printable(&args.name);
    match output.mode() {
        Mode::Json => output.json(&json!({
            "tenant": args.name,
            "made": new,
            "most_memories": args.memories,
            "per_minute": args.per_minute,
            "most_bytes": args.bytes,
            "retention_days": args.retention,
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
    let mut text = format!("its limits are {memories} and {requests}");
    // Writing to a String cannot fail.
    if let Some(most) = args.bytes {
        let _ = write!(text, ", at most {} of memories", size(most));
    }
    if let Some(days) = args.retention {
        let days = pluralize(days.into(), "day", "days");
        let _ = write!(text, ", kept for {days} after the last change");
    }
    text
}

/// Parses a retention. Part of a day counts as a day.
fn parse_retention(text: &str) -> Result<u16, String> {
    let days = parse_days(text)?.as_secs().div_ceil(24 * 60 * 60);
    u16::try_from(days).map_err(|_| format!("must be at most {}d", u16::MAX))
}

async fn list(administration: &AdministrationArgs, output: &mut Output) -> Result<Status, Error> {
    let tenants = administration.open().await?.tenants().await?;
    match output.mode() {
        Mode::Json => {
            output.json(&tenants.iter().map(TenantResource::to_json).collect::<Vec<_>>())?;
        }
        Mode::Human if tenants.is_empty() => output.note("no tenants"),
        Mode::Human => {
            let now = memory_config::moment().now;
            let limit = |most: Option<u64>| most.map_or_else(|| "–".to_owned(), grouped);
            let mut table =
                Table::new(["TENANT", "MADE", "MEMORIES", "AT MOST", "A MINUTE", "KEYS", "STATE"]);
            for tenant in &tenants {
                table.row([
                    printable(&tenant.name).into_owned(),
                    distance(tenant.made, now),
                    grouped(tenant.memories),
                    limit(tenant.most_memories),
                    limit(tenant.per_minute.map(u64::from)),
                    grouped(tenant.keys),
                    printable(&tenant.state).into_owned(),
                ]);
            }
            output.table(&table)?;
        }
    }
    Ok(Status::Success)
}

async fn usage(
    tenant: Option<&str>,
    days: u16,
    administration: &AdministrationArgs,
    output: &mut Output,
) -> Result<Status, Error> {
    let usage = administration.open().await?.usage(tenant, days).await?;
    match output.mode() {
        Mode::Json => {
            output.json(&usage.iter().map(UsageResource::to_json).collect::<Vec<_>>())?;
        }
        Mode::Human if usage.is_empty() => output.note("no tenant used anything"),
        Mode::Human => {
            let mut table =
                Table::new(["TENANT", "DAY", "REQUESTS", "DATABASE TIME", "MEMORIES", "SIZE"]);
            let unknown = || "–".to_owned();
            for day in &usage {
                table.row([
                    printable(&day.tenant).into_owned(),
                    day.day.to_string(),
                    grouped(day.requests),
                    format!("{} s", grouped(day.database_ms / 1000)),
                    day.memories.map_or_else(unknown, grouped),
                    day.bytes.map_or_else(unknown, size),
                ]);
            }
            output.table(&table)?;
        }
    }
    Ok(Status::Success)
}

/// Erases a tenant, or what one principal of it wrote.
async fn erase(
    tenant: &str,
    subject: Option<&str>,
    args: &ErasureArgs,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    let name = printable(tenant).into_owned();
    let question = match subject {
        None => format!("Remove {name} with its keys and all its memories?"),
        Some(subject) => {
            format!("Erase everything that {} wrote in {name}?", printable(subject))
        }
    };
    let storage = result_storage(args, sources)?;
    if !args.yes {
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
    let administration = args.administration.open().await?;
    let Some(begun) = administration.begin_erasure(tenant, subject).await? else {
        return Err(Error::failure(format!("there is no tenant {name}"))
            .with_hint("atlatl tenants list --as URL"));
    };
    let erasure =
        if args.detach { begun } else { administration.finish_erasure(begun, &storage).await? };
    match output.mode() {
        Mode::Json => {
            let mut json = erasure.to_json();
            json["removed"] = json!(erasure.step == ErasureStep::Complete);
            output.json(&json)?;
        }
        Mode::Human => print_outcome(&erasure, &name, output)?,
    }
    Ok(Status::Success)
}

/// Where the results are that an erasure erases.
fn result_storage(args: &ErasureArgs, sources: &Sources) -> Result<ResultStorage, Error> {
    if args.administration.is_api() {
        if args.no_results {
            return Err(Error::usage(
                "--no-results needs the database: over the administration API, servers erase results",
            )
            .with_hint("omit it: servers without object storage erase none"));
        }
        return Ok(ResultStorage::Elsewhere);
    }
    if args.no_results {
        return Ok(ResultStorage::None);
    }
    let bucket = open_bucket(&Settings::load(sources)?, None)?;
    Ok(bucket.map_or(ResultStorage::Elsewhere, ResultStorage::Bucket))
}

fn print_outcome(erasure: &ErasureResource, name: &str, output: &mut Output) -> Result<(), Error> {
    let memories = pluralize(erasure.memories, "memory", "memories");
    let results = pluralize(erasure.results, "stored result", "stored results");
    let what = match erasure.subject {
        None => format!("{name}, {memories} and {results}"),
        Some(_) => format!("{memories} and {results} of {name}"),
    };
    match erasure.step {
        ErasureStep::Complete if erasure.subject.is_none() => {
            output.line(format!("removed {what}"))?;
        }
        ErasureStep::Complete => output.line(format!("erased {what}"))?,
        ErasureStep::Results => {
            output.line(format!("erased {memories}"))?;
            output.note(
                "the servers erase the stored results; `atlatl tenants erasures --as URL` shows when",
            );
        }
        _ => {
            output.line(format!("erasing {name}"))?;
            output.note("`atlatl tenants erasures --as URL` shows the progress");
        }
    }
    Ok(())
}

async fn list_erasures(
    tenant: Option<&str>,
    administration: &AdministrationArgs,
    output: &mut Output,
) -> Result<Status, Error> {
    let erasures = administration.open().await?.erasures(tenant).await?;
    match output.mode() {
        Mode::Json => {
            output.json(&erasures.iter().map(ErasureResource::to_json).collect::<Vec<_>>())?;
        }
        Mode::Human if erasures.is_empty() => output.note("no erasures"),
        Mode::Human => {
            let now = memory_config::moment().now;
            let mut table = Table::new([
                "TENANT",
                "SUBJECT",
                "REQUESTED",
                "BY",
                "MEMORIES",
                "RESULTS",
                "STATE",
            ]);
            for erasure in &erasures {
                let subject = erasure.subject.as_deref().unwrap_or("–");
                table.row([
                    printable(&erasure.tenant).into_owned(),
                    printable(subject).into_owned(),
                    distance(erasure.requested, now),
                    printable(&erasure.requested_by).into_owned(),
                    grouped(erasure.memories),
                    grouped(erasure.results),
                    erasure_state(erasure, now),
                ]);
            }
            output.table(&table)?;
        }
    }
    Ok(Status::Success)
}

fn erasure_state(erasure: &ErasureResource, now: DateTime<Utc>) -> String {
    match (erasure.completed, erasure.step) {
        (Some(at), _) => format!("complete {}", distance(at, now)),
        (None, _) if erasure.starts > now => format!("begins {}", distance(erasure.starts, now)),
        (None, step) => format!("erasing {}", step.word()),
    }
}
