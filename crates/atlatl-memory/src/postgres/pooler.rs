//! Detects a connection pooler, behind which prepared statements do not have names.
//!
//! A transaction pooler such as `PgBouncer` runs each transaction on any of its server connections. A
//! statement that one process prepared under a name may not exist there, or the name may belong to
//! another statement of another process, which would then run instead. An error that is caught
//! afterwards comes too late, so a pooler is detected before the first statement with a name.
//!
//! A pooler makes up the process id that it announces when a connection is made, because it has no
//! server connection at that time. The server returns the real one in each transaction: a
//! transaction with named statements counts only if both are the same.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::OnceLock;
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

/// The kind of statements on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementKind {
    /// Parsed once, and executed by name.
    Named,
    /// Parsed for each execution.
    Unnamed,
}

/// Decides about the kind of statements on a connection.
#[derive(Debug)]
pub(super) struct PoolerDetector {
    announced_pid: Option<i32>,
    /// Unknown until the first transaction has begun, unless it is configured.
    kind: OnceLock<StatementKind>,
    is_configured: bool,
}

/// A transaction with named statements that ran on the connection of another process.
#[derive(Debug, thiserror::Error)]
#[error("a connection pooler replaced the server connection")]
pub(super) struct ReplacedBackend;

impl PoolerDetector {
    /// Creates the detector of a new connection, which sends its cancel requests with `token`.
    pub(super) fn new(configured: PreparedStatements, token: &CancelToken) -> Self {
        Self::with_announced_pid(configured, announced_pid(token))
    }

    fn with_announced_pid(configured: PreparedStatements, announced_pid: Option<i32>) -> Self {
        let kind = match configured {
            PreparedStatements::Auto => OnceLock::new(),
            PreparedStatements::On => StatementKind::Named.into(),
            PreparedStatements::Off => StatementKind::Unnamed.into(),
        };
        Self { announced_pid, kind, is_configured: configured != PreparedStatements::Auto }
    }

    /// Returns the kind of statements, if it is known yet.
    pub(super) fn kind(&self) -> Option<StatementKind> {
        self.kind.get().copied()
    }

    /// Takes note of the process id that the server returned in a transaction. An error means that
    /// the announced process id was the real one by chance.
    pub(super) fn observe(&self, actual_pid: Option<i32>) -> Result<(), ReplacedBackend> {
        if self.is_configured {
            return Ok(());
        }
        let is_direct = actual_pid.is_some() && self.announced_pid == actual_pid;
        let kind = if is_direct { StatementKind::Named } else { StatementKind::Unnamed };
        let first = *self.kind.get_or_init(|| kind);
        if first == StatementKind::Named && !is_direct { Err(ReplacedBackend) } else { Ok(()) }
    }
}

/// Returns the process id that was announced when the connection was made. The library uses it in
/// cancel requests only, so it is read from one that is not sent.
fn announced_pid(token: &CancelToken) -> Option<i32> {
    let mut request = RequestBuffer::default();
    token.cancel_query_raw(&mut request, NoHandshake).now_or_never()?.ok()?;
    let mut rest = &request.0[..];
    // On an encrypted connection a request for TLS comes first. It has a length and a code too.
    while let [_, code, ..] = rest.as_chunks::<4>().0 {
        rest = &rest[8..];
        if i32::from_be_bytes(*code) == CANCEL_REQUEST {
            return rest.first_chunk().copied().map(i32::from_be_bytes);
        }
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
    use super::*;

    fn detector(announced_pid: Option<i32>) -> PoolerDetector {
        PoolerDetector::with_announced_pid(PreparedStatements::Auto, announced_pid)
    }

    #[test]
    fn g46_only_a_process_id_that_the_server_confirms_allows_names() {
        for (announced, actual, kind) in [
            (Some(7), Some(7), StatementKind::Named),
            (Some(7), Some(8), StatementKind::Unnamed),
            (None, Some(7), StatementKind::Unnamed),
            (Some(7), None, StatementKind::Unnamed),
            (None, None, StatementKind::Unnamed),
        ] {
            let detector = detector(announced);
            assert_eq!(detector.kind(), None);
            detector.observe(actual).unwrap();
            assert_eq!(detector.kind(), Some(kind), "{announced:?} {actual:?}");
        }
    }

    #[test]
    fn g46_a_process_id_that_was_right_by_chance_fails_the_next_transaction() {
        let by_chance = detector(Some(7));
        by_chance.observe(Some(7)).unwrap();
        by_chance.observe(Some(7)).unwrap();
        assert!(by_chance.observe(Some(8)).is_err() && by_chance.observe(None).is_err());
        // Unnamed statements do not depend on the server connection.
        let pooled = detector(Some(7));
        pooled.observe(Some(8)).unwrap();
        pooled.observe(Some(7)).unwrap();
        assert_eq!(pooled.kind(), Some(StatementKind::Unnamed));
    }

    #[test]
    fn a_configured_kind_does_not_depend_on_the_process_id() {
        for (configured, kind) in [
            (PreparedStatements::On, StatementKind::Named),
            (PreparedStatements::Off, StatementKind::Unnamed),
        ] {
            let detector = PoolerDetector::with_announced_pid(configured, Some(7));
            assert_eq!(detector.kind(), Some(kind));
            detector.observe(Some(7)).unwrap();
            detector.observe(Some(8)).unwrap();
            assert_eq!(detector.kind(), Some(kind));
        }
    }
}
