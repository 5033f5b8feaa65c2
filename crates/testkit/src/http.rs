//! A loopback HTTP server whose responses a test writes byte for byte, and a relay that adds a token.
//!
//! The server does what no real one does: half an event, a redirect to nowhere, no response. Every
//! connection has a thread, and every request is recorded.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

/// A recorded request.
#[derive(Debug, Clone, Default)]
pub struct ReceivedRequest {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// Headers in their order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl ReceivedRequest {
    /// The first header with this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A running server; it stops when the value is dropped.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    stopped: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl HttpServer {
    /// Starts a server whose responses `answer` writes. An error from `answer` closes the connection.
    ///
    /// # Panics
    /// If there is no loopback interface.
    pub fn start(
        answer: impl Fn(&ReceivedRequest, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::start_at(0, answer)
    }

    /// The same at a port, for a server that was stopped and starts again.
    ///
    /// # Panics
    /// If the port is not free.
    pub fn start_at(
        port: u16,
        answer: impl Fn(&ReceivedRequest, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port on loopback");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (requests, stopped) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let connections = Arc::<Mutex<Vec<TcpStream>>>::default();
        let server = Self {
            address,
            requests: Arc::clone(&requests),
            stopped: Arc::clone(&stopped),
            connections: Arc::clone(&connections),
        };
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                let (requests, answer) = (Arc::clone(&requests), Arc::clone(&answer));
                let mut all = connections.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend(stream.try_clone());
                drop(all);
                // A client that closes its connection is not an error.
                thread::spawn(move || drop(serve(stream, &requests, &*answer)));
            }
        });
        server
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The server's port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// All requests so far.
    pub fn asked(&self) -> MutexGuard<'_, Vec<ReceivedRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        for connection in &*connections {
            let _ = connection.shutdown(Shutdown::Both);
        }
        // Wakes the thread that waits for the next connection.
        drop(TcpStream::connect(self.address));
    }
}

fn serve(
    stream: TcpStream,
    log: &Mutex<Vec<ReceivedRequest>>,
    answer: &dyn Fn(&ReceivedRequest, &mut TcpStream) -> io::Result<()>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    let outcome = loop {
        match read(&mut reader) {
            Ok(Some(request)) => {
                log.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
                let written = answer(&request, &mut writer);
                if written.is_err() || request.header("connection") == Some("close") {
                    break written;
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // The server has a clone of the stream, which would keep the connection open.
    let _ = writer.shutdown(Shutdown::Both);
    outcome
}

/// Reads the next request on a connection; `None` at its end.
pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Option<ReceivedRequest>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut request = ReceivedRequest { method, target, ..ReceivedRequest::default() };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    if request.header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        request.body = chunks(reader)?;
    } else if let Some(length) = request.header("content-length").and_then(|text| text.parse().ok())
    {
        request.body = vec![0; length];
        reader.read_exact(&mut request.body)?;
    }
    Ok(Some(request))
}

fn chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let size = u64::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        reader.by_ref().take(size).read_to_end(&mut body)?;
        reader.read_line(&mut line)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

/// Writes a response with a body; `status` is, for example, `200 OK`.
pub fn reply(
    stream: &mut impl Write,
    status: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<()> {
    let length = body.len().to_string();
    let headers: Vec<_> = headers.iter().copied().chain([("Content-Length", &*length)]).collect();
    head(stream, status, &headers)?;
    stream.write_all(body)?;
    stream.flush()
}

/// Writes a JSON response.
pub fn reply_json(
    stream: &mut impl Write,
    status: &str,
    body: &serde_json::Value,
) -> io::Result<()> {
    reply(stream, status, &[("Content-Type", "application/json")], body.to_string().as_bytes())
}

/// Writes the head of an event stream. Later writes are sent unchanged until the connection is closed.
pub fn begin_events(stream: &mut impl Write, headers: &[(&str, &str)]) -> io::Result<()> {
    let always = [("Content-Type", "text/event-stream"), ("Connection", "close")];
    let headers: Vec<_> = headers.iter().copied().chain(always).collect();
    head(stream, "200 OK", &headers)?;
    stream.flush()
}

fn head(stream: &mut impl Write, status: &str, headers: &[(&str, &str)]) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status}\r\n").into_bytes();
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n")?;
    }
    head.extend_from_slice(b"\r\n");
    stream.write_all(&head)
}

/// An HTTP relay that adds a bearer token, for clients that cannot send one. It runs until the process ends.
///
/// It replaces its own address in `Host` and `Origin` with the server's, and forwards everything else
/// unchanged, including a `Host` or `Origin` that the server refuses.
#[derive(Debug)]
pub struct TokenRelay {
    address: SocketAddr,
}

impl TokenRelay {
    /// Starts a relay in front of the server at `upstream`.
    ///
    /// # Panics
    /// If there is no loopback interface.
    pub fn start(upstream: SocketAddr, token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("a bound socket has an address");
        let token = token.to_owned();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let token = token.clone();
                // A client or a server that closes its connection is not an error.
                thread::spawn(move || drop(exchange(&client, address, upstream, &token)));
            }
        });
        Self { address }
    }

    /// The address of the relay.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Forwards one request and its response, and closes the connection.
fn exchange(
    client: &TcpStream,
    relay: SocketAddr,
    upstream: SocketAddr,
    token: &str,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut reader = BufReader::new(client.try_clone()?);
    let Some(received) = read(&mut reader)? else { return Ok(()) };
    let mut server = TcpStream::connect(upstream)?;
    server.set_nodelay(true)?;
    server.write_all(&upstream_request(&received, relay, upstream, token))?;
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

/// The request to the server.
fn upstream_request(
    received: &ReceivedRequest,
    relay: SocketAddr,
    upstream: SocketAddr,
    token: &str,
) -> Vec<u8> {
    let mut bytes = format!("{} {} HTTP/1.1\r\n", received.method, received.target).into_bytes();
    for (name, value) in &received.headers {
        let ours = match name.as_str() {
            "host" if *value == relay.to_string() => upstream.to_string(),
            "origin" if *value == format!("http://{relay}") => format!("http://{upstream}"),
            "connection" | "content-length" | "transfer-encoding" => continue,
            _ => value.clone(),
        };
        bytes.extend_from_slice(format!("{name}: {ours}\r\n").as_bytes());
    }
    let length = received.body.len();
    let more = format!(
        "authorization: Bearer {token}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    bytes.extend_from_slice(more.as_bytes());
    bytes.extend_from_slice(&received.body);
    bytes
}
