//! Guarded: connections without encryption beyond this machine, on which no password is sent in clear
//! text.
//!
//! `PostgreSQL` has ways to prove that one knows a password without showing it. A server that asks for the
//! password itself, or an impostor, does not get it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{Client, Config, NoTls};

use super::connection::Line;
use super::error::no_connection;
use super::options::place;
use crate::store::{Source, StoreError};

/// The type of a message in which the server says how to authenticate.
const AUTHENTICATION: u8 = b'R';
/// "Authenticated", and "send the password".
const OK: u32 = 0;
const CLEARTEXT_PASSWORD: u32 = 3;
/// The type, the length and the kind of authentication.
const HEAD: usize = 9;

/// Connects to the first host that answers.
pub(super) async fn connect(config: &Config) -> Result<(Client, Line), StoreError> {
    if config.get_target_session_attrs() != TargetSessionAttrs::Any {
        let why = "target_session_attrs needs an encrypted connection or this machine".to_owned();
        return Err(StoreError::NotAStore { place: place(config), why });
    }
    let asked = Arc::new(AtomicBool::new(false));
    let stream = Guarded::new(open(config).await?, Arc::clone(&asked));
    match config.connect_raw(stream, NoTls).await {
        Ok((client, connection)) => Ok((client, Box::pin(connection))),
        Err(_) if asked.load(Ordering::Acquire) => Err(StoreError::PlainText {
            place: place(config),
            why: "the server asks for the password in clear text",
        }),
        Err(error) => Err(no_connection(error)),
    }
}

async fn open(config: &Config) -> Result<TcpStream, StoreError> {
    let mut failed: Source = Source::from("no host is named");
    for (n, host) in config.get_hosts().iter().enumerate() {
        let Host::Tcp(name) = host else { continue };
        let port = *config.get_ports().get(n).or(config.get_ports().first()).unwrap_or(&5432);
        let opened = match config.get_hostaddrs().get(n) {
            Some(address) => TcpStream::connect((*address, port)).await,
            None => TcpStream::connect((name.as_str(), port)).await,
        };
        match opened.and_then(|stream| prepared(stream, config)) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error.into(),
        }
    }
    Err(StoreError::Unavailable(failed))
}

/// The stream, with the settings that a connection of the library has.
fn prepared(stream: TcpStream, config: &Config) -> io::Result<TcpStream> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    if config.get_keepalives() {
        sockopt::set_socket_keepalive(&stream, true)?;
        #[cfg(target_os = "linux")]
        sockopt::set_tcp_keepidle(&stream, config.get_keepalives_idle())?;
    }
    #[cfg(target_os = "linux")]
    if let Some(timeout) = config.get_tcp_user_timeout() {
        let millis = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(&stream, millis)?;
    }
    Ok(stream)
}

/// A stream that fails where the server asks for the password in clear text, before the client can see
/// that.
struct Guarded<S> {
    stream: S,
    /// The beginning of the message that is being read; none once the client is authenticated.
    head: Option<Vec<u8>>,
    /// How many bytes of that message are left.
    left: usize,
    asked: Arc<AtomicBool>,
}

impl<S> Guarded<S> {
    fn new(stream: S, asked: Arc<AtomicBool>) -> Self {
        Self { stream, head: Some(Vec::with_capacity(HEAD)), left: 0, asked }
    }

    /// Follows the messages in what was read.
    fn inspect(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let (Some(head), false) = (&mut self.head, bytes.is_empty()) {
            if self.left > 0 {
                let skipped = self.left.min(bytes.len());
                self.left -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            let (byte, rest) = bytes.split_at(1);
            head.extend_from_slice(byte);
            bytes = rest;
            let Some(length) = head.get(1..5).and_then(<[u8]>::first_chunk).copied() else {
                continue;
            };
            let length = u32::from_be_bytes(length) as usize;
            let authenticates = head[0] == AUTHENTICATION && length >= HEAD - 1;
            if !authenticates {
                // The length counts itself.
                self.left = length.saturating_sub(4);
                head.clear();
            } else if let Some(kind) = head.get(5..HEAD).and_then(<[u8]>::first_chunk).copied() {
                match u32::from_be_bytes(kind) {
                    CLEARTEXT_PASSWORD => {
                        self.asked.store(true, Ordering::Release);
                        let why = "the server asks for the password in clear text";
                        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
                    }
                    OK => self.head = None,
                    _ => {
                        self.left = length - (HEAD - 1);
                        head.clear();
                    }
                }
            }
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let inspected = self.inspect(&buffer.filled()[before..]);
        if inspected.is_err() {
            buffer.set_filled(before);
        }
        Poll::Ready(inspected)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind][..], &length, body].concat()
    }

    fn authentication(kind: u32, more: &[u8]) -> Vec<u8> {
        message(AUTHENTICATION, &[&kind.to_be_bytes()[..], more].concat())
    }

    /// Whether the guard stops these bytes, in pieces of any size.
    fn stops(bytes: &[u8]) -> bool {
        let stopped = |size: usize| {
            let mut guard = Guarded::new((), Arc::default());
            let stopped = bytes.chunks(size).any(|piece| guard.inspect(piece).is_err());
            assert_eq!(stopped, guard.asked.load(Ordering::Acquire));
            stopped
        };
        let first = stopped(1);
        assert!((2..=bytes.len()).all(|size| stopped(size) == first));
        first
    }

    #[test]
    fn g03_a_server_that_asks_for_the_password_in_clear_text_is_not_answered() {
        let (scram, ok) = (authentication(10, b"SCRAM-SHA-256\0\0"), authentication(OK, b""));
        let clear = authentication(CLEARTEXT_PASSWORD, b"");
        assert!(stops(&clear));
        assert!(stops(&[message(b'N', b"Swelcome\0\0"), clear.clone()].concat()));
        assert!(stops(&[scram.clone(), clear.clone()].concat()), "after another question too");
        // What follows is data, and may look like anything.
        assert!(!stops(&[scram, ok, message(b'D', &clear), clear].concat()));
        assert!(!stops(&message(b'E', b"SFATAL\0\0")));
    }
}
