//! The listener: a port on loopback that waits for the browser to come back.

use std::{io, net::Ipv4Addr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

use crate::callback::{Callback, PATH, read_callback};
use crate::callback_page::page;
use crate::error::LoginError;

/// A request's head is no longer.
const LARGEST_HEAD: usize = 16 * 1024;
/// Browsers open connections that they do not use; more than these nobody needs.
const MAX_CONNECTIONS: usize = 32;
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Bound, and not yet asked.
pub(crate) struct Listener {
    socket: TcpListener,
    port: u16,
}

/// A browser that waits to be told how it ended.
pub(crate) struct Waiting(TcpStream);

impl Listener {
    /// On a port of the system's choice, unless one is given.
    pub(crate) async fn bind(port: Option<u16>) -> Result<Self, LoginError> {
        let bound = async {
            let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
            let port = socket.local_addr()?.port();
            io::Result::Ok(Self { socket, port })
        };
        bound.await.map_err(|source| LoginError::Listen { source })
    }

    /// Where the authority has to send the browser.
    pub(crate) fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for a request that brings `state`. Others are answered and change nothing.
    pub(crate) async fn wait(self, state: &str) -> (Callback, Waiting) {
        let mut conversations = JoinSet::new();
        loop {
            let room = conversations.len() < MAX_CONNECTIONS;
            tokio::select! {
                accepted = self.socket.accept(), if room => {
                    // A connection that is gone before it is taken is no fault.
                    if let Ok((stream, _)) = accepted {
                        let state = state.to_owned();
                        conversations.spawn(async move { converse(stream, &state).await });
                    }
                }
                Some(ended) = conversations.join_next() => {
                    if let Ok(Some(callback)) = ended {
                        return callback;
                    }
                }
            }
        }
    }
}

impl Waiting {
    /// Tells the browser how it ended. Whether it listens is its business.
    pub(crate) async fn tell(mut self, error: Option<&LoginError>) {
        let answer = match error {
            None => page("200 OK", "You are logged in", "You can close this tab."),
            Some(error) => page("400 Bad Request", "The login failed", &error.to_string()),
        };
        let _ = timeout(READ_TIMEOUT, self.0.write_all(&answer)).await;
        let _ = timeout(READ_TIMEOUT, self.0.shutdown()).await;
    }
}

async fn converse(mut stream: TcpStream, state: &str) -> Option<(Callback, Waiting)> {
    let head = timeout(READ_TIMEOUT, head(&mut stream)).await.ok()?.ok()?;
    let status = match read_callback(&head, state) {
        Callback::NotOurs { status: 404 } => "404 Not Found",
        Callback::NotOurs { status: 405 } => "405 Method Not Allowed",
        Callback::NotOurs { .. } => "400 Bad Request",
        callback => return Some((callback, Waiting(stream))),
    };
    let answer = page(status, "Nothing here", "This address waits for a login.");
    let _ = timeout(READ_TIMEOUT, stream.write_all(&answer)).await;
    None
}

async fn head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (mut head, mut chunk) = (Vec::new(), [0; 2048]);
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = stream.read(&mut chunk).await?;
        if read == 0 || head.len() + read > LARGEST_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&chunk[..read]);
    }
    Ok(head)
}
