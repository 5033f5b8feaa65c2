//! `atlatl logout`.

use serde_json::json;

use crate::{
    error::{Error, Status},
    login_store,
    output::{Mode, Output, counted},
    settings::{Settings, Sources},
};

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server's URL
    #[arg(value_name = "URL")]
    server: String,
}

/// Runs it.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let logins = login_store::open(&settings)?;
    let server = login_store::server(&args.server)?;
    let forgotten = login_store::wait(logins.forget(&server))?;
    if forgotten.removed == 0 {
        return Err(
            Error::failure(format!("you are not logged in at {server}")).with_hint("atlatl whoami")
        );
    }
    if let Some(why) = &forgotten.not_revoked {
        output.note(format!("the tokens are gone from here, but may still be honoured: {why}"));
    }
    match output.mode() {
        Mode::Json => output.json(&json!({
            "server": server,
            "removed": forgotten.removed,
            "not_revoked": forgotten.not_revoked,
        }))?,
        Mode::Human => {
            let removed = counted(forgotten.removed as u64, "login", "logins");
            output.line(format!("logged out at {server}: removed {removed}"))?;
        }
    }
    Ok(Status::Success)
}
