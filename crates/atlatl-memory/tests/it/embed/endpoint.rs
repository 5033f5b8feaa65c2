//! A local endpoint of the embeddings API with configurable responses.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// The requests that the endpoint received.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The request line and the headers in lower case.
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.body["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
    }
}

/// A response: status, further headers, body.
pub(crate) struct Reply(pub(crate) u16, pub(crate) &'static str, pub(crate) String);

pub(crate) struct FakeEndpoint {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl FakeEndpoint {
    /// Answers with this function, which gets the number of earlier requests. `None` closes the connection.
    /// The thread ends with the test's process.
    pub(crate) fn start(
        reply: impl Fn(usize, &Asked) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(question) = read(&stream) else { continue };
                let before = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(question.clone());
                    seen.len() - 1
                };
                if let Some(Reply(status, headers, body)) = reply(before, &question) {
                    let length = body.len();
                    // A client that gets an error may close the connection early.
                    let _ = write!(
                        stream,
                        "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}"
                    );
                }
            }
        });
        Self { port, asked }
    }

    /// A well-behaved endpoint.
    pub(crate) fn good() -> Self {
        Self::start(|_, asked| Some(Reply(200, "", answer(&asked.texts()))))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    loop {
        let mut line = String::new();
        // Something other than HTTP, such as the beginning of TLS.
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line.to_lowercase());
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { head, body: serde_json::from_slice(&body).ok()? })
}

/// A correct response: a list in the order of the texts.
pub(crate) fn answer(texts: &[&str]) -> String {
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": vector(text)}))
        .collect();
    json!({"object": "list", "data": data, "usage": {"total_tokens": 1}}).to_string()
}

/// Four numbers that depend on the text. The length is not 1.
fn vector(text: &str) -> [f64; 4] {
    let mut vector = [3.0, 1.0, 1.0, 1.0];
    for (index, byte) in text.bytes().enumerate() {
        vector[index % 4] += f64::from(byte) * f64::from(u32::try_from(index % 7).unwrap());
    }
    vector
}
