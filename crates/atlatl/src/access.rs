//! Access: where HTTP is served, and to whom.

pub(crate) mod descriptors;
mod fetched;

use std::path::{Path, PathBuf};

use lro_http::{AuthError, BearerTokens, ListenError, Listener, SocketError, local_token, user_id};

pub(crate) use self::fetched::Fetched;
#[cfg(feature = "otel")]
pub(crate) use self::fetched::{agent, is_this_machine};
use crate::{
    error::{Error, with_causes},
    output::Output,
    settings::Settings,
};

/// What `server.auth` begins with, where a file has tokens.
pub(crate) const TOKEN_FILE: &str = "token-file:";
/// What stands in it, where the database has keys.
const KEYS: &str = "keys";
/// What names an authorization server.
const OAUTH: &str = "oauth:";

/// How clients prove who they are.
pub(crate) enum Auth {
    /// They connect to a Unix socket as the user who serves.
    SameUser,
    /// They have one of these tokens: all of them are the same tenant.
    Tokens(BearerTokens),
    /// They prove who they are, and have the memories of their tenant.
    Principals(Principals),
}

/// A listener, and what its clients need.
pub(crate) struct Door {
    pub(crate) listener: Listener,
    pub(crate) auth: Auth,
    /// The file with the token that clients need, where it is the one of this user.
    local_token: Option<PathBuf>,
}

impl Door {
    /// Listens on `address` for those whom `server.auth` names. Where it names none, a Unix socket is for
    /// its own user, and a port of this machine needs the token of this user, which is created if there
    /// is none.
    pub(crate) fn open(address: &str, settings: &Settings) -> Result<Self, Error> {
        let auth = &settings.config.server.auth;
        if !auth.is_empty() {
            let auth = Auth::read(auth)?;
            return Ok(Self { listener: listen(address, true)?, auth, local_token: None });
        }
        let listener = listen(address, false)?;
        if let Listener::Unix(_) = listener {
            return Ok(Self { listener, auth: Auth::SameUser, local_token: None });
        }
        let path = token_path(settings)?;
        let tokens = BearerTokens::read(&path, random()?).map_err(|error| of_auth(&error))?;
        Ok(Self { listener, auth: Auth::Tokens(tokens), local_token: Some(path) })
    }

    /// Where it is reached: a URL without a path, or `unix:` and a path.
    pub(crate) fn place(&self) -> Result<String, Error> {
        match &self.listener {
            Listener::Unix(socket) => Ok(format!("{}{}", lro_http::UNIX, socket.path().display())),
            Listener::Tcp(_) => self.url(),
        }
    }

    /// The URL of it, for clients that have reached it.
    pub(crate) fn url(&self) -> Result<String, Error> {
        let address = self.listener.address().map_err(|error| Error::failure(error.to_string()))?;
        Ok(address
            .map_or_else(|| "http://localhost".to_owned(), |address| format!("http://{address}")))
    }

    /// Says where each of `served`, a name and a path, is reached, and how. The token itself is never
    /// printed: what goes to a terminal may just as well go to a log.
    pub(crate) fn announce(&self, served: &[(&str, &str)]) -> Result<(), Error> {
        let place = self.place()?;
        let each = |of: fn(&str, &str, &str) -> String| {
            let each: Vec<String> =
                served.iter().map(|(name, path)| of(name, &place, path)).collect();
            each.join(" and ")
        };
        if let Listener::Unix(_) = self.listener {
            let served = each(|name, _, path| format!("{name} ({path})"));
            let user = user_id();
            Output::remark(format_args!("connect a client with: atlatl proxy --url {place}"));
            Output::remark(format_args!("serving {served} at {place}, for uid {user} alone"));
            return Ok(());
        }
        if let Some(token) = &self.local_token {
            let token = token.display();
            Output::remark(format_args!(
                "requests need the token in {token} (Authorization: Bearer TOKEN)"
            ));
            Output::remark(format_args!(
                "for example: TOKEN=$(cat {token}) atlatl proxy --url {place}/mcp --header \
                 'Authorization: Bearer ${{TOKEN}}'"
            ));
        }
        let served = each(|name, place, path| format!("{name} at {place}{path}"));
        Output::remark(format_args!("serving {served}"));
        Ok(())
    }
}

/// The file with the token of this user.
fn token_path(settings: &Settings) -> Result<PathBuf, Error> {
    let Some(state) = settings.surroundings().state_dir.as_ref() else {
        return Err(Error::usage("there is no home directory for the token that clients need")
            .with_hint("Set HOME, or --set server.auth=token-file:PATH, or listen on unix:PATH"));
    };
    local_token(&state.join("atlatl"), random()?).map_err(|error| of_auth(&error))
}

fn of_auth(error: &AuthError) -> Error {
    let failure = Error::failure(with_causes(error));
    match error {
        AuthError::NotOurs { path } => failure.with_hint(format!("chmod go-w {path}")),
        AuthError::OpenToOthers { path } => failure.with_hint(format!("chmod 600 {path}")),
        _ => failure,
    }
}

/// What proves who someone is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principals {
    /// A key that the database knows.
    pub(crate) keys: bool,
    /// A token of this authorization server.
    pub(crate) issuer: Option<String>,
}

/// Listens on `address`; beyond this machine only where `server.auth` is set.
fn listen(address: &str, configured: bool) -> Result<Listener, Error> {
    lro_http::listen(address, configured).map_err(|error| {
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
    fn read(auth: &str) -> Result<Self, Error> {
        if let Some(path) = auth.strip_prefix(TOKEN_FILE) {
            let tokens = BearerTokens::read(Path::new(path), random()?);
            return tokens.map(Self::Tokens).map_err(|error| of_auth(&error));
        }
        Principals::read(auth).map(Self::Principals)
    }
}

impl Principals {
    fn read(auth: &str) -> Result<Self, Error> {
        let mut known = Self { keys: false, issuer: None };
        for part in auth.split(',').map(str::trim) {
            match part.strip_prefix(OAUTH) {
                Some(issuer) if known.issuer.is_none() && fetched::is_fit(issuer) => {
                    known.issuer = Some(issuer.to_owned());
                }
                Some(_) => {
                    return Err(Error::usage("server.auth: oauth: expected one https:// URL")
                        .with_hint("server.auth=oauth:https://id.example"));
                }
                None if part == KEYS => known.keys = true,
                // Not the value: it may be a token that was put in the wrong place.
                None => {
                    return Err(Error::usage(
                        "server.auth: expected token-file:PATH, keys, oauth:URL or keys,oauth:URL",
                    )
                    .with_hint(
                        "keys are made with `atlatl keys create`; a file has one token a line, and \
                         is its owner's alone (chmod 600)",
                    ));
                }
            }
        }
        Ok(known)
    }
}

/// Random bytes of the operating system.
fn random() -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::failure(format!("cannot get random numbers: {error}")))?;
    Ok(bytes)
}
