//! Listen: where a server may be reached.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;

use crate::unix::{SocketError, UnixSocket};

/// What the path of a Unix socket begins with.
pub const UNIX: &str = "unix:";

/// Connections that wait to be taken, or as many as the system lets wait; the standard library asks for
/// 128. Who comes beyond that is not heard, and tries again a second later.
const WAITING: i32 = 4096;

/// A socket that listens.
#[derive(Debug)]
pub enum Listener {
    /// An address and a port. Every user of the machine reaches it: requests need a token.
    Tcp(TcpListener),
    /// A file. Only connections of the server's own user are accepted.
    Unix(UnixSocket),
}

/// Why nothing listens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// It is no address and port.
    #[error("{asked}: expected an address and a port, such as 127.0.0.1:7171, or unix:PATH")]
    NoAddress {
        /// What was asked for.
        asked: String,
    },
    /// A token of this machine would go over the network.
    #[error("{address} can be reached from other machines, and server.auth is not set")]
    OpenToAll {
        /// The address.
        address: SocketAddr,
    },
    /// The port is taken, or the address is not ours.
    #[error("{address}: nothing can listen there")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no Unix socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
}

impl Listener {
    /// The address and port; `None` for a Unix socket.
    pub fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Some),
            Self::Unix(_) => Ok(None),
        }
    }

    /// The origin of pages that this listener itself serves, for CORS.
    pub fn origin(&self) -> Option<String> {
        let address = self.address().ok()??;
        (!address.ip().is_unspecified()).then(|| format!("http://{address}"))
    }

    /// Fails where requests need no token although every user of the machine can send some.
    pub fn require_identity(&self, has_tokens: bool) -> io::Result<()> {
        match self {
            Self::Tcp(_) if !has_tokens => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "a TCP listener needs tokens"))
            }
            _ => Ok(()),
        }
    }
}

/// Listens on `address`, or at `unix:PATH`. Where `server.auth` is not set (`configured`), an address
/// that other machines reach is refused.
pub fn listen(address: &str, configured: bool) -> Result<Listener, ListenError> {
    if let Some(path) = address.strip_prefix(UNIX) {
        return Ok(Listener::Unix(UnixSocket::bind(Path::new(path), WAITING)?));
    }
    let none = || ListenError::NoAddress { asked: address.to_owned() };
    let mut addresses = address.to_socket_addrs().map_err(|_| none())?;
    let address = addresses.next().ok_or_else(none)?;
    if !configured && !address.ip().to_canonical().is_loopback() {
        return Err(ListenError::OpenToAll { address });
    }
    let bind = |source| ListenError::Bind { address, source };
    let listener = TcpListener::bind(address).map_err(bind)?;
    rustix::net::listen(&listener, WAITING).map_err(|error| bind(error.into()))?;
    Ok(Listener::Tcp(listener))
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn many_may_come_at_once() {
        let listener = listen("127.0.0.1:0", false).unwrap();
        let address = listener.address().unwrap().unwrap();
        // Nobody takes them: all of them wait.
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(1));
        let waiting: Result<Vec<_>, _> = (0..300).map(connect).collect();
        assert_eq!(waiting.unwrap().len(), 300);
    }

    #[test]
    fn only_a_unix_socket_does_without_tokens() {
        let dir = tempfile::tempdir().unwrap();
        let socket = listen(&format!("{UNIX}{}/s", dir.path().display()), false).unwrap();
        assert!(socket.require_identity(false).is_ok());
        assert_eq!(socket.origin(), None);
        let tcp = listen("127.0.0.1:0", false).unwrap();
        assert!(tcp.require_identity(true).is_ok());
        assert!(tcp.require_identity(false).is_err());
        assert_eq!(tcp.origin(), Some(format!("http://{}", tcp.address().unwrap().unwrap())));
    }
}
