//! `atlatl db migrate`.

use atlatl_memory::Postgres;
use serde_json::json;

use crate::{
    error::{Error, Status},
    memory_config,
    output::{Mode, Output, Waiting},
    settings::Settings,
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
A URL without a password gets that of $PGPASSWORD.

Examples:
  atlatl db migrate --as postgres://owner@127.0.0.1/memories \\
    --set memory.store=postgres://atlatl@127.0.0.1/memories";

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The database, with the user who owns the schema
    #[arg(long = "as", value_name = "URL")]
    owner: String,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let config = &settings.config.memory;
    let plain_text = memory_config::plain_text(config.allow_plain);
    let owner = memory_config::options(&args.owner, plain_text)
        .map_err(|error| memory_config::wrong_url("--as", &error))?;
    let user = memory_config::options(&config.store, plain_text)
        .map_err(|error| memory_config::wrong_url("memory.store", &error))?;
    if owner.role == user.role {
        return Err(Error::usage(format!(
            "{} would own the schema and use it: policies do not bind an owner",
            user.role
        ))
        .with_hint("--as with another user, who may create in the database"));
    }
    let waiting = Waiting::start("migrating");
    let applied =
        Postgres::migrate(&owner.for_role(user.role)).map_err(memory_config::of_database)?;
    drop(waiting);
    match output.mode() {
        Mode::Json => output.json(&json!({"applied": applied}))?,
        Mode::Human if applied.is_empty() => output.line("nothing to do: it is up to date")?,
        Mode::Human => {
            for name in &applied {
                output.line(format!("applied {name}"))?;
            }
        }
    }
    Ok(Status::Success)
}
