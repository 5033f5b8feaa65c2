//! Cancel requests.
//!
//! Like libpq, a request waits until the server closes its connection. It has then been processed.
//! `PgBouncer` 1.18 ends with "bad client state" if the connection is closed earlier.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::TryFutureExt as _;
use futures_util::future::MapOk;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::config::{Config, Host};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{CancelToken, NoTls};

use super::tls::TlsConnector;
use crate::store::BoxError;

/// The port of a server if none is configured.
const DEFAULT_PORT: u16 = 5432;

/// How a cancel request is sent.
#[derive(Clone)]
pub(super) enum CancelRoute {
    /// Unencrypted, to the address that the client knows. The request does not wait.
    Plain,
    /// Unencrypted, to this host and port.
    Host(String, u16),
    /// Unencrypted, to this address.
    Peer(SocketAddr),
    /// To this socket.
    Unix(PathBuf),
    /// Encrypted like the connection itself.
    Tls(TlsConnector),
}

impl CancelRoute {
    /// Returns the route to a server on this machine. With several hosts, only the client knows which
    /// one it is connected to.
    pub(super) fn local(config: &Config) -> Self {
        let port = config.get_ports().first().copied().unwrap_or(DEFAULT_PORT);
        match config.get_hosts() {
            [Host::Unix(directory)] => Self::Unix(directory.join(format!(".s.PGSQL.{port}"))),
            [Host::Tcp(name)] => {
                let address = config.get_hostaddrs().first().map(ToString::to_string);
                Self::Host(address.unwrap_or_else(|| name.clone()), port)
            }
            _ => Self::Plain,
        }
    }
}

/// A request that cancels the running statement of a connection.
pub(super) struct CancelRequest {
    token: CancelToken,
    route: CancelRoute,
}

impl CancelRequest {
    pub(super) fn new(token: CancelToken, route: CancelRoute) -> Self {
        Self { token, route }
    }

    /// Sends the request on a connection of its own, without a password.
    pub(super) async fn send(self) -> Result<(), BoxError> {
        match self.route {
            CancelRoute::Plain => self.token.cancel_query(NoTls).await?,
            CancelRoute::Host(name, port) => {
                let stream = TcpStream::connect((name.as_str(), port)).await?;
                self.token.cancel_query_raw(UntilClosed(stream), NoTls).await?;
            }
            CancelRoute::Peer(peer) => {
                let stream = TcpStream::connect(peer).await?;
                self.token.cancel_query_raw(UntilClosed(stream), NoTls).await?;
            }
            CancelRoute::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                self.token.cancel_query_raw(UntilClosed(stream), NoTls).await?;
            }
            CancelRoute::Tls(connector) => self.token.cancel_query(UntilClosed(connector)).await?,
        }
        Ok(())
    }
}

/// A stream that shuts down when the peer has closed it, or makes such streams.
struct UntilClosed<T>(T);

impl<S, T: MakeTlsConnect<S>> MakeTlsConnect<S> for UntilClosed<T> {
    type Stream = UntilClosed<T::Stream>;
    type TlsConnect = UntilClosed<T::TlsConnect>;
    type Error = T::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Self::TlsConnect, T::Error> {
        self.0.make_tls_connect(domain).map(UntilClosed)
    }
}

impl<S, T: TlsConnect<S>> TlsConnect<S> for UntilClosed<T> {
    type Stream = UntilClosed<T::Stream>;
    type Error = T::Error;
    type Future = MapOk<T::Future, fn(T::Stream) -> UntilClosed<T::Stream>>;

    fn connect(self, stream: S) -> Self::Future {
        self.0.connect(stream).map_ok(UntilClosed)
    }
}

impl<S: TlsStream + Unpin> TlsStream for UntilClosed<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.0.channel_binding()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for UntilClosed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for UntilClosed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut space = [0; 64];
            let mut answer = ReadBuf::new(&mut space);
            let read = ready!(Pin::new(&mut self.0).poll_read(cx, &mut answer));
            // A server closes without the end of TLS, which is an error of the stream.
            if read.is_err() || answer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
