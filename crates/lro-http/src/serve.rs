//! An HTTP/1.1 server with limits on connections and time, and a graceful shutdown.
//!
//! A client may connect and send nothing, so connections are cheap, their number is limited, and idle or
//! stalled ones are closed.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio_io_timeout::TimeoutStream;

use crate::connections::{
    Admission, ConnectionLimiter, TrackedBody, TrackedConnection, TrackedStream,
};
use crate::listen::{Listener, SocketFile, user_id};
use crate::peer_user::{is_of_this_user, knows_peer_users};
use crate::route::Problem;

/// How long the runtime's threads may take to end after the last connection.
const RUNTIME_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// Longer than load balancers keep idle connections, so that the server never closes one while a
/// request is on its way.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// Clients send the head of a request at once, unless they are hostile or the connection is very bad.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The size of a connection's read buffer, which limits the head of a request and the part of a body
/// that is read ahead.
const MAX_BUFFER_LEN: usize = 64 << 10;
/// The pause after a failed `accept`, which lacks a resource that other connections have to release.
const ACCEPT_ERROR_DELAY: Duration = Duration::from_millis(50);
/// How long an evicted connection may take to finish its response.
const EVICTION_GRACE: Duration = Duration::from_secs(1);

/// Stops a server.
pub struct StopHandle(oneshot::Sender<()>);

/// The signal that a server waits for; the receiving end of a [`StopHandle`].
pub struct StopSignal(oneshot::Receiver<()>);

/// Creates a handle to stop a server and the signal for it.
pub fn stop_channel() -> (StopHandle, StopSignal) {
    let (send, receive) = oneshot::channel();
    (StopHandle(send), StopSignal(receive))
}

impl StopHandle {
    /// Stops the server after the requests in flight.
    pub fn now(self) {
        // The server may have ended already.
        let _ = self.0.send(());
    }
}

impl StopSignal {
    /// Waits for the signal.
    pub async fn wait(self) {
        // A dropped handle is not a signal.
        if self.0.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Limits on connections and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeLimits {
    /// Concurrent connections. A few more are queued until one ends, and get responses only at
    /// `/healthz` and `/readyz`.
    pub connections: usize,
    /// How long responses in flight may take after the server was stopped.
    pub drain_timeout: Duration,
    /// How long a connection may be idle between two requests.
    pub idle_timeout: Duration,
    /// How long the head of a request may take, from the start of the connection or from its first
    /// byte.
    pub head_timeout: Duration,
    /// How long a client may read nothing of a response.
    pub write_timeout: Duration,
    /// Whether TCP connections of other users of this machine are closed. Linux only: elsewhere the user of
    /// a connection is unknown, and every connection is accepted ([`knows_peer_users`]).
    pub same_user: bool,
}

impl ServeLimits {
    /// Limits with the default idle, head and write timeouts.
    pub fn new(connections: usize, drain_timeout: Duration) -> Self {
        Self {
            connections,
            drain_timeout,
            idle_timeout: IDLE_TIMEOUT,
            head_timeout: HEAD_TIMEOUT,
            write_timeout: WRITE_TIMEOUT,
            same_user: false,
        }
    }
}

/// Serves requests on `listener` until `stop` completes, and then finishes those in flight. Blocks: it
/// starts its own threads.
pub fn serve(
    router: impl FnOnce() -> Router,
    listener: Listener,
    limits: ServeLimits,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async { serve_async(router(), listener, limits, stop).await });
    runtime.shutdown_timeout(RUNTIME_SHUTDOWN_TIMEOUT);
    served
}

/// Like [`serve`], on the current runtime.
pub async fn serve_async(
    router: Router,
    listener: Listener,
    limits: ServeLimits,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    if limits.same_user
        && let Some(address) = listener.address()?
    {
        // Otherwise every connection would be closed, and the user would not see why.
        knows_peer_users(address)?;
    }
    let listener = AsyncListener::new(listener)?;
    let open = GracefulShutdown::new();
    let acceptor = Acceptor::new(router, limits, &open);
    tokio::select! {
        () = acceptor.accept_loop(&listener) => {}
        () = stop => {}
    }
    drop(listener);
    // A client that keeps its connection open must not delay the shutdown further.
    tokio::select! {
        () = open.shutdown() => {}
        () = tokio::time::sleep(limits.drain_timeout) => {}
    }
    Ok(())
}

/// A listener that is registered with the runtime.
enum AsyncListener {
    Tcp(tokio::net::TcpListener),
    Unix(
        tokio::net::UnixListener,
        #[expect(dead_code, reason = "dropping it removes the file")] SocketFile,
    ),
}

/// An accepted connection.
enum AcceptedStream {
    Tcp(TcpStream, IpAddr),
    Unix(UnixStream),
}

impl AsyncListener {
    fn new(listener: Listener) -> io::Result<Self> {
        match listener {
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                tokio::net::TcpListener::from_std(listener).map(Self::Tcp)
            }
            Listener::Unix(socket) => {
                socket.listener.set_nonblocking(true)?;
                let listener = tokio::net::UnixListener::from_std(socket.listener)?;
                Ok(Self::Unix(listener, socket.file))
            }
        }
    }

    /// Accepts the next connection. Returns `None` for a connection of another user, which is closed. That
    /// includes root, which can become the user if it has to.
    async fn accept(&self, same_user: bool) -> io::Result<Option<AcceptedStream>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                if same_user {
                    let local = stream.local_addr()?;
                    // One at a time, so that other users cannot have many lists read at once.
                    let check = spawn_blocking(move || is_of_this_user(local, peer));
                    if !check.await.unwrap_or(false) {
                        return Ok(None);
                    }
                }
                // Responses should be sent at once; a failure only makes them slower.
                let _ = stream.set_nodelay(true);
                Ok(Some(AcceptedStream::Tcp(stream, peer.ip())))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let same = stream.peer_cred().is_ok_and(|peer| peer.uid() == user_id());
                Ok(same.then_some(AcceptedStream::Unix(stream)))
            }
        }
    }
}

/// Accepts connections and serves each in a task.
struct Acceptor<'a> {
    http: http1::Builder,
    router: Router,
    limits: ServeLimits,
    open: &'a GracefulShutdown,
    limiter: Arc<ConnectionLimiter>,
}

impl<'a> Acceptor<'a> {
    fn new(router: Router, limits: ServeLimits, open: &'a GracefulShutdown) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(limits.idle_timeout)
            .max_buf_size(MAX_BUFFER_LEN);
        let limiter = Arc::new(ConnectionLimiter::new(limits.connections));
        Self { http, router, limits, open, limiter }
    }

    /// Accepts connections until it is cancelled.
    async fn accept_loop(&self, listener: &AsyncListener) {
        loop {
            match listener.accept(self.limits.same_user).await {
                Ok(Some(AcceptedStream::Tcp(stream, peer))) => {
                    self.serve_connection(stream, Some(peer)).await;
                }
                Ok(Some(AcceptedStream::Unix(stream))) => self.serve_connection(stream, None).await,
                Ok(None) => {}
                // The client closed the connection before it was accepted.
                Err(error) if is_connection_error(&error) => {}
                Err(_) => tokio::time::sleep(ACCEPT_ERROR_DELAY).await,
            }
        }
    }

    /// Serves one connection in a task of its own.
    async fn serve_connection<S>(&self, stream: S, peer: Option<IpAddr>)
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let connection = self.limiter.admit(peer, self.limits.head_timeout).await;
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.limits.write_timeout));
        let stream =
            TrackedStream { stream: Box::pin(stream), connection: Arc::clone(&connection) };
        let router = TowerToHyperService::new(self.router.clone());
        let (limiter, tracked) = (Arc::clone(&self.limiter), Arc::clone(&connection));
        let service = service_fn(move |request: Request<Incoming>| {
            let (router, limiter) = (router.clone(), Arc::clone(&limiter));
            handle(router, request, Arc::clone(&tracked), limiter)
        });
        let served = self.http.serve_connection(TokioIo::new(stream), service);
        let served = self.open.watch(served);
        tokio::spawn(async move {
            tokio::select! {
                // The client sees an error on its own side.
                _ = pin!(served) => {}
                () = connection.head_expired() => {}
                () = connection.evicted(EVICTION_GRACE) => {}
            }
        });
    }
}

/// Whether an error concerns the connection that was to be accepted, and not the server.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Handles one request, if its connection gets a permit.
async fn handle(
    router: TowerToHyperService<Router>,
    request: Request<Incoming>,
    connection: Arc<TrackedConnection>,
    limiter: Arc<ConnectionLimiter>,
) -> Result<Response<Body>, Infallible> {
    let admission = connection.admit_request(request.uri().path(), &limiter).await;
    let mut response = match admission {
        Admission::Serve | Admission::ServeAndClose => router.call(request).await?,
        Admission::Reject => {
            let detail = "server is at capacity; retry later";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).into_response()
        }
    };
    if admission != Admission::Serve {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|body| Body::new(TrackedBody { body, connection })))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::thread::{self, JoinHandle};
    use std::time::Instant;

    use axum::routing::get;

    use super::*;
    use crate::listen::listen;

    const TEST_TIMEOUT: Duration = Duration::from_secs(20);
    /// More than the system buffers for a client that does not read.
    const LARGE: usize = 64 << 20;

    struct Served {
        address: SocketAddr,
        stop: StopHandle,
        thread: JoinHandle<()>,
    }

    impl Served {
        fn start(limits: ServeLimits) -> Self {
            let listener = listen("127.0.0.1:0", false).unwrap();
            let address = listener.address().unwrap().unwrap();
            let (stop, stopped) = stop_channel();
            let router = || {
                Router::new()
                    .route("/", get(async || "here"))
                    .route("/healthz", get(async || "ok"))
                    .route("/large", get(async || vec![b'x'; LARGE]))
                    .route("/slow", get(async || tokio::time::sleep(SOON).await))
            };
            let thread =
                thread::spawn(move || serve(router, listener, limits, stopped.wait()).unwrap());
            Self { address, stop, thread }
        }

        fn connect(&self) -> TcpStream {
            let stream = TcpStream::connect(self.address).unwrap();
            stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
            stream
        }

        fn end(self) -> Duration {
            let since = Instant::now();
            self.stop.now();
            self.thread.join().unwrap();
            since.elapsed()
        }
    }

    const SOON: Duration = Duration::from_millis(300);

    fn limits() -> ServeLimits {
        ServeLimits::new(64, TEST_TIMEOUT)
    }

    fn ask(stream: &mut TcpStream, path: &str) {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }

    fn is_answered(stream: &mut TcpStream) -> bool {
        let mut status = [0; 12];
        stream.read_exact(&mut status).is_ok() && status == *b"HTTP/1.1 200"
    }

    /// Whether it ends, with an error or without, long before the timeout.
    fn ends(stream: &mut TcpStream) -> bool {
        let since = Instant::now();
        let _ = io::copy(stream, &mut io::sink());
        since.elapsed() < TEST_TIMEOUT / 2
    }

    #[test]
    fn who_says_nothing_or_half_a_question_is_not_waited_for() {
        let served =
            Served::start(ServeLimits { idle_timeout: SOON, head_timeout: SOON, ..limits() });
        let (mut silent, mut half, mut between) =
            (served.connect(), served.connect(), served.connect());
        half.write_all(b"GET / HTTP/1.1\r\nHost: local").unwrap();
        ask(&mut between, "/");
        assert!(is_answered(&mut between));
        for stream in [&mut silent, &mut half, &mut between] {
            assert!(ends(stream));
        }
        // An answer may take longer than a question.
        let mut slow = served.connect();
        ask(&mut slow, "/slow");
        assert!(is_answered(&mut slow));
        served.end();
    }

    #[test]
    fn who_does_not_read_is_hung_up_on_and_who_reads_gets_all() {
        let served = Served::start(ServeLimits { connections: 1, write_timeout: SOON, ..limits() });
        let mut stalled = served.connect();
        ask(&mut stalled, "/large");
        assert!(is_answered(&mut stalled));
        // The client that does not read has the only permit until its write timeout.
        let mut next = served.connect();
        ask(&mut next, "/large");
        assert!(is_answered(&mut next));
        let mut read = 0;
        let mut buffer = vec![0; 1 << 20];
        while read < LARGE {
            let piece = next.read(&mut buffer).unwrap();
            assert!(piece > 0, "{read} bytes");
            read += piece;
        }
        drop((stalled, next));
        served.end();
    }

    #[test]
    fn g06_half_a_head_is_cut_off_sooner_than_an_idle_connection() {
        let served = Served::start(ServeLimits { head_timeout: SOON, ..limits() });
        let (mut silent, mut half, mut later, mut idle) =
            (served.connect(), served.connect(), served.connect(), served.connect());
        half.write_all(b"GET / HTTP/1.1\r\nHost: local").unwrap();
        for stream in [&mut later, &mut idle] {
            ask(stream, "/");
            let mut answer = [0; 512];
            let _ = stream.read(&mut answer).unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 200"));
        }
        later.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        for stream in [&mut silent, &mut half, &mut later] {
            assert!(ends(stream));
        }
        // A load balancer keeps idle connections.
        ask(&mut idle, "/");
        assert!(is_answered(&mut idle));
        drop(idle);
        served.end();
    }

    #[test]
    fn g06_health_is_answered_while_one_client_holds_every_connection() {
        let served = Served::start(ServeLimits { connections: 16, ..limits() });
        let hold = |_| {
            let mut stream = served.connect();
            stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
            stream
        };
        let held: Vec<TcpStream> = (0..200).map(hold).collect();
        for _ in 0..20 {
            let since = Instant::now();
            let mut probe = served.connect();
            ask(&mut probe, "/healthz");
            assert!(is_answered(&mut probe));
            assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
            assert!(ends(&mut probe), "it has no permit");
        }
        // Another address has a share of its own. Elsewhere 127.0.0.2 is no address.
        if cfg!(target_os = "linux") {
            let mut other = socket_from("127.0.0.2", served.address).unwrap();
            ask(&mut other, "/");
            assert!(is_answered(&mut other));
        }
        drop(held);
        let mut after = served.connect();
        ask(&mut after, "/");
        assert!(is_answered(&mut after));
        drop(after);
        served.end();
    }

    /// A connection that comes from `source`.
    fn socket_from(source: &str, to: SocketAddr) -> io::Result<TcpStream> {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddr::new(source.parse().expect("an address"), 0))?;
        connect(&socket, &to)?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(TEST_TIMEOUT))?;
        Ok(stream)
    }

    #[test]
    fn connections_of_this_user_are_served_if_others_are_closed() {
        let served = Served::start(ServeLimits { same_user: true, ..limits() });
        let mut streams = [served.connect(), served.connect()];
        for stream in &mut streams {
            ask(stream, "/");
            assert!(is_answered(stream));
        }
        drop(streams);
        served.end();
    }

    #[test]
    fn further_connections_wait_until_one_ends() {
        let served = Served::start(ServeLimits { connections: 2, ..limits() });
        let (first, mut second) = (served.connect(), served.connect());
        let mut third = served.connect();
        ask(&mut third, "/");
        ask(&mut second, "/");
        assert!(is_answered(&mut second));
        third.set_read_timeout(Some(SOON)).unwrap();
        assert!(!is_answered(&mut third));
        drop(first);
        third.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        assert!(is_answered(&mut third));
        drop((second, third));
        served.end();
    }

    #[test]
    fn shutdown_finishes_requests_in_flight_and_waits_for_no_other_client() {
        let served = Served::start(limits());
        let (_silent, mut between, mut asking) =
            (served.connect(), served.connect(), served.connect());
        ask(&mut between, "/");
        assert!(is_answered(&mut between));
        ask(&mut asking, "/slow");
        // Nothing else shows that the request is in flight.
        thread::sleep(SOON / 3);
        let address = served.address;
        assert!(served.end() < TEST_TIMEOUT / 2);
        assert!(is_answered(&mut asking) && ends(&mut between));
        assert!(TcpStream::connect(address).is_err());
        let served = Served::start(ServeLimits { drain_timeout: SOON, ..limits() });
        let mut stalled = served.connect();
        ask(&mut stalled, "/large");
        assert!(is_answered(&mut stalled));
        assert!(served.end() < TEST_TIMEOUT / 2);
    }
}
