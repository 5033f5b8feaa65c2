//! Options: where the database is, as whom it is asked, and how long is waited.

use std::fmt;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::store::StoreError;

/// For how long a host that says nothing is taken to be there.
const GONE: Duration = Duration::from_secs(30);

/// How a database is reached.
#[derive(Clone)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// `postgres://user:password@host/database`.
    pub url: String,
    /// The password, where the URL has none.
    pub password: Option<String>,
    /// The role that every statement runs as: it owns nothing and is bound by the policies. The user
    /// of the URL is this role or a member of it.
    pub role: String,
    /// The most connections at a time.
    pub connections: usize,
    /// With how many vectors of a model a tenant has an index for them, where pgvector is there. Below
    /// all are compared.
    pub index_from: usize,
    /// How long a statement may take.
    pub statement_timeout: Duration,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// How long is waited for a connection where all are in use.
    pub acquire_timeout: Duration,
}

impl PostgresOptions {
    /// The database at `url`, with a few connections and a few seconds for everything.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            password: None,
            role: "atlatl_app".to_owned(),
            connections: 8,
            index_from: 20_000,
            statement_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            acquire_timeout: Duration::from_secs(5),
        }
    }

    /// The same, with every statement as the user of the URL, who is bound by the policies; where the
    /// URL has no password, this one.
    pub fn as_user(mut self, password: Option<String>) -> Result<Self, StoreError> {
        let config = self.config()?;
        let user = config.get_user().ok_or_else(|| wrong("it names no user".to_owned()))?;
        user.clone_into(&mut self.role);
        self.password = password;
        Ok(self)
    }

    /// The same, letting this role in.
    pub fn for_role(mut self, role: impl Into<String>) -> Self {
        self.role = role.into();
        self
    }

    pub(super) fn config(&self) -> Result<Config, StoreError> {
        let mut config: Config = self.url.parse().map_err(|error: tokio_postgres::Error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            wrong(format!("{error}{}", cause.unwrap_or_default()))
        })?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err(wrong("sslmode=require, and there is no TLS here yet".to_owned()));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(self.connect_timeout);
        }
        // A host that is gone does not say so.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(GONE).keepalives_idle(GONE);
        }
        if let (None, Some(password)) = (config.get_password(), &self.password) {
            config.password(password);
        }
        Ok(config)
    }
}

fn wrong(why: String) -> StoreError {
    StoreError::NotAStore { place: "the database URL".to_owned(), why }
}

impl fmt::Debug for PostgresOptions {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("place", &self.config().map(|config| place(&config)).unwrap_or_default())
            .field("role", &self.role)
            .field("connections", &self.connections)
            .field("index_from", &self.index_from)
            .field("statement_timeout", &self.statement_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("acquire_timeout", &self.acquire_timeout)
            .finish_non_exhaustive()
    }
}

/// Which database, without a password.
pub(super) fn place(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(n, host)| match host {
        Host::Tcp(name) => {
            let port = config.get_ports().get(n).or(config.get_ports().first());
            format!("{name}:{}", port.unwrap_or(&5432))
        }
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts: Vec<String> = hosts.collect();
    format!("postgres://{}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown_and_tls_is_not_pretended() {
        let options = PostgresOptions::new("postgres://me:s3cret@db.example/team");
        let shown = format!("{options:?}");
        assert!(shown.contains("postgres://db.example:5432/team"), "{shown}");
        assert!(!shown.contains("s3cret"));
        for url in ["postgres://me:s3cret@h/d?sslmode=require", "postgres://me:s3cret@h/d?odd=1"] {
            let refused = PostgresOptions::new(url).config().unwrap_err().to_string();
            assert!(!refused.contains("s3cret") && refused.contains("URL"), "{refused}");
        }
    }
}
