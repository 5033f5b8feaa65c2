//! Access: where HTTP is served, and to whom.

pub(crate) mod descriptors;
mod fetched;

use std::{net::TcpListener, path::Path};

use lro::Moment;
use lro_http::{BearerTokens, ListenError};

pub(crate) use self::fetched::Fetched;
#[cfg(feature = "otel")]
pub(crate) use self::fetched::agent;
use crate::error::{Error, with_causes};

/// What `server.auth` begins with, where a file has tokens.
pub(crate) const TOKEN_FILE: &str = "token-file:";
/// What stands in it, where the database has keys.
const KEYS: &str = "keys";
/// What names an authorization server.
const OAUTH: &str = "oauth:";

/// Who may ask, by `server.auth`.
pub(crate) enum Auth {
    /// Anyone who reaches us.
    Anyone,
    /// Whoever has one of these tokens: all of them are the same tenant.
    Tokens(BearerTokens),
    /// Whoever proves who they are, and has the memories of their tenant.
    Principals(Principals),
}

/// What proves who someone is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principals {
    /// A key that the database knows.
    pub(crate) keys: bool,
    /// A token of this authorization server.
    pub(crate) issuer: Option<String>,
}

/// Listens on `address`; beyond this machine only where it is `protected`.
pub(crate) fn listen(address: &str, protected: bool) -> Result<TcpListener, Error> {
    lro_http::listen(address, protected).map_err(|error| {
        let failure = Error::failure(with_causes(&error));
        match error {
            ListenError::OpenToAll { .. } => failure.with_hint(
                "Listen on 127.0.0.1, or say who may ask: --set server.auth=token-file:PATH, keys \
                 or oauth:URL",
            ),
            _ => failure,
        }
    })
}

/// Tokens by `server.auth`, for whoever knows no other way.
pub(crate) fn tokens(auth: &str) -> Result<Option<BearerTokens>, Error> {
    match Auth::read(auth)? {
        Auth::Anyone => Ok(None),
        Auth::Tokens(tokens) => Ok(Some(tokens)),
        Auth::Principals(_) => {
            Err(Error::usage("server.auth: keys and oauth are for `atlatl serve`")
                .with_hint("server.auth=token-file:PATH"))
        }
    }
}

impl Auth {
    pub(crate) fn read(auth: &str) -> Result<Self, Error> {
        if auth.is_empty() {
            return Ok(Self::Anyone);
        }
        if let Some(path) = auth.strip_prefix(TOKEN_FILE) {
            let tokens = BearerTokens::read(Path::new(path), secret());
            return tokens.map(Self::Tokens).map_err(|error| Error::failure(with_causes(&error)));
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

fn secret() -> [u8; 32] {
    let mut key = [0; 32];
    for half in key.chunks_mut(16) {
        half.copy_from_slice(&Moment::of_system().random.to_be_bytes());
    }
    key
}
