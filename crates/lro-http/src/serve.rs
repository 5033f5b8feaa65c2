//! Serve: answers on an address until it is told to stop.
//!
//! Whoever connects may do nothing at all, so that a connection costs as little as it can, there are only
//! so many, and none is kept for nothing.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::sync::{Semaphore, oneshot};
use tokio_io_timeout::TimeoutStream;

/// How long threads that answer nobody any more may take to end.
const LAST_THREADS: Duration = Duration::from_secs(1);
/// Longer than balancers keep their connections, so that it is not us who hang up while they ask.
const SILENCE: Duration = Duration::from_secs(75);
const STALL: Duration = Duration::from_secs(30);
/// No head of a request is longer, and no more of a body is kept than that until it is asked for.
const BUFFER: usize = 64 << 10;
/// How long nobody is let in after that failed: what is missing then, others have to give back.
const PAUSE: Duration = Duration::from_millis(50);

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
    /// Connections at a time; further ones wait until one of them ends.
    pub connections: usize,
    /// How long an answer that is under way may go on when the server ends.
    pub last_words: Duration,
    /// How long a connection may be without a whole question.
    pub silence: Duration,
    /// How long whoever asked may take nothing of an answer.
    pub stall: Duration,
}

impl Bounds {
    /// So many connections, and so long an end.
    pub fn new(connections: usize, last_words: Duration) -> Self {
        Self { connections, last_words, silence: SILENCE, stall: STALL }
    }
}

/// Answers on `listener` until `stop` is done, and then what is under way. Blocking: it has threads of
/// its own.
pub fn serve(
    router: impl FnOnce() -> Router,
    listener: TcpListener,
    bounds: Bounds,
    stop: impl Future<Output = ()> + Send,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (router, open) = (router(), GracefulShutdown::new());
        tokio::select! {
            () = let_in(&listener, &router, bounds, &open) => {}
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

/// Answers whoever connects, for ever.
async fn let_in(
    listener: &tokio::net::TcpListener,
    router: &Router,
    bounds: Bounds,
    open: &GracefulShutdown,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(bounds.silence).max_buf_size(BUFFER);
    let room = Arc::new(Semaphore::new(bounds.connections));
    while let Ok(place) = Arc::clone(&room).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // What is written now is for someone who waits for it; whether that worked is not worth a word.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(bounds.stall));
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), service);
        let connection = open.watch(connection);
        tokio::spawn(async move {
            // How it ended is for whoever asked to know.
            let _ = connection.await;
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::thread::{self, JoinHandle};
    use std::time::Instant;

    use axum::routing::get;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);
    /// More than the system takes off a server's hands for a client that does not read.
    const LARGE: usize = 64 << 20;

    struct Served {
        address: SocketAddr,
        stop: Stop,
        thread: JoinHandle<()>,
    }

    impl Served {
        fn start(bounds: Bounds) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let (stop, stopped) = stop();
            let router = || {
                Router::new()
                    .route("/", get(async || "here"))
                    .route("/large", get(async || vec![b'x'; LARGE]))
                    .route("/slow", get(async || tokio::time::sleep(SOON).await))
            };
            let thread =
                thread::spawn(move || serve(router, listener, bounds, stopped.wait()).unwrap());
            Self { address, stop, thread }
        }

        fn connect(&self) -> TcpStream {
            let stream = TcpStream::connect(self.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
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
        Bounds::new(64, PATIENCE)
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
        let _ = std::io::copy(stream, &mut std::io::sink());
        since.elapsed() < PATIENCE / 2
    }

    #[test]
    fn who_says_nothing_or_half_a_question_is_not_waited_for() {
        let served = Served::start(Bounds { silence: SOON, ..bounds() });
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
        third.set_read_timeout(Some(PATIENCE)).unwrap();
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
        assert!(served.end() < PATIENCE / 2);
        assert!(is_answered(&mut asking) && ends(&mut between));
        assert!(TcpStream::connect(address).is_err());
        let served = Served::start(Bounds { last_words: SOON, ..bounds() });
        let mut stalled = served.connect();
        ask(&mut stalled, "/large");
        assert!(is_answered(&mut stalled));
        assert!(served.end() < PATIENCE / 2);
    }
}
