//! The user's directory of stored logins, and how a stored login is shown.

use atlatl_login::{Login, Logins};
use chrono::{DateTime, Utc};
use serde::Serialize;
use url::Url;

use crate::error::Error;
use crate::output::distance;
use crate::settings::Settings;

/// Opens the logins of the current user.
pub(crate) fn open(settings: &Settings) -> Result<Logins, Error> {
    let home = settings.surroundings().data_dir.as_ref();
    home.map(|dir| Logins::at(dir.join("atlatl/logins")))
        .ok_or_else(|| Error::usage("no home directory for logins"))
}

/// Parses the URL of a server. The error does not quote the input: a URL may contain a password.
pub(crate) fn parse_server_url(text: &str) -> Result<Url, Error> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => {
            Err(Error::usage("expected the URL of a server")
                .with_hint("https://mcp.example.com/mcp"))
        }
    }
}

/// A stored login as the commands print it.
#[derive(Debug, Serialize)]
pub(crate) struct LoginEntry {
    pub(crate) server: Url,
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) received_at: Option<DateTime<Utc>>,
    pub(crate) expires_at: Option<DateTime<Utc>>,
    pub(crate) refreshable: bool,
}

pub(crate) use LoginEntry as Entry;

impl From<Login> for LoginEntry {
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

impl LoginEntry {
    /// How long the login is valid, as text.
    pub(crate) fn validity(&self, now: DateTime<Utc>) -> String {
        match self.expires_at {
            _ if self.refreshable => "until you log out".to_owned(),
            None => "not said".to_owned(),
            Some(end) if end <= now => "expired".to_owned(),
            Some(end) => format!("ends {}", distance(end, now)),
        }
    }

    /// The scopes of the login, as text.
    pub(crate) fn scope_list(&self) -> String {
        if self.scopes.is_empty() { "not said".to_owned() } else { self.scopes.join(" ") }
    }
}
