//! Serve: answers on an address until it is told to stop.
//!
//! Whoever connects may do nothing at all, so that a connection costs as little as it can, there are only
//! so many, and none is kept for nothing.

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
use tokio_io_timeout::TimeoutStream;

use crate::listen::Listener;
use crate::places::{Admission, Connection, Places};
use crate::problem::Problem;
use crate::unix::{SocketFile, user_id};
use crate::watched::{WatchedBody, WatchedStream};

/// How long threads that answer nobody any more may take to end.
const LAST_THREADS: Duration = Duration::from_secs(1);
/// Longer than balancers keep their connections, so that it is not us who hang up while they ask.
const SILENCE: Duration = Duration::from_secs(75);
/// A client sends the head of a request in one piece, unless it is hostile or the line is very bad.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const STALL: Duration = Duration::from_secs(30);
/// No head of a request is longer, and no more of a body is kept than that until it is asked for.
const BUFFER: usize = 64 << 10;
/// How long nobody is let in after that failed: what is missing then, others have to give back.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a connection that has to make room may take for an answer that is under way.
const EVICTION_GRACE: Duration = Duration::from_secs(1);

/// Ends a server.
pub struct Stop(oneshot::Sender<()>);

/// Waits for a server's end.
pub struct Stopped(oneshot::Receiver<()>);

/// A way to end a server.
pub fn stop() -> (Stop, Stopped) {
    let (send, receive) = oneshot::channel();
    (Stop(send), Stopped(receive))
}

impl Stop {
    /// Ends it, when what is under way is answered.
    pub fn now(self) {
        // It may have ended by itself.
        let _ = self.0.send(());
    }
}

impl Stopped {
    /// Waits until it is so.
    pub async fn wait(self) {
        // Who drops the other end has forgotten us, not stopped us.
        if self.0.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// How much a server takes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Connections at a time. A few further ones wait until one of them ends, and are meanwhile answered
    /// at `/healthz` and `/readyz`.
    pub connections: usize,
    /// How long an answer that is under way may go on when the server ends.
    pub last_words: Duration,
    /// How long a connection may be idle between two requests.
    pub silence: Duration,
    /// How long the head of a request may take: from the connection on, or from its first byte.
    pub head: Duration,
    /// How long whoever asked may take nothing of an answer.
    pub stall: Duration,
}

impl Bounds {
    /// So many connections, and so long an end.
    pub fn new(connections: usize, last_words: Duration) -> Self {
        Self { connections, last_words, silence: SILENCE, head: HEAD_TIMEOUT, stall: STALL }
    }
}

/// Answers on `listener` until `stop` is done, and then what is under way. Blocking: it has threads of
/// its own.
pub fn serve(
    router: impl FnOnce() -> Router,
    listener: Listener,
    bounds: Bounds,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let listener = Accepting::new(listener)?;
        let open = GracefulShutdown::new();
        let acceptor = Acceptor::new(router(), bounds, &open);
        tokio::select! {
            () = acceptor.run(&listener) => {}
            () = stop => {}
        }
        drop(listener);
        // A client that keeps its connection open must not keep us from ending.
        tokio::select! {
            () = open.shutdown() => {}
            () = tokio::time::sleep(bounds.last_words) => {}
        }
        Ok(())
    });
    runtime.shutdown_timeout(LAST_THREADS);
    served
}

/// A listener of the runtime.
enum Accepting {
    Tcp(tokio::net::TcpListener),
    Unix(
        tokio::net::UnixListener,
        #[expect(dead_code, reason = "its end removes the file")] SocketFile,
    ),
}

/// A new connection.
enum Accepted {
    Tcp(TcpStream, IpAddr),
    Unix(UnixStream),
}

impl Accepting {
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

    /// The next connection; `None` where it is another user's, which is closed unanswered. That holds for
    /// root too: it can become the user if it has to.
    async fn accept(&self) -> io::Result<Option<Accepted>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // What is written now is for someone who waits for it; without it, it is only slower.
                let _ = stream.set_nodelay(true);
                Ok(Some(Accepted::Tcp(stream, peer.ip())))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let same = stream.peer_cred().is_ok_and(|peer| peer.uid() == user_id());
                Ok(same.then_some(Accepted::Unix(stream)))
            }
        }
    }
}

/// Takes connections on.
struct Acceptor<'a> {
    http: http1::Builder,
    router: Router,
    bounds: Bounds,
    open: &'a GracefulShutdown,
    places: Arc<Places>,
}

impl<'a> Acceptor<'a> {
    fn new(router: Router, bounds: Bounds, open: &'a GracefulShutdown) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(bounds.silence).max_buf_size(BUFFER);
        Self { http, router, bounds, open, places: Arc::new(Places::new(bounds.connections)) }
    }

    /// Answers every connection, for ever.
    async fn run(&self, listener: &Accepting) {
        loop {
            match listener.accept().await {
                Ok(Some(Accepted::Tcp(stream, peer))) => self.converse(stream, Some(peer)).await,
                Ok(Some(Accepted::Unix(stream))) => self.converse(stream, None).await,
                Ok(None) => {}
                // The client went away before it was taken on: nothing is missing.
                Err(error) if is_of_connection(&error) => {}
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Answers one client, beside all others.
    async fn converse<S>(&self, stream: S, peer: Option<IpAddr>)
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let connection = self.places.admit(peer, self.bounds.head).await;
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.bounds.stall));
        let stream =
            WatchedStream { stream: Box::pin(stream), connection: Arc::clone(&connection) };
        let router = TowerToHyperService::new(self.router.clone());
        let (places, of_requests) = (Arc::clone(&self.places), Arc::clone(&connection));
        let service = service_fn(move |request: Request<Incoming>| {
            let (router, places) = (router.clone(), Arc::clone(&places));
            answer(router, request, Arc::clone(&of_requests), places)
        });
        let served = self.http.serve_connection(TokioIo::new(stream), service);
        let served = self.open.watch(served);
        tokio::spawn(async move {
            tokio::select! {
                // The client sees how it ended.
                _ = pin!(served) => {}
                () = connection.head_expired() => {}
                () = connection.evicted(EVICTION_GRACE) => {}
            }
        });
    }
}

/// Whether an error is about a connection that was about to be accepted, and not about us.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Answers one request, if there is a place for it.
async fn answer(
    router: TowerToHyperService<Router>,
    request: Request<Incoming>,
    connection: Arc<Connection>,
    places: Arc<Places>,
) -> Result<Response<Body>, Infallible> {
    let admission = connection.request(request.uri().path(), &places).await;
    let mut response = match admission {
        Admission::Full | Admission::Last => router.call(request).await?,
        Admission::Refused => {
            let said = "server is at capacity; retry later";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, said).into_response()
        }
    };
    if admission != Admission::Full {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|body| Body::new(WatchedBody { body, connection })))
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
    /// More than the system takes off a server's hands for a client that does not read.
    const LARGE: usize = 64 << 20;

    struct Served {
        address: SocketAddr,
        stop: Stop,
        thread: JoinHandle<()>,
    }

    impl Served {
        fn start(bounds: Bounds) -> Self {
            let listener = listen("127.0.0.1:0", false).unwrap();
            let address = listener.address().unwrap().unwrap();
            let (stop, stopped) = stop();
            let router = || {
                Router::new()
                    .route("/", get(async || "here"))
                    .route("/healthz", get(async || "ok"))
                    .route("/large", get(async || vec![b'x'; LARGE]))
                    .route("/slow", get(async || tokio::time::sleep(SOON).await))
            };
            let thread =
                thread::spawn(move || serve(router, listener, bounds, stopped.wait()).unwrap());
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

    fn bounds() -> Bounds {
        Bounds::new(64, TEST_TIMEOUT)
    }

    fn ask(stream: &mut TcpStream, path: &str) {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }

    fn is_answered(stream: &mut TcpStream) -> bool {
        let mut status = [0; 12];
        stream.read_exact(&mut status).is_ok() && status == *b"HTTP/1.1 200"
    }

    /// Whether it ends, with an error or without, before anybody loses patience.
    fn ends(stream: &mut TcpStream) -> bool {
        let since = Instant::now();
        let _ = io::copy(stream, &mut io::sink());
        since.elapsed() < TEST_TIMEOUT / 2
    }

    #[test]
    fn who_says_nothing_or_half_a_question_is_not_waited_for() {
        let served = Served::start(Bounds { silence: SOON, head: SOON, ..bounds() });
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
        let served = Served::start(Bounds { connections: 1, stall: SOON, ..bounds() });
        let mut stalled = served.connect();
        ask(&mut stalled, "/large");
        assert!(is_answered(&mut stalled));
        // There is one place, which whoever does not read has until it is taken away.
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
        let served = Served::start(Bounds { head: SOON, ..bounds() });
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
        // A balancer keeps connections on which it asks nothing.
        ask(&mut idle, "/");
        assert!(is_answered(&mut idle));
        drop(idle);
        served.end();
    }

    #[test]
    fn g06_health_is_answered_while_one_client_holds_every_connection() {
        let served = Served::start(Bounds { connections: 16, ..bounds() });
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
            assert!(ends(&mut probe), "it keeps no place");
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
    fn further_connections_wait_until_one_ends() {
        let served = Served::start(Bounds { connections: 2, ..bounds() });
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
    fn at_the_end_what_is_under_way_is_answered_and_nobody_else_is_waited_for() {
        let served = Served::start(bounds());
        let (_silent, mut between, mut asking) =
            (served.connect(), served.connect(), served.connect());
        ask(&mut between, "/");
        assert!(is_answered(&mut between));
        ask(&mut asking, "/slow");
        // It is there when its answer is under way; nothing else tells.
        thread::sleep(SOON / 3);
        let address = served.address;
        assert!(served.end() < TEST_TIMEOUT / 2);
        assert!(is_answered(&mut asking) && ends(&mut between));
        assert!(TcpStream::connect(address).is_err());
        let served = Served::start(Bounds { last_words: SOON, ..bounds() });
        let mut stalled = served.connect();
        ask(&mut stalled, "/large");
        assert!(is_answered(&mut stalled));
        assert!(served.end() < TEST_TIMEOUT / 2);
    }
}
