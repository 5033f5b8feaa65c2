//! Access: where HTTP is served, and to whom.

use std::{net::TcpListener, path::Path};

use lro::Moment;
use lro_http::{BearerTokens, ListenError};

use crate::error::{Error, with_causes};

/// What `server.auth` begins with.
pub(crate) const TOKEN_FILE: &str = "token-file:";

/// Listens on `address`; beyond this machine only where it is `protected`.
pub(crate) fn listen(address: &str, protected: bool) -> Result<TcpListener, Error> {
    lro_http::listen(address, protected).map_err(|error| {
        let failure = Error::failure(with_causes(&error));
        match error {
            ListenError::OpenToAll { .. } => failure.with_hint(
                "Listen on 127.0.0.1, or name a file with a token: \
                 --set server.auth=token-file:PATH",
            ),
            _ => failure,
        }
    })
}

/// Who may ask, by `server.auth`.
pub(crate) fn tokens(auth: &str) -> Result<Option<BearerTokens>, Error> {
    if auth.is_empty() {
        return Ok(None);
    }
    // Not the value: it may be a token that was put in the wrong place.
    let Some(path) = auth.strip_prefix(TOKEN_FILE) else {
        return Err(Error::usage("server.auth: expected token-file:PATH")
            .with_hint("The file has one token a line, and is its owner's alone (chmod 600)."));
    };
    let mut key = [0; 32];
    for half in key.chunks_mut(16) {
        half.copy_from_slice(&Moment::of_system().random.to_be_bytes());
    }
    let tokens = BearerTokens::read(Path::new(path), key);
    tokens.map(Some).map_err(|error| Error::failure(with_causes(&error)))
}
