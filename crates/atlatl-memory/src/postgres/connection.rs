//! A connection driven by the calling task, and the mapping of database errors.
//!
//! The caller's thread reads and writes the socket, so that no other thread has to wake up between
//! a query and its result. Each connection has a runtime of one thread, which is the caller's.
//!
//! On an unencrypted connection to another machine, no password is sent in clear text: `PostgreSQL`
//! can verify a password without sending it, and a server that asks for the password itself,
//! possibly an impostor, does not get it.

mod idle;

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::thread::Thread;
use std::{io, thread};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::{block_in_place, unconstrained};
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Error, NoTls, Statement};

use self::idle::ConnectionPermit;
pub(super) use self::idle::{Acquired, IdleConnections};
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

pub(super) struct Connection {
    runtime: Option<Runtime>,
    client: Client,
    /// Moves data between the client and the socket. `None` after the connection broke.
    driver: RefCell<Option<ConnectionDriver>>,
    prepared_statements: RefCell<HashMap<(String, Vec<Type>), Statement>>,
    _permit: ConnectionPermit,
}

pub(super) type ConnectionDriver = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

impl Connection {
    /// Connects within the timeout of `config`.
    pub(super) fn open(config: &Config, permit: ConnectionPermit) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::Engine(error.into()))?;
        let opened = block_on_any_thread(&runtime, connect(config));
        let (client, driver) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        Ok(Self {
            runtime: Some(runtime),
            client,
            driver: RefCell::new(Some(driver)),
            prepared_statements: RefCell::default(),
            _permit: permit,
        })
    }

    /// Runs `work` on the calling thread, and drives the connection meanwhile.
    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let both = poll_fn(|context| {
            let done = work.as_mut().poll(context);
            // Also after `work` is done, to send statements whose result is not awaited.
            self.drive(context);
            done
        });
        let runtime = self.runtime.as_ref().expect("there until it is dropped");
        block_on_any_thread(runtime, both)
    }

    fn drive(&self, context: &mut Context<'_>) {
        let mut driver = self.driver.borrow_mut();
        if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_ready()) {
            // The error is reported to the request that waits for a result.
            *driver = None;
        }
    }

    /// Returns whether the connection is open, as far as the client knows.
    pub(super) fn is_open(&self) -> bool {
        // One poll of the socket.
        self.run(yield_once());
        !self.client.is_closed()
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns a prepared statement, from the cache if possible. It always runs under the same
    /// role, and the tenant is evaluated at execution.
    pub(super) async fn statement(&self, sql: &str, types: Vec<Type>) -> Result<Statement, Error> {
        let key = (sql.to_owned(), types);
        if let Some(statement) = self.prepared_statements.borrow().get(&key) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare_typed(sql, &key.1).await?;
        let mut prepared_statements = self.prepared_statements.borrow_mut();
        if prepared_statements.len() >= MAX_PREPARED_STATEMENTS {
            prepared_statements.clear();
        }
        prepared_statements.insert(key, statement.clone());
        Ok(statement)
    }

    /// Sends a statement without waiting for the result. Returns whether it was sent.
    pub(super) fn execute_detached(&self, sql: &str) -> bool {
        let mut sent = pin!(self.client.batch_execute(sql));
        // An immediate result means that the connection is broken.
        self.run(poll_fn(|context| Poll::Ready(sent.as_mut().poll(context).is_pending())))
    }
}

/// Runs `work` on the calling thread, whichever runtime the thread belongs to.
fn block_on_any_thread<T>(runtime: &Runtime, work: impl Future<Output = T>) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Err(_) => runtime.block_on(work),
        // Other threads take over the tasks of this one.
        Ok(RuntimeFlavor::MultiThread) => block_in_place(|| runtime.block_on(work)),
        // The caller is the only thread of its runtime. Blocking on another runtime here would
        // panic, so a second thread drives the socket and the timers, and this one only polls.
        Ok(_) => thread::scope(|scope| {
            let (done, wait_for_done) = oneshot::channel::<()>();
            scope.spawn(|| runtime.block_on(wait_for_done));
            let value = {
                let _inside = runtime.enter();
                // Within a task, tokio's cooperative budget would run out without being refilled.
                block_on(unconstrained(work))
            };
            drop(done);
            value
        }),
    }
}

/// Yields once. `tokio::task::yield_now` would leave its waker with the caller's runtime, which
/// never runs again if its only thread waits here.
async fn yield_once() {
    let mut polled = false;
    poll_fn(|context| {
        if polled {
            return Poll::Ready(());
        }
        polled = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls `work` on the calling thread until it is done, without a runtime.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut context, mut work) = (Context::from_waker(&waker), pin!(work));
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

async fn connect(config: &Config) -> Result<(Client, ConnectionDriver), StoreError> {
    let opening = async {
        if is_local(config) {
            let (client, connection) = config.connect(NoTls).await.map_err(to_connect_error)?;
            return Ok((client, Box::pin(connection) as ConnectionDriver));
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

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for the shutdown would panic on a runtime thread.
            runtime.shutdown_background();
        }
    }
}

/// Connects to the first host that accepts.
async fn connect_guarded(config: &Config) -> Result<(Client, ConnectionDriver), StoreError> {
    if config.get_target_session_attrs() != TargetSessionAttrs::Any {
        let why = "target_session_attrs needs an encrypted connection or this machine".to_owned();
        return Err(StoreError::NotAStore { place: place(config), why });
    }
    let cleartext_requested = Arc::new(AtomicBool::new(false));
    let stream = CleartextGuard::new(open(config).await?, Arc::clone(&cleartext_requested));
    match config.connect_raw(stream, NoTls).await {
        Ok((client, connection)) => Ok((client, Box::pin(connection))),
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

    #[test]
    fn g39_a_yield_ends_on_the_only_thread_of_a_runtime() {
        let current_thread = || Builder::new_current_thread().enable_all().build().unwrap();
        let (own, callers) = (current_thread(), current_thread());
        callers.block_on(async { block_on_any_thread(&own, yield_once()) });
    }

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
