//! Session: a client, a server, and the bytes between them until one of the three ends.
//!
//! Two threads move bytes, one each way; a few more answer calls of our own tools when there are
//! any. The one that called waits and then ends everything within a second.

mod pool;
mod remote;

use std::io::{Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lro::SpillBuffer;
use lro_wire::{Line, Lines};

use self::pool::Pool;
pub use self::remote::run_remote;
use crate::line_writer::SharedLineWriter;
use crate::oversize_spill::set_aside;
use crate::relay::{Forward, Relay};
use crate::stub_server::Greeting;
use crate::upstream::stdio::{Process, code};

/// How long a server may go on after its input ended.
const AFTER_EOF: Duration = Duration::from_millis(500);
/// How long its last words may take to come.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// All of it together: within a second nothing is left.
const SHUTDOWN_DEADLINE: Duration = Duration::from_millis(850);
/// How often is looked whether the server's process is there.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// The client closed its end.
    Client,
    /// The server closed its end.
    Server,
    /// The server takes no more; what it said may still be on its way.
    ServerInput,
    /// The server's process has ended, whoever still holds its streams.
    ServerProcess,
    /// The server does not keep to lines that can be carried.
    Endless,
    /// A signal arrived.
    Signal(i32),
}

impl EndReason {
    /// The exit code that says so.
    fn code(self) -> u8 {
        match self {
            Self::Client => 0,
            Self::Signal(number) => u8::try_from(128 + number).unwrap_or(1),
            _ => 1,
        }
    }
}

/// Carries messages between the client's two streams and the server until one of them ends or
/// `ended` says so; returns the exit code. `ends` is for our own threads.
pub fn run(
    relay: &Arc<Relay>,
    client: (impl Read + Send + 'static, impl Write + Send + 'static),
    (mut upstream, input, output): (Process, ChildStdin, ChildStdout),
    (ends, ended): (Sender<EndReason>, &Receiver<EndReason>),
) -> u8 {
    let (from_client, to_client) = client;
    let to_client = Arc::new(SharedLineWriter::new(to_client));
    let to_server = Arc::new(Mutex::new(Some(input)));
    let pool = Arc::new(Pool::new(Arc::clone(relay), Arc::clone(&to_client)));
    spawn("client", {
        let (relay, to_client, to_server, pool, ends) =
            (relay.clone(), to_client.clone(), to_server.clone(), pool.clone(), ends.clone());
        move || {
            let end = from_the_client(&relay, from_client, &to_client, &pool, |sent| {
                let Ok(mut server) = to_server.lock() else { return Err(EndReason::Server) };
                let Some(server) = server.as_mut() else { return Err(EndReason::Client) };
                sent.write_to(server).map_err(|_| EndReason::ServerInput)
            });
            let _ = ends.send(end);
        }
    });
    spawn("server", {
        let (relay, to_client) = (relay.clone(), to_client.clone());
        move || {
            let end = from_the_server(&relay, output, &to_client);
            let _ = ends.send(end);
        }
    });
    let end = loop {
        match ended.recv_timeout(POLL_INTERVAL) {
            Ok(end) => break end,
            Err(RecvTimeoutError::Disconnected) => break EndReason::Client,
            // A child of the server may hold its streams open, and then nobody closes them.
            Err(RecvTimeoutError::Timeout) if upstream.wait(Duration::ZERO).is_some() => {
                break ended.recv_timeout(DRAIN_TIMEOUT).unwrap_or(EndReason::ServerProcess);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    let began = Instant::now();
    // Where a write to the server is stuck, its input cannot be closed; it is stopped all the same.
    if let Ok(mut input) = to_server.try_lock() {
        input.take();
    }
    let mut heard = matches!(end, EndReason::Server | EndReason::Endless);
    let by_itself = match end {
        EndReason::Endless => None,
        EndReason::Server | EndReason::ServerInput | EndReason::ServerProcess => {
            upstream.wait(DRAIN_TIMEOUT)
        }
        EndReason::Client => upstream.wait(AFTER_EOF),
        EndReason::Signal(_) => upstream.wait(AFTER_EOF / 2),
    };
    // Also where the server itself has ended: what it started has not.
    let status = by_itself.or(upstream.stop());
    pool.finish(began + AFTER_EOF + DRAIN_TIMEOUT);
    // What the server said before it went may be large, and is stored before it is told of.
    let until = began + SHUTDOWN_DEADLINE;
    while !heard {
        match ended.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(EndReason::Server)
            | Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {
                heard = true;
            }
            Ok(_) => {}
        }
    }
    let why = match end {
        EndReason::Endless => "the server sent a line that is too long to be carried".to_owned(),
        EndReason::Server | EndReason::ServerInput | EndReason::ServerProcess => match status {
            Some(status) => format!("the server ended: {status}"),
            None => "the server ended".to_owned(),
        },
        EndReason::Client | EndReason::Signal(_) => "the proxy was stopped".to_owned(),
    };
    last_replies(relay.server_gone(&why), &to_client);
    match end {
        EndReason::Server | EndReason::ServerInput | EndReason::ServerProcess => {
            status.map_or(1, code)
        }
        _ => end.code(),
    }
}

/// What goes to the server.
enum Sent<'a> {
    /// As it came, with its line break.
    Line(&'a [u8]),
    /// Changed; no line break at its end.
    Text(String),
    /// A long one, as it came.
    SpillBuffer(&'a SpillBuffer),
}

impl Sent<'_> {
    fn write_to(self, server: &mut impl Write) -> std::io::Result<()> {
        match self {
            Self::Line(line) => server.write_all(line),
            Self::Text(mut text) => {
                text.push('\n');
                server.write_all(text.as_bytes())
            }
            Self::SpillBuffer(held) => held.write_to(server),
        }
    }
}

/// Reads what the client says until it ends, or until `send` does.
fn from_the_client<W: Write + Send + 'static>(
    relay: &Relay,
    stream: impl Read,
    client: &SharedLineWriter<W>,
    pool: &Pool<W>,
    send: impl Fn(Sent<'_>) -> Result<(), EndReason>,
) -> EndReason {
    let mut lines = Lines::new(stream);
    loop {
        let sent = match lines.next() {
            Ok(Some(Line::Whole(line))) => {
                let became = relay.from_client(line);
                for reply in &became.replies {
                    if client.line(reply).is_err() {
                        return EndReason::Client;
                    }
                }
                for call in became.calls {
                    pool.answer(call);
                }
                match became.forward {
                    Forward::AsItCame => send(Sent::Line(line)),
                    Forward::Changed(text) => send(Sent::Text(text)),
                    Forward::Nothing => Ok(()),
                }
            }
            Ok(Some(Line::Long(line))) => {
                let Some(message) = set_aside(line, relay) else { return EndReason::Client };
                relay.long_from_client(&message);
                send(Sent::SpillBuffer(&message))
            }
            Ok(None) | Err(_) => return EndReason::Client,
        };
        if let Err(end) = sent {
            return end;
        }
    }
}

/// Tells the client what will not come, as long as it listens: one that does not read must not keep
/// us from ending.
fn last_replies<W: Write + Send + 'static>(
    replies: Vec<String>,
    client: &Arc<SharedLineWriter<W>>,
) {
    if replies.is_empty() {
        return;
    }
    let (told, done) = std::sync::mpsc::channel();
    let client = Arc::clone(client);
    spawn("last", move || {
        let _ = replies.iter().try_for_each(|reply| client.line(reply));
        let _ = told.send(());
    });
    let _ = done.recv_timeout(DRAIN_TIMEOUT);
}

fn from_the_server<W: Write>(
    relay: &Relay,
    stream: ChildStdout,
    client: &SharedLineWriter<W>,
) -> EndReason {
    let mut lines = Lines::new(stream);
    loop {
        let sent = match lines.next() {
            Ok(Some(Line::Whole(line))) => match relay.from_server(line) {
                Forward::AsItCame => client.bytes(line),
                Forward::Changed(text) => client.line(&text),
                Forward::Nothing => Ok(()),
            },
            Ok(Some(Line::Long(line))) => match set_aside(line, relay) {
                Some(message) => match relay.long_from_server(&message) {
                    Some(changes) => client.held(&message, &changes),
                    None => Ok(()),
                },
                None => return EndReason::Endless,
            },
            Ok(None) | Err(_) => return EndReason::Server,
        };
        if sent.is_err() {
            return EndReason::Client;
        }
    }
}

pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    // A process that cannot start two threads cannot be a proxy either.
    let _ = thread::Builder::new().name(name.to_owned()).spawn(run);
}

/// Answers a client without a server behind the relay, until the client ends.
pub fn run_alone(
    relay: &Arc<Relay>,
    greeting: &Greeting,
    (from_client, to_client): (impl Read, impl Write + Send + 'static),
) {
    let to_client = Arc::new(SharedLineWriter::new(to_client));
    let pool = Pool::new(Arc::clone(relay), Arc::clone(&to_client));
    let mut lines = Lines::new(from_client);
    // No question to us is that long: whoever sends it is no client.
    while let Ok(Some(Line::Whole(line))) = lines.next() {
        let became = relay.from_client(line);
        became.calls.into_iter().for_each(|call| pool.answer(call));
        let asked = match became.forward {
            Forward::AsItCame => std::str::from_utf8(line).unwrap_or_default().to_owned(),
            Forward::Changed(text) => text,
            Forward::Nothing => continue,
        };
        let Some(answer) = greeting.answer(&asked) else { continue };
        let told = match relay.from_server(answer.as_bytes()) {
            Forward::Changed(text) => to_client.line(&text),
            _ => to_client.line(&answer),
        };
        if told.is_err() {
            break;
        }
    }
    pool.finish(Instant::now() + AFTER_EOF);
}
