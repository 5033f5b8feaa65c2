//! Remote: a client on two streams, and a server at a URL.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use lro_wire::{JsonRpcError, PARSE_ERROR};

use super::pool::Pool;
use super::{AFTER_EOF, DRAIN_TIMEOUT, EndReason, Sent, from_the_client, last_replies, spawn};
use crate::line_writer::SharedLineWriter;
use crate::relay::{Forward, Relay};
use crate::upstream::http::{HttpSession, InboundMessage, Remote};

/// A longer message of a client is not carried: it would have to be held.
const MAX_MESSAGE_LEN: u64 = 256 << 20;
/// Enough: what takes long waits for the network.
const THREADS: usize = 2;

/// Carries messages between the client's two streams and `remote` until the client ends or `ended`
/// says so; returns the exit code. `ends` is for our own threads.
pub fn run_remote(
    relay: Relay,
    (from_client, to_client): (impl Read + Send + 'static, impl Write + Send + 'static),
    remote: Remote,
    (ends, ended): (Sender<EndReason>, &Receiver<EndReason>),
) -> std::io::Result<u8> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let relay = Arc::new(relay.strict());
    let to_client = Arc::new(SharedLineWriter::new(to_client));
    let pool = Arc::new(Pool::new(Arc::clone(&relay), Arc::clone(&to_client)));
    let link = HttpSession::new(remote, Arc::clone(&relay), runtime.handle(), {
        let (relay, to_client, ends) = (relay.clone(), to_client.clone(), ends.clone());
        move |arrived| {
            if hear(&relay, &to_client, arrived).is_err() {
                let _ = ends.send(EndReason::Client);
            }
        }
    });
    spawn("client", {
        let (relay, to_client, pool, link) =
            (relay.clone(), to_client.clone(), pool.clone(), link.clone());
        move || {
            let end = from_the_client(&relay, from_client, &to_client, &pool, |sent| {
                let body = sent.bytes()?;
                if std::str::from_utf8(&body).is_err() {
                    let failure = JsonRpcError::new(PARSE_ERROR, "what came is no UTF-8");
                    return to_client.line(&failure.without_id()).map_err(|_| EndReason::Client);
                }
                link.send(body);
                Ok(())
            });
            let _ = ends.send(end);
        }
    });
    let end = ended.recv().unwrap_or(EndReason::Client);
    let began = Instant::now();
    if end == EndReason::Client {
        link.finish(began + AFTER_EOF);
        pool.finish(began + AFTER_EOF);
    }
    link.end(DRAIN_TIMEOUT * 2);
    let why = match end {
        EndReason::Endless => "the client sent a message that is too long to be carried",
        _ => "the proxy was stopped",
    };
    last_replies(relay.server_gone(why), &to_client);
    runtime.shutdown_background();
    Ok(end.code())
}

fn hear<W: Write>(
    relay: &Relay,
    client: &SharedLineWriter<W>,
    arrived: InboundMessage,
) -> std::io::Result<()> {
    match arrived {
        InboundMessage::Whole(line) => match relay.from_server(&line) {
            Forward::AsItCame => client.bytes(&line),
            Forward::Changed(text) => client.line(&text),
            Forward::Nothing => Ok(()),
        },
        InboundMessage::Long(held) => match relay.long_from_server(&held) {
            Some(changes) => client.held(&held, &changes),
            None => Ok(()),
        },
    }
}

impl Sent<'_> {
    /// As the body of a request.
    fn bytes(self) -> Result<Vec<u8>, EndReason> {
        Ok(match self {
            Self::Line(line) => line.trim_ascii_end().to_owned(),
            Self::Text(text) => text.into_bytes(),
            Self::SpillBuffer(held) if held.bytes() > MAX_MESSAGE_LEN => {
                return Err(EndReason::Endless);
            }
            Self::SpillBuffer(held) => {
                let mut bytes = Vec::new();
                held.write_to(&mut bytes).map_err(|_| EndReason::Client)?;
                bytes
            }
        })
    }
}
