//! Logins: all that a person has.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use url::Url;

use crate::error::LoginError;
use crate::http_transport::Guarded;
use crate::http_transport::{Carrier, Internet};
use crate::session::ServerLogin;
use crate::session::revoke;
use crate::ssrf_guard::Policy;
use crate::token::Kept;
use crate::token_store::{Folder, ServerKey};

/// A directory of logins: mode 0700, a file of mode 0600 per server and issuer.
#[derive(Clone)]
pub struct Logins {
    pub(crate) folder: Folder,
    pub(crate) carrier: Arc<dyn Carrier>,
}

/// A login, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Login {
    /// Where.
    pub server: Url,
    /// Who granted it. Its words: neutralise them before they are shown.
    pub issuer: String,
    /// What the authority calls this client.
    pub client_id: String,
    /// What it is good for.
    pub scopes: Vec<String>,
    /// When the token came, in seconds since 1970.
    pub received_at: u64,
    /// Until when it is good, where the authority says so.
    pub expires_at: Option<u64>,
    /// Whether it can be refreshed without a person.
    pub refreshable: bool,
}

/// What came of logging out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forgotten {
    /// How many logins were removed.
    pub removed: usize,
    /// Why the authority may still honour the tokens.
    pub not_revoked: Option<String>,
}

impl Logins {
    /// Those in `dir`, which is made when the first is kept.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { folder: Folder::at(dir.into()), carrier: Arc::new(Internet) }
    }

    /// The same, with another way to the network.
    pub fn through(mut self, carrier: Arc<dyn Carrier>) -> Self {
        self.carrier = carrier;
        self
    }

    /// What there is, without secrets, by server.
    pub fn list(&self) -> Result<Vec<Login>, LoginError> {
        let mut all: Vec<Login> =
            self.folder.all()?.iter().map(|found| Login::from_stored(&found.kept)).collect();
        all.sort_by(|a, b| a.server.as_str().cmp(b.server.as_str()));
        Ok(all)
    }

    /// Logs out: removes the login, then asks the authority to revoke it. The order keeps the
    /// promise even if the authority never answers.
    pub async fn forget(&self, server: &Url) -> Result<Forgotten, LoginError> {
        let key = ServerKey::from_url(server);
        let mut forgotten = Forgotten::default();
        if self.folder.of(&key)?.is_empty() {
            return Ok(forgotten);
        }
        let locked = self.folder.lock(&key).await?;
        let gone = self.folder.of(&key)?;
        for found in &gone {
            forgotten.removed += usize::from(locked.remove(found)?);
        }
        drop(locked);
        for found in &gone {
            let client = self.client(&found.kept.server)?;
            let why = revoke(&client, &found.kept).await;
            forgotten.not_revoked = forgotten.not_revoked.or(why);
        }
        Ok(forgotten)
    }

    /// The login at one server, whether there is one or not.
    pub fn of(&self, server: &Url) -> ServerLogin {
        ServerLogin::new(self.clone(), ServerKey::from_url(server))
    }

    pub(crate) fn client(&self, server: &Url) -> Result<Guarded, LoginError> {
        Ok(Guarded::new(Policy::for_server(server)?, Arc::clone(&self.carrier)))
    }
}

impl Login {
    pub(crate) fn from_stored(kept: &Kept) -> Self {
        Self {
            server: kept.server.clone(),
            issuer: kept.issuer.clone(),
            client_id: kept.client_id.clone(),
            scopes: kept.scopes.clone(),
            received_at: kept.received_at,
            expires_at: kept.expires_at(),
            refreshable: kept.refresh_token.is_some(),
        }
    }
}

impl fmt::Debug for Logins {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Logins").field("folder", &self.folder).finish_non_exhaustive()
    }
}
