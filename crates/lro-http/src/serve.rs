//! Serve: answers on an address until it is told to stop.

use std::net::TcpListener;
use std::time::Duration;

use axum::Router;
use tokio::sync::oneshot;

/// How long threads that answer nobody any more may take to end.
const LAST_THREADS: Duration = Duration::from_secs(1);

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

/// Answers on `listener` until `stop` is done, and then what is under way, which may go on for
/// `last_words`. Blocking: it has threads of its own.
pub fn serve(
    router: impl FnOnce() -> Router,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
    last_words: Duration,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        // A client that keeps its connection open must not keep us from ending.
        let (ending, ended) = oneshot::channel();
        let serving = axum::serve(listener, router()).with_graceful_shutdown(async move {
            stop.await;
            let _ = ending.send(());
        });
        tokio::select! {
            served = serving.into_future() => served,
            () = async { let _ = ended.await; tokio::time::sleep(last_words).await } => Ok(()),
        }
    });
    runtime.shutdown_timeout(LAST_THREADS);
    served
}
