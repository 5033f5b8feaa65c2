//! All logins of a person.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use url::Url;

use crate::error::LoginError;
use crate::http_transport::{GuardedClient, HttpTransport, NetworkTransport};
use crate::ssrf_guard::Policy;
use crate::token::StoredLogin;
use crate::token_store::LoginDir;

/// A directory of logins: mode 0700, a file of mode 0600 per server and issuer.
#[derive(Clone)]
pub struct Logins {
    pub(crate) folder: LoginDir,
    pub(crate) transport: Arc<dyn HttpTransport>,
}

/// A login, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Login {
    /// The MCP server.
    pub server: Url,
    /// The issuer. Untrusted: escape invisible characters before showing it.
    pub issuer: String,
    /// The client id.
    pub client_id: String,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// When the token was received, in seconds since 1970.
    pub received_at: u64,
    /// When the token expires, if the authorization server says so.
    pub expires_at: Option<u64>,
    /// Whether it can be refreshed without a person.
    pub refreshable: bool,
}

impl Logins {
    /// The logins in `dir`, which is created with the first login.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { folder: LoginDir::at(dir.into()), transport: Arc::new(NetworkTransport) }
    }

    /// Replaces the HTTP transport.
    pub fn through(mut self, transport: Arc<dyn HttpTransport>) -> Self {
        self.transport = transport;
        self
    }

    /// Lists all logins without secrets, by server.
    pub fn list(&self) -> Result<Vec<Login>, LoginError> {
        let mut all: Vec<Login> =
            self.folder.all()?.iter().map(|found| Login::from_stored(&found.login)).collect();
        all.sort_by(|a, b| a.server.as_str().cmp(b.server.as_str()));
        Ok(all)
    }

    pub(crate) fn client(&self, server: &Url) -> Result<GuardedClient, LoginError> {
        Ok(GuardedClient::new(Policy::for_server(server)?, Arc::clone(&self.transport)))
    }
}

impl Login {
    pub(crate) fn from_stored(stored: &StoredLogin) -> Self {
        Self {
            server: stored.server.clone(),
            issuer: stored.issuer.clone(),
            client_id: stored.client_id.clone(),
            scopes: stored.scopes.clone(),
            received_at: stored.received_at,
            expires_at: stored.expires_at(),
            refreshable: stored.refresh_token.is_some(),
        }
    }
}

impl fmt::Debug for Logins {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Logins").field("folder", &self.folder).finish_non_exhaustive()
    }
}
