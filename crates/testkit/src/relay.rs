//! Relay: an HTTP relay that adds a bearer token, for clients that cannot send one.
//!
//! Its own address in `Host` and `Origin` becomes the server's: to the client, the relay is the server.
//! Everything else passes as it is, also a `Host` or an `Origin` that the server refuses.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::http::{Asked, read};

/// A running relay; it ends with the process.
#[derive(Debug)]
pub struct TokenRelay {
    address: SocketAddr,
}

impl TokenRelay {
    /// Starts one in front of the server at `upstream`.
    ///
    /// # Panics
    /// Where there is no loopback interface.
    pub fn start(upstream: SocketAddr, token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("a bound socket has an address");
        let token = token.to_owned();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let token = token.clone();
                // A client or a server that goes away is no fault of the relay.
                thread::spawn(move || drop(exchange(&client, address, upstream, &token)));
            }
        });
        Self { address }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// One request and its answer; the connection is closed behind it.
fn exchange(
    client: &TcpStream,
    relay: SocketAddr,
    upstream: SocketAddr,
    token: &str,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut reader = BufReader::new(client.try_clone()?);
    let Some(asked) = read(&mut reader)? else { return Ok(()) };
    let mut server = TcpStream::connect(upstream)?;
    server.set_nodelay(true)?;
    server.write_all(&request(&asked, relay, upstream, token))?;
    // A client that closes its connection cancels the request.
    let closing = server.try_clone()?;
    thread::spawn(move || {
        let _ = reader.read(&mut [0]);
        let _ = closing.shutdown(Shutdown::Both);
    });
    let copied = io::copy(&mut server, &mut &*client);
    client.shutdown(Shutdown::Both)?;
    copied.map(drop)
}

/// The request as it goes to the server.
fn request(asked: &Asked, relay: SocketAddr, upstream: SocketAddr, token: &str) -> Vec<u8> {
    let mut bytes = format!("{} {} HTTP/1.1\r\n", asked.method, asked.target).into_bytes();
    for (name, value) in &asked.headers {
        let ours = match name.as_str() {
            "host" if *value == relay.to_string() => upstream.to_string(),
            "origin" if *value == format!("http://{relay}") => format!("http://{upstream}"),
            "connection" | "content-length" | "transfer-encoding" => continue,
            _ => value.clone(),
        };
        bytes.extend_from_slice(format!("{name}: {ours}\r\n").as_bytes());
    }
    let length = asked.body.len();
    let more = format!(
        "authorization: Bearer {token}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    bytes.extend_from_slice(more.as_bytes());
    bytes.extend_from_slice(&asked.body);
    bytes
}
