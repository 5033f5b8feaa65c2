//! `atlatl results open`: stored results in a browser on this machine.

mod server;

use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use clap_complete::ArgValueCompleter;
use lro::{IdSeed, Spools};
use lro_http::{Listener, ServeLimits, knows_peer_users, serve};
use lro_spool::Spool;

use self::server::{ResultsServer, SessionKeys};
use super::{find_address, with_missing_hint};
use crate::command::complete;
use crate::command::login::open_browser;
use crate::error::{Error, Status, with_causes};
use crate::output::Output;
use crate::settings::Settings;
use crate::spool_config::{Reach, Stores};

/// The most connections; a browser opens six.
const MAX_CONNECTIONS: usize = 32;

/// Arguments of `atlatl results open`.
#[derive(Debug, clap::Args)]
pub(crate) struct OpenArgs {
    /// Reference of a result, or @1 for the latest one
    /// [default: the list of results]
    #[arg(value_name = "REF", add = ArgValueCompleter::new(complete::references), verbatim_doc_comment)]
    reference: Option<String>,
    /// The --scope that results were stored with
    #[arg(long, value_name = "TEXT", conflicts_with = "all")]
    pub(super) scope: Option<String>,
    /// Show the results of all your directories and scopes
    #[arg(long)]
    all: bool,
    /// Port on this machine [default: a free port]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Print the URL and do not open a browser
    #[arg(long)]
    no_browser: bool,
}

/// Serves the results until the user ends the command.
pub(super) fn run(
    args: &OpenArgs,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    let stores = Stores::from_settings(settings, args.scope.as_deref())?;
    let reach = if args.all { Reach::Everywhere } else { Reach::Here };
    let fragment = match &args.reference {
        None => String::new(),
        Some(reference) => {
            let address = find_address(reference, &stores, reach)?;
            let now = IdSeed::from_system().now;
            let stored = stores.find(&address, reach, |store| store.open(&address, now));
            let id = stored.map_err(with_missing_hint)?.listed().id();
            format!("#{}", id.reference())
        }
    };
    let mut spools: Vec<Arc<dyn Spool>> = Vec::new();
    stores.each(reach, |store| spools.push(Arc::new(store.clone())));
    let listener = listen(args.port)?;
    let address = listener.local_addr()?;
    let closes_others = knows_peer_users(address).map_err(|error| {
        Error::failure(with_causes(&error)).with_hint("mount /proc, or use atlatl results show")
    })?;
    let keys = SessionKeys::new()?;
    let path = if fragment.is_empty() { "" } else { "table" };
    let url = format!("http://{address}/{path}?token={}{fragment}", keys.token());
    let server = ResultsServer::new(Spools::new(spools.clone()), spools, settings, address, keys);
    // Other users can read the URL with its token in the arguments of the browser, so it is opened only
    // where their connections are closed. Without a terminal there is no user to look at a browser.
    let opened =
        closes_others && !args.no_browser && std::io::stderr().is_terminal() && open_browser(&url);
    if opened {
        output.note("opened your browser; the URL works once");
    }
    output.line(&url)?;
    output.hint("Ctrl-C ends it");
    let limits = ServeLimits {
        same_user: true,
        ..ServeLimits::new(MAX_CONNECTIONS, std::time::Duration::from_secs(1))
    };
    let router = || server::router(Arc::new(server));
    serve(router, Listener::Tcp(listener), limits, std::future::pending())
        .map_err(|error| Error::failure(with_causes(&error)))?;
    Ok(Status::Success)
}

/// Listens on this machine. On Linux at an address of its own, so that nothing that another server on this
/// machine left in the browser (a cached page, a service worker, a cookie) belongs to the same origin.
fn listen(port: u16) -> Result<TcpListener, Error> {
    let mut bytes = [0; 3];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::failure(format!("cannot get random numbers: {error}")))?;
    let [a, b, c] = bytes.map(|byte| byte % 254 + 1);
    let own = cfg!(target_os = "linux").then(|| Ipv4Addr::new(127, a, b, c));
    let bound = own.and_then(|own| TcpListener::bind((own, port)).ok());
    bound.map_or_else(|| TcpListener::bind((Ipv4Addr::LOCALHOST, port)), Ok).map_err(|error| {
        Error::failure(format!("127.0.0.1:{port}: cannot listen: {error}"))
            .with_hint("omit --port to use a free one")
    })
}
