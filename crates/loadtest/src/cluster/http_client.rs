//! An HTTP client of one address of this machine, and the outcome of a request as the load test counts it.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use ureq::http::{self, HeaderMap};
use ureq::{Agent, AsSendBody, SendBody};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// No response is longer.
const MAX_BODY_LEN: u64 = 256 << 20;
/// How much of a response a report shows, in characters.
const EXCERPT_LEN: usize = 600;

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Request {
    /// A request without a body.
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), headers: Vec::new(), body: String::new() }
    }

    pub(super) fn delete(path: impl Into<String>) -> Self {
        Self { method: "DELETE", ..Self::get(path) }
    }

    /// A request with a JSON body.
    pub(super) fn post(path: impl Into<String>, body: String) -> Self {
        Self { method: "POST", body, ..Self::get(path) }
            .with("Content-Type", "application/json")
            .with("Accept", "application/json, text/event-stream")
    }

    /// Adds a bearer token.
    pub(super) fn with_key(self, key: &str) -> Self {
        self.with("Authorization", &format!("Bearer {key}"))
    }

    /// Adds a header.
    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// A response.
#[derive(Debug, Clone)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// Why there is no response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// No process listens on the port.
    Refused,
    /// The connection ended before the response did.
    Reset,
    /// No data arrived in time.
    Timeout,
    /// The response is not valid HTTP.
    Malformed(String),
}

impl From<io::Error> for RequestError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Timeout,
            io::ErrorKind::ConnectionRefused => Self::Refused,
            _ => Self::Reset,
        }
    }
}

impl From<ureq::Error> for RequestError {
    fn from(error: ureq::Error) -> Self {
        match error {
            ureq::Error::Io(error) => error.into(),
            ureq::Error::Timeout(_) | ureq::Error::BodyStalled => Self::Timeout,
            ureq::Error::ConnectionFailed => Self::Refused,
            error => Self::Malformed(error.to_string()),
        }
    }
}

/// Sends requests to one address over a connection that it keeps open.
#[derive(Debug)]
pub(super) struct HttpClient {
    address: SocketAddrV4,
    agent: Agent,
}

impl HttpClient {
    /// A client of a port whose requests may take `timeout` each.
    pub(super) fn new(port: u16, timeout: Duration) -> Self {
        Self::with_address(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port), timeout)
    }

    /// The same for another address of this machine.
    pub(super) fn with_address(address: SocketAddrV4, timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(timeout))
            .max_idle_connections(1)
            .build();
        Self { address, agent: config.into() }
    }

    /// Sends a request once. A failed one is not repeated: the server may have executed it.
    pub(super) fn send(&self, request: &Request) -> Result<Response, RequestError> {
        self.send_body(request, request.body.as_str())
    }

    /// Sends a request with `len` spaces as its body, without holding them in memory.
    pub(super) fn send_spaces(&self, request: Request, len: u64) -> Result<Response, RequestError> {
        let mut spaces = io::repeat(b' ').take(len);
        let request = request.with("Content-Length", &len.to_string());
        self.send_body(&request, SendBody::from_reader(&mut spaces))
    }

    fn send_body(
        &self,
        request: &Request,
        body: impl AsSendBody,
    ) -> Result<Response, RequestError> {
        let uri = format!("http://{}{}", self.address, request.path);
        let mut built = http::Request::builder().method(request.method).uri(uri);
        for (name, value) in &request.headers {
            built = built.header(*name, value);
        }
        let built = built.body(body).map_err(ureq::Error::Http)?;
        let (head, mut body) = self.agent.run(built)?.into_parts();
        let body = body.with_config().limit(MAX_BODY_LEN).read_to_vec()?;
        Ok(Response { status: head.status.as_u16(), headers: head.headers, body })
    }
}

impl Response {
    /// A header that is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Head and body, for a search in both.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.head().into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// The beginning of the response on one line, for a report.
    pub(super) fn excerpt(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let mut excerpt: String = body.chars().take(EXCERPT_LEN).collect();
        if excerpt.len() < body.len() {
            excerpt.push('…');
        }
        format!("{}{excerpt}", self.head()).replace(['\r', '\n'], " ")
    }

    fn head(&self) -> String {
        let value =
            |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = self.headers.iter().map(|(name, v)| format!("{name}: {}\n", value(v)));
        format!("{}\n{}\n", self.status, headers.collect::<Vec<_>>().concat())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use super::*;

    /// Answers each connection with the bytes of `answers`, one per request, then closes it.
    fn server(answers: &'static [&'static [&'static str]]) -> (u16, thread::JoinHandle<usize>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = thread::spawn(move || {
            let mut requests = 0;
            for connection in answers {
                let mut stream = BufReader::new(listener.accept().unwrap().0);
                for answer in *connection {
                    let (mut line, mut length) = (String::new(), 0);
                    while stream.read_line(&mut line).unwrap() > 2 {
                        if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
                            length = value.trim().parse().unwrap();
                        }
                        line.clear();
                    }
                    io::copy(&mut (&mut stream).take(length), &mut io::sink()).unwrap();
                    stream.get_mut().write_all(answer.as_bytes()).unwrap();
                    requests += 1;
                }
            }
            requests
        });
        (port, serving)
    }

    #[test]
    fn a_connection_is_reused_and_replaced_after_it_closed() {
        const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nok";
        let (port, serving) = server(&[&[OK, OK], &[OK]]);
        let client = HttpClient::new(port, Duration::from_secs(10));
        let post = |body: &str| client.send(&Request::post("/", body.to_owned()).with_key("k"));
        let first = post("one").unwrap();
        assert_eq!((first.status, &*first.body, first.header("x-a")), (200, &b"ok"[..], Some("b")));
        assert_eq!(first.excerpt(), "200 content-length: 2 x-a: b  ok");
        assert!(first.to_bytes().ends_with(b"x-a: b\n\nok"));
        assert_eq!(post("two").unwrap().body, b"ok");
        thread::sleep(Duration::from_millis(50));
        assert_eq!(client.send_spaces(Request::post("/", String::new()), 3).unwrap().body, b"ok");
        assert_eq!(serving.join().unwrap(), 3);
        thread::sleep(Duration::from_millis(50));
        assert_eq!(client.send(&Request::get("/")).unwrap_err(), RequestError::Refused);
    }

    #[test]
    fn a_broken_response_is_not_one() {
        let (port, serving) = server(&[
            &["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"],
            &[""],
            &["no HTTP at all\r\n\r\n"],
            &["HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"],
        ]);
        let client = HttpClient::new(port, Duration::from_secs(10));
        let get = || client.send(&Request::get("/"));
        assert_eq!(get().unwrap_err(), RequestError::Reset);
        assert_eq!(get().unwrap_err(), RequestError::Reset);
        assert!(matches!(get().unwrap_err(), RequestError::Malformed(_)));
        let chunked = get().unwrap();
        assert_eq!((chunked.status, &*chunked.body), (404, &b"abc"[..]));
        serving.join().unwrap();
    }

    #[test]
    fn a_silent_server_is_a_timeout() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = HttpClient::new(port, Duration::from_millis(100));
        assert_eq!(client.send(&Request::get("/")).unwrap_err(), RequestError::Timeout);
    }
}
