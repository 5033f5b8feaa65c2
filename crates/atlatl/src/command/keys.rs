//! `atlatl keys`: API keys to tenants' memories.

use std::time::Duration;

use atlatl_server::auth::{ApiKey, AuthScope, Scopes};
use chrono::{DateTime, TimeDelta, Utc};
use clap::Subcommand;
use serde_json::json;

use super::tenants::{AdministrationArgs, KeyRequest, KeyResource, examples};
use crate::command::runtime;
use crate::error::{Error, Status};
use crate::memory_config;
use crate::output::{Mode, Output, Table, distance, pluralize, printable};
use crate::units::parse_duration;

/// Examples for the long help of `atlatl keys create`.
const CREATE_EXAMPLES: &str = examples!(
    "  atlatl keys create --tenant acme --name ci --as postgres://owner@127.0.0.1/memories\n",
    "  atlatl keys create --tenant acme --name reader --scopes memory:read --expires 30d \\\n",
    "    --as https://admin.example.org",
);

/// How long before its expiry a key is reported.
pub(crate) const EXPIRY_WARNING: TimeDelta = TimeDelta::days(14);

/// The subcommands of `atlatl keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a key and show it once
    ///
    /// The database stores only a digest of the key, so it cannot be shown again.
    /// Clients send the key with every request: `Authorization: Bearer KEY`.
    #[command(verbatim_doc_comment, after_long_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// List keys, without their secrets
    List {
        /// List only the keys of this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        #[command(flatten)]
        administration: AdministrationArgs,
    },
    /// Revoke a key; servers reject it within ten seconds
    Revoke {
        /// Id of the key, as `list` shows it, or the key itself
        #[arg(value_name = "ID")]
        key: String,
        #[command(flatten)]
        administration: AdministrationArgs,
    },
}

/// Arguments of `atlatl keys create`.
#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// Tenant whose memories the key gives access to
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// Name of the key
    #[arg(long, value_name = "NAME", default_value = "")]
    name: String,
    /// Scopes of the key: memory:read, memory:write,
    /// memory:admin (metrics)
    #[arg(
        long,
        value_name = "SCOPES",
        value_delimiter = ',',
        default_value = "memory:read,memory:write",
        value_parser = parse_scope,
        verbatim_doc_comment
    )]
    scopes: Vec<AuthScope>,
    /// Time until the key expires, or never
    #[arg(
        long = "expires",
        alias = "days",
        value_name = "TIME",
        default_value = "90d",
        value_parser = parse_lifetime,
        verbatim_doc_comment
    )]
    lifetime: Lifetime,
    /// Create a key that is valid until it is revoked
    #[arg(long, conflicts_with = "lifetime")]
    no_expiry: bool,
    #[command(flatten)]
    administration: AdministrationArgs,
}

/// The validity period of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifetime {
    Days(u16),
    Unlimited,
}

/// Runs a subcommand.
pub(crate) fn run(command: &Command, output: &mut Output) -> Result<Status, Error> {
    runtime::block_on(async {
        match command {
            Command::Create(args) => create(args, output).await,
            Command::List { tenant, administration } => {
                list(tenant.as_deref(), administration, output).await
            }
            Command::Revoke { key, administration } => revoke(key, administration, output).await,
        }
    })?
}

async fn create(args: &CreateArgs, output: &mut Output) -> Result<Status, Error> {
    let lifetime = if args.no_expiry { Lifetime::Unlimited } else { args.lifetime };
    let days = match lifetime {
        Lifetime::Days(days) => Some(days),
        Lifetime::Unlimited => None,
    };
    let scopes: Vec<&str> = args.scopes.iter().map(|scope| scope.word()).collect();
    let request = KeyRequest { tenant: &args.tenant, name: &args.name, scopes: &scopes, days };
    let Some(created) = args.administration.open().await?.create_key(&request).await? else {
        let name = printable(&args.tenant);
        return Err(Error::failure(format!("there is no tenant {name}"))
            .with_hint("atlatl tenants create NAME --as URL"));
    };
    match output.mode() {
        Mode::Json => output.json(&json!({
            "id": created.id,
            "key": created.key,
            "tenant": args.tenant,
            "scopes": scopes,
            "expires": created.expires.map(|at| at.to_rfc3339()),
        }))?,
        Mode::Human => {
            output.line(&created.key)?;
            let valid = match lifetime {
                Lifetime::Days(1) => "it expires in 1 day".to_owned(),
                Lifetime::Days(days) => format!("it expires in {days} days"),
                Lifetime::Unlimited => "it does not expire".to_owned(),
            };
            let id = printable(&created.id);
            output.note(format!("the key is shown only once; its id is {id}; {valid}"));
        }
    }
    Ok(Status::Success)
}

async fn list(
    tenant: Option<&str>,
    administration: &AdministrationArgs,
    output: &mut Output,
) -> Result<Status, Error> {
    let keys = administration.open().await?.keys(tenant).await?;
    let now = memory_config::moment().now;
    match output.mode() {
        Mode::Json => {
            output.json(&keys.iter().map(|key| key.to_json(now)).collect::<Vec<_>>())?;
        }
        Mode::Human if keys.is_empty() => match tenant {
            Some(tenant) => output.note(format!("there is no key of {}", printable(tenant))),
            None => output.note("there is no key yet"),
        },
        Mode::Human => {
            let mut table = Table::new(["ID", "TENANT", "NAME", "SCOPES", "MADE", "STATE"]);
            for key in &keys {
                table.row([
                    printable(&key.id).into_owned(),
                    printable(&key.tenant).into_owned(),
                    printable(&key.name).into_owned(),
                    Scopes::from_words(key.scopes.iter().map(String::as_str)).to_string(),
                    distance(key.made, now),
                    state(key, now),
                ]);
            }
            output.table(&table)?;
            let soon = keys.iter().filter(|key| key.expires_soon(now)).count() as u64;
            if soon > 0 {
                output.note(format!(
                    "{} within {} days: create others and revoke these",
                    pluralize(soon, "key expires", "keys expire"),
                    EXPIRY_WARNING.num_days()
                ));
            }
        }
    }
    Ok(Status::Success)
}

fn state(key: &KeyResource, now: DateTime<Utc>) -> String {
    match (key.revoked, key.expires) {
        (Some(at), _) => format!("revoked {}", distance(at, now)),
        (None, Some(at)) if at <= now => format!("expired {}", distance(at, now)),
        (None, Some(at)) => format!("expires {}", distance(at, now)),
        (None, None) => "good".to_owned(),
    }
}

async fn revoke(
    key: &str,
    administration: &AdministrationArgs,
    output: &mut Output,
) -> Result<Status, Error> {
    let list = "atlatl keys list --as URL";
    // A leaked key is found as a whole, so accept that too. It is not printed.
    let parsed = ApiKey::parse(key);
    let id = parsed.as_ref().map_or(key, ApiKey::id);
    if parsed.is_none() && !key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(Error::usage("neither a key nor the id of a key").with_hint(list));
    }
    if !administration.open().await?.revoke_key(id).await? {
        let message = format!("no key {}, or it is already revoked", printable(id));
        return Err(Error::failure(message).with_hint(list));
    }
    match output.mode() {
        Mode::Json => output.json(&json!({"id": id, "revoked": true}))?,
        Mode::Human => output.line(format!("revoked {}", printable(id)))?,
    }
    Ok(Status::Success)
}

fn parse_scope(word: &str) -> Result<AuthScope, String> {
    let scope = AuthScope::ALL.into_iter().find(|scope| scope.word() == word);
    scope.ok_or_else(|| "expected memory:read, memory:write or memory:admin".to_owned())
}

fn parse_lifetime(text: &str) -> Result<Lifetime, String> {
    if text == "never" {
        return Ok(Lifetime::Unlimited);
    }
    let day = Duration::from_hours(24);
    let time = parse_duration(text, day).map_err(|error| format!("{error}, or never"))?;
    // Part of a day counts as a day.
    let days = u16::try_from(time.as_secs().div_ceil(day.as_secs()));
    days.map(Lifetime::Days).map_err(|_| "must be at most 65535d, or never".to_owned())
}

/// Random bytes from the operating system, for a key.
pub(crate) fn random() -> Result<[u8; 48], Error> {
    let mut bytes = [0; 48];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::failure(format!("cannot get random numbers: {error}")))?;
    Ok(bytes)
}
