//! `atlatl login`, `atlatl logout` and `atlatl whoami`: OAuth logins at remote MCP servers.

use std::fs::File;
use std::io::{IsTerminal as _, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use atlatl_login::{LoginRequest, Secret, login};
use lro::IdSeed;
use serde_json::json;

use crate::command::runtime;
use crate::error::{Error, Status};
use crate::login_store::{self, LoginEntry};
use crate::output::{Facts, Mode, Output, Table, pluralize};
use crate::settings::{Settings, Sources};

/// Examples for the long help of `atlatl login`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl login https://mcp.example.com/mcp
  atlatl login https://mcp.example.com/mcp --scope \"files:read files:write\"
  atlatl login https://mcp.example.com/mcp --no-browser --port 8765";

/// The largest client secret file that is read, in bytes.
const MAX_SECRET_LEN: u64 = 4096;
/// The program that opens a URL in the user's preferred browser.
const BROWSER_OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Arguments of `atlatl login`.
#[derive(Debug, clap::Args)]
pub(crate) struct LoginArgs {
    /// URL of the server
    #[arg(value_name = "URL")]
    server: String,
    /// Scopes to request, separated by spaces
    /// [default: what the server asks for]
    #[arg(long, value_name = "SCOPES", verbatim_doc_comment)]
    scope: Option<String>,
    /// Id of a client registered at the authorization server
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// File with the secret of that client; only you may
    /// have access to it
    #[arg(long, value_name = "FILE", requires = "client_id", verbatim_doc_comment)]
    client_secret_file: Option<PathBuf>,
    /// URL of the client metadata document, for
    /// authorization servers that support one
    #[arg(long, value_name = "URL", verbatim_doc_comment)]
    client_metadata: Option<String>,
    /// Local port for the redirect of the browser
    /// [default: a free port]
    #[arg(long, value_name = "N", verbatim_doc_comment)]
    port: Option<u16>,
    /// Print the URL and do not open a browser
    #[arg(long)]
    no_browser: bool,
}

/// Arguments of `atlatl logout`.
#[derive(Debug, clap::Args)]
pub(crate) struct LogoutArgs {
    /// URL of the server
    #[arg(value_name = "URL")]
    server: String,
}

/// Arguments of `atlatl whoami`.
#[derive(Debug, clap::Args)]
pub(crate) struct WhoamiArgs {}

/// Runs `atlatl login`.
pub(crate) fn run(
    args: &LoginArgs,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let logins = login_store::open(&settings)?;
    let mut request = LoginRequest::new(login_store::parse_server_url(&args.server)?);
    let scopes = args.scope.as_deref().unwrap_or_default();
    request.scopes = scopes.split_whitespace().map(str::to_owned).collect();
    request.client_id.clone_from(&args.client_id);
    request.client_secret =
        args.client_secret_file.as_deref().map(read_client_secret).transpose()?;
    request.client_metadata_url.clone_from(&args.client_metadata);
    request.port = args.port;
    // Without a terminal there is no user to look at a browser window.
    let open_browser_window = !args.no_browser && std::io::stderr().is_terminal();
    output.note("discovering the authorization server");
    let login = runtime::block_on(login(&logins, &request, |url| {
        output.warning(format!("open this URL and log in: {url}"));
        if open_browser_window && !open_browser(url.as_str()) {
            output.note("could not open a browser");
        }
    }))??;
    let entry = LoginEntry::from(login);
    match output.mode() {
        Mode::Json => output.json(&entry)?,
        Mode::Human => {
            let mut facts = Facts::default();
            facts.text("logged in to", entry.server.as_str());
            facts.text("by", &entry.issuer);
            facts.text("for", &entry.scope_list());
            facts.text("lasts", &entry.validity(IdSeed::from_system().now));
            output.facts(&facts)?;
        }
    }
    Ok(Status::Success)
}

/// Runs `atlatl logout`.
pub(crate) fn run_logout(
    args: &LogoutArgs,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let logins = login_store::open(&settings)?;
    let server = login_store::parse_server_url(&args.server)?;
    let forgotten = runtime::block_on(logins.forget(&server))??;
    if forgotten.removed == 0 {
        return Err(
            Error::failure(format!("you are not logged in to {server}")).with_hint("atlatl whoami")
        );
    }
    if let Some(why) = &forgotten.not_revoked {
        output.note(format!(
            "the tokens were removed from this machine, but may still be valid: {why}"
        ));
    }
    match output.mode() {
        Mode::Json => output.json(&json!({
            "server": server,
            "removed": forgotten.removed,
            "not_revoked": forgotten.not_revoked,
        }))?,
        Mode::Human => {
            let removed = pluralize(forgotten.removed as u64, "login", "logins");
            output.line(format!("logged out of {server}: removed {removed}"))?;
        }
    }
    Ok(Status::Success)
}

/// Runs `atlatl whoami`.
pub(crate) fn run_whoami(
    _: &WhoamiArgs,
    sources: &Sources,
    output: &mut Output,
) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let logins = login_store::open(&settings)?.list()?;
    let entries: Vec<LoginEntry> = logins.into_iter().map(LoginEntry::from).collect();
    match output.mode() {
        Mode::Json => output.json(&entries)?,
        Mode::Human if entries.is_empty() => output.note("you are not logged in to any server"),
        Mode::Human => {
            let now = IdSeed::from_system().now;
            let mut table = Table::new(["SERVER", "BY", "FOR", "LASTS"]);
            for entry in &entries {
                table.row([
                    entry.server.to_string(),
                    entry.issuer.clone(),
                    entry.scope_list(),
                    entry.validity(now),
                ]);
            }
            output.table(&table)?;
        }
    }
    Ok(Status::Success)
}

/// Opens `url` in the user's browser. Returns whether the opener could be started. The URL has passed
/// the policy: it begins with `http`, so the opener cannot take it for a flag, and no shell reads it.
pub(crate) fn open_browser(url: &str) -> bool {
    Command::new(BROWSER_OPENER)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .is_ok()
}

/// Reads a client secret from a file that only its owner can read, without the line end. A secret on
/// the command line would be visible to every user of the machine, and one in a variable would be
/// inherited by every child process.
fn read_client_secret(path: &Path) -> Result<Secret, Error> {
    let failed = |error| Error::failure(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.mode() & 0o077 != 0 {
        let open = format!("{} is accessible to other users", path.display());
        return Err(Error::failure(open).with_hint(format!("chmod 600 {}", path.display())));
    }
    let mut text = String::new();
    file.take(MAX_SECRET_LEN).read_to_string(&mut text).map_err(failed)?;
    match text.trim() {
        "" => Err(Error::failure(format!("{} is empty", path.display()))),
        secret => Ok(Secret::new(secret)),
    }
}
