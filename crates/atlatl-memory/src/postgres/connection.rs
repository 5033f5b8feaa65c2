//! A connection with its prepared statements, and the mapping of database errors.
//!
//! A task of the caller's runtime moves data between the client and the socket.
//!
//! On an unencrypted connection to another machine, no password is sent in clear text: `PostgreSQL`
//! can verify a password without sending it, and a server that asks for the password itself,
//! possibly an impostor, does not get it.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{CancelToken, Client, Config, Error, NoTls, Statement};

use super::options::{is_local, place};
use crate::store::{BoxError, StoreError};

/// The maximum number of prepared statements: more than there are distinct queries. A query of a
/// tenant's vector index contains the index name.
const MAX_PREPARED_STATEMENTS: usize = 256;
/// The message type of an authentication request.
const AUTHENTICATION_TAG: u8 = b'R';
/// Authentication codes: authenticated, and send the password in clear text.
const AUTH_OK: u32 = 0;
const AUTH_CLEARTEXT_PASSWORD: u32 = 3;
/// The length of the message type, the length field and the authentication code.
const AUTH_HEADER_LEN: usize = 9;

/// An open connection.
pub(super) struct Connection {
    client: Client,
    /// The address for cancel requests, if the client does not know it.
    peer: Option<SocketAddr>,
    prepared_statements: Mutex<HashMap<(String, Vec<Type>), Statement>>,
    driver: AbortHandle,
}

impl Connection {
    /// Connects within the timeout of `config`.
    pub(super) async fn open(config: &Config) -> Result<Self, StoreError> {
        let opening = async {
            if is_local(config) {
                let (client, driver) = config.connect(NoTls).await.map_err(to_connect_error)?;
                return Ok(Self::new(client, driver, None));
            }
            connect_guarded(config).await
        };
        match config.get_connect_timeout().copied() {
            // The library's timeout applies to each address, and ends when the socket is open.
            Some(bound) => tokio::time::timeout(bound, opening)
                .await
                .map_err(|late| StoreError::Unavailable(late.into()))?,
            None => opening.await,
        }
    }

    /// Starts the task that drives the connection. Its error is reported to the request that waits
    /// for a result.
    fn new(
        client: Client,
        driver: impl Future<Output = Result<(), Error>> + Send + 'static,
        peer: Option<SocketAddr>,
    ) -> Self {
        let driver = tokio::spawn(driver).abort_handle();
        Self { client, peer, prepared_statements: Mutex::default(), driver }
    }

    /// Returns whether the connection is open, as far as the client knows.
    pub(super) fn is_open(&self) -> bool {
        !self.client.is_closed()
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns a prepared statement, from the cache if possible. It always runs under the same
    /// role, and the tenant is evaluated at execution.
    pub(super) async fn statement(&self, sql: &str, types: Vec<Type>) -> Result<Statement, Error> {
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
        // The first poll sends it. An immediate result means that the connection is broken.
        self.client.batch_execute(sql).now_or_never().is_none()
    }

    /// Returns the request that cancels the running statement.
    pub(super) fn cancel_request(&self) -> CancelRequest {
        CancelRequest { token: self.client.cancel_token(), peer: self.peer }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // By itself it would wait for the results of statements that were sent.
        self.driver.abort();
    }
}

/// A request that cancels the running statement of a connection.
pub(super) struct CancelRequest {
    token: CancelToken,
    peer: Option<SocketAddr>,
}

impl CancelRequest {
    /// Sends the request on a connection of its own, without a password.
    pub(super) async fn send(self) -> Result<(), BoxError> {
        match self.peer {
            Some(peer) => {
                let stream = TcpStream::connect(peer).await?;
                self.token.cancel_query_raw(stream, NoTls).await?;
            }
            None => self.token.cancel_query(NoTls).await?,
        }
        Ok(())
    }
}

/// Connects to the first host that accepts.
async fn connect_guarded(config: &Config) -> Result<Connection, StoreError> {
    if config.get_target_session_attrs() != TargetSessionAttrs::Any {
        let why = "target_session_attrs needs an encrypted connection or this machine".to_owned();
        return Err(StoreError::NotAStore { place: place(config), why });
    }
    let cleartext_requested = Arc::new(AtomicBool::new(false));
    let stream = open(config).await?;
    let peer = stream.peer_addr().ok();
    let stream = CleartextGuard::new(stream, Arc::clone(&cleartext_requested));
    match config.connect_raw(stream, NoTls).await {
        Ok((client, driver)) => Ok(Connection::new(client, driver, peer)),
        Err(_) if cleartext_requested.load(Ordering::Acquire) => Err(StoreError::PlainText {
            place: place(config),
            why: "the server requests the password in clear text",
        }),
        Err(error) => Err(to_connect_error(error)),
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

/// A stream that fails if the server requests the password in clear text, before the client reads
/// the request.
struct CleartextGuard<S> {
    stream: S,
    /// The header of the current message. `None` after authentication.
    head: Option<Vec<u8>>,
    /// The number of bytes left in the current message.
    left: usize,
    cleartext_requested: Arc<AtomicBool>,
}

impl<S> CleartextGuard<S> {
    fn new(stream: S, cleartext_requested: Arc<AtomicBool>) -> Self {
        Self {
            stream,
            head: Some(Vec::with_capacity(AUTH_HEADER_LEN)),
            left: 0,
            cleartext_requested,
        }
    }

    /// Parses the messages in the bytes read.
    fn inspect(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let (Some(head), false) = (&mut self.head, bytes.is_empty()) {
            if self.left > 0 {
                let skipped = self.left.min(bytes.len());
                self.left -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            let (byte, rest) = bytes.split_at(1);
            head.extend_from_slice(byte);
            bytes = rest;
            let Some(length) = head.get(1..5).and_then(<[u8]>::first_chunk).copied() else {
                continue;
            };
            let length = u32::from_be_bytes(length) as usize;
            let authenticates = head[0] == AUTHENTICATION_TAG && length >= AUTH_HEADER_LEN - 1;
            if !authenticates {
                // The length field includes itself.
                self.left = length.saturating_sub(4);
                head.clear();
            } else if let Some(kind) =
                head.get(5..AUTH_HEADER_LEN).and_then(<[u8]>::first_chunk).copied()
            {
                match u32::from_be_bytes(kind) {
                    AUTH_CLEARTEXT_PASSWORD => {
                        self.cleartext_requested.store(true, Ordering::Release);
                        let why = "the server requests the password in clear text";
                        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
                    }
                    AUTH_OK => self.head = None,
                    _ => {
                        self.left = length - (AUTH_HEADER_LEN - 1);
                        head.clear();
                    }
                }
            }
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CleartextGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let inspected = self.inspect(&buffer.filled()[before..]);
        if inspected.is_err() {
            buffer.set_filled(before);
        }
        Poll::Ready(inspected)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CleartextGuard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Returns whether the connection is unusable.
pub(super) fn is_lost(error: &Error) -> bool {
    let by_code = error.code().is_some_and(|code| code.code().starts_with("57P"));
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
        _ => StoreError::Engine(error.into()),
    }
}

/// Maps the error of a connection attempt.
pub(super) fn to_connect_error(error: Error) -> StoreError {
    match to_store_error(error) {
        StoreError::Engine(cause) => StoreError::Unavailable(cause),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind][..], &length, body].concat()
    }

    fn authentication(kind: u32, more: &[u8]) -> Vec<u8> {
        message(AUTHENTICATION_TAG, &[&kind.to_be_bytes()[..], more].concat())
    }

    /// Returns whether the guard stops these bytes, for chunks of any size.
    fn stops(bytes: &[u8]) -> bool {
        let stopped = |size: usize| {
            let mut guard = CleartextGuard::new((), Arc::default());
            let stopped = bytes.chunks(size).any(|piece| guard.inspect(piece).is_err());
            assert_eq!(stopped, guard.cleartext_requested.load(Ordering::Acquire));
            stopped
        };
        let first = stopped(1);
        assert!((2..=bytes.len()).all(|size| stopped(size) == first));
        first
    }

    #[test]
    fn g03_a_server_that_asks_for_the_password_in_clear_text_is_not_answered() {
        let (scram, ok) = (authentication(10, b"SCRAM-SHA-256\0\0"), authentication(AUTH_OK, b""));
        let clear = authentication(AUTH_CLEARTEXT_PASSWORD, b"");
        assert!(stops(&clear));
        assert!(stops(&[message(b'N', b"Swelcome\0\0"), clear.clone()].concat()));
        assert!(stops(&[scram.clone(), clear.clone()].concat()), "after another question too");
        // Data after authentication may contain any bytes.
        assert!(!stops(&[scram, ok, message(b'D', &clear), clear].concat()));
        assert!(!stops(&message(b'E', b"SFATAL\0\0")));
    }
}
