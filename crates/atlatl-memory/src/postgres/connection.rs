//! A connection with its prepared statements, and the mapping of database errors.
//!
//! A task of the caller's runtime moves data between the client and the socket.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::error::{DbError, Severity, SqlState};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Error, NoTls, Row, Statement};

use super::cancel::{CancelRequest, CancelRoute};
use super::cleartext_guard::CleartextGuard;
use super::connect_refusal::Refusal;
use super::options::Target;
use super::pooler::{PoolerDetector, StatementKind};
use super::tls::Encryption;
use crate::blocking;
use crate::store::{BoxError, StoreError};

/// The maximum number of prepared statements: more than there are distinct queries. A query of a
/// tenant's vector index contains the index name.
const MAX_PREPARED_STATEMENTS: usize = 256;

/// A parameter and its type.
pub(super) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// An open connection.
pub(super) struct Connection {
    client: Client,
    cancel_route: CancelRoute,
    pooler: PoolerDetector,
    prepared_statements: Mutex<HashMap<(String, Vec<Type>), Statement>>,
    driver: AbortHandle,
}

impl Connection {
    /// Connects within the timeout of `target`. If its password was rejected and has been replaced
    /// since it was read, connects once more with the new one.
    pub(super) async fn open(target: &Target) -> Result<Self, StoreError> {
        let password = target.password.read(&target.place).await?;
        let refusal = match Self::open_with(target, password.as_deref()).await {
            Ok(connection) => return Ok(connection),
            Err(refusal) => refusal,
        };
        if refusal.is_wrong_password() && target.password.is_dynamic() {
            let new = target.password.read(&target.place).await?;
            if new != password {
                let opened = Self::open_with(target, new.as_deref()).await;
                return opened.map_err(|refusal| refusal.into_store_error(target));
            }
        }
        Err(refusal.into_store_error(target))
    }

    async fn open_with(target: &Target, password: Option<&str>) -> Result<Self, Refusal> {
        let mut config = target.config.clone();
        if let Some(password) = password {
            config.password(password);
        }
        let opening = async {
            match target.tls.encryption {
                Encryption::Never => connect_plain(config, target).await,
                Encryption::Always => connect_tls(config, target).await,
                Encryption::IfOffered => match connect_tls(config.clone(), target).await {
                    Err(Refusal::NoTls) => connect_plain(config, target).await,
                    opened => opened,
                },
            }
        };
        match target.config.get_connect_timeout().copied() {
            // The library's timeout applies to each address, and ends when the socket is open.
            Some(bound) => match tokio::time::timeout(bound, opening).await {
                Ok(opened) => opened,
                Err(late) => Err(Refusal::Other(StoreError::Unavailable(late.into()))),
            },
            None => opening.await,
        }
    }

    /// Starts the task that drives the connection. Its error is reported to the request that waits
    /// for a result.
    fn new(
        client: Client,
        driver: impl Future<Output = Result<(), Error>> + Send + 'static,
        cancel_route: CancelRoute,
        target: &Target,
    ) -> Self {
        let driver = tokio::spawn(driver).abort_handle();
        let pooler = PoolerDetector::new(target.prepared_statements, &client.cancel_token());
        Self { client, cancel_route, pooler, prepared_statements: Mutex::default(), driver }
    }

    /// Returns whether the connection is open, as far as the client knows.
    pub(super) fn is_open(&self) -> bool {
        !self.client.is_closed()
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns what decides about the kind of statements.
    pub(super) fn pooler(&self) -> &PoolerDetector {
        &self.pooler
    }

    /// Runs a statement and returns its rows.
    pub(super) async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        if self.pooler.kind() != Some(StatementKind::Named) {
            return self.client.query_typed(sql, values).await;
        }
        let (types, values) = split(values);
        let statement = self.statement(sql, types).await?;
        self.client.query(&statement, &values).await
    }

    /// Runs a statement and returns the number of affected rows.
    pub(super) async fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, Error> {
        if self.pooler.kind() != Some(StatementKind::Named) {
            return self.client.execute_typed(sql, values).await;
        }
        let (types, values) = split(values);
        let statement = self.statement(sql, types).await?;
        self.client.execute(&statement, &values).await
    }

    /// Returns a prepared statement, from the cache if possible. It always runs under the same
    /// role, and the tenant is evaluated at execution.
    async fn statement(&self, sql: &str, types: Vec<Type>) -> Result<Statement, Error> {
        let key = (sql.to_owned(), types);
        if let Some(statement) = self.prepared_statements().get(&key) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare_typed(sql, &key.1).await?;
        let mut prepared_statements = self.prepared_statements();
        if prepared_statements.len() >= MAX_PREPARED_STATEMENTS {
            prepared_statements.clear();
        }
        prepared_statements.insert(key, statement.clone());
        Ok(statement)
    }

    fn prepared_statements(&self) -> MutexGuard<'_, HashMap<(String, Vec<Type>), Statement>> {
        self.prepared_statements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a statement without waiting for the result. Returns whether it was sent.
    pub(super) fn execute_detached(&self, sql: &str) -> bool {
        was_sent(self.client.batch_execute(sql).now_or_never().as_ref())
    }

    /// Returns the request that cancels the running statement.
    pub(super) fn cancel_request(&self) -> CancelRequest {
        CancelRequest::new(self.client.cancel_token(), self.cancel_route.clone())
    }
}

/// Returns whether the first poll of a statement sent it. The result may already be there: another thread
/// reads the socket, and may run first.
fn was_sent<T, E>(first_poll: Option<&Result<T, E>>) -> bool {
    !matches!(first_poll, Some(Err(_)))
}

impl Drop for Connection {
    fn drop(&mut self) {
        // By itself it would wait for the results of statements that were sent.
        self.driver.abort();
    }
}

/// Connects with TLS.
async fn connect_tls(mut config: Config, target: &Target) -> Result<Connection, Refusal> {
    let tls = target.tls.clone();
    let connector = match blocking::run(move || tls.connector()).await {
        Ok(Ok(connector)) => connector,
        Ok(Err(error)) => {
            return Err(Refusal::Other(StoreError::Connect(error.at(&target.place))));
        }
        Err(error) => return Err(Refusal::Other(StoreError::Engine(error.into()))),
    };
    config.ssl_mode(SslMode::Require);
    match config.connect(connector.clone()).await {
        Ok((client, driver)) => {
            Ok(Connection::new(client, driver, CancelRoute::Tls(connector), target))
        }
        Err(_) if connector.cleartext_requested() => Err(Refusal::Other(StoreError::PlainText {
            place: target.place.clone(),
            why: "the server requests the password in clear text, and sslmode=require does not \
                  verify who it is",
        })),
        Err(error) if connector.is_declined(&error) => Err(Refusal::NoTls),
        Err(error) => Err(Refusal::Encrypted(error)),
    }
}

/// Connects without TLS.
async fn connect_plain(mut config: Config, target: &Target) -> Result<Connection, Refusal> {
    config.ssl_mode(SslMode::Disable);
    if target.is_remote {
        return connect_guarded(&config, target).await;
    }
    match config.connect(NoTls).await {
        Ok((client, driver)) => {
            Ok(Connection::new(client, driver, CancelRoute::local(&config), target))
        }
        Err(error) => Err(Refusal::Plain(error)),
    }
}

/// Connects to the first host that accepts, without TLS. The password is not sent in clear text.
async fn connect_guarded(config: &Config, target: &Target) -> Result<Connection, Refusal> {
    if config.get_target_session_attrs() != TargetSessionAttrs::Any {
        let why = "target_session_attrs needs an encrypted connection or this machine".to_owned();
        let place = target.place.clone();
        return Err(Refusal::Other(StoreError::NotAStore { place, why }));
    }
    let cleartext_requested = Arc::new(AtomicBool::new(false));
    let stream = open(config).await.map_err(Refusal::Other)?;
    let route = stream.peer_addr().map_or(CancelRoute::Plain, CancelRoute::Peer);
    let stream = CleartextGuard::new(stream, Arc::clone(&cleartext_requested));
    match config.connect_raw(stream, NoTls).await {
        Ok((client, driver)) => Ok(Connection::new(client, driver, route, target)),
        Err(_) if cleartext_requested.load(Ordering::Acquire) => {
            Err(Refusal::Other(StoreError::PlainText {
                place: target.place.clone(),
                why: "the server requests the password in clear text, on an unencrypted connection",
            }))
        }
        Err(error) => Err(Refusal::Plain(error)),
    }
}

async fn open(config: &Config) -> Result<TcpStream, StoreError> {
    let mut last_error: BoxError = BoxError::from("missing host");
    for (n, host) in config.get_hosts().iter().enumerate() {
        let Host::Tcp(name) = host else { continue };
        let port = *config.get_ports().get(n).or(config.get_ports().first()).unwrap_or(&5432);
        let opened = match config.get_hostaddrs().get(n) {
            Some(address) => TcpStream::connect((*address, port)).await,
            None => TcpStream::connect((name.as_str(), port)).await,
        };
        match opened.and_then(|stream| configure_socket(stream, config)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last_error = error.into(),
        }
    }
    Err(StoreError::Unavailable(last_error))
}

/// Applies the socket options that the library would set.
fn configure_socket(stream: TcpStream, config: &Config) -> io::Result<TcpStream> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    if config.get_keepalives() {
        sockopt::set_socket_keepalive(&stream, true)?;
        #[cfg(target_os = "linux")]
        sockopt::set_tcp_keepidle(&stream, config.get_keepalives_idle())?;
    }
    #[cfg(target_os = "linux")]
    if let Some(timeout) = config.get_tcp_user_timeout() {
        let millis = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(&stream, millis)?;
    }
    Ok(stream)
}

/// Separates types and parameters.
fn split<'a>(values: &[Value<'a>]) -> (Vec<Type>, Vec<&'a (dyn ToSql + Sync)>) {
    values.iter().map(|(value, kind)| (kind.clone(), *value)).unzip()
}

/// Returns whether the connection is unusable. A pooler reports a server that it lost with a code of
/// class 08, also in place of the answer to a commit.
pub(super) fn is_lost(error: &Error) -> bool {
    let by_code = error.as_db_error().is_some_and(|error| {
        ["08", "57P"].iter().any(|class| error.code().code().starts_with(class))
            || matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
    });
    let by_socket =
        std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<io::Error>);
    error.is_closed() || by_code || by_socket
}

/// Maps the error of a statement.
pub(super) fn to_store_error(error: Error) -> StoreError {
    let Some(code) = error.code() else {
        return if is_lost(&error) {
            StoreError::Unavailable(error.into())
        } else {
            StoreError::Engine(error.into())
        };
    };
    match *code {
        // Nothing was written, and a retry may succeed.
        SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::LOCK_NOT_AVAILABLE
        | SqlState::QUERY_CANCELED
        | SqlState::TOO_MANY_CONNECTIONS => StoreError::Busy,
        SqlState::DISK_FULL
        | SqlState::IO_ERROR
        | SqlState::OUT_OF_MEMORY
        | SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::Storage(error.into()),
        // The server is starting, stopping, or rejects the login.
        SqlState::INVALID_CATALOG_NAME => StoreError::Unavailable(error.into()),
        ref code if ["57P", "08", "28"].iter().any(|class| code.code().starts_with(class)) => {
            StoreError::Unavailable(error.into())
        }
        _ => match error.as_db_error().map(ReportedError::new) {
            Some(reported) => StoreError::Engine(reported.into()),
            None => StoreError::Engine(error.into()),
        },
    }
}

/// An error of a statement as the server reported it, without its detail: that quotes rows, as in
/// `Key (…)=(…) already exists`, and the message is logged.
#[derive(Debug, thiserror::Error)]
#[error("{severity}: {message} (SQLSTATE {})", .code.code())]
pub(super) struct ReportedError {
    severity: String,
    message: String,
    code: SqlState,
}

impl ReportedError {
    fn new(error: &DbError) -> Self {
        let code = error.code().clone();
        // The messages of data exceptions quote the value.
        let is_quoting = code.code().starts_with("22");
        let message = if is_quoting { "data exception" } else { error.message() };
        Self { severity: error.severity().to_owned(), message: message.to_owned(), code }
    }

    pub(super) fn code(&self) -> &SqlState {
        &self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_with_an_immediate_result_was_sent() {
        assert!(was_sent::<(), ()>(None) && was_sent::<(), ()>(Some(&Ok(()))));
        assert!(!was_sent::<(), ()>(Some(&Err(()))));
    }
}
