//! Stdio: one client, on the other end of a pair of streams.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lro_query::Cancel;
use lro_wire::meta::{self, Era, PROTOCOL_VERSION};
use lro_wire::{Failure, INTERNAL, IdKey, Line, Lines, Message, Messages, NO_JSON, NO_REQUEST};

use crate::client::{Client, Transport};
use crate::dispatch::envelope;
use crate::server::MemoryServer;

/// Requests that are answered at the same time; the next one waits to be read.
const MOST: usize = 32;
/// How long what is under way may take after the client closed its end.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Requests under way, and how to stop them.
#[derive(Default)]
struct Running {
    requests: Mutex<HashMap<IdKey, Cancel>>,
    fewer: Condvar,
}

impl Running {
    fn locked(&self) -> MutexGuard<'_, HashMap<IdKey, Cancel>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, id: IdKey) -> Cancel {
        let mut requests = self.locked();
        while requests.len() >= MOST {
            requests = self.fewer.wait(requests).unwrap_or_else(PoisonError::into_inner);
        }
        let cancel = Cancel::default();
        requests.insert(id, cancel.clone());
        cancel
    }

    fn end(&self, id: &IdKey) {
        self.locked().remove(id);
        self.fewer.notify_all();
    }

    fn wait(&self, until: Instant) {
        let mut requests = self.locked();
        while !requests.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            requests =
                self.fewer.wait_timeout(requests, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Answers the client until it closes its end.
pub fn serve(server: &MemoryServer, input: impl Read, output: impl Write + Send + 'static) {
    let output = Arc::new(Mutex::new(output));
    let running = Arc::new(Running::default());
    let mut client = Client::new(Era::Legacy, Transport::Stdio);
    let mut lines = Lines::new(input);
    while let Ok(Some(line)) = lines.next() {
        let line = match line {
            Line::Whole(line) => line,
            Line::Long(_) => {
                // No request is that long; what comes after it may be one.
                write(&output, &Failure::new(NO_REQUEST, "the line is too long").nameless());
                continue;
            }
        };
        let text = match std::str::from_utf8(line) {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => text,
            Err(_) => {
                write(&output, &Failure::new(NO_JSON, "the line is no UTF-8").nameless());
                continue;
            }
        };
        match Messages::read(text) {
            Some(Messages::One(message)) => {
                begin(server, &message, text, &mut client, &running, &output);
            }
            Some(Messages::Batch(batch)) => {
                for (text, message) in batch {
                    if let Some(message) = message {
                        begin(server, &message, text, &mut client, &running, &output);
                    }
                }
            }
            _ => write(&output, &Failure::new(NO_JSON, "the line is no JSON-RPC").nameless()),
        }
    }
    running.wait(Instant::now() + LAST_WORDS);
}

fn begin<W: Write + Send + 'static>(
    server: &MemoryServer,
    message: &Message<'_>,
    text: &str,
    client: &mut Client,
    running: &Arc<Running>,
    output: &Arc<Mutex<W>>,
) {
    let Some(id) = message.id().filter(|_| message.method.is_some()) else {
        if message.method.as_deref() == Some("notifications/cancelled")
            && let Some(id) = message.params().and_then(|params| params.get("requestId"))
            && let Some(cancel) = running.locked().get(&lro_wire::Id::of(id).key())
        {
            cancel.cancel();
        }
        return;
    };
    let modern = message.method.as_deref() == Some("server/discover")
        || meta::meta(message).is_some_and(|meta| meta.get(PROTOCOL_VERSION).is_some());
    let asks = if modern {
        if let Err(failure) = envelope(message) {
            write(output, &failure.response(&id));
            return;
        }
        Client::of_request(message, Transport::Stdio)
    } else {
        if message.method.as_deref() == Some("initialize") {
            *client = client.as_proxy(meta::is_proxy(message));
        }
        *client
    };
    let key = id.key();
    let cancel = running.begin(key.clone());
    let spawned = std::thread::Builder::new().name("request".to_owned()).spawn({
        let (server, running, output) = (server.clone(), Arc::clone(running), Arc::clone(output));
        let (line, id, key) = (text.to_owned(), id.clone(), key.clone());
        move || {
            let Some(message) = Message::read(&line) else { return };
            let answer = server.answer(&message, asks, &cancel);
            if !cancel.is_cancelled() {
                let line = match answer {
                    Ok(result) => id.response(result),
                    Err(failure) => failure.response(&id),
                };
                write(&output, &line);
            }
            running.end(&key);
        }
    });
    if spawned.is_err() {
        running.end(&key);
        write(output, &Failure::new(INTERNAL, "there is no thread left").response(&id));
    }
}

fn write<W: Write>(output: &Mutex<W>, line: &str) {
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    // A client that is gone will be noticed where it is read from.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}
