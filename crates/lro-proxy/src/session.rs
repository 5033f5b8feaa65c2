//! A session between a stdio client and a server.
//!
//! Two threads move bytes, one in each direction; a few more answer calls of extraction tools. The
//! calling thread waits for the end of a stream or a signal, and then shuts everything down within a
//! second.

mod local_calls;

use std::io::{self, Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lro::SpillBuffer;
use lro_wire::{JsonRpcError, Line, Lines, PARSE_ERROR};

use self::local_calls::LocalCallPool;
use crate::downstream::stdio::SharedLineWriter;
use crate::relay::oversize::spill_line;
use crate::relay::{Forward, Relay};
use crate::stub_server::StubServer;
use crate::upstream::http::{HttpSession, InboundMessage, Remote};
use crate::upstream::process::{Process, exit_code};

/// How long a server may take to exit after its input was closed.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long the last output of a server, or the last replies to a client, may take.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// The time limit of the whole shutdown.
const SHUTDOWN_DEADLINE: Duration = Duration::from_millis(850);
/// How often the server's process is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The longest message, in bytes, from a client to a server at a URL; it has to fit into memory.
const MAX_MESSAGE_LEN: u64 = 256 << 20;
/// The threads of the runtime for a server at a URL; they mostly wait for the network.
const RUNTIME_THREADS: usize = 2;

/// The reason for the end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// The client closed its stream.
    ClientClosed,
    /// The server closed its output.
    ServerClosed,
    /// The server closed its input; some of its output may still arrive.
    ServerInputClosed,
    /// The server's process exited, although its streams may still be open in another process.
    ServerExited,
    /// A line exceeds the limits.
    LineTooLong,
    /// A signal arrived.
    Signal(i32),
}

impl EndReason {
    /// The exit code of the proxy.
    fn exit_code(self) -> u8 {
        match self {
            Self::ClientClosed => 0,
            Self::Signal(number) => u8::try_from(128 + number).unwrap_or(1),
            _ => 1,
        }
    }
}

/// Relays messages between a stdio client and a server process until a stream ends or a reason arrives
/// on `ended`; returns the exit code. `ends` is the sender for this session's own threads.
pub fn run(
    relay: &Arc<Relay>,
    client: (impl Read + Send + 'static, impl Write + Send + 'static),
    (mut upstream, input, output): (Process, ChildStdin, ChildStdout),
    (ends, ended): (Sender<EndReason>, &Receiver<EndReason>),
) -> u8 {
    let (from_client, to_client) = client;
    let to_client = Arc::new(SharedLineWriter::new(to_client));
    let to_server = Arc::new(Mutex::new(Some(input)));
    let pool = Arc::new(LocalCallPool::new(Arc::clone(relay), Arc::clone(&to_client)));
    spawn("client", {
        let (relay, to_client, to_server, pool, ends) =
            (relay.clone(), to_client.clone(), to_server.clone(), pool.clone(), ends.clone());
        move || {
            let end = relay_client_lines(&relay, from_client, &to_client, &pool, |message| {
                let Ok(mut server) = to_server.lock() else { return Err(EndReason::ServerClosed) };
                let Some(server) = server.as_mut() else { return Err(EndReason::ClientClosed) };
                message.write_to(server).map_err(|_| EndReason::ServerInputClosed)
            });
            let _ = ends.send(end);
        }
    });
    spawn("server", {
        let (relay, to_client) = (relay.clone(), to_client.clone());
        move || {
            let end = relay_server_lines(&relay, output, &to_client);
            let _ = ends.send(end);
        }
    });
    let end = loop {
        match ended.recv_timeout(POLL_INTERVAL) {
            Ok(end) => break end,
            Err(RecvTimeoutError::Disconnected) => break EndReason::ClientClosed,
            // A child of the server may keep its streams open, so they would never end.
            Err(RecvTimeoutError::Timeout) if upstream.wait(Duration::ZERO).is_some() => {
                break ended.recv_timeout(DRAIN_TIMEOUT).unwrap_or(EndReason::ServerExited);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    let began = Instant::now();
    // If a write to the server blocks, its input cannot be closed; the process is stopped anyway.
    if let Ok(mut input) = to_server.try_lock() {
        input.take();
    }
    let mut drained = matches!(end, EndReason::ServerClosed | EndReason::LineTooLong);
    let exited = match end {
        EndReason::LineTooLong => None,
        EndReason::ServerClosed | EndReason::ServerInputClosed | EndReason::ServerExited => {
            upstream.wait(DRAIN_TIMEOUT)
        }
        EndReason::ClientClosed => upstream.wait(EXIT_TIMEOUT),
        EndReason::Signal(_) => upstream.wait(EXIT_TIMEOUT / 2),
    };
    // Also if the server itself has exited, because its children may still run.
    let status = exited.or(upstream.stop());
    pool.finish(began + EXIT_TIMEOUT + DRAIN_TIMEOUT);
    // The last output of the server may be large, and is stored before its descriptor is sent.
    let deadline = began + SHUTDOWN_DEADLINE;
    while !drained {
        match ended.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(EndReason::ServerClosed)
            | Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {
                drained = true;
            }
            Ok(_) => {}
        }
    }
    let why = match end {
        EndReason::LineTooLong => "the server sent a line that is too long".to_owned(),
        EndReason::ServerClosed | EndReason::ServerInputClosed | EndReason::ServerExited => {
            match status {
                Some(status) => format!("the server exited: {status}"),
                None => "the server exited".to_owned(),
            }
        }
        EndReason::ClientClosed | EndReason::Signal(_) => "the proxy was stopped".to_owned(),
    };
    write_final_replies(relay.close(&why), &to_client);
    match end {
        EndReason::ServerClosed | EndReason::ServerInputClosed | EndReason::ServerExited => {
            status.map_or(1, exit_code)
        }
        _ => end.exit_code(),
    }
}

/// A message on its way to the server.
enum ToServer<'a> {
    /// The original line with its line break.
    Line(&'a [u8]),
    /// A changed message without a line break.
    Text(String),
    /// An oversize message, unchanged.
    Oversize(&'a SpillBuffer),
}

impl ToServer<'_> {
    fn write_to(self, server: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Line(line) => server.write_all(line),
            Self::Text(mut text) => {
                text.push('\n');
                server.write_all(text.as_bytes())
            }
            Self::Oversize(message) => message.write_to(server),
        }
    }
}

/// Reads lines from the client and relays them until its stream ends or `send` fails.
fn relay_client_lines<W: Write + Send + 'static>(
    relay: &Relay,
    stream: impl Read,
    client: &SharedLineWriter<W>,
    pool: &LocalCallPool<W>,
    send: impl Fn(ToServer<'_>) -> Result<(), EndReason>,
) -> EndReason {
    let mut lines = Lines::new(stream);
    loop {
        let sent = match lines.next() {
            Ok(Some(Line::Whole(line))) => {
                let outcome = relay.from_client(line);
                for reply in &outcome.replies {
                    if client.line(reply).is_err() {
                        return EndReason::ClientClosed;
                    }
                }
                for call in outcome.calls {
                    pool.answer(call);
                }
                match outcome.forward {
                    Forward::Unchanged => send(ToServer::Line(line)),
                    Forward::Changed(text) => send(ToServer::Text(text)),
                    Forward::Dropped => Ok(()),
                }
            }
            Ok(Some(Line::Long(line))) => {
                let Some(message) = spill_line(line, relay) else { return EndReason::ClientClosed };
                relay.oversize_from_client(&message);
                send(ToServer::Oversize(&message))
            }
            Ok(None) | Err(_) => return EndReason::ClientClosed,
        };
        if let Err(end) = sent {
            return end;
        }
    }
}

/// Reads lines from the server and relays them until a stream ends.
fn relay_server_lines<W: Write>(
    relay: &Relay,
    stream: ChildStdout,
    client: &SharedLineWriter<W>,
) -> EndReason {
    let mut lines = Lines::new(stream);
    loop {
        let written = match lines.next() {
            Ok(Some(Line::Whole(line))) => match relay.from_server(line) {
                Forward::Unchanged => client.bytes(line),
                Forward::Changed(text) => client.line(&text),
                Forward::Dropped => Ok(()),
            },
            Ok(Some(Line::Long(line))) => match spill_line(line, relay) {
                Some(message) => match relay.oversize_from_server(&message) {
                    Some(changes) => client.oversize(&message, &changes),
                    None => Ok(()),
                },
                None => return EndReason::LineTooLong,
            },
            Ok(None) | Err(_) => return EndReason::ServerClosed,
        };
        if written.is_err() {
            return EndReason::ClientClosed;
        }
    }
}

/// Relays messages between a stdio client and a server at a URL until the client's stream ends or a
/// reason arrives on `ended`; returns the exit code. `ends` is the sender for this session's own threads.
pub fn run_remote(
    relay: Relay,
    (from_client, to_client): (impl Read + Send + 'static, impl Write + Send + 'static),
    remote: Remote,
    (ends, ended): (Sender<EndReason>, &Receiver<EndReason>),
) -> io::Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RUNTIME_THREADS)
        .enable_all()
        .build()?;
    let relay = Arc::new(relay.strict());
    let to_client = Arc::new(SharedLineWriter::new(to_client));
    let pool = Arc::new(LocalCallPool::new(Arc::clone(&relay), Arc::clone(&to_client)));
    let session = HttpSession::new(remote, Arc::clone(&relay), runtime.handle(), {
        let (relay, to_client, ends) = (relay.clone(), to_client.clone(), ends.clone());
        move |message| {
            if relay_server_message(&relay, &to_client, message).is_err() {
                let _ = ends.send(EndReason::ClientClosed);
            }
        }
    });
    spawn("client", {
        let (relay, to_client, pool, session) =
            (relay.clone(), to_client.clone(), pool.clone(), session.clone());
        move || {
            let end = relay_client_lines(&relay, from_client, &to_client, &pool, |message| {
                let body = request_body(message)?;
                if std::str::from_utf8(&body).is_err() {
                    let error = JsonRpcError::new(PARSE_ERROR, "the message is not valid UTF-8");
                    let written = to_client.line(&error.without_id());
                    return written.map_err(|_| EndReason::ClientClosed);
                }
                session.send(body);
                Ok(())
            });
            let _ = ends.send(end);
        }
    });
    let end = ended.recv().unwrap_or(EndReason::ClientClosed);
    let began = Instant::now();
    if end == EndReason::ClientClosed {
        session.finish(began + EXIT_TIMEOUT);
        pool.finish(began + EXIT_TIMEOUT);
    }
    session.end(DRAIN_TIMEOUT * 2);
    let why = match end {
        EndReason::LineTooLong => "the client sent a message that is too long",
        _ => "the proxy was stopped",
    };
    write_final_replies(relay.close(why), &to_client);
    runtime.shutdown_background();
    Ok(end.exit_code())
}

fn relay_server_message<W: Write>(
    relay: &Relay,
    client: &SharedLineWriter<W>,
    message: InboundMessage,
) -> io::Result<()> {
    match message {
        InboundMessage::Whole(line) => match relay.from_server(&line) {
            Forward::Unchanged => client.bytes(&line),
            Forward::Changed(text) => client.line(&text),
            Forward::Dropped => Ok(()),
        },
        InboundMessage::Oversize(message) => match relay.oversize_from_server(&message) {
            Some(changes) => client.oversize(&message, &changes),
            None => Ok(()),
        },
    }
}

/// A message as the body of an HTTP request.
fn request_body(message: ToServer<'_>) -> Result<Vec<u8>, EndReason> {
    Ok(match message {
        ToServer::Line(line) => line.trim_ascii_end().to_owned(),
        ToServer::Text(text) => text.into_bytes(),
        ToServer::Oversize(message) if message.bytes() > MAX_MESSAGE_LEN => {
            return Err(EndReason::LineTooLong);
        }
        ToServer::Oversize(message) => {
            let mut bytes = Vec::new();
            message.write_to(&mut bytes).map_err(|_| EndReason::ClientClosed)?;
            bytes
        }
    })
}

/// Serves a stdio client from `server` and the relay's extraction tools until the client closes its
/// stream.
pub fn run_stub(
    relay: &Arc<Relay>,
    server: &StubServer,
    (from_client, to_client): (impl Read, impl Write + Send + 'static),
) {
    let to_client = Arc::new(SharedLineWriter::new(to_client));
    let pool = LocalCallPool::new(Arc::clone(relay), Arc::clone(&to_client));
    let mut lines = Lines::new(from_client);
    // No request to these tools is that long, so an oversize line ends the session.
    while let Ok(Some(Line::Whole(line))) = lines.next() {
        let outcome = relay.from_client(line);
        if outcome.replies.iter().any(|reply| to_client.line(reply).is_err()) {
            break;
        }
        outcome.calls.into_iter().for_each(|call| pool.answer(call));
        let request = match outcome.forward {
            Forward::Unchanged => std::str::from_utf8(line).unwrap_or_default().to_owned(),
            Forward::Changed(text) => text,
            Forward::Dropped => continue,
        };
        let Some(answer) = server.answer(&request) else { continue };
        let written = match relay.from_server(answer.as_bytes()) {
            Forward::Changed(text) => to_client.line(&text),
            _ => to_client.line(&answer),
        };
        if written.is_err() {
            break;
        }
    }
    pool.finish(Instant::now() + EXIT_TIMEOUT);
}

/// Writes the last replies to the client. Stops waiting after a timeout, because a client that does not
/// read must not delay the shutdown.
fn write_final_replies<W: Write + Send + 'static>(
    replies: Vec<String>,
    client: &Arc<SharedLineWriter<W>>,
) {
    if replies.is_empty() {
        return;
    }
    let (written, done) = channel();
    let client = Arc::clone(client);
    spawn("last", move || {
        let _ = replies.iter().try_for_each(|reply| client.line(reply));
        let _ = written.send(());
    });
    let _ = done.recv_timeout(DRAIN_TIMEOUT);
}

/// Starts a named thread.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    // A process that cannot start threads cannot run a proxy.
    let _ = thread::Builder::new().name(name.to_owned()).spawn(run);
}
