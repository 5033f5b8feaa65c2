//! The OAuth callback: a loopback listener, the request parser, and the page for the browser.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::error::{LoginError, sanitize};
use crate::token::Secret;

/// The path of the redirect URI.
const CALLBACK_PATH: &str = "/callback";
/// The longest request head.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The most concurrent connections; browsers open some that they do not use.
const MAX_CONNECTIONS: usize = 32;
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A parsed request to the loopback listener.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Callback {
    /// The authorization server issued a code.
    Granted {
        /// The code, to be exchanged for tokens.
        code: Secret,
        /// The `iss` parameter (RFC 9207).
        issuer: Option<String>,
    },
    /// The authorization server or the person denied the request.
    Denied {
        /// The error of the server, sanitized.
        message: String,
        /// The `iss` parameter.
        issuer: Option<String>,
    },
    /// Any other request. It changes nothing: every page in the browser can send one.
    NotOurs {
        /// The HTTP status of the response.
        status: u16,
    },
}

/// Parses the first line of an HTTP request. Only a request with our `state` is accepted.
pub fn parse_callback(head: &[u8], state: &str) -> Callback {
    let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let Ok(line) = str::from_utf8(line) else { return Callback::NotOurs { status: 400 } };
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else { return Callback::NotOurs { status: 400 } };
    if !version.starts_with("HTTP/1.") {
        return Callback::NotOurs { status: 400 };
    }
    if method != "GET" {
        return Callback::NotOurs { status: 405 };
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path != CALLBACK_PATH {
        return Callback::NotOurs { status: 404 };
    }
    parse_query(query, state).unwrap_or(Callback::NotOurs { status: 400 })
}

fn parse_query(query: &str, state: &str) -> Option<Callback> {
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    // A duplicate parameter is ambiguous, so the request is refused (RFC 6749, 3.1).
    let one = |name: &str| -> Option<Option<String>> {
        let mut values = pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value);
        let first = values.next().map(|value| value.clone().into_owned());
        values.next().is_none().then_some(first)
    };
    if state.is_empty() || one("state")?.as_deref() != Some(state) {
        return None;
    }
    let issuer = one("iss")?;
    match (one("error")?, one("code")?) {
        (Some(error), None) => {
            let description = one("error_description")?.unwrap_or_default();
            let message = sanitize(format!("{error} {description}").trim_end());
            Some(Callback::Denied { message, issuer })
        }
        (None, Some(code)) if !code.is_empty() => {
            Some(Callback::Granted { code: Secret::new(code), issuer })
        }
        _ => None,
    }
}

/// A bound loopback listener.
pub(crate) struct Listener {
    socket: TcpListener,
    port: u16,
}

/// A browser connection that waits for the response.
pub(crate) struct PendingBrowser(TcpStream);

impl Listener {
    /// Binds `port`, or a free port.
    pub(crate) async fn bind(port: Option<u16>) -> Result<Self, LoginError> {
        let bound = async {
            let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
            let port = socket.local_addr()?.port();
            io::Result::Ok(Self { socket, port })
        };
        bound.await.map_err(|source| LoginError::Listen { source })
    }

    /// The redirect URI.
    pub(crate) fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{CALLBACK_PATH}", self.port)
    }

    /// Waits for a request with `state`. Others get a response and change nothing.
    pub(crate) async fn wait(self, state: &str) -> (Callback, PendingBrowser) {
        let mut connections = JoinSet::new();
        loop {
            let room = connections.len() < MAX_CONNECTIONS;
            tokio::select! {
                accepted = self.socket.accept(), if room => {
                    // A connection may be closed before it is accepted.
                    if let Ok((stream, _)) = accepted {
                        let state = state.to_owned();
                        connections.spawn(async move { handle_connection(stream, &state).await });
                    }
                }
                Some(ended) = connections.join_next() => {
                    if let Ok(Some(callback)) = ended {
                        return callback;
                    }
                }
            }
        }
    }
}

impl PendingBrowser {
    /// Sends the outcome of the login to the browser. Failures to write are ignored.
    pub(crate) async fn respond(mut self, error: Option<&LoginError>) {
        let answer = match error {
            None => html_response("200 OK", "You are logged in", "You can close this tab."),
            Some(error) => html_response("400 Bad Request", "The login failed", &error.to_string()),
        };
        let _ = timeout(READ_TIMEOUT, self.0.write_all(&answer)).await;
        let _ = timeout(READ_TIMEOUT, self.0.shutdown()).await;
    }
}

async fn handle_connection(
    mut stream: TcpStream,
    state: &str,
) -> Option<(Callback, PendingBrowser)> {
    let head = timeout(READ_TIMEOUT, read_head(&mut stream)).await.ok()?.ok()?;
    let status = match parse_callback(&head, state) {
        Callback::NotOurs { status: 404 } => "404 Not Found",
        Callback::NotOurs { status: 405 } => "405 Method Not Allowed",
        Callback::NotOurs { .. } => "400 Bad Request",
        callback => return Some((callback, PendingBrowser(stream))),
    };
    let answer =
        html_response(status, "Nothing here", "This address expects the redirect of a login.");
    let _ = timeout(READ_TIMEOUT, stream.write_all(&answer)).await;
    None
}

async fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (mut head, mut chunk) = (Vec::new(), [0; 2048]);
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = stream.read(&mut chunk).await?;
        if read == 0 || head.len() + read > MAX_HEAD_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&chunk[..read]);
    }
    Ok(head)
}

/// A complete HTTP response: `status` such as `200 OK`, a heading, and an untrusted text.
fn html_response(status: &str, heading: &str, text: &str) -> Vec<u8> {
    let body = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Atlatl</title>\n\
         <h1>{}</h1>\n<p>{}</p>\n</html>\n",
        escape_html(heading),
        escape_html(text)
    );
    // The URL contains a code: the response is not cached, and no referrer is sent.
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n\
         Content-Length: {}\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\
         Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn escape_html(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(target: &str) -> Callback {
        parse_callback(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes(), "s1")
    }

    #[test]
    fn a_code_with_our_state_is_taken() {
        let issuer = Some("https://as.example".to_owned());
        let code = Secret::new("c");
        assert_eq!(
            read("/callback?code=c&state=s1&iss=https%3A%2F%2Fas.example"),
            Callback::Granted { code, issuer }
        );
        assert_eq!(
            read("/callback?error=access_denied&error_description=no%1b[2J&state=s1"),
            Callback::Denied { message: "access_denied no<U+001B>[2J".to_owned(), issuer: None }
        );
    }

    #[test]
    fn everything_else_changes_nothing() {
        for (target, status) in [
            ("/callback?code=c", 400),
            ("/callback?code=c&state=s2", 400),
            ("/callback", 400),
            ("/callback?code=c&state=s1&state=s1", 400),
            ("/callback?code=a&code=b&state=s1", 400),
            ("/callback?code=a&state=s1&iss=a&iss=b", 400),
            ("/callback?state=s1", 400),
            ("/callback?code=&state=s1", 400),
            ("/callback?code=c&error=e&state=s1", 400),
            ("/callback?error=access_denied", 400),
            ("/?code=c&state=s1", 404),
            ("/callback/?code=c&state=s1", 404),
            ("/favicon.ico", 404),
            ("http://x/callback?code=c&state=s1", 404),
        ] {
            assert_eq!(read(target), Callback::NotOurs { status }, "{target}");
        }
        let post = b"POST /callback?code=c&state=s1 HTTP/1.1\r\n\r\n";
        assert_eq!(parse_callback(post, "s1"), Callback::NotOurs { status: 405 });
        assert_eq!(parse_callback(b"", ""), Callback::NotOurs { status: 400 });
        let stateless = b"GET /callback?code=c&state= HTTP/1.1\r\n\r\n";
        assert_eq!(parse_callback(stateless, ""), Callback::NotOurs { status: 400 });
    }

    #[test]
    fn foreign_text_is_text() {
        let page = String::from_utf8(html_response("200 OK", "a", "<script src='x'>\"&")).unwrap();
        assert!(page.contains("&lt;script src=&#39;x&#39;&gt;&quot;&amp;"), "{page}");
        assert!(!page.contains("<script"));
    }
}
