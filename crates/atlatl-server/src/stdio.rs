//! The stdio transport: one client on a pair of streams.
//!
//! A thread reads, and never waits for a response: requests beyond the running ones are queued, and
//! a separate task writes immediate responses. A ping is answered and a cancellation is received
//! under any load.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lro_query::Cancel;
use lro_wire::meta::{self, AppHost, PROTOCOL_VERSION, ProtocolGeneration};
use lro_wire::{
    INTERNAL_ERROR, INVALID_REQUEST, Id, IdKey, JsonRpcError, Line, Lines, Message, Messages,
    PARSE_ERROR,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::client::{ClientInfo, Transport};
use crate::dispatch::{check_envelope, is_immediate};
use crate::server::MemoryServer;

/// The maximum number of concurrently answered requests. Further ones are queued.
const MAX_RUNNING: usize = 32;
/// The maximum number of queued requests, and their total size. Further ones are refused.
const MAX_QUEUED: usize = 1024;
const MAX_QUEUED_BYTES: usize = 64 << 20;
/// The maximum number of immediate responses that wait to be written while the client does not
/// read.
const MAX_IMMEDIATE: usize = 1024;
/// How long running requests may take after the client closed its end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// A request with its client.
struct Request {
    line: String,
    id: Id,
    client: ClientInfo,
    cancellation: Cancellation,
}

/// Cancels a request.
#[derive(Clone, Default)]
struct Cancellation {
    /// Stops the workers of extraction tools.
    flag: Cancel,
    /// Drops the request, and with it what it awaits.
    signal: Arc<Notify>,
}

impl Cancellation {
    fn cancel(&self) {
        self.flag.cancel();
        self.signal.notify_one();
    }
}

impl Request {
    /// Returns the response, unless the request was cancelled.
    async fn response(&self, server: &MemoryServer) -> Option<String> {
        let flag = &self.cancellation.flag;
        if flag.is_cancelled() {
            return None;
        }
        let message = Message::read(&self.line)?;
        let answer = tokio::select! {
            answer = server.answer(&message, self.client, flag) => answer,
            () = self.cancellation.signal.notified() => return None,
        };
        (!flag.is_cancelled()).then(|| match answer {
            Ok(result) => self.id.response(result),
            Err(failure) => failure.response(&self.id),
        })
    }
}

/// Running and queued requests, with their cancellation handles.
#[derive(Default)]
struct Requests {
    state: Mutex<State>,
    finished_signal: Notify,
}

#[derive(Default)]
struct State {
    cancels: HashMap<IdKey, Cancellation>,
    queue: VecDeque<Request>,
    queued_bytes: usize,
    /// The number of tasks that answer requests.
    running: usize,
    /// The number of immediate responses not written yet.
    immediate: usize,
}

/// The outcome of submitting a request.
enum Submission {
    /// It gets a task.
    Run(Request),
    Queued,
    /// The queue is full.
    Refused(Request),
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, request: Request) -> Submission {
        let mut state = self.lock();
        let runs = state.running < MAX_RUNNING;
        let bytes = state.queued_bytes + request.line.len();
        if !runs && (state.queue.len() >= MAX_QUEUED || bytes > MAX_QUEUED_BYTES) {
            return Submission::Refused(request);
        }
        state.cancels.insert(request.id.key(), request.cancellation.clone());
        if runs {
            state.running += 1;
            return Submission::Run(request);
        }
        state.queued_bytes = bytes;
        state.queue.push_back(request);
        Submission::Queued
    }

    /// Records that a request was answered. Returns the next request for its task, which ends
    /// without one.
    fn finish(&self, key: &IdKey) -> Option<Request> {
        let mut state = self.lock();
        state.cancels.remove(key);
        let next = state.queue.pop_front();
        match &next {
            Some(next) => state.queued_bytes -= next.line.len(),
            None => state.running -= 1,
        }
        drop(state);
        self.finished_signal.notify_waiters();
        next
    }

    /// Cancels a request. A queued one never runs.
    fn cancel(&self, key: &IdKey) {
        let mut state = self.lock();
        let Some(cancel) = state.cancels.get(key) else { return };
        cancel.cancel();
        if let Some(at) = state.queue.iter().position(|request| request.id.key() == *key)
            && let Some(request) = state.queue.remove(at)
        {
            state.queued_bytes -= request.line.len();
            state.cancels.remove(key);
        }
        drop(state);
        self.finished_signal.notify_waiters();
    }

    /// Waits until every response is written.
    async fn wait(&self) {
        loop {
            // Registered before the state is read, so that no change is missed.
            let mut finished = pin!(self.finished_signal.notified());
            finished.as_mut().enable();
            {
                let state = self.lock();
                if state.cancels.is_empty() && state.immediate == 0 {
                    return;
                }
            }
            finished.await;
        }
    }
}

/// A response that needs no work.
enum ImmediateResponse {
    Line(String),
    Request(Request),
}

/// The shared state of a connection.
struct Connection<W> {
    server: MemoryServer,
    requests: Arc<Requests>,
    immediate: Sender<ImmediateResponse>,
    output: Arc<Mutex<W>>,
    runtime: Handle,
}

/// Serves the client until it closes its end.
pub async fn serve(
    server: &MemoryServer,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) {
    let (immediate, written) = channel(MAX_IMMEDIATE);
    let connection = Connection {
        server: server.clone(),
        requests: Arc::default(),
        immediate,
        output: Arc::new(Mutex::new(output)),
        runtime: Handle::current(),
    };
    let (requests, output) = (Arc::clone(&connection.requests), Arc::clone(&connection.output));
    tokio::spawn(write_immediate(server.clone(), Arc::clone(&requests), output, written));
    // It ends with the input. Without a thread nothing can be answered.
    let _ = spawn_blocking(move || read(&connection, input)).await;
    // Running requests are dropped after that.
    let _ = timeout(SHUTDOWN_TIMEOUT, requests.wait()).await;
}

/// Reads messages until the input ends. Blocking.
fn read<W: Write + Send + 'static>(connection: &Connection<W>, input: impl Read) {
    let mut client = ClientInfo::new(ProtocolGeneration::Sessions, Transport::Stdio);
    let mut lines = Lines::new(input);
    while let Ok(Some(line)) = lines.next() {
        let line = match line {
            Line::Whole(line) => line,
            Line::Long(_) => {
                // No valid request is that long. The next line may be one.
                connection
                    .say(JsonRpcError::new(INVALID_REQUEST, "the line is too long").without_id());
                continue;
            }
        };
        let text = match std::str::from_utf8(line) {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => text,
            Err(_) => {
                connection.say(
                    JsonRpcError::new(PARSE_ERROR, "the line is not valid UTF-8").without_id(),
                );
                continue;
            }
        };
        match Messages::read(text) {
            Some(Messages::One(message)) => connection.begin(&message, text, &mut client),
            Some(Messages::Batch(batch)) => {
                for (text, message) in batch {
                    if let Some(message) = message {
                        connection.begin(&message, text, &mut client);
                    }
                }
            }
            _ => connection.say(
                JsonRpcError::new(PARSE_ERROR, "the line is not a JSON-RPC message").without_id(),
            ),
        }
    }
}

impl<W: Write + Send + 'static> Connection<W> {
    fn begin(&self, message: &Message<'_>, text: &str, client: &mut ClientInfo) {
        let Some(id) = message.id().filter(|_| message.method.is_some()) else {
            if message.method.as_deref() == Some("notifications/cancelled")
                && let Some(id) = message.params().and_then(|params| params.get("requestId"))
            {
                self.requests.cancel(&Id::from_raw(id).key());
            }
            return;
        };
        let modern = message.method.as_deref() == Some("server/discover")
            || meta::meta(message).is_some_and(|meta| meta.get(PROTOCOL_VERSION).is_some());
        let asks = if modern {
            if let Err(failure) = check_envelope(message) {
                self.say(failure.response(&id));
                return;
            }
            ClientInfo::from_request(message, Transport::Stdio)
        } else {
            if message.method.as_deref() == Some("initialize") {
                *client = client
                    .as_proxy(meta::is_proxy(message))
                    .with_app_host(AppHost::from_request(message))
                    .with_limit_of(message);
            }
            *client
        };
        let request = Request {
            line: text.to_owned(),
            id,
            client: asks,
            cancellation: Cancellation::default(),
        };
        if is_immediate(message) {
            self.write_soon(ImmediateResponse::Request(request));
            return;
        }
        match self.requests.submit(request) {
            Submission::Run(request) => self.run(request),
            Submission::Queued => {}
            Submission::Refused(request) => {
                let failure =
                    JsonRpcError::new(INTERNAL_ERROR, "server is at capacity; retry later");
                self.say(failure.response(&request.id));
            }
        }
    }

    /// Answers `request` in a new task, and then queued ones.
    fn run(&self, request: Request) {
        let (server, output) = (self.server.clone(), Arc::clone(&self.output));
        let requests = Arc::clone(&self.requests);
        self.runtime.spawn(async move {
            let mut request = request;
            loop {
                if let Some(line) = request.response(&server).await {
                    write(&output, line).await;
                }
                match requests.finish(&request.id.key()) {
                    Some(next) => request = next,
                    None => return,
                }
            }
        });
    }

    fn say(&self, line: String) {
        self.write_soon(ImmediateResponse::Line(line));
    }

    fn write_soon(&self, immediate: ImmediateResponse) {
        self.requests.lock().immediate += 1;
        // Blocks only if the client has left very many responses unread. The receiver lives as long
        // as this.
        let _ = self.immediate.blocking_send(immediate);
    }
}

async fn write_immediate<W: Write + Send + 'static>(
    server: MemoryServer,
    requests: Arc<Requests>,
    output: Arc<Mutex<W>>,
    mut written: Receiver<ImmediateResponse>,
) {
    while let Some(immediate) = written.recv().await {
        let line = match immediate {
            ImmediateResponse::Line(line) => Some(line),
            ImmediateResponse::Request(request) => request.response(&server).await,
        };
        if let Some(line) = line {
            write(&output, line).await;
        }
        requests.lock().immediate -= 1;
        requests.finished_signal.notify_waiters();
    }
}

/// Writes a line on a blocking thread, because the client may not read.
async fn write<W: Write + Send + 'static>(output: &Arc<Mutex<W>>, line: String) {
    let output = Arc::clone(output);
    // A closed client is detected by the reader.
    let _ = spawn_blocking(move || {
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(output, "{line}").and_then(|()| output.flush())
    })
    .await;
}
