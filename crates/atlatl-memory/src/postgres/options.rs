//! Connection options.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::connection_string::split_tls;
use super::credentials::PasswordSource;
use super::migrations::newest;
use super::pooler::PreparedStatements;
use super::tls::{DefaultMode, Encryption, TlsOptions};
use crate::store::StoreError;

/// The beginning of the `application_name` of a connection. The schema version follows, by which
/// `atlatl db migrate --finish` recognizes older servers.
pub(super) const APPLICATION: &str = "atlatl";
/// How long a silent peer is considered alive.
const DEAD_PEER_TIMEOUT: Duration = Duration::from_secs(30);

/// Which databases may be used without encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlainText {
    /// Those on this machine: over a Unix socket or a loopback address.
    Local,
    /// Any. If the server offers no TLS, memories are readable on the network; a password is never
    /// sent in clear text.
    Anywhere,
}

/// The minimum number of connections from which some are reserved. A server for many tenants needs
/// as many.
pub const MIN_SHARED_CONNECTIONS: usize = 4;

/// Who shares the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionSharing {
    /// One tenant, which may use all connections except one for readiness checks.
    OneTenant,
    /// Many tenants, each of which may use a quarter of the connections. One is reserved for
    /// readiness checks and one for authentication.
    ManyTenants,
}

/// Receives the name of a tenant and the time for which a transaction of it had a connection.
pub type DatabaseTimeSink = Arc<dyn Fn(&str, Duration) + Send + Sync>;

/// Receives the outcome of each transaction and how long it took, failed attempts to begin one included.
pub type TransactionSink = Arc<dyn Fn(Result<(), &StoreError>, Duration) + Send + Sync>;

/// The connection options of a database.
#[derive(Clone)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// `postgres://user:password@host/database`, with `sslmode`, `sslrootcert`, `sslcert` and `sslkey`
    /// as in libpq. Without `sslmode`, a connection to another machine has the mode `verify-full`.
    pub url: String,
    /// The source of the password, if the URL has none.
    pub password: PasswordSource,
    /// The role that every statement runs as. It owns nothing, and the row-level security policies
    /// apply to it. The user of the URL is this role or a member of it.
    pub role: String,
    /// The role that a migration lets administer tenants, if there is one. It reads no memories.
    pub admin_role: Option<String>,
    /// Whether an unencrypted connection is allowed.
    pub plain_text: PlainText,
    /// The maximum number of connections.
    pub connections: usize,
    /// Whether statements are prepared once per connection.
    pub prepared_statements: PreparedStatements,
    /// Who shares the connections.
    pub sharing: ConnectionSharing,
    /// Receives the database time of each transaction of a tenant.
    pub database_time: Option<DatabaseTimeSink>,
    /// Receives the outcome of each transaction.
    pub transactions: Option<TransactionSink>,
    /// The number of vectors of a model from which a tenant has a vector index, if pgvector is
    /// installed. Below that all vectors are compared.
    pub index_from: usize,
    /// The timeout of a statement.
    pub statement_timeout: Duration,
    /// The timeout of connecting.
    pub connect_timeout: Duration,
    /// How long to wait for a free connection.
    pub acquire_timeout: Duration,
}

impl PostgresOptions {
    /// Creates options for the database at `url`, with a few connections and timeouts of some
    /// seconds.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            password: PasswordSource::None,
            role: "atlatl_app".to_owned(),
            admin_role: None,
            plain_text: PlainText::Local,
            connections: 8,
            prepared_statements: PreparedStatements::Auto,
            sharing: ConnectionSharing::OneTenant,
            database_time: None,
            transactions: None,
            index_from: 20_000,
            statement_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            acquire_timeout: Duration::from_secs(5),
        }
    }

    /// Runs every statement as the user of the URL, to whom the policies apply. If the URL has no
    /// password, it comes from `password`.
    pub fn as_user(mut self, password: PasswordSource) -> Result<Self, StoreError> {
        let config = self.target()?.config;
        let user = config.get_user().ok_or_else(|| invalid_url("missing user name".to_owned()))?;
        user.clone_into(&mut self.role);
        self.password = password;
        Ok(self)
    }

    /// Sets where unencrypted connections are allowed.
    pub fn with_plain_text(mut self, plain_text: PlainText) -> Self {
        self.plain_text = plain_text;
        self
    }

    /// Sets the role that a migration grants access to.
    pub fn for_role(mut self, role: impl Into<String>) -> Self {
        self.role = role.into();
        self
    }

    /// Parses the URL.
    pub(super) fn target(&self) -> Result<Target, StoreError> {
        let (url, parameters) = split_tls(&self.url);
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            invalid_url(format!("{error}{}", cause.unwrap_or_default()))
        })?;
        let is_remote = !is_local(&config);
        let default = match self.plain_text {
            _ if !is_remote => DefaultMode::Disable,
            PlainText::Local => DefaultMode::VerifyFull,
            PlainText::Anywhere => DefaultMode::Prefer,
        };
        let mut tls = TlsOptions::new(parameters, default).map_err(invalid_url)?;
        let has_name = config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)));
        if !has_name && config.get_hostaddrs().is_empty() {
            // As for libpq, Unix sockets are never encrypted.
            tls = TlsOptions::DISABLED;
        } else if !has_name && tls.encryption != Encryption::Never {
            return Err(invalid_url("TLS needs a host name, also with hostaddr".to_owned()));
        }
        if is_remote && tls.encryption != Encryption::Always && self.plain_text == PlainText::Local
        {
            return Err(StoreError::PlainText {
                place: place(&config),
                why: "passwords and memories would be readable on the network without encryption",
            });
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(self.connect_timeout);
        }
        // A dead host does not close its connections.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(DEAD_PEER_TIMEOUT).keepalives_idle(DEAD_PEER_TIMEOUT);
        }
        let own = config.get_application_name().map(|own| format!(" {own}")).unwrap_or_default();
        config.application_name(format!("{APPLICATION}/{}{own}", newest()));
        let has_password = config.get_password().is_some();
        let password = if has_password { PasswordSource::None } else { self.password.clone() };
        let prepared_statements = self.prepared_statements;
        Ok(Target { place: place(&config), config, tls, password, prepared_statements, is_remote })
    }
}

/// What to connect to, and how.
pub(super) struct Target {
    pub(super) config: Config,
    pub(super) tls: TlsOptions,
    /// The source of the password, if `config` has none.
    pub(super) password: PasswordSource,
    pub(super) prepared_statements: PreparedStatements,
    /// Whether traffic may leave this machine.
    pub(super) is_remote: bool,
    /// The URL of the database without the password.
    pub(super) place: String,
}

impl Target {
    /// Returns whether there is no password at all.
    pub(super) fn has_no_password(&self) -> bool {
        self.config.get_password().is_none() && self.password == PasswordSource::None
    }
}

fn invalid_url(why: String) -> StoreError {
    StoreError::NotAStore { place: "the database URL".to_owned(), why }
}

impl fmt::Debug for PostgresOptions {
    /// Omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("place", &self.target().map(|target| target.place).unwrap_or_default())
            .field("password", &self.password)
            .field("role", &self.role)
            .field("admin_role", &self.admin_role)
            .field("connections", &self.connections)
            .field("prepared_statements", &self.prepared_statements)
            .field("sharing", &self.sharing)
            .field("index_from", &self.index_from)
            .field("statement_timeout", &self.statement_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("acquire_timeout", &self.acquire_timeout)
            .finish_non_exhaustive()
    }
}

/// Returns whether all traffic stays on this machine. Names are not resolved: of all names only
/// `localhost` counts.
fn is_local(config: &Config) -> bool {
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        return addresses.iter().all(|address| address.to_canonical().is_loopback());
    }
    config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            let address = name.parse::<IpAddr>();
            name.eq_ignore_ascii_case("localhost")
                || address.is_ok_and(|address| address.to_canonical().is_loopback())
        }
    })
}

/// Returns the URL of the database without the password.
fn place(config: &Config) -> String {
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
    use super::super::tls::Verification;
    use super::*;

    /// Databases on another machine.
    const REMOTE: [&str; 6] = [
        "postgres://me:s3cret@192.0.2.1/d",
        "postgres://me@db.example/d",
        "postgres://me:s3cret@localhost.example/d",
        "postgres://me:s3cret@localhost,192.0.2.1/d",
        "postgres://me:s3cret@localhost/d?hostaddr=192.0.2.1",
        "postgres://me:s3cret@[2001:db8::1]/d",
    ];

    fn with(url: &str, parameter: &str) -> String {
        format!("{url}{}{parameter}", if url.contains('?') { '&' } else { '?' })
    }

    #[test]
    fn a_password_is_not_shown() {
        let options = PostgresOptions::new("postgres://me:s3cret@db.example/team");
        let shown = format!("{options:?}");
        assert!(shown.contains("postgres://db.example:5432/team"), "{shown}");
        assert!(!shown.contains("s3cret"));
        for url in ["postgres://me:s3cret@h/d?sslmode=allow", "postgres://me:s3cret@h/d?odd=1"] {
            let refused = PostgresOptions::new(url).target().err().unwrap().to_string();
            assert!(!refused.contains("s3cret") && refused.contains("URL"), "{refused}");
        }
    }

    #[test]
    fn a_connection_says_which_schema_it_knows() {
        for (url, name) in [
            ("postgres://me@localhost/d", format!("atlatl/{}", newest())),
            (
                "postgres://me@localhost/d?application_name=team",
                format!("atlatl/{} team", newest()),
            ),
        ] {
            let config = PostgresOptions::new(url).target().unwrap().config;
            assert_eq!(config.get_application_name(), Some(name.as_str()));
        }
    }

    #[test]
    fn g03_a_database_beyond_this_machine_is_refused_without_encryption() {
        for url in REMOTE.iter().flat_map(|url| ["disable", "prefer"].map(|mode| (url, mode))) {
            let url = with(url.0, &format!("sslmode={}", url.1));
            let refused = PostgresOptions::new(&url).target().err().unwrap();
            assert!(matches!(refused, StoreError::PlainText { .. }), "{url}: {refused}");
            assert!(!refused.to_string().contains("s3cret"), "{refused}");
            let allowed = PostgresOptions::new(&url).with_plain_text(PlainText::Anywhere);
            let target = allowed.target().unwrap();
            assert!(target.is_remote && target.tls.encryption != Encryption::Always, "{url}");
        }
        for url in [
            "postgres://me:s3cret@localhost/d",
            "postgres://me:s3cret@LOCALHOST/d?sslmode=disable",
            "postgres://me:s3cret@127.0.0.9/d",
            "postgres://me:s3cret@[::1]/d",
            "postgres://me:s3cret@[::ffff:127.0.0.1]/d",
            "postgres://me:s3cret@%2Frun%2Fpostgresql/d",
            "postgres://me:s3cret@%2Frun%2Fpostgresql/d?sslmode=verify-full",
            "postgres://me:s3cret@db.example/d?hostaddr=127.0.0.1",
            "host=/run/postgresql user=me",
        ] {
            let target = PostgresOptions::new(url).target().unwrap();
            assert_eq!((target.is_remote, &target.tls), (false, &TlsOptions::DISABLED), "{url}");
        }
    }

    #[test]
    fn g40_a_database_beyond_this_machine_is_verified_unless_the_url_says_otherwise() {
        for url in REMOTE {
            let tls = |url: &str| PostgresOptions::new(url).target().unwrap().tls;
            assert_eq!(tls(url).encryption, Encryption::Always);
            assert_eq!(tls(url).verification, Verification::ChainAndName(None));
            let roots = Verification::ChainAndName(Some("/ca.pem".into()));
            assert_eq!(tls(&with(url, "sslrootcert=/ca.pem")).verification, roots);
            let unverified = tls(&with(url, "sslmode=require"));
            assert_eq!(unverified.encryption, Encryption::Always);
            assert_eq!(unverified.verification, Verification::None);
            let allowed = PostgresOptions::new(url).with_plain_text(PlainText::Anywhere);
            assert_eq!(allowed.target().unwrap().tls.encryption, Encryption::IfOffered);
        }
        let unnamed = PostgresOptions::new("hostaddr=192.0.2.1 user=me").target();
        assert!(unnamed.err().unwrap().to_string().contains("host name"));
    }
}
