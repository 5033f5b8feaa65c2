//! A simulated metadata endpoint with a simulated bucket of Google or Azure. The bucket stores and returns small
//! objects for requests with the token of the endpoint; its listings are empty.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use crate::http::{HttpServer, ReceivedRequest, reply, reply_json};

/// The path of tokens for an instance at Google.
pub const GOOGLE_TOKEN_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
/// The path of tokens for a machine at Azure.
pub const AZURE_TOKEN_PATH: &str = "/metadata/identity/oauth2/token";
/// The token that both give out.
pub const METADATA_TOKEN: &str = "ya29.of-the-machine";

/// A running endpoint with a bucket.
#[derive(Debug)]
pub struct CloudStorage {
    server: HttpServer,
}

impl CloudStorage {
    /// Starts it on loopback.
    pub fn start() -> Self {
        let objects = Mutex::new(BTreeMap::new());
        let server = HttpServer::start(move |request, stream| answer(&objects, request, stream));
        Self { server }
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        self.server.url(path)
    }

    /// Host and port.
    pub fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.server.port())
    }

    /// All requests so far: those for tokens, and those for objects.
    pub fn requests(&self) -> (Vec<ReceivedRequest>, Vec<ReceivedRequest>) {
        self.server
            .asked()
            .iter()
            .cloned()
            .partition(|request| [GOOGLE_TOKEN_PATH, AZURE_TOKEN_PATH].contains(&request.path()))
    }
}

type Objects = Mutex<BTreeMap<String, Vec<u8>>>;

fn answer(objects: &Objects, request: &ReceivedRequest, stream: &mut TcpStream) -> io::Result<()> {
    match request.path() {
        GOOGLE_TOKEN_PATH if request.header("metadata-flavor") == Some("Google") => {
            let token =
                json!({"access_token": METADATA_TOKEN, "expires_in": 3599, "token_type": "Bearer"});
            reply_json(stream, "200 OK", &token)
        }
        AZURE_TOKEN_PATH if request.header("metadata") == Some("true") => {
            let token = json!({"access_token": METADATA_TOKEN, "expires_on": "4102444800", "token_type": "Bearer"});
            reply_json(stream, "200 OK", &token)
        }
        GOOGLE_TOKEN_PATH | AZURE_TOKEN_PATH => reply(stream, "403 Forbidden", &[], b""),
        _ if request.header("authorization")
            != Some(format!("Bearer {METADATA_TOKEN}").as_str()) =>
        {
            reply(stream, "401 Unauthorized", &[], b"")
        }
        path => serve_object(objects, path, request, stream),
    }
}

fn serve_object(
    objects: &Objects,
    path: &str,
    request: &ReceivedRequest,
    stream: &mut TcpStream,
) -> io::Result<()> {
    const HEADERS: [(&str, &str); 2] =
        [("ETag", "\"1\""), ("Last-Modified", "Thu, 19 Nov 2026 22:00:00 GMT")];
    let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
    let creates = ["if-none-match", "x-goog-if-generation-match"];
    let existing = objects.get(path).cloned();
    match (request.method.as_str(), existing) {
        ("GET", _) if request.target.contains("list-type=2") => {
            reply(stream, "200 OK", &[], b"<ListBucketResult></ListBucketResult>")
        }
        ("GET", _) if request.target.contains("comp=list") => {
            let none = b"<EnumerationResults><Blobs></Blobs></EnumerationResults>";
            reply(stream, "200 OK", &[], none)
        }
        ("PUT", Some(_)) if creates.iter().any(|name| request.header(name).is_some()) => {
            reply(stream, "412 Precondition Failed", &[], b"")
        }
        ("PUT", _) => {
            objects.insert(path.to_owned(), request.body.clone());
            reply(stream, "201 Created", &HEADERS, b"")
        }
        ("GET", Some(object)) => {
            let Some((from, to)) = range(request) else {
                return reply(stream, "200 OK", &HEADERS, &object);
            };
            let end = to.saturating_add(1).min(object.len());
            let part = object.get(from..end).unwrap_or_default();
            let content_range = format!("bytes {from}-{}/{}", end.saturating_sub(1), object.len());
            let headers = [HEADERS[0], HEADERS[1], ("Content-Range", content_range.as_str())];
            reply(stream, "206 Partial Content", &headers, part)
        }
        ("HEAD", Some(object)) => {
            let [(tag, tag_value), (modified, modified_value)] = HEADERS;
            let length = object.len();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\n{tag}: {tag_value}\r\n{modified}: {modified_value}\r\n\
                 Content-Length: {length}\r\n\r\n"
            )
        }
        ("DELETE", Some(_)) => {
            objects.remove(path);
            reply(stream, "204 No Content", &[], b"")
        }
        _ => reply(stream, "404 Not Found", &[], b""),
    }
}

/// The first and the last byte of `bytes=FIRST-LAST`.
fn range(request: &ReceivedRequest) -> Option<(usize, usize)> {
    let (from, to) = request.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}
