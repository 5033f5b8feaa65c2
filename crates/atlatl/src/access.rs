//! HTTP endpoints: the listener, the authentication that `server.auth` configures, the open-file limit
//! for connections, and the client that fetches an authorization server's key set.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use atlatl_server::auth::{Fetch, FetchError, TokenRules};
use lro_http::{
    BearerError, BearerTokens, ListenError, Listener, SocketError, local_token, user_id,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::crypto::ring;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};
use url::{Host, Url};

use crate::error::{Error, with_causes};
use crate::output::Output;
use crate::settings::Settings;

/// The prefix of `server.auth` that names a file of bearer tokens.
pub(crate) const TOKEN_FILE_PREFIX: &str = "token-file:";
/// The value in `server.auth` that accepts API keys of the database.
const API_KEYS: &str = "keys";
/// The value in `server.auth` that accepts tokens of the issuers in `server.issuers`.
const ISSUERS: &str = "oauth";
/// The prefix in `server.auth` that names an authorization server.
const OAUTH_PREFIX: &str = "oauth:";

/// The open-file limit that a server asks for. More connections would only queue for the same few
/// threads.
const MAX_OPEN_FILES: u64 = 65_536;
/// The largest key set that is read, in bytes.
const MAX_KEY_SET_LEN: u64 = 64 << 10;
/// The limit of one request for a key set. It is short because a client waits for the answer.
const KEY_SET_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) use TOKEN_FILE_PREFIX as TOKEN_FILE;

/// How clients authenticate.
pub(crate) enum Auth {
    /// By the Unix socket: only processes of the serving user can connect.
    SameUser,
    /// By one of these bearer tokens. All of them belong to the same tenant.
    Tokens(BearerTokens),
    /// By a credential of their own, which maps them to a tenant.
    Principals(Principals),
}

/// The credentials that identify a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principals {
    /// Whether API keys of the database are accepted.
    pub(crate) keys: bool,
    /// The accepted access tokens.
    pub(crate) tokens: AcceptedTokens,
}

/// The access tokens that a server accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AcceptedTokens {
    /// None.
    None,
    /// Those of the authorization server with this URL, with the tenant in `server.tenant_claim`.
    OneIssuer(String),
    /// Those of `server.issuers`.
    Issuers,
}

/// A listener with the authentication that its clients need.
pub(crate) struct HttpEndpoint {
    pub(crate) listener: Listener,
    pub(crate) auth: Auth,
    /// The file with the current user's token, if clients need that one.
    local_token: Option<PathBuf>,
}

pub(crate) use HttpEndpoint as Door;

impl HttpEndpoint {
    /// Listens on `address` for the clients that `server.auth` accepts. If that is empty, a Unix socket
    /// accepts its own user, and a loopback port needs the user's token, which is created if it does not
    /// exist.
    pub(crate) fn open(address: &str, settings: &Settings) -> Result<Self, Error> {
        let auth = &settings.config.server.auth;
        if !auth.is_empty() {
            let auth = Auth::from_settings(settings)?;
            return Ok(Self { listener: listen(address, true)?, auth, local_token: None });
        }
        let listener = listen(address, false)?;
        if let Listener::Unix(_) = listener {
            return Ok(Self { listener, auth: Auth::SameUser, local_token: None });
        }
        let path = token_path(settings)?;
        let tokens = BearerTokens::read(&path, random()?).map_err(|error| token_error(&error))?;
        Ok(Self { listener, auth: Auth::Tokens(tokens), local_token: Some(path) })
    }

    /// The address for clients: a URL without a path, or `unix:` and a path.
    pub(crate) fn place(&self) -> Result<String, Error> {
        match &self.listener {
            Listener::Unix(socket) => {
                Ok(format!("{}{}", lro_http::UNIX_PREFIX, socket.path().display()))
            }
            Listener::Tcp(_) => self.url(),
        }
    }

    /// The base URL of links for clients that are connected.
    pub(crate) fn url(&self) -> Result<String, Error> {
        let address = self.listener.address().map_err(|error| Error::failure(error.to_string()))?;
        Ok(address
            .map_or_else(|| "http://localhost".to_owned(), |address| format!("http://{address}")))
    }

    /// Prints the address of each service, a name and a path, and how to connect to it. The token itself
    /// is never printed: a terminal's output may end up in a log.
    pub(crate) fn announce(&self, services: &[(&str, &str)]) -> Result<(), Error> {
        let address = self.place()?;
        let describe = |describe_one: fn(&str, &str, &str) -> String| {
            let services: Vec<String> =
                services.iter().map(|(name, path)| describe_one(name, &address, path)).collect();
            services.join(" and ")
        };
        if let Listener::Unix(_) = self.listener {
            let services = describe(|name, _, path| format!("{name} ({path})"));
            let user = user_id();
            Output::remark(format_args!("connect a client with: atlatl proxy --url {address}"));
            Output::remark(format_args!("serving {services} at {address}, only for uid {user}"));
            return Ok(());
        }
        if let Some(token) = &self.local_token {
            let token = token.display();
            Output::remark(format_args!(
                "requests need the token in {token} (Authorization: Bearer TOKEN)"
            ));
            Output::remark(format_args!(
                "for example: TOKEN=$(cat {token}) atlatl proxy --url {address}/mcp --header \
                 'Authorization: Bearer ${{TOKEN}}'"
            ));
        }
        let services = describe(|name, address, path| format!("{name} at {address}{path}"));
        Output::remark(format_args!("serving {services}"));
        Ok(())
    }
}

/// The file with the token of the current user. Creates it if it does not exist.
fn token_path(settings: &Settings) -> Result<PathBuf, Error> {
    let Some(state) = settings.surroundings().state_dir.as_ref() else {
        return Err(Error::usage("no home directory for the token of clients")
            .with_hint("Set HOME, or --set server.auth=token-file:PATH, or listen on unix:PATH"));
    };
    local_token(&state.join("atlatl"), random()?).map_err(|error| token_error(&error))
}

/// The listener of `server.admin.listen`, which needs no authentication.
pub(crate) fn listen_for_admin(settings: &Settings) -> Result<Option<Listener>, Error> {
    let address = &settings.config.server.admin.listen;
    if address.is_empty() {
        return Ok(None);
    }
    listen(address, true).map(Some)
}

/// The tokens of a file.
pub(crate) fn read_token_file(path: &Path) -> Result<BearerTokens, Error> {
    BearerTokens::read(path, random()?).map_err(|error| token_error(&error))
}

/// Listens on an address whose clients send a token.
pub(crate) fn listen_with_tokens(address: &str) -> Result<Listener, Error> {
    listen(address, true)
}

/// The tokens of the file that `server.auth` names.
pub(crate) fn read_tokens(settings: &Settings) -> Result<Option<BearerTokens>, Error> {
    match settings.config.server.auth.strip_prefix(TOKEN_FILE_PREFIX) {
        Some(path) => read_token_file(Path::new(path)).map(Some),
        None => Ok(None),
    }
}

/// An error of a token file, with the command that fixes it.
fn token_error(error: &BearerError) -> Error {
    let failure = Error::failure(with_causes(error));
    match error {
        BearerError::NotOurs { path } => failure.with_hint(format!("chmod go-w {path}")),
        BearerError::OpenToOthers { path } => failure.with_hint(format!("chmod 600 {path}")),
        _ => failure,
    }
}

/// Listens on `address`. An address that other machines can reach needs `server.auth`.
fn listen(address: &str, has_auth: bool) -> Result<Listener, Error> {
    lro_http::listen(address, has_auth).map_err(|error| {
        let failure = Error::failure(with_causes(&error));
        match error {
            ListenError::OpenToAll { .. } => failure.with_hint(
                "Listen on 127.0.0.1 or unix:PATH, or set --set server.auth=token-file:PATH, keys or \
                 oauth:URL",
            ),
            ListenError::Socket(SocketError::OpenDirectory { .. }) => failure
                .with_hint("Use a directory of your own (chmod 700), or $XDG_RUNTIME_DIR"),
            _ => failure,
        }
    })
}

impl Auth {
    /// The name of the method, for the log.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::SameUser => "same user",
            Self::Tokens(_) => "tokens",
            Self::Principals(principals) => match (principals.keys, &principals.tokens) {
                (true, AcceptedTokens::None) => "keys",
                (true, _) => "keys, oauth",
                (false, _) => "oauth",
            },
        }
    }

    fn from_settings(settings: &Settings) -> Result<Self, Error> {
        if let Some(path) = settings.config.server.auth.strip_prefix(TOKEN_FILE_PREFIX) {
            let tokens = BearerTokens::read(Path::new(path), random()?);
            return tokens.map(Self::Tokens).map_err(|error| token_error(&error));
        }
        Principals::from_settings(settings).map(Self::Principals)
    }
}

impl Principals {
    /// The credentials that `server.auth` names.
    pub(crate) fn from_settings(settings: &Settings) -> Result<Self, Error> {
        let principals = Self::parse(&settings.config.server.auth)?;
        let issuers = &settings.config.server.issuers;
        match principals.tokens {
            AcceptedTokens::Issuers if issuers.is_empty() => {
                return Err(Error::usage("server.auth: oauth needs issuers in server.issuers")
                    .with_hint("or name one issuer: server.auth=oauth:https://id.example"));
            }
            AcceptedTokens::Issuers => {}
            AcceptedTokens::None | AcceptedTokens::OneIssuer(_) => {
                if !issuers.is_empty() {
                    Output::remark("server.issuers is not used: server.auth does not say oauth");
                }
                return Ok(principals);
            }
        }
        if let Some((name, _)) = issuers.iter().find(|(_, issuer)| !is_secure_url(&issuer.url)) {
            return Err(Error::usage(format!(
                "server.issuers.{name}.url: expected an https:// URL"
            ))
            .with_hint("http:// is for an issuer on this machine, as in http://localhost:8080"));
        }
        Ok(principals)
    }

    fn parse(auth: &str) -> Result<Self, Error> {
        let mut principals = Self { keys: false, tokens: AcceptedTokens::None };
        for part in auth.split(',').map(str::trim) {
            let is_first = principals.tokens == AcceptedTokens::None;
            match part.strip_prefix(OAUTH_PREFIX) {
                Some(issuer) if is_first && is_secure_url(issuer) => {
                    principals.tokens = AcceptedTokens::OneIssuer(issuer.to_owned());
                }
                Some(_) => {
                    return Err(Error::usage("server.auth: oauth: expected one https:// URL")
                        .with_hint(
                            "server.auth=oauth:https://id.example, or server.auth=oauth with \
                             several issuers in server.issuers",
                        ));
                }
                None if part == API_KEYS => principals.keys = true,
                None if part == ISSUERS && is_first => principals.tokens = AcceptedTokens::Issuers,
                // The message does not quote the value: it may be a token that was put in the wrong
                // place.
                None => {
                    return Err(Error::usage(
                        "server.auth: expected token-file:PATH, keys, oauth or oauth:URL, or keys \
                         and one of the latter",
                    )
                    .with_hint(
                        "create keys with `atlatl keys create`; a token file has one token per \
                         line and mode 600",
                    ));
                }
            }
        }
        Ok(principals)
    }
}

impl AcceptedTokens {
    /// The rules for the tokens of each issuer. `resource` is the URL of the MCP endpoint, which is the
    /// audience of tokens unless the issuer has others.
    pub(crate) fn rules(&self, settings: &Settings, resource: &str) -> Vec<TokenRules> {
        let server = &settings.config.server;
        match self {
            Self::None => Vec::new(),
            Self::OneIssuer(url) => vec![TokenRules::new(url, [resource], &server.tenant_claim)],
            Self::Issuers => server
                .issuers
                .iter()
                .map(|(name, issuer)| TokenRules::from_config(name, issuer, resource))
                .collect(),
        }
    }
}

/// Random bytes from the operating system.
fn random() -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::failure(format!("cannot get random numbers: {error}")))?;
    Ok(bytes)
}

/// Old paths of the open-file limit functions.
pub(crate) mod descriptors {
    pub(crate) use super::{max_client_connections as for_clients, raise_open_file_limit as raise};
}

/// Raises the soft open-file limit to the hard limit, at most [`MAX_OPEN_FILES`]. Child processes
/// inherit the limit, so only commands that start no foreign programs call this.
pub(crate) fn raise_open_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let target = maximum.map_or(MAX_OPEN_FILES, |maximum| maximum.min(MAX_OPEN_FILES));
    if current.is_some_and(|current| current < target) {
        // If this fails, the server works with fewer connections.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(target), maximum });
    }
}

/// The number of client connections: three quarters of the open-file limit. Files and worker processes
/// need the rest.
pub(crate) fn max_client_connections() -> usize {
    let open = getrlimit(Resource::Nofile)
        .current
        .map_or(MAX_OPEN_FILES, |current| current.min(MAX_OPEN_FILES));
    usize::try_from(open / 4 * 3).unwrap_or(usize::MAX).max(1)
}

/// Fetches the documents of an authorization server over HTTPS, or over HTTP from this machine.
pub(crate) struct KeySetClient(Agent);

pub(crate) use KeySetClient as Fetched;

impl KeySetClient {
    pub(crate) fn new() -> Self {
        Self(agent(KEY_SET_TIMEOUT))
    }
}

/// An HTTP client that trusts the certificates of this machine, follows no redirects and uses no proxy
/// (ureq's default takes one from the environment). It names its TLS provider because the process has
/// no default one.
pub(crate) fn agent(timeout: Duration) -> Agent {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(concat!("atlatl/", env!("CARGO_PKG_VERSION")))
        .build()
        .new_agent()
}

impl Fetch for KeySetClient {
    fn fetch(&self, url: &str) -> Result<String, FetchError> {
        if !is_secure_url(url) {
            return Err(FetchError::Failed);
        }
        let request = self.0.get(url).header("Accept", "application/json");
        let mut response = request.call().map_err(|_| FetchError::Failed)?;
        if response.status().is_client_error() {
            return Err(FetchError::NotFound);
        }
        if !response.status().is_success() {
            return Err(FetchError::Failed);
        }
        let body = response.body_mut().with_config().limit(MAX_KEY_SET_LEN).read_to_string();
        body.map_err(|_| FetchError::Failed)
    }
}

/// Whether a document from `url` cannot be changed on the way: HTTPS, or HTTP on the loopback interface.
pub(crate) fn is_secure_url(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url))
}

#[cfg(feature = "otel")]
pub(crate) use is_loopback as is_this_machine;

/// Whether `url` is on the loopback interface.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_three_quarters_of_what_may_be_open() {
        let before = max_client_connections();
        raise_open_file_limit();
        let open = getrlimit(Resource::Nofile);
        assert!(
            open.current >= open.maximum.map(|maximum| maximum.min(MAX_OPEN_FILES)),
            "{open:?}"
        );
        let clients = max_client_connections();
        let open = usize::try_from(open.current.unwrap()).unwrap();
        assert!(clients >= before && clients < open && clients >= open / 2, "{clients} of {open}");
    }

    #[test]
    fn key_sets_are_fetched_over_https_or_loopback_only() {
        for (url, secure) in [
            ("https://id.example/keys", true),
            ("http://127.0.0.1:9/keys", true),
            ("http://localhost/keys", true),
            ("http://[::1]/keys", true),
            ("http://id.example/keys", false),
            ("http://localhost.id.example/keys", false),
            ("file:///etc/passwd", false),
            ("ftp://localhost/", false),
            ("keys", false),
        ] {
            assert_eq!(is_secure_url(url), secure, "{url}");
        }
    }
}
