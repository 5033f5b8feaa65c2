//! A loopback endpoint of the embeddings API that records the texts it is sent.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{HttpServer, ReceivedRequest, reply_json};
use crate::random::SplitMix64;

/// A running endpoint; it stops when the value is dropped.
#[derive(Debug)]
pub struct EmbeddingsServer {
    server: HttpServer,
    marker: &'static str,
}

impl EmbeddingsServer {
    /// Starts an endpoint whose vectors have this many dimensions. Texts of memories contain `marker`,
    /// and a request with such a text takes `delay`. Other texts only check the endpoint.
    ///
    /// # Panics
    /// If there is no loopback interface.
    pub fn start(dimensions: usize, marker: &'static str, delay: Duration) -> Self {
        Self::start_at(0, dimensions, marker, delay)
    }

    /// The same at a port, for an endpoint that was stopped and starts again.
    ///
    /// # Panics
    /// If the port is not free.
    pub fn start_at(port: u16, dimensions: usize, marker: &'static str, delay: Duration) -> Self {
        let server = HttpServer::start_at(port, move |request, stream| {
            let texts = texts(request);
            if texts.iter().any(|text| text.contains(marker)) {
                thread::sleep(delay);
            }
            let item = |(index, text): (usize, &String)| json!({"index": index, "embedding": vector(text, dimensions)});
            let data: Vec<Value> = texts.iter().enumerate().map(item).collect();
            reply_json(stream, "200 OK", &json!({"data": data}))
        });
        Self { server, marker }
    }

    /// The value of `memory.embedder` for this endpoint.
    pub fn embedder(&self) -> String {
        format!("openai:{}#m", self.server.url("/v1"))
    }

    /// The number of requests so far.
    pub fn requests(&self) -> usize {
        self.server.asked().len()
    }

    /// The texts of memories so far, each as often as it was sent.
    pub fn texts(&self) -> Vec<String> {
        let requests = self.server.asked();
        requests.iter().flat_map(texts).filter(|text| text.contains(self.marker)).collect()
    }
}

/// The texts of a request.
fn texts(request: &ReceivedRequest) -> Vec<String> {
    let body = request.json();
    let texts = body["input"].as_array().into_iter().flatten();
    texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Small whole numbers that depend on the text, so that responses are short.
fn vector(text: &str, dimensions: usize) -> Vec<u64> {
    let seed =
        text.bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut random = SplitMix64::new(seed);
    let others = (0..).map(|_| random.next_u64() % 100);
    [1, 2, text.len() as u64].into_iter().chain(others).take(dimensions).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_the_dimensions_and_differ() {
        assert_eq!(vector("four", 3), [1, 2, 4]);
        assert_eq!((vector("a", 384).len(), vector("a", 2)), (384, vec![1, 2]));
        assert_eq!(vector("a", 384), vector("a", 384));
        assert_ne!(vector("a", 384), vector("b", 384));
    }

    #[test]
    fn only_texts_of_memories_are_recorded() {
        let body = json!({"input": ["a memory", "a probe", 7]}).to_string().into_bytes();
        let request = ReceivedRequest { body, ..ReceivedRequest::default() };
        assert_eq!(texts(&request), ["a memory", "a probe"]);
        let server = EmbeddingsServer::start(3, "memory", Duration::ZERO);
        server.server.asked().push(request);
        assert_eq!((server.requests(), server.texts()), (1, vec!["a memory".to_owned()]));
        assert!(server.embedder().ends_with("/v1#m"), "{}", server.embedder());
    }
}
