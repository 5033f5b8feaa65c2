//! HTTP: a server on loopback that answers what a test says, byte for byte.
//!
//! For what no real server does: half an event, a redirect to nowhere, silence. Every connection has
//! a thread; what was asked is remembered.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A request that arrived.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    /// What came behind the headers.
    pub body: Vec<u8>,
}

impl Asked {
    /// The first header of that name, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The body as JSON; null where it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A running server; it ends with this value.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    ended: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl HttpServer {
    /// Starts one that lets `answer` write the answers. An error from `answer` closes the connection.
    ///
    /// # Panics
    /// Where there is no loopback interface.
    pub fn start(
        answer: impl Fn(&Asked, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (asked, ended) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let connections = Arc::<Mutex<Vec<TcpStream>>>::default();
        let server = Self {
            address,
            asked: Arc::clone(&asked),
            ended: Arc::clone(&ended),
            connections: Arc::clone(&connections),
        };
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
                let mut all = connections.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend(stream.try_clone());
                drop(all);
                // A client that goes away is no fault.
                thread::spawn(move || drop(converse(stream, &asked, &*answer)));
            }
        });
        server
    }

    /// Where a path of it is.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// All that was asked so far.
    pub fn asked(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        for connection in &*connections {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
        // Wakes the thread that waits for the next connection.
        drop(TcpStream::connect(self.address));
    }
}

fn converse(
    stream: TcpStream,
    log: &Mutex<Vec<Asked>>,
    answer: &dyn Fn(&Asked, &mut TcpStream) -> io::Result<()>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    let outcome = loop {
        match read(&mut reader) {
            Ok(Some(asked)) => {
                log.lock().unwrap_or_else(PoisonError::into_inner).push(asked.clone());
                let answered = answer(&asked, &mut writer);
                if answered.is_err() || asked.header("connection") == Some("close") {
                    break answered;
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // The server holds it too, and would keep it open.
    let _ = writer.shutdown(std::net::Shutdown::Both);
    outcome
}

/// The next request on a connection; `None` where it ends.
pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Option<Asked>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut asked = Asked { method, target, ..Asked::default() };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        asked.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    if asked.header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        asked.body = chunks(reader)?;
    } else if let Some(length) = asked.header("content-length").and_then(|text| text.parse().ok()) {
        asked.body = vec![0; length];
        reader.read_exact(&mut asked.body)?;
    }
    Ok(Some(asked))
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

/// Writes an answer of known length: `status` as in `200 OK`.
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

/// Writes a JSON answer.
pub fn reply_json(
    stream: &mut impl Write,
    status: &str,
    body: &serde_json::Value,
) -> io::Result<()> {
    reply(stream, status, &[("Content-Type", "application/json")], body.to_string().as_bytes())
}

/// Begins a stream of events; what is written behind it goes out as it is, until the connection is
/// closed.
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
