//! Connection: one, which moves only while someone waits for it.
//!
//! Whoever asks reads and writes its socket on their own thread: between the question and its answer
//! no other thread has to wake. Its runtime has one thread, which is the caller's.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::{block_in_place, unconstrained};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Error, NoTls, Statement};

use super::error::no_connection;
use super::guarded;
use super::idle_connections::Slot;
use super::options::is_local;
use crate::store::StoreError;

/// Statements that are kept prepared: more than there are kinds of questions. What a tenant's own
/// index is asked has its name in it.
const PREPARED: usize = 256;

pub(super) struct Connection {
    runtime: Option<Runtime>,
    client: Client,
    /// Carries what the client says to the socket, and back; none where it broke.
    line: RefCell<Option<Line>>,
    prepared: RefCell<HashMap<(String, Vec<Type>), Statement>>,
    _slot: Slot,
}

pub(super) type Line = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

impl Connection {
    /// Connects, in the time that `config` gives.
    pub(super) fn open(config: &Config, slot: Slot) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::Engine(error.into()))?;
        let opened = wait(&runtime, connect(config));
        let (client, line) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        Ok(Self {
            runtime: Some(runtime),
            client,
            line: RefCell::new(Some(line)),
            prepared: RefCell::default(),
            _slot: slot,
        })
    }

    /// Waits for `work` on the calling thread, and carries what it says.
    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let both = poll_fn(|context| {
            let done = work.as_mut().poll(context);
            // Also behind the last word: it may be one whose answer nobody waits for.
            self.carry(context);
            done
        });
        let runtime = self.runtime.as_ref().expect("there until it is dropped");
        wait(runtime, both)
    }

    fn carry(&self, context: &mut Context<'_>) {
        let mut line = self.line.borrow_mut();
        if line.as_mut().is_some_and(|line| line.as_mut().poll(context).is_ready()) {
            // Why it ended is told to whoever waits for an answer.
            *line = None;
        }
    }

    /// Whether the other end is still there, as far as it is known here.
    pub(super) fn is_open(&self) -> bool {
        // One look at the socket.
        self.run(yield_once());
        !self.client.is_closed()
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The statement, prepared before or now. It is under the same role each time, and whose rows it
    /// sees is looked up when it runs.
    pub(super) async fn statement(&self, sql: &str, types: Vec<Type>) -> Result<Statement, Error> {
        let key = (sql.to_owned(), types);
        if let Some(statement) = self.prepared.borrow().get(&key) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare_typed(sql, &key.1).await?;
        let mut prepared = self.prepared.borrow_mut();
        if prepared.len() >= PREPARED {
            prepared.clear();
        }
        prepared.insert(key, statement.clone());
        Ok(statement)
    }

    /// Says something whose answer nobody waits for; whether it went out.
    pub(super) fn say(&self, word: &str) -> bool {
        let mut said = pin!(self.client.batch_execute(word));
        // An answer already is the news that the connection broke.
        self.run(poll_fn(|context| Poll::Ready(said.as_mut().poll(context).is_pending())))
    }
}

/// Waits for `work` on the calling thread, whatever runtime that thread belongs to.
fn wait<T>(runtime: &Runtime, work: impl Future<Output = T>) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Err(_) => runtime.block_on(work),
        // Other threads take over the tasks of this one.
        Ok(RuntimeFlavor::MultiThread) => block_in_place(|| runtime.block_on(work)),
        // A runtime of one thread, which is this one. It cannot be left, and to block on another runtime
        // within it panics. So a further thread drives our socket and timers, and this one only polls.
        Ok(_) => thread::scope(|scope| {
            let (done, wait_for_done) = oneshot::channel::<()>();
            scope.spawn(|| runtime.block_on(wait_for_done));
            let value = {
                let _inside = runtime.enter();
                // Within a task a budget would be counted that is not filled up again.
                block_on(unconstrained(work))
            };
            drop(done);
            value
        }),
    }
}

/// Is polled twice. `tokio::task::yield_now` would leave its waker with the caller's runtime, which wakes it when it
/// next runs: never, where its only thread is the one that waits here.
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

/// Polls `work` on the calling thread until it is done. No runtime is needed for that.
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

async fn connect(config: &Config) -> Result<(Client, Line), StoreError> {
    let opening = async {
        if is_local(config) {
            let (client, connection) = config.connect(NoTls).await.map_err(no_connection)?;
            return Ok((client, Box::pin(connection) as Line));
        }
        guarded::connect(config).await
    };
    match config.get_connect_timeout().copied() {
        // Theirs is for each address, and ends when the socket is open.
        Some(bound) => tokio::time::timeout(bound, opening)
            .await
            .map_err(|late| StoreError::Unavailable(late.into()))?,
        None => opening.await,
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for it would panic on a thread that drives tasks.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g39_a_yield_ends_on_the_only_thread_of_a_runtime() {
        let current_thread = || Builder::new_current_thread().enable_all().build().unwrap();
        let (own, callers) = (current_thread(), current_thread());
        callers.block_on(async { wait(&own, yield_once()) });
    }
}
