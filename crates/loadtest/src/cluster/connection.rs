//! Connection: a line to one port of this machine that stays open from request to request.

use std::fmt::Write as _;
use std::io::{BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::response::{Broken, Response};

/// How long it may take until somebody listens.
const CONNECTED: Duration = Duration::from_secs(1);

/// What is asked.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) path: String,
    /// Further headers, each with its end.
    headers: String,
    body: String,
}

impl Request {
    /// A question without a body.
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), headers: String::new(), body: String::new() }
    }

    pub(super) fn delete(path: impl Into<String>) -> Self {
        Self { method: "DELETE", ..Self::get(path) }
    }

    /// One with a JSON body.
    pub(super) fn post(path: impl Into<String>, body: String) -> Self {
        let headers = "Content-Type: application/json\r\n\
                       Accept: application/json, text/event-stream\r\n";
        Self { method: "POST", path: path.into(), headers: headers.to_owned(), body }
    }

    /// The same in the name of whoever has the key.
    pub(super) fn with_key(self, key: &str) -> Self {
        self.with("Authorization", &format!("Bearer {key}"))
    }

    /// The same with a further header.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        let _ = write!(self.headers, "{name}: {value}\r\n");
        self
    }

    fn written(&self, port: u16) -> String {
        let Self { method, path, headers, body } = self;
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{headers}\
             Content-Length: {length}\r\n\r\n{body}"
        )
    }
}

/// A line that is opened when it is needed, and anew after it broke.
#[derive(Debug)]
pub(super) struct Connection {
    port: u16,
    patience: Duration,
    stream: Option<BufReader<TcpStream>>,
}

impl Connection {
    /// A line to `port` on which an answer may take `patience`.
    pub(super) fn new(port: u16, patience: Duration) -> Self {
        Self { port, patience, stream: None }
    }

    /// Asks once. What breaks is not asked again: a request that was sent may have been heard.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Response, Broken> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.open()?,
        };
        stream.get_mut().write_all(request.written(self.port).as_bytes())?;
        let response = Response::read(&mut stream)?;
        if response.stays_open {
            self.stream = Some(stream);
        }
        Ok(response)
    }

    fn open(&self) -> Result<BufReader<TcpStream>, Broken> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let stream = TcpStream::connect_timeout(&address, CONNECTED)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.patience))?;
        stream.set_write_timeout(Some(self.patience))?;
        Ok(BufReader::new(stream))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, Read};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Takes `connections` one after another and answers two requests on each, then hangs up.
    fn server(connections: usize) -> (u16, thread::JoinHandle<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = thread::spawn(move || {
            for _ in 0..connections {
                let mut stream = BufReader::new(listener.accept().unwrap().0);
                for _ in 0..2 {
                    let (mut line, mut length) = (String::new(), 0);
                    while stream.read_line(&mut line).unwrap() > 2 {
                        if let Some(said) = line.strip_prefix("Content-Length: ") {
                            length = said.trim().parse().unwrap();
                        }
                        line.clear();
                    }
                    let mut body = vec![0; length];
                    stream.read_exact(&mut body).unwrap();
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                    stream.get_mut().write_all(head.as_bytes()).unwrap();
                    stream.get_mut().write_all(&body).unwrap();
                }
            }
        });
        (port, serving)
    }

    #[test]
    fn a_line_stays_open_and_is_opened_anew_after_it_broke() {
        let (port, serving) = server(2);
        let mut line = Connection::new(port, Duration::from_secs(10));
        let echo = |line: &mut Connection, text: &str| {
            line.ask(&Request::post("/", text.to_owned()).with_key("k"))
        };
        assert_eq!(echo(&mut line, "one").unwrap().body, b"one");
        assert_eq!(echo(&mut line, "two").unwrap().body, b"two");
        assert_eq!(echo(&mut line, "three"), Err(Broken::Reset));
        assert_eq!(echo(&mut line, "four").unwrap().body, b"four");
        assert_eq!(line.ask(&Request::get("/")).unwrap().body, b"");
        serving.join().unwrap();
        assert_eq!(line.ask(&Request::get("/")), Err(Broken::Reset));
        assert_eq!(line.ask(&Request::get("/")), Err(Broken::Refused));
    }
}
