//! Detects a connection pooler, behind which prepared statements do not have names.
//!
//! A transaction pooler such as `PgBouncer` runs each transaction on any of its server connections. A
//! statement that one process prepared under a name may not exist there, or the name may belong to
//! another statement of another process, which would then run instead. An error that is caught
//! afterwards comes too late, so a pooler is detected before the first statement with a name.
//!
//! A pooler makes up the process id that it announces when a connection is made, because it has no
//! server connection at that time. The server knows the real one.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::CancelToken;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// The code of a cancel request.
const CANCEL_REQUEST: i32 = 80_877_102;

/// Whether statements are prepared once per connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PreparedStatements {
    /// Unless a pooler is detected.
    #[default]
    Auto,
    /// Always: there is no pooler, or it supports prepared statements.
    On,
    /// Never.
    Off,
}

impl PreparedStatements {
    /// Returns the kind of statements on a connection, if it is known before the first transaction.
    pub(super) fn kind(self) -> Option<StatementKind> {
        match self {
            Self::Auto => None,
            Self::On => Some(StatementKind::Named),
            Self::Off => Some(StatementKind::Unnamed),
        }
    }
}

/// The kind of statements on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementKind {
    /// Parsed once, and executed by name.
    Named,
    /// Parsed for each execution.
    Unnamed,
}

impl StatementKind {
    /// Returns the kind for a connection on which `announced` is the process id of its start and
    /// `actual` the one that the server returned.
    pub(super) fn detect(announced: Option<i32>, actual: Option<i32>) -> Self {
        match (announced, actual) {
            (Some(announced), Some(actual)) if announced == actual => Self::Named,
            _ => Self::Unnamed,
        }
    }
}

/// Returns the process id that was announced when the connection was made. The library uses it in
/// cancel requests only, so it is read from one that is not sent.
pub(super) fn announced_pid(token: &CancelToken) -> Option<i32> {
    let mut request = RequestBuffer::default();
    token.cancel_query_raw(&mut request, NoHandshake).now_or_never()?.ok()?;
    let mut rest = &request.0[..];
    // A request for TLS comes first on an encrypted connection.
    while let [length, code, ..] = rest.as_chunks::<4>().0 {
        if i32::from_be_bytes(*code) == CANCEL_REQUEST {
            return rest.get(8..)?.first_chunk().copied().map(i32::from_be_bytes);
        }
        rest = rest.get(u32::from_be_bytes(*length) as usize..)?;
    }
    None
}

/// A stream that keeps what is written, and agrees to TLS.
#[derive(Default)]
struct RequestBuffer(Vec<u8>);

impl AsyncRead for RequestBuffer {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        buffer.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for RequestBuffer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl TlsStream for &mut RequestBuffer {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// Does not encrypt a request that is not sent.
struct NoHandshake;

impl<'a> TlsConnect<&'a mut RequestBuffer> for NoHandshake {
    type Stream = &'a mut RequestBuffer;
    type Error = Infallible;
    type Future = Ready<Result<&'a mut RequestBuffer, Infallible>>;

    fn connect(self, stream: &'a mut RequestBuffer) -> Self::Future {
        ready(Ok(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::StatementKind::{Named, Unnamed};
    use super::*;

    #[test]
    fn only_a_process_id_that_the_server_confirms_allows_names() {
        assert_eq!(StatementKind::detect(Some(7), Some(7)), Named);
        for (announced, actual) in
            [(Some(7), Some(8)), (None, Some(7)), (Some(7), None), (None, None)]
        {
            assert_eq!(StatementKind::detect(announced, actual), Unnamed);
        }
    }
}
