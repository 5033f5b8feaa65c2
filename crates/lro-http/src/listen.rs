//! Listen: where a server may be reached.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

/// Connections that wait to be taken, or as many as the system lets wait; the standard library asks for
/// 128. Who comes beyond that is not heard, and tries again a second later.
const WAITING: i32 = 4096;

/// Why nothing listens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// It is no address and port.
    #[error("{asked}: expected an address and a port, such as 127.0.0.1:7171")]
    NoAddress {
        /// What was asked for.
        asked: String,
    },
    /// Whoever reaches this address could read every memory.
    #[error("{address} can be reached from other machines, and anyone may ask")]
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
}

/// Listens on `address`. Without a way to tell who asks, only on this machine.
pub fn listen(address: &str, protected: bool) -> Result<TcpListener, ListenError> {
    let none = || ListenError::NoAddress { asked: address.to_owned() };
    let mut addresses = address.to_socket_addrs().map_err(|_| none())?;
    let address = addresses.next().ok_or_else(none)?;
    if !protected && !address.ip().to_canonical().is_loopback() {
        return Err(ListenError::OpenToAll { address });
    }
    let bind = |source| ListenError::Bind { address, source };
    let listener = TcpListener::bind(address).map_err(bind)?;
    rustix::net::listen(&listener, WAITING).map_err(|error| bind(error.into()))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn many_may_come_at_once() {
        let listener = listen("127.0.0.1:0", false).unwrap();
        let address = listener.local_addr().unwrap();
        // Nobody takes them: all of them wait.
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(1));
        let waiting: Result<Vec<_>, _> = (0..300).map(connect).collect();
        assert_eq!(waiting.unwrap().len(), 300);
    }
}
