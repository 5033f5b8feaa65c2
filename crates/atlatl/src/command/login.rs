//! `atlatl login`.

mod browser;
mod secret;

use std::{io::IsTerminal as _, path::PathBuf};

use atlatl_login::{LoginRequest, login};
use lro::Moment;

use crate::{
    error::{Error, Status},
    login_store::{self, Entry},
    output::{Facts, Mode, Output},
    settings::{Settings, Sources},
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl login https://mcp.example.com/mcp
  atlatl login https://mcp.example.com/mcp --scope \"files:read files:write\"
  atlatl login https://mcp.example.com/mcp --no-browser --port 8765";

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server's URL
    #[arg(value_name = "URL")]
    server: String,
    /// What to ask for, with spaces between
    /// [default: what the server asks for]
    #[arg(long, value_name = "SCOPES", verbatim_doc_comment)]
    scope: Option<String>,
    /// A client that the authorization server knows
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// A file with that client's secret, which only you can
    /// read
    #[arg(long, value_name = "FILE", requires = "client_id", verbatim_doc_comment)]
    client_secret_file: Option<PathBuf>,
    /// Where a document about this client lies, for
    /// authorization servers that read such
    #[arg(long, value_name = "URL", verbatim_doc_comment)]
    client_metadata: Option<String>,
    /// The port on this machine that the browser comes back
    /// to [default: a free one]
    #[arg(long, value_name = "N", verbatim_doc_comment)]
    port: Option<u16>,
    /// Only print the page to open
    #[arg(long)]
    no_browser: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let logins = login_store::open(&settings)?;
    let mut request = LoginRequest::new(login_store::server(&args.server)?);
    let scopes = args.scope.as_deref().unwrap_or_default();
    request.scopes = scopes.split_whitespace().map(str::to_owned).collect();
    request.client_id.clone_from(&args.client_id);
    request.client_secret = args.client_secret_file.as_deref().map(secret::read).transpose()?;
    request.client_metadata_url.clone_from(&args.client_metadata);
    request.port = args.port;
    // Nobody looks at a browser that a program opened.
    let opens = !args.no_browser && std::io::stderr().is_terminal();
    output.note("asking the server where to log in");
    let made = login_store::wait(login(&logins, &request, |url| {
        output.note(format!("open this page and log in: {url}"));
        if opens && !browser::open(url) {
            output.note("no browser could be opened from here");
        }
    }))?;
    let entry = Entry::from(made);
    match output.mode() {
        Mode::Json => output.json(&entry)?,
        Mode::Human => {
            let mut facts = Facts::default();
            facts.text("logged in at", entry.server.as_str());
            facts.text("by", &entry.issuer);
            facts.text("for", &entry.good_for());
            facts.text("lasts", &entry.lasts(Moment::of_system().now));
            output.facts(&facts)?;
        }
    }
    Ok(Status::Success)
}
