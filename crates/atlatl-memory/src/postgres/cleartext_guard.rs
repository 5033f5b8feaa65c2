//! Refuses requests for the password in clear text.
//!
//! `PostgreSQL` can verify a password without sending it. On an unencrypted connection to another
//! machine, and on an encrypted one whose server is not verified, a server that asks for the password
//! itself may be an impostor, and does not get it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsStream};

/// The message type of an authentication request.
const AUTHENTICATION_TAG: u8 = b'R';
/// Authentication codes: authenticated, and send the password in clear text.
const AUTH_OK: u32 = 0;
const AUTH_CLEARTEXT_PASSWORD: u32 = 3;
/// The length of the message type, the length field and the authentication code.
const AUTH_HEADER_LEN: usize = 9;

/// A stream that fails if the server requests the password in clear text, before the client reads
/// the request.
pub(super) struct CleartextGuard<S> {
    stream: S,
    /// The header of the current message. `None` if nothing is inspected any more.
    head: Option<Vec<u8>>,
    /// The number of bytes left in the current message.
    left: usize,
    cleartext_requested: Arc<AtomicBool>,
}

impl<S> CleartextGuard<S> {
    /// Inspects the authentication. `cleartext_requested` is set if the server requests the password
    /// in clear text.
    pub(super) fn new(stream: S, cleartext_requested: Arc<AtomicBool>) -> Self {
        let head = Some(Vec::with_capacity(AUTH_HEADER_LEN));
        Self { stream, head, left: 0, cleartext_requested }
    }

    /// Lets everything pass.
    pub(super) fn inactive(stream: S) -> Self {
        Self { stream, head: None, left: 0, cleartext_requested: Arc::default() }
    }

    /// Parses the messages in the bytes read.
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
            let authenticates = head[0] == AUTHENTICATION_TAG && length >= AUTH_HEADER_LEN - 1;
            if !authenticates {
                // The length field includes itself.
                self.left = length.saturating_sub(4);
                head.clear();
            } else if let Some(kind) =
                head.get(5..AUTH_HEADER_LEN).and_then(<[u8]>::first_chunk).copied()
            {
                match u32::from_be_bytes(kind) {
                    AUTH_CLEARTEXT_PASSWORD => {
                        self.cleartext_requested.store(true, Ordering::Release);
                        let why = "the server requests the password in clear text";
                        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
                    }
                    AUTH_OK => self.head = None,
                    _ => {
                        self.left = length - (AUTH_HEADER_LEN - 1);
                        head.clear();
                    }
                }
            }
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CleartextGuard<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for CleartextGuard<S> {
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

impl<S: TlsStream + Unpin> TlsStream for CleartextGuard<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.stream.channel_binding()
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
        message(AUTHENTICATION_TAG, &[&kind.to_be_bytes()[..], more].concat())
    }

    /// Returns whether the guard stops these bytes, for chunks of any size.
    fn stops(bytes: &[u8]) -> bool {
        let stopped = |size: usize| {
            let mut guard = CleartextGuard::new((), Arc::default());
            let stopped = bytes.chunks(size).any(|piece| guard.inspect(piece).is_err());
            assert_eq!(stopped, guard.cleartext_requested.load(Ordering::Acquire));
            stopped
        };
        let first = stopped(1);
        assert!((2..=bytes.len()).all(|size| stopped(size) == first));
        first
    }

    #[test]
    fn g03_a_server_that_asks_for_the_password_in_clear_text_is_not_answered() {
        let (scram, ok) = (authentication(10, b"SCRAM-SHA-256\0\0"), authentication(AUTH_OK, b""));
        let clear = authentication(AUTH_CLEARTEXT_PASSWORD, b"");
        assert!(stops(&clear));
        assert!(stops(&[message(b'N', b"Swelcome\0\0"), clear.clone()].concat()));
        assert!(stops(&[scram.clone(), clear.clone()].concat()), "after another question too");
        // Data after authentication may contain any bytes.
        assert!(!stops(&[scram, ok, message(b'D', &clear), clear].concat()));
        assert!(!stops(&message(b'E', b"SFATAL\0\0")));
    }
}
