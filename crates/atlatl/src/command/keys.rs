//! `atlatl keys`: what lets people and programs at a tenant's memories.

use atlatl_memory::{ListedKey, NewKey};
use atlatl_server::auth::{ApiKey, Scope, Scopes};
use chrono::{DateTime, TimeDelta, Utc};
use clap::Subcommand;
use serde_json::json;

use super::owner::{Owner, examples};
use crate::{
    error::{Error, Status},
    memory_config,
    output::{Mode, Output, Table, distance, printable},
};

pub(crate) const CREATE: &str = examples!(
    "  atlatl keys create --tenant acme --name ci --as postgres://owner@127.0.0.1/memories\n",
    "  atlatl keys create --tenant acme --name reader --scopes memory:read --expires 30 --as …",
);

/// The commands below `atlatl keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a key, and show it this one time
    ///
    /// The database keeps a digest, from which nobody gets the key back. Whoever has it
    /// sends it with every request: `Authorization: Bearer KEY`.
    #[command(verbatim_doc_comment, after_long_help = CREATE)]
    Create(Create),
    /// List keys, without their secrets
    List {
        /// Of this tenant alone
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        #[command(flatten)]
        owner: Owner,
    },
    /// Revoke a key: within ten seconds no server knows it any more
    Revoke {
        /// The key's id, as `list` shows it, or the whole key
        #[arg(value_name = "ID")]
        key: String,
        #[command(flatten)]
        owner: Owner,
    },
}

/// What was typed behind `create`.
#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// Whose memories it opens
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// What to call it
    #[arg(long, value_name = "NAME", default_value = "")]
    name: String,
    /// What it allows: memory:read, memory:write,
    /// memory:admin (metrics)
    #[arg(
        long,
        value_name = "SCOPES",
        value_delimiter = ',',
        default_value = "memory:read,memory:write",
        value_parser = scope,
        verbatim_doc_comment
    )]
    scopes: Vec<Scope>,
    /// How many days it is valid, or never, for a key that
    /// does not expire
    #[arg(
        long = "expires",
        alias = "days",
        value_name = "DAYS",
        default_value = "90",
        value_parser = lifetime,
        verbatim_doc_comment
    )]
    lifetime: Lifetime,
    #[command(flatten)]
    owner: Owner,
}

/// How long a key is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifetime {
    Days(u16),
    Unlimited,
}

/// Runs one of them.
pub(crate) fn run(command: &Command, output: &mut Output) -> Result<Status, Error> {
    match command {
        Command::Create(args) => create(args, output),
        Command::List { tenant, owner } => list(tenant.as_deref(), owner, output),
        Command::Revoke { key, owner } => revoke(key, owner, output),
    }
}

fn create(args: &Create, output: &mut Output) -> Result<Status, Error> {
    let now = memory_config::moment().now;
    let key = ApiKey::new(random()?);
    let expires = match args.lifetime {
        Lifetime::Days(days) => Some(now + TimeDelta::days(i64::from(days))),
        Lifetime::Unlimited => None,
    };
    let scopes: Vec<&str> = args.scopes.iter().map(|scope| scope.word()).collect();
    let kept = args.owner.registry()?.put_key(&NewKey {
        id: key.id(),
        tenant: &args.tenant,
        digest: &key.digest(),
        scopes: &scopes,
        name: &args.name,
        expires,
    });
    if !kept.map_err(memory_config::of_database)? {
        let name = printable(&args.tenant);
        return Err(Error::failure(format!("there is no tenant {name}"))
            .with_hint("atlatl tenants create NAME --as URL"));
    }
    match output.mode() {
        Mode::Json => output.json(&json!({
            "id": key.id(),
            "key": key.shown(),
            "tenant": args.tenant,
            "scopes": scopes,
            "expires": expires.map(|at| at.to_rfc3339()),
        }))?,
        Mode::Human => {
            output.line(key.shown())?;
            let valid = match args.lifetime {
                Lifetime::Days(1) => "it expires in 1 day".to_owned(),
                Lifetime::Days(days) => format!("it expires in {days} days"),
                Lifetime::Unlimited => "it does not expire".to_owned(),
            };
            let id = key.id();
            output.note(format!("this is the only time it is shown; its id is {id}; {valid}"));
        }
    }
    Ok(Status::Success)
}

fn list(tenant: Option<&str>, owner: &Owner, output: &mut Output) -> Result<Status, Error> {
    let keys = owner.registry()?.keys(tenant).map_err(memory_config::of_database)?;
    let now = memory_config::moment().now;
    match output.mode() {
        Mode::Json => {
            let of = |key: &ListedKey| {
                json!({
                    "id": key.id,
                    "tenant": key.tenant,
                    "name": key.name,
                    "scopes": key.scopes,
                    "made": key.made.to_rfc3339(),
                    "expires": key.expires.map(|at| at.to_rfc3339()),
                    "revoked": key.revoked.map(|at| at.to_rfc3339()),
                })
            };
            output.json(&keys.iter().map(of).collect::<Vec<_>>())?;
        }
        Mode::Human if keys.is_empty() => match tenant {
            Some(tenant) => output.note(format!("there is no key of {}", printable(tenant))),
            None => output.note("there is no key yet"),
        },
        Mode::Human => {
            let mut table = Table::new(["ID", "TENANT", "NAME", "SCOPES", "MADE", "STATE"]);
            for key in &keys {
                table.row([
                    key.id.clone(),
                    printable(&key.tenant).into_owned(),
                    printable(&key.name).into_owned(),
                    Scopes::of_words(key.scopes.iter().map(String::as_str)).to_string(),
                    distance(key.made, now),
                    state(key, now),
                ]);
            }
            output.table(&table)?;
        }
    }
    Ok(Status::Success)
}

fn state(key: &ListedKey, now: DateTime<Utc>) -> String {
    match (key.revoked, key.expires) {
        (Some(at), _) => format!("revoked {}", distance(at, now)),
        (None, Some(at)) if at <= now => format!("expired {}", distance(at, now)),
        (None, Some(at)) => format!("expires {}", distance(at, now)),
        (None, None) => "good".to_owned(),
    }
}

fn revoke(key: &str, owner: &Owner, output: &mut Output) -> Result<Status, Error> {
    let list = "atlatl keys list --as URL";
    // Whoever has found a key somewhere has all of it. It is not shown once more.
    let parsed = ApiKey::parse(key);
    let id = parsed.as_ref().map_or(key, ApiKey::id);
    if parsed.is_none() && !key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(Error::usage("that is neither a key nor the id of one").with_hint(list));
    }
    if !owner.registry()?.revoke_key(id).map_err(memory_config::of_database)? {
        let said = format!("there is no key {}, or it is revoked already", printable(id));
        return Err(Error::failure(said).with_hint(list));
    }
    match output.mode() {
        Mode::Json => output.json(&json!({"id": id, "revoked": true}))?,
        Mode::Human => output.line(format!("revoked {}", printable(id)))?,
    }
    Ok(Status::Success)
}

fn scope(word: &str) -> Result<Scope, String> {
    let known = Scope::ALL.into_iter().find(|scope| scope.word() == word);
    known.ok_or_else(|| "expected memory:read, memory:write or memory:admin".to_owned())
}

fn lifetime(text: &str) -> Result<Lifetime, String> {
    if text == "never" {
        return Ok(Lifetime::Unlimited);
    }
    let days = text.parse().ok().filter(|days| *days > 0).map(Lifetime::Days);
    days.ok_or_else(|| "expected a number of days from 1 to 65535, or never".to_owned())
}

/// What a key is made of: the system's own random numbers.
fn random() -> Result<[u8; 48], Error> {
    let mut bytes = [0; 48];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::failure(format!("cannot get random numbers: {error}")))?;
    Ok(bytes)
}
