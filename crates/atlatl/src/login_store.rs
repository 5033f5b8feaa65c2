//! The directory of stored logins.

use atlatl_login::{Login, LoginError, Logins};
use chrono::{DateTime, Utc};
use serde::Serialize;
use url::Url;

use crate::{error::Error, settings::Settings};

/// Those of this person.
pub(crate) fn open(settings: &Settings) -> Result<Logins, Error> {
    let home = settings.surroundings().data_dir.as_ref();
    home.map(|dir| Logins::at(dir.join("atlatl/logins")))
        .ok_or_else(|| Error::usage("there is no home directory to keep logins in"))
}

/// The server that a person means.
pub(crate) fn server(typed: &str) -> Result<Url, Error> {
    match Url::parse(typed) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        // Not what was typed: a URL may hold a password.
        _ => {
            Err(Error::usage("a server is named by its URL")
                .with_hint("https://mcp.example.com/mcp"))
        }
    }
}

/// Waits for what is done over the network.
pub(crate) fn wait<T>(work: impl Future<Output = Result<T, LoginError>>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::failure(format!("no runtime: {error}")))?;
    Ok(runtime.block_on(work)?)
}

/// A login as a program reads it.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) server: Url,
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) received_at: Option<DateTime<Utc>>,
    pub(crate) expires_at: Option<DateTime<Utc>>,
    pub(crate) refreshable: bool,
}

impl From<Login> for Entry {
    fn from(login: Login) -> Self {
        let time = |seconds: u64| {
            let seconds = i64::try_from(seconds).ok()?;
            DateTime::from_timestamp(seconds, 0)
        };
        Self {
            server: login.server,
            issuer: login.issuer,
            client_id: login.client_id,
            scopes: login.scopes,
            received_at: time(login.received_at),
            expires_at: login.expires_at.and_then(time),
            refreshable: login.refreshable,
        }
    }
}

impl Entry {
    /// How long it lasts, as a person wants to know it.
    pub(crate) fn lasts(&self, now: DateTime<Utc>) -> String {
        match self.expires_at {
            _ if self.refreshable => "until you log out".to_owned(),
            None => "not said".to_owned(),
            Some(end) if end <= now => "expired".to_owned(),
            Some(end) => format!("ends {}", crate::output::distance(end, now)),
        }
    }

    /// What it is good for.
    pub(crate) fn good_for(&self) -> String {
        if self.scopes.is_empty() { "not said".to_owned() } else { self.scopes.join(" ") }
    }
}
